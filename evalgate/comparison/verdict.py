"""The one answer: is head good enough, and is it worse than base?"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evalgate.comparison import pairing
from evalgate.comparison import threshold as comparison_threshold
from evalgate.model import (
    AgentFailure,
    BaseSource,
    Book,
    CaseComparison,
    CaseKey,
    CaseStatus,
    CaseVerdict,
    Change,
    Comparison,
    Confirmation,
    CriterionComparison,
    FailOn,
    FailureKind,
    FailureOrigin,
    GateKind,
    GateVerdict,
    NonBlocking,
    Policy,
    Quarantine,
    Run,
    Suite,
    SuiteVerdict,
    ThresholdRule,
    Verdict,
    VerdictKind,
)
from evalgate.text import plain, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What the threshold gate knows of failures.

    `origins`: whose failure each failed case is. `flaky`: cases that failed, or crashed, and pass in fresh runs.
    `known`: failures of the base too, which `threshold: new` lets pass. `open`: failures that a spent budget kept from
    being looked at, and those that could not be measured again. `unreliable`: cases that do not decide. `added`: cases
    that the base does not have. `past`: cases that fail on both sides today, and passed on the base before.
    """

    origins: Mapping[CaseKey, FailureOrigin] = field(default_factory=dict)
    flaky: frozenset[CaseKey] = frozenset()
    known: frozenset[CaseKey] = frozenset()
    open: frozenset[CaseKey] = frozenset()
    unreliable: Mapping[CaseKey, Quarantine] = field(default_factory=dict)
    added: frozenset[CaseKey] = frozenset()
    past: frozenset[CaseKey] = frozenset()

    def in_words(self, failures: Iterable[CaseKey]) -> str:
        """`1 new, 2 pre-existing and 1 not confirmed`; empty where there is no base."""
        counts = Counter(self.origins[key] for key in failures if key in self.origins)
        return words.listed(SAID[origin].format(counts[origin]) for origin in FailureOrigin if counts[origin])


SAID: Mapping[FailureOrigin, str] = {
    FailureOrigin.NEW: "{} new",
    FailureOrigin.KNOWN: "{} pre-existing",
    FailureOrigin.MIXED: "{} with mixed results",
    FailureOrigin.FLAKY: "{} flaky",
    FailureOrigin.UNKNOWN: "{} without a base result",
    FailureOrigin.UNCONFIRMED: "{} not confirmed",
}

UNTOUCHED = "This change does not touch the agent."
ONLY_CASES = "This change adds or edits evaluation files, not the agent."
NONE = Allowed()
NO_VERDICTS: Mapping[CaseKey, CaseVerdict] = {}
NOT_QUARANTINED: Mapping[CaseKey, Quarantine] = {}


def find(
    run: Run,
    policy: Policy,
    *,
    comparison: Comparison | None,
    unreliable: Mapping[CaseKey, Quarantine] = NOT_QUARANTINED,
    book: Book | None = None,
) -> Allowed:
    """Which failures the policy lets pass: flaky ones; under `threshold: new` those of the base too, but none that the
    base does not have, or has no outcome of."""
    confirmations = {} if book is None else book.confirmations
    lost = {key for key, each in confirmations.items() if each is Confirmation.LOST}
    unlooked = {key for key, each in confirmations.items() if each is Confirmation.OPEN}
    origins: dict[CaseKey, FailureOrigin] = {}
    known, added, past = frozenset[CaseKey](), frozenset[CaseKey](), frozenset[CaseKey]()
    base = None if comparison is None else comparison.base
    if comparison is None or base is None:
        named = {Confirmation.FLAKY: FailureOrigin.FLAKY, Confirmation.LOST: FailureOrigin.UNCONFIRMED}
        origins = {key: named[each] for key, each in confirmations.items() if each in named}
    else:
        origins = {case.key: case.origin for case in comparison.cases if case.origin is not None}
        added = frozenset(case.key for case in comparison.cases if case.status is CaseStatus.NEW)
        old = {key for key, origin in origins.items() if origin in (FailureOrigin.KNOWN, FailureOrigin.MIXED)}
        known = frozenset(old if policy.threshold is ThresholdRule.NEW else ())
        apart = {(trial.key.suite, trial.key.case_id) for trial in base.trials if trial.apart}
        passed = {case.key for case in comparison.cases if case.base and case.base.passed > case.base.failed}
        past = frozenset(apart & passed & old & (book.on_both if book else frozenset()))
    is_cut_short = bool(run.truncated or (base is not None and base.truncated))
    return Allowed(
        origins=origins,
        flaky=frozenset(key for key, each in confirmations.items() if each is Confirmation.FLAKY),
        known=known,
        open=frozenset(lost | (unlooked - known if is_cut_short else set())),
        unreliable=unreliable,
        added=added,
        past=past,
    )


