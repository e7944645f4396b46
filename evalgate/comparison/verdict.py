"""The one answer: is head good enough, and is it worse than base? In words: `reports.sentences`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace

from evalgate.comparison import pairing, threshold as comparison_threshold
from evalgate.comparison.cases import OF_RERUNS
from evalgate.model import (
    BaseSource,
    Book,
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
    GateCause,
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
from evalgate.text.phrases import phrase
from evalgate.values import frozen_dataclass


@frozen_dataclass
class Allowed:
    """What the threshold gate knows of failures."""

    origins: Mapping[CaseKey, FailureOrigin] = field(default_factory=dict)
    flaky_cases: frozenset[CaseKey] = frozenset()  # they failed, or crashed, and pass in fresh runs
    # of the base too: `threshold: new` allows them
    known_failures: frozenset[CaseKey] = frozenset()
    open_failures: frozenset[CaseKey] = frozenset()  # not rerun: the budget ended, or nothing came
    quarantines: Mapping[CaseKey, Quarantine] = field(default_factory=dict)  # they do not decide
    new_cases: frozenset[CaseKey] = frozenset()  # the base does not have them
    moved_cases: frozenset[CaseKey] = frozenset()  # both sides fail today, the base passed before


NONE = Allowed()
NO_VERDICTS: Mapping[CaseKey, CaseVerdict] = {}
NOT_QUARANTINED: Mapping[CaseKey, Quarantine] = {}


def find(
    run: Run,
    policy: Policy,
    *,
    comparison: Comparison | None,
    quarantines: Mapping[CaseKey, Quarantine] = NOT_QUARANTINED,
    book: Book | None = None,
) -> Allowed:
    """The failures that the policy allows: flaky ones, and with `threshold: new` those that the
    base has too. New cases and cases without a base result are never allowed as old failures."""
    confirmations = {} if book is None else book.confirmations
    lost_keys = {
        key for key, confirmation in confirmations.items() if confirmation is Confirmation.LOST
    }
    open_keys = {
        key for key, confirmation in confirmations.items() if confirmation is Confirmation.OPEN
    }
    origins: dict[CaseKey, FailureOrigin] = {}
    known_failures = frozenset[CaseKey]()
    added_keys = frozenset[CaseKey]()
    drifted_keys = frozenset[CaseKey]()
    base = None if comparison is None else comparison.base
    if comparison is None or base is None:
        kinds = {Confirmation.FLAKY, Confirmation.LOST}
        origins = {
            key: OF_RERUNS[confirmation]
            for key, confirmation in confirmations.items()
            if confirmation in kinds
        }
    else:
        origins = {case.key: case.origin for case in comparison.cases if case.origin is not None}
        added_keys = frozenset(
            case.key for case in comparison.cases if case.status is CaseStatus.NEW
        )
        old_failures = {
            key
            for key, origin in origins.items()
            if origin in (FailureOrigin.KNOWN, FailureOrigin.MIXED)
        }
        known_failures = frozenset(old_failures if policy.threshold is ThresholdRule.NEW else ())
        separate_keys = {trial.key.case for trial in base.trials if trial.apart}
        passed_keys = {
            case.key
            for case in comparison.cases
            if case.base and case.base.passed > case.base.failed
        }
        drifted_keys = frozenset(
            separate_keys & passed_keys & old_failures & (book.on_both if book else frozenset())
        )
    is_cut_short = bool(run.truncated or (base is not None and base.truncated))
    return Allowed(
        origins=origins,
        flaky_cases=frozenset(
            key for key, confirmation in confirmations.items() if confirmation is Confirmation.FLAKY
        ),
        known_failures=known_failures,
        open_failures=frozenset(
            lost_keys | (open_keys - known_failures if is_cut_short else set())
        ),
        quarantines=quarantines,
        new_cases=added_keys,
        moved_cases=drifted_keys,
    )


SEVERITY = (VerdictKind.FAIL, VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE, VerdictKind.PASS)
"""Most severe first: the most severe of the suites' kinds is the verdict's kind."""


def threshold_gate(
    run: Run,
    policy: Policy,
    *,
    allowed: Allowed = NONE,
    decided: Mapping[CaseKey, CaseVerdict] = NO_VERDICTS,
    is_compared: bool = False,
) -> Verdict:
    """The threshold gate's verdict on a run. Every case of every suite counts, whether or not it
    ran, except those of advisory suites and those that `allowed` takes out. A run without cases has
    measured nothing; one that its budget ended is inconclusive at best. `decided`: its cases, if
    they are decided already. `is_compared`: a base decides what has no threshold."""
    uses = pairing.uses_by_case(run)
    verdicts = (
        decided
        if decided.keys() == uses.keys()
        else pairing.case_verdicts(run, uses, policy=policy)
    )
    suites = tuple(
        _judge_suite(suite, verdicts, policy=policy, allowed=allowed, is_compared=is_compared)
        for suite in run.suites
    )
    deciding = [suite for suite in suites if not suite.advisory]
    kind = min(
        (suite.kind for suite in deciding), key=SEVERITY.index, default=VerdictKind.NOT_MEASURED
    )
    if kind is VerdictKind.PASS and (run.truncated or not run.complete):
        kind = VerdictKind.INCONCLUSIVE if run.complete else VerdictKind.NOT_MEASURED
    toothless = bool(suites) and not deciding
    # with those that a more severe one keeps out of sight; what the policy blocks on may be among
    # them
    kinds = {
        kind,
        *(suite_kind for suite in deciding for suite_kind in (suite.kind, *suite.beside)),
    }
    kinds |= {VerdictKind.INCONCLUSIVE} if run.truncated else set()
    blocked_by = None if toothless else _blocking(GateKind.THRESHOLD, kinds, policy)
    gate = GateVerdict(gate=GateKind.THRESHOLD, kind=kind, blocked_by=blocked_by)
    return Verdict(kind=kind, blocked_by=blocked_by, suites=suites, gates=(gate,))


def _blocking(gate: GateKind, kinds: Collection[VerdictKind], policy: Policy) -> VerdictKind | None:
    """The most severe kind of a gate's verdict that fails the job."""
    settings = {
        VerdictKind.FAIL: FailOn(gate.value),
        VerdictKind.NOT_MEASURED: FailOn.NOT_MEASURED,
        VerdictKind.INCONCLUSIVE: FailOn.INCONCLUSIVE,
    }
    return next(
        (kind for kind in SEVERITY if kind in kinds and settings.get(kind) in policy.fail_on), None
    )