def _worse_sentence(rows: Sequence[CriterionComparison], comparison: Comparison) -> str:
    """That head is worse, how sure that is, and by what: the criterion that fell furthest, the others by name."""
    told = f"Worse than the base, {words.evidence(comparison.book.worse)}"
    if not rows:
        return f"{told}."
    worst = max(rows, key=_largest_drop)
    others = [f"`{row.name}`" for row in rows if row is not worst]
    rest = f" {words.listed(others)} regressed as well." if others else ""
    broken, fixed, turned = worst.cases.broken, worst.cases.fixed, ""
    if broken:
        turned = f", {words.counted(broken, 'case now fails', 'cases now fail')}"
    if fixed:
        turned += f", {words.counted(fixed, 'case now passes', 'cases now pass')}"
    return f"{told}: {_change_sentence(worst)}{turned}.{rest}"


def _change_sentence(row: CriterionComparison) -> str:
    """`` `x` dropped from 0.95 to 0.71 (-0.24, 95% CI -0.38 to -0.10) ``."""
    delta = row.delta or 0.0
    if delta == 0:
        stays = "-" if row.head is None else f"{row.head:.2f}" if abs(row.head) < 1000 else f"{row.head:,.0f}"
        return f"`{row.name}` stayed at {stays}"
    verb = "rose" if delta > 0 else "fell" if row.rule.lower_is_better else "dropped"
    base, head, told = words.compared(row.base, row.head)
    return f"`{row.name}` {verb} from {base} to {head} ({told})"


def _not_measured_sentence(rows: Sequence[CriterionComparison]) -> str:
    """How much of the worst-measured criterion is missing."""
    if timed := next((row for row in rows if row.clock_based), None):
        return (
            f"`{timed.name}` measures time and the base was measured at another time: "
            "set `baseline: rerun` to run the base alongside."
        )
    worst = max(rows, key=lambda row: row.cases.unpaired)
    others = f" ({words.counted(len(rows), 'criterion', 'criteria')} affected)" if len(rows) > 1 else ""
    lack = f"{words.counted(worst.cases.unpaired, 'case')} {'lacks' if worst.cases.unpaired == 1 else 'lack'} a score"
    return f"Too few scores to compare `{worst.name}` with the base: {lack}{others}."


def _inconclusive_sentence(rows: Sequence[CriterionComparison]) -> str:
    """The criterion that could have fallen furthest."""
    known = [row for row in rows if row.cases.compared]
    if not known:
        return f"Not compared: the agent crashed in every case of `{rows[0].name}`."
    return f"{_change_sentence(max(known, key=_largest_drop))}, with too few scores to tell."


def _past_sentence(rows: Sequence[CriterionComparison], comparison: Comparison) -> str:
    """The criterion that fell furthest beside results of another time."""
    date = f" of {comparison.origin.measured_at[:10]}" if comparison.origin.measured_at else ""
    told = f"{_change_sentence(max(rows, key=_largest_drop))} beside stored results{date}"
    return f"{told}; the base was not run today, so it may be the provider's model that moved, not the agent."


def _largest_drop(row: CriterionComparison) -> float:
    return (row.drop or 0.0) / max(row.rule.floor, 1e-9)


def _passed_sentence(rows: Sequence[CriterionComparison], book: Book) -> str:
    """That the bets do not say that head is worse."""
    cases = words.counted(max(row.cases.compared for row in rows), "compared case")
    better = [f"`{row.name}`" for row in rows if row.change is Change.IMPROVED]
    rose = f"; {words.listed(better)} improved" if better else ""
    told = f" ({words.evidence(book.worse)})" if book.worse > 1 else ""
    return f"No regression seen in {cases}{told}{rose}."


def _unpaired_sentence(cases: Sequence[CaseComparison]) -> str:
    """Why no case could be compared, and what would help."""
    counts = Counter(case.status for case in cases)
    told = words.listed(f"{counts[each]} {each.value}" for each in CaseStatus if counts[each])
    hint = ""
    if counts[CaseStatus.CHANGED]:
        hint = " Use `baseline: auto` to rerun the base on the same cases."
    elif counts[CaseStatus.NEW] and counts[CaseStatus.REMOVED]:
        hint = " Keep the old cases in this pull request and delete them in the next."
    elif counts[CaseStatus.NEW]:
        hint = " Select cases that also exist on the base."
    return f"No case can be compared with the base: {told}.{hint}"


SEVERITY = (VerdictKind.FAIL, VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE, VerdictKind.PASS)
"""Most severe first: the most severe of the suites' kinds is the verdict's kind."""


def threshold_gate(
    run: Run, policy: Policy, *, allowed: Allowed = NONE, decided: Mapping[CaseKey, CaseVerdict] = NO_VERDICTS
) -> Verdict:
    """The threshold gate's verdict on a run. Every case of every suite counts, whether or not it ran, but for those of
    advisory suites and those that `allowed` takes out. A run without cases has measured nothing; one that its budget
    ended is inconclusive at best. `decided`: its cases, where they are decided already."""
    uses = pairing.uses_by_case(run)
    verdicts = decided if decided.keys() == uses.keys() else pairing.case_verdicts(run, uses, policy=policy)
    suites = tuple(_judge_suite(suite, verdicts, policy=policy, allowed=allowed) for suite in run.suites)
    deciding = [suite for suite in suites if not suite.advisory]
    kind = min((suite.kind for suite in deciding), key=SEVERITY.index, default=VerdictKind.NOT_MEASURED)
    if kind is VerdictKind.PASS and (run.truncated or not run.complete):
        kind = VerdictKind.INCONCLUSIVE if run.complete else VerdictKind.NOT_MEASURED
    toothless = bool(suites) and not deciding
    # with those that a more severe one keeps out of sight; what the policy blocks on may be among them
    kinds = {kind, *(each for suite in deciding for each in (suite.kind, *suite.beside))}
    kinds |= {VerdictKind.INCONCLUSIVE} if run.truncated else set()
    blocked_by = None if toothless else _blocking(GateKind.THRESHOLD, kinds, policy)
    quarantined = any(case.quarantined for suite in suites for case in suite.cases)
    by_severity = all(suite.suite in policy.advisory for suite in suites)
    nothing = NOTHING_DECIDES if by_severity or not quarantined else NOTHING_YET
    noun = "deciding case" if quarantined or len(deciding) < len(suites) else "case"
    told = nothing if toothless else _sentence(kind, deciding, run=run, allowed=allowed, noun=noun, by=blocked_by)
    gate = GateVerdict(gate=GateKind.THRESHOLD, kind=kind, reason=told, blocked_by=blocked_by)
    return Verdict(kind=kind, reason=told, blocked_by=blocked_by, suites=suites, gates=(gate,))


NOTHING_DECIDES = "Every suite is advisory (non-blocking)."
NOTHING_YET = "Every case is quarantined (non-blocking)."