def _judge_suite(
    suite: Suite,
    verdicts: Mapping[CaseKey, CaseVerdict],
    *,
    policy: Policy,
    allowed: Allowed,
    is_compared: bool,
) -> SuiteVerdict:
    if suite.problem:
        return SuiteVerdict(
            suite=suite.key,
            kind=VerdictKind.NOT_MEASURED,
            cases=(),
            reason=suite.problem,
            advisory=suite.key in policy.advisory,
        )
    case_verdicts = [
        _mark_past(verdicts[suite.key, case.case_id], allowed) for case in suite.eval_set.cases
    ]
    quarantined = allowed.quarantines if suite.key not in policy.advisory else NOT_QUARANTINED
    cases = []
    for case in case_verdicts:
        excuse = _let_pass(case, allowed)
        quarantine = quarantined.get(case.key)
        cases.append(
            replace(case, nonblocking=None if quarantine else excuse, quarantine=quarantine)
        )
    counted = [case for case in case_verdicts if case.key not in allowed.quarantines]
    required = policy.suite_pass_rate.get(suite.key, policy.pass_rate)
    # cases that the change adds would else make up for failures
    parts = [
        [case for case in counted if (case.key in allowed.new_cases) is is_new]
        for is_new in (False, True)
    ]
    parts = parts if required < 1 and all(parts) else [counted]
    part_verdicts = [
        _judge_cases(part, policy=policy, allowed=allowed, required=required) for part in parts
    ]
    part_verdicts.sort(key=lambda part: SEVERITY.index(next(iter(part))))
    kind, reason = next(iter(part_verdicts[0].items()))
    compared = [use.name for use in suite.criteria if use.is_compared]
    deciding = pairing.deciding(suite.criteria)
    if kind is VerdictKind.PASS and compared and len(compared) == len(deciding):
        kind = kind if is_compared else VerdictKind.NOT_MEASURED
        reason = phrase("suite_without_threshold", compared, is_compared)
    return SuiteVerdict(
        suite=suite.key,
        kind=kind,
        cases=tuple(cases),
        required_pass_rate=required,
        reason=reason,
        advisory=suite.key in policy.advisory or (bool(cases) and not counted),
        beside=frozenset().union(*part_verdicts) - {kind, VerdictKind.PASS},
    )