def _blocking(gate: GateKind, kinds: Collection[VerdictKind], policy: Policy) -> VerdictKind | None:
    """The most severe of the kinds of a gate's verdict that end the job red."""
    named = {
        VerdictKind.FAIL: FailOn(gate.value),
        VerdictKind.NOT_MEASURED: FailOn.NOT_MEASURED,
        VerdictKind.INCONCLUSIVE: FailOn.INCONCLUSIVE,
    }
    return next((kind for kind in SEVERITY if kind in kinds and named.get(kind) in policy.fail_on), None)


def _judge_suite(
    suite: Suite, verdicts: Mapping[CaseKey, CaseVerdict], *, policy: Policy, allowed: Allowed
) -> SuiteVerdict:
    if suite.problem:
        return SuiteVerdict(
            suite=suite.key,
            kind=VerdictKind.NOT_MEASURED,
            cases=(),
            reason=suite.problem,
            advisory=suite.key in policy.advisory,
        )
    known = [_as_known(verdicts[suite.key, case.case_id], allowed) for case in suite.eval_set.cases]
    quarantined = allowed.unreliable if suite.key not in policy.advisory else NOT_QUARANTINED
    cases = []
    for case in known:
        why = _let_pass(case, allowed)
        quarantine = quarantined.get(case.key)
        cases.append(dataclasses.replace(case, nonblocking=None if quarantine else why, quarantine=quarantine))
    counted = [case for case in known if case.key not in allowed.unreliable]
    required = policy.suite_pass_rate.get(suite.key, policy.pass_rate)
    parts = comparison_threshold.groups(counted, added=allowed.added, required=required)
    judged = [_judge_cases(part, policy=policy, allowed=allowed, required=required) for part in parts]
    kind, reason, _ = min(judged, key=lambda part: SEVERITY.index(part[0]))
    beside = {each for part in judged for each in (*part[2], *((part[0],) if part[0] is not VerdictKind.PASS else ()))}
    return SuiteVerdict(
        suite=suite.key,
        kind=kind,
        cases=tuple(cases),
        required_pass_rate=required,
        reason=reason,
        advisory=suite.key in policy.advisory or (bool(cases) and not counted),
        beside=frozenset() if kind is VerdictKind.PASS else frozenset(beside - {kind}),
    )


def _let_pass(case: CaseVerdict, allowed: Allowed) -> NonBlocking | None:
    """Why a case that fails, or that crashed, does not block; None where it may."""
    if case.key in allowed.flaky and case.kind in (VerdictKind.FAIL, VerdictKind.NOT_MEASURED):
        return NonBlocking.FLAKY
    return NonBlocking.ALLOWED if case.key in allowed.known and case.kind is VerdictKind.FAIL else None


def _as_known(case: CaseVerdict, allowed: Allowed) -> CaseVerdict:
    """What fresh runs make of a case: of one that fails on both sides today nothing is known, if it passed on the base
    before; nor of one that crashed and goes on to, or whose fresh runs could not be measured."""
    if case.key in allowed.past:
        reason = "the base fails it too today, and passed it before: a model, a judge or a service moved"
        return dataclasses.replace(case, kind=VerdictKind.NOT_MEASURED, partial=False, doubtful=False, reason=reason)
    return case


def _judge_cases(
    cases: Sequence[CaseVerdict], *, policy: Policy, allowed: Allowed, required: float
) -> tuple[VerdictKind, str, frozenset[VerdictKind]]:
    """What becomes of cases that have a pass rate to reach together: kind, reason, and the kinds beside it."""
    # crashes that were accidents stand beside: they are neither measured nor lacking
    left = [case for case in cases if case.kind is VerdictKind.FAIL or _let_pass(case, allowed) is None]
    if cases and not left:
        return VerdictKind.PASS, "", frozenset()
    rates = {"required": required, "min_measured": policy.min_measured}
    failures = {case.key for case in left if case.kind is VerdictKind.FAIL}
    flaky, unlooked = failures & allowed.flaky, failures & allowed.open
    # flaky ones never count; what is allowed for another reason, only where nothing else fails
    lasting = comparison_threshold.count(left, allowed=flaky, unconfirmed=unlooked)
    kind, reason = comparison_threshold.judge(lasting, **rates)
    passing = flaky | (failures & allowed.known)
    settled = comparison_threshold.count(left, allowed=passing, unconfirmed=unlooked)
    if kind is VerdictKind.FAIL and failures <= passing | unlooked:
        kind, reason = comparison_threshold.judge(settled, **rates)
    if kind is VerdictKind.INCONCLUSIVE and unlooked:
        # a budget that ends before the reruns must not let failures pass that these would have confirmed
        kind, reason = VerdictKind.NOT_MEASURED, f"{words.counted(len(unlooked), 'failure')} could not be rerun"
    return kind, reason, comparison_threshold.beside(settled, **rates)


def _sentence(
    kind: VerdictKind,
    suites: Sequence[SuiteVerdict],
    *,
    run: Run,
    allowed: Allowed,
    noun: str,
    by: VerdictKind | None,
) -> str:
    """What there is to say of `kind`; where another kind blocks, `by`, of that one, with the failures behind it."""
    counted = [case for suite in suites for case in suite.cases if case.key not in allowed.unreliable]
    cases = len(counted)
    flaky = sum(case.nonblocking is NonBlocking.FLAKY for case in counted)
    failed = [case for case in counted if case.kind is VerdictKind.FAIL and case.nonblocking is not NonBlocking.FLAKY]
    unmeasured = sum(case.kind is VerdictKind.NOT_MEASURED and case.nonblocking is None for case in counted)
    told = by or kind
    where = words.listed(
        (suite.suite for suite in suites if suite.cases and told in (suite.kind, *suite.beside)), limit=3
    )
    origins = allowed.in_words(case.key for case in failed)
    keys = {suite.key for suite in run.suites if suite.problem}
    broken = _broken_files([suite for suite in suites if suite.suite in keys])
    match told:
        case VerdictKind.PASS:
            passed = sum(case.kind is VerdictKind.PASS for case in counted)
            return _pass_sentence(
                cases, noun, passed=passed, failed=len(failed), flaky=flaky, unmeasured=unmeasured, origins=origins
            )
        case VerdictKind.FAIL:
            rest = f"; {flaky} flaky (non-blocking)" if flaky else ""
            rest += f"; {unmeasured} could not be evaluated" if unmeasured else ""
            said = f" ({origins})" if origins else ""
            return f"{words.share_of(len(failed), cases, noun)} failed{said} in {where}{rest}. {broken}".rstrip()
        case VerdictKind.NOT_MEASURED:
            if cases == 0 and not broken:
                return "There was no case to evaluate."
            partial = sum(case.partial and not case.nonblocking for case in counted) if kind is VerdictKind.FAIL else 0
            rest = f" ({len(failed)} failed)" if failed else ""
            fully = "fully " if partial else ""
            if broken and not unmeasured + partial:
                return f"{broken}{f' {words.share_of(len(failed), cases, noun)} failed.' if failed else ''}"
            lacking = (
                f"{words.share_of(unmeasured + partial, cases, noun)} could not be {fully}evaluated in {where}{rest}."
            )
            if not unmeasured + partial:  # what a budget cut short counts as inconclusive, unless it begins badly
                doubtful = words.share_of(sum(case.doubtful for case in counted), cases, noun)
                lacking = f"{doubtful} below a threshold could not be fully evaluated in {where}."
                if suspects := sum(case.key in allowed.open for case in failed):
                    said = words.share_of(suspects, cases, noun)
                    lacking = f"{said} failed and could not be rerun to confirm it ({run.truncated or 'budget'})."
            return f"{broken} {lacking}".lstrip()
        case VerdictKind.INCONCLUSIVE:
            said = f" ({origins})" if origins else ""
            shown = failed and (origins or kind is not told)
            rest = f" {words.share_of(len(failed), cases, noun)} failed{said}." if shown else ""
            return f"The run was cut short ({run.truncated or 'budget'}), so there is no verdict.{rest}"