def _let_pass(case: CaseVerdict, allowed: Allowed) -> NonBlocking | None:
    """The reason why a failed or crashed case does not block; None if it may block."""
    if case.key in allowed.flaky_cases and case.kind in (
        VerdictKind.FAIL,
        VerdictKind.NOT_MEASURED,
    ):
        return NonBlocking.FLAKY
    return (
        NonBlocking.ALLOWED
        if case.key in allowed.known_failures and case.kind is VerdictKind.FAIL
        else None
    )


def _mark_past(case: CaseVerdict, allowed: Allowed) -> CaseVerdict:
    """What fresh runs make of a case: of one that fails on both sides today nothing is known, if it
    passed on the base before; nor of one that crashed and goes on to, or whose fresh runs could not
    be measured."""
    if case.key in allowed.moved_cases:
        reason = phrase("case_moved")
        return replace(case, kind=VerdictKind.NOT_MEASURED, beside=None, reason=reason)
    return case


def _judge_cases(
    cases: Sequence[CaseVerdict], *, policy: Policy, allowed: Allowed, required: float
) -> dict[VerdictKind, str]:
    """What becomes of cases that have a pass rate to reach together, see `threshold.judge`."""
    # leave out accidental crashes: they count neither as measured nor as missing
    remaining_cases = [
        case for case in cases if case.kind is VerdictKind.FAIL or _let_pass(case, allowed) is None
    ]
    if cases and not remaining_cases:
        return {VerdictKind.PASS: ""}
    failures = {case.key for case in remaining_cases if case.kind is VerdictKind.FAIL}
    unlooked = failures & allowed.open_failures
    excused = failures & allowed.flaky_cases
    # flaky failures never count; other allowed ones do not count if nothing else fails
    if failures <= excused | unlooked | allowed.known_failures:
        excused |= failures & allowed.known_failures
    counts = comparison_threshold.count(remaining_cases, allowed=excused, unconfirmed=unlooked)
    kinds = comparison_threshold.judge(counts, required=required, min_measured=policy.min_measured)
    if unlooked and next(iter(kinds)) is VerdictKind.INCONCLUSIVE:
        # a budget that ends before the reruns must not let failures pass that these would have
        # confirmed
        notice = {VerdictKind.NOT_MEASURED: phrase("suite_not_rerun", len(unlooked))}
        return notice | kinds | notice  # the first one, whatever else there is
    return kinds


def decide(
    run: Run,
    policy: Policy,
    *,
    comparison: Comparison | None,
    quarantines: Mapping[CaseKey, Quarantine] = NOT_QUARANTINED,
    book: Book | None = None,
    decided: Mapping[CaseKey, CaseVerdict] = NO_VERDICTS,
) -> Verdict:
    """Combine both gates: the more severe one counts.

    Without a comparison only the threshold gate is asked; with one that has no base, the regression
    gate is not measured, unless there is nothing yet that could have become worse. `quarantines`:
    cases that are shown and never decide. `book`: the bets, of a run without a comparison; without
    it every failure counts as it is. `decided`: the cases without a comparison, if they are decided
    already."""
    if (
        policy.fail_on
        and comparison is not None
        and _stopped_its_agent(run, comparison, advisory=policy.advisory)
    ):
        policy = policy.blocking()  # this is no outage
    book = comparison.book if comparison is not None and comparison.base is not None else book
    allowed = find(run, policy, comparison=comparison, quarantines=quarantines, book=book)
    # what a budget cut short after the comparison is decided anew
    decided = (
        NO_VERDICTS if run.truncated else decided if comparison is None else comparison.decided
    )
    threshold = threshold_gate(
        run,
        policy,
        allowed=allowed,
        decided=decided,
        is_compared=comparison is not None and (comparison.base is not None or comparison.no_agent),
    )
    regression = None if comparison is None else regression_gate(run, comparison, policy)
    gates = (*threshold.gates, *(() if regression is None else (regression,)))
    return Verdict(
        kind=min((gate.kind for gate in gates), key=SEVERITY.index),
        blocked_by=min(
            (gate.blocked_by for gate in gates if gate.blocked_by), key=SEVERITY.index, default=None
        ),
        suites=threshold.suites,
        gates=gates,
        book=book,
        origins=allowed.origins,
        open=allowed.open_failures,
    )


def _stopped_its_agent(run: Run, comparison: Comparison, *, advisory: Collection[str]) -> bool:
    """True if a suite's agent does not start on head while it runs on the base: the change caused
    it."""
    if comparison.base is None or comparison.origin.source is not BaseSource.RERUN:
        return False
    runs = {trial.key.suite for trial in comparison.base.trials if trial.failure is None}
    starts = {
        trial.key.suite
        for trial in run.trials
        if trial.failure is None or trial.failure.kind is not FailureKind.START
    }
    return bool({trial.key.suite for trial in run.trials} & runs - starts - set(advisory))