def _broken_files(suites: Sequence[SuiteVerdict]) -> str:
    """That whole files could not be evaluated, and why the first of them; "" without any."""
    if not suites:
        return ""
    files = words.counted(len(suites), "evaluation file")
    return f"{files} could not be evaluated: {suites[0].suite}: {suites[0].reason.rstrip('.')}."


def _pass_sentence(
    cases: int, noun: str, *, passed: int, failed: int, flaky: int, unmeasured: int, origins: str
) -> str:
    beside = f"; {flaky} flaky (non-blocking)" if flaky else ""
    if failed and origins:
        return f"{words.share_of(passed, cases, noun)} passed; allowed failures: {origins}{beside}."
    if failed:
        return f"{words.share_of(passed, cases, noun)} passed, as many as required{beside}."
    if flaky:
        rest = f"; {unmeasured} could not be evaluated" if unmeasured else ""
        return f"{words.share_of(passed, cases, noun)} passed{beside}{rest}."
    if unmeasured:
        return f"Every measured {noun} passed; {unmeasured} of {cases} could not be evaluated, which the policy allows."
    return f"The {noun} passed." if cases == 1 else f"All {words.counted(cases, noun)} passed."


def decide(
    run: Run,
    policy: Policy,
    *,
    comparison: Comparison | None,
    unreliable: Mapping[CaseKey, Quarantine] = NOT_QUARANTINED,
    book: Book | None = None,
    decided: Mapping[CaseKey, CaseVerdict] = NO_VERDICTS,
) -> Verdict:
    """Both gates together: the most severe of the two, and a sentence that begins with what blocks.

    Without a comparison only the threshold gate is asked; with one that has no base, the regression gate is not
    measured, unless there is nothing yet that could have become worse. `unreliable`: cases that are shown and never
    decide. `book`: the bets, of a run without a comparison; without it every failure counts as it is. `decided`: the
    cases without a comparison, where they are decided already.
    """
    if policy.fail_on and comparison is not None and _stopped_its_agent(run, comparison, advisory=policy.advisory):
        # `fail-on` without it is for outages: this is none
        policy = dataclasses.replace(policy, fail_on=policy.fail_on | {FailOn.NOT_MEASURED})
    book = comparison.book if comparison is not None and comparison.base is not None else book
    allowed = find(run, policy, comparison=comparison, unreliable=unreliable, book=book)
    # what a budget cut short after the comparison is decided anew
    decided = decided if comparison is None else comparison.decided
    decided = NO_VERDICTS if run.truncated else decided
    threshold = threshold_gate(run, policy, allowed=allowed, decided=decided)
    regression = None if comparison is None else _regression_gate(run, comparison, policy)
    gates = (*threshold.gates, *(() if regression is None else (regression,)))
    # what blocks comes first, then what is worse; a gate that passes is told of only where all do
    ordered = sorted(gates, key=lambda gate: (not gate.blocks, SEVERITY.index(gate.blocked_by or gate.kind)))
    wrong = [gate for gate in ordered if gate.kind is not VerdictKind.PASS]
    if regression is not None and regression.reason in (UNTOUCHED, ONLY_CASES) and wrong:
        wrong.append(regression)  # whose failures these are not
    return Verdict(
        kind=min((gate.kind for gate in gates), key=SEVERITY.index),
        reason=" ".join(gate.reason for gate in wrong or ordered),
        blocked_by=ordered[0].blocked_by,
        suites=threshold.suites,
        gates=gates,
        book=book,
    )


def _stopped_its_agent(run: Run, comparison: Comparison, *, advisory: Collection[str]) -> bool:
    """Whether the agent of a suite does not start on head while it runs beside it on the base: the change's doing."""
    if comparison.base is None or comparison.origin.source is not BaseSource.RERUN:
        return False
    runs = {trial.key.suite for trial in comparison.base.trials if trial.failure is None}
    starts = {
        trial.key.suite for trial in run.trials if trial.failure is None or trial.failure.kind is not FailureKind.START
    }
    return bool({trial.key.suite for trial in run.trials} & runs - starts - set(advisory))


def _regression_gate(run: Run, comparison: Comparison, policy: Policy) -> GateVerdict | None:
    if comparison.base is not None and comparison.is_untouched(run):
        return _gate({VerdictKind.PASS: ONLY_CASES if comparison.edited else UNTOUCHED}, policy)
    return regression_gate(run, comparison, policy)


def regression_gate(run: Run, comparison: Comparison, policy: Policy) -> GateVerdict | None:
    """Whether head is worse than base; None where the policy lets no criterion decide that."""
    if comparison.base is None:
        why = (comparison.problem or "there are no base results").rstrip(".")
        if comparison.no_agent:
            # the change that brings the first agent is neither stopped for it nor called unmeasured: nothing is broken
            return _gate({VerdictKind.PASS: f"Nothing to compare with yet: {why}."}, policy)
        if comparison.base_failed:
            told = f"Not compared: {why}. {_who_decides(policy)}"
            return _gate({VerdictKind.INCONCLUSIVE: told.rstrip()}, policy)
        return _gate({VerdictKind.NOT_MEASURED: f"Not compared with the base: {why}."}, policy)
    rows = [row for row in comparison.criteria if row.rule.gating]
    if not rows:
        deciding = [case for case in comparison.cases if case.suite not in policy.advisory]
        if not deciding or comparison.criteria:
            return None
        return _gate({VerdictKind.NOT_MEASURED: _unpaired_sentence(deciding)}, policy)
    truncated = run.truncated or comparison.base.truncated
    # a budget that ended with the last of the first runs, or among reruns, took nothing from the comparison
    found = _judge_rows(rows, comparison, truncated=truncated if any(row.cases.unpaired for row in rows) else "")
    lacking = _ate_budget(run, comparison.base) if truncated else ""
    if lacking and VerdictKind.NOT_MEASURED not in found:
        found = {**found, VerdictKind.NOT_MEASURED: lacking}
        found = {kind: found[kind] for kind in SEVERITY if kind in found and kind is not VerdictKind.PASS}
    if VerdictKind.INCONCLUSIVE in found and (failed := next((row for row in rows if row.base_failed), None)):
        told = f"{_base_failed_sentence(failed, comparison.base)} {_who_decides(policy)}"
        found = {**found, VerdictKind.INCONCLUSIVE: told.rstrip()}
    return _gate(found, policy)


APPETITE = 2
"""How many times the base's tokens head may take for the same runs before a spent budget is head's doing."""


def _ate_budget(run: Run, base: Run) -> str:
    """That a budget ended the run which the base's appetite would have spared; "" where it did not."""
    truncated = run.truncated or base.truncated
    if "tokens" not in truncated and "$" not in truncated:
        return ""
    then_run, now_run = ((*side.trials, *side.confirmations) for side in (base, run))
    theirs = {trial.key: trial.tokens for trial in then_run if trial.tokens is not None}
    pairs = [(trial.tokens, theirs[trial.key]) for trial in now_run if trial.tokens and trial.key in theirs]
    ours, then = (sum(pair[side] for pair in pairs) for side in (0, 1))
    if not theirs:  # a base that tells nothing excuses nothing
        ours = sum(trial.tokens or 0 for trial in now_run)
        return f"Head used {ours:,} tokens, the base told of none, and {truncated}." if ours else ""
    if ours <= APPETITE * then:
        return ""
    runs = f"same {len(pairs)} runs" if len(pairs) > 1 else "same run"
    return f"Head used {ours:,} tokens where the base used {then:,} for the {runs}, and so {truncated}."