def regression_gate(run: Run, comparison: Comparison, policy: Policy) -> GateVerdict | None:
    """The regression verdict; None if the policy lets no criterion decide it."""
    if comparison.base is None:
        if comparison.no_agent:
            # the change that brings the first agent is not stopped for it: nothing is broken
            return _gate({VerdictKind.PASS: GateCause.NO_AGENT}, policy)
        if comparison.base_failed:
            return _gate({VerdictKind.INCONCLUSIVE: GateCause.BASE_FAILED}, policy)
        return _gate({VerdictKind.NOT_MEASURED: GateCause.NO_BASE}, policy)
    if comparison.is_untouched(run):
        return _gate(
            {VerdictKind.PASS: GateCause.ONLY_CASES if comparison.edited else GateCause.UNTOUCHED},
            policy,
        )
    rows = [row for row in comparison.criteria if row.rule.gating]
    if not rows:
        is_unpaired = not comparison.criteria and any(
            case.suite not in policy.advisory for case in comparison.cases
        )
        return (
            _gate({VerdictKind.NOT_MEASURED: GateCause.UNPAIRED}, policy) if is_unpaired else None
        )
    truncated = run.truncated or comparison.base.truncated
    # a budget that ended with the last of the first runs, or among reruns, took nothing from the
    # comparison
    causes = _causes(
        rows, comparison, is_cut_short=bool(truncated) and any(row.cases.unpaired for row in rows)
    )
    if (
        VerdictKind.NOT_MEASURED not in causes
        and truncated
        and _ate_budget(run, comparison.base, truncated)
    ):
        causes[VerdictKind.NOT_MEASURED] = GateCause.APPETITE
        causes.pop(VerdictKind.PASS, None)
    return _gate(causes, policy)


APPETITE = 2
"""How many times the base's tokens head may take for the same runs before a spent budget is head's
doing."""


def _ate_budget(run: Run, base: Run, truncated: str) -> bool:
    """True if a budget ended the run that the base's usage would not have ended."""
    head_tokens, base_tokens, _ = run.tokens_beside(base)
    # a base that reports no tokens does not excuse head
    return ("tokens" in truncated or "$" in truncated) and head_tokens > APPETITE * (
        base_tokens or 0
    )


def _causes(
    rows: Sequence[CriterionComparison], comparison: Comparison, *, is_cut_short: bool
) -> dict[VerdictKind, GateCause]:
    """Every kind that is there, and why: a fall is a fall, whatever else is unknown; what a budget
    cut short is inconclusive at best."""
    changes = {row.change for row in rows}
    undecided = [row for row in rows if row.change is Change.INCONCLUSIVE]
    causes: dict[VerdictKind, GateCause] = {}
    if comparison.book.is_worse:
        causes[VerdictKind.FAIL] = GateCause.WORSE
    if Change.NOT_MEASURED in changes or any(
        row.short for row in rows if row.change is Change.REGRESSED
    ):
        causes[VerdictKind.NOT_MEASURED] = GateCause.UNSCORED
    if (is_cut_short or undecided) and any(row.base_failed for row in rows):
        causes[VerdictKind.INCONCLUSIVE] = GateCause.BASE_LACKS
    elif is_cut_short:
        causes[VerdictKind.INCONCLUSIVE] = GateCause.CUT_SHORT
    elif undecided:
        is_past = comparison.is_past and any(
            not (row.base_failed or row.short) for row in undecided
        )
        causes[VerdictKind.INCONCLUSIVE] = GateCause.PAST if is_past else GateCause.UNDECIDED
    return causes or {VerdictKind.PASS: GateCause.NO_EVIDENCE}


def _gate(causes: Mapping[VerdictKind, GateCause], policy: Policy) -> GateVerdict:
    """The gate's verdict: the most severe kind names it, any kind may block; the one that does
    comes first."""
    kind = min(causes, key=SEVERITY.index)
    blocked_by = _blocking(GateKind.REGRESSION, causes, policy)
    kinds = dict.fromkeys((blocked_by or kind, kind))
    return GateVerdict(
        gate=GateKind.REGRESSION,
        kind=kind,
        blocked_by=blocked_by,
        causes=tuple(causes[cause_kind] for cause_kind in kinds),
    )