def _base_failed_sentence(row: CriterionComparison, base: Run) -> str:
    """That the base's own failures leave too little to compare, and what the first of them was."""
    failed = [trial for trial in base.trials if trial.own_failure]
    cases = words.counted(len({(trial.key.suite, trial.key.case_id) for trial in failed}), "case")
    first = failed[0].failure if failed else None
    why = f": {why_failed(first)}" if first is not None else ""
    return f"Too few scores to compare `{row.name}` with the base, whose agent failed in {cases}{why}."


def _who_decides(policy: Policy) -> str:
    """What follows where the base cannot be compared with, by the policy."""
    if FailOn.INCONCLUSIVE in policy.fail_on:
        return "`fail-on: inconclusive` blocks."
    return "The thresholds decide." if FailOn.THRESHOLD in policy.fail_on else ""


WHY_WIDTH = 300
"""Of what an agent said when it failed."""
_ERROR = re.compile(r"[\w.]+(Error|Exception|Exit): ")
"""How the line of a traceback begins that has the error."""
_NO_FILE = re.compile(r"No such file or directory|unable to open database file")
"""What Python and SQLite say where a file is not there."""


def why_failed(failure: AgentFailure) -> str:
    """`ModuleNotFoundError: No module named 'foo'`: why the base's agent failed, bounded, without a full stop; where a
    file is lacking, what may be the reason: a step before this one made it, in head's checkout alone."""
    why = failure.message
    error = next((line for line in reversed(failure.detail.splitlines()) if _ERROR.match(line)), "")
    if failure.kind is FailureKind.START and "cannot be loaded: " in why:
        # what follows in the message is advice on an agent that the author of the change does not have to mend
        why = error or why.partition("cannot be loaded: ")[2]
    elif failure.kind in (FailureKind.START, FailureKind.EXITED) and error:
        why = f"{why}: {error}"
    said = plain.clip_end(plain.one_line(why).rstrip("."), WHY_WIDTH)
    return f"{said} (its checkout has only committed files)" if _NO_FILE.search(why) else said


def _judge_rows(
    rows: Sequence[CriterionComparison], comparison: Comparison, *, truncated: str
) -> Mapping[VerdictKind, str]:
    """Every kind that is there, with its sentence, most severe first: a fall is a fall, whatever else is unknown; what
    a budget cut short is inconclusive at best."""
    book = comparison.book
    by_change = {change: [row for row in rows if row.change is change] for change in Change}
    found: dict[VerdictKind, str] = {}
    if book.is_worse:
        found[VerdictKind.FAIL] = _worse_sentence(by_change[Change.REGRESSED], comparison)
    if unknown := [*by_change[Change.NOT_MEASURED], *(row for row in by_change[Change.REGRESSED] if row.short)]:
        found[VerdictKind.NOT_MEASURED] = _not_measured_sentence(unknown)
    if truncated:
        found[VerdictKind.INCONCLUSIVE] = f"The comparison with the base was cut short ({truncated}): no result."
    elif undecided := by_change[Change.INCONCLUSIVE]:
        past = [row for row in undecided if not (row.base_failed or row.short) and comparison.is_past]
        found[VerdictKind.INCONCLUSIVE] = (
            _past_sentence(past, comparison) if past else _inconclusive_sentence(undecided)
        )
    return found or {VerdictKind.PASS: _passed_sentence(rows, book)}


def _gate(found: Mapping[VerdictKind, str], policy: Policy) -> GateVerdict:
    """The most severe kind decides what it is called, every kind whether it blocks; the one that does is told first."""
    kind = next(iter(found))
    blocked_by = _blocking(GateKind.REGRESSION, found, policy)
    told = dict.fromkeys((blocked_by or kind, kind))
    reason = " ".join(found[each] for each in told)
    return GateVerdict(gate=GateKind.REGRESSION, kind=kind, reason=reason, blocked_by=blocked_by)
