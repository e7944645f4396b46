"""The verdict in words: a sentence for each answer, and for each cause of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from evalgate.comparison import verdict as comparison_verdict
from evalgate.model import (
    CaseKey,
    CaseStatus,
    CaseVerdict,
    Change,
    Comparison,
    CriterionComparison,
    FailOn,
    FailureOrigin,
    GateCause,
    GateKind,
    GateVerdict,
    NonBlocking,
    Policy,
    Run,
    SuiteVerdict,
    Verdict,
    VerdictKind,
)
from evalgate.text import plain, words
from evalgate.values import frozen_dataclass

SAID: Mapping[FailureOrigin, str] = {
    FailureOrigin.NEW: "{} new",
    FailureOrigin.KNOWN: "{} pre-existing",
    FailureOrigin.MIXED: "{} with mixed results",
    FailureOrigin.FLAKY: "{} flaky",
    FailureOrigin.UNKNOWN: "{} without a base result",
    FailureOrigin.UNCONFIRMED: "{} not confirmed",
}


def told(verdict: Verdict, run: Run, comparison: Comparison | None, policy: Policy) -> Verdict:
    """The verdict with the reasons of it and of its gates in words, what blocks first. A gate that passes is told of
    only where all do."""
    gates = tuple(replace(gate, reason=_reason(gate, verdict, run, comparison, policy)) for gate in verdict.gates)
    severity = comparison_verdict.SEVERITY.index
    ordered = sorted(gates, key=lambda gate: (not gate.blocks, severity(gate.blocked_by or gate.kind)))
    wrong = [gate for gate in ordered if gate.kind is not VerdictKind.PASS]
    if wrong:  # whose failures these are not
        wrong += [gate for gate in gates if gate.causes in ((GateCause.UNTOUCHED,), (GateCause.ONLY_CASES,))]
    reason = " ".join(gate.reason for gate in wrong or ordered)
    return replace(verdict, gates=gates, reason=reason)


def _reason(gate: GateVerdict, verdict: Verdict, run: Run, comparison: Comparison | None, policy: Policy) -> str:
    if comparison is None or gate.gate is GateKind.THRESHOLD:
        return _threshold_sentence(gate, verdict, run, policy)
    about = _Regression(run, comparison, policy)
    return " ".join(CAUSES[cause](about) for cause in gate.causes)


def _threshold_sentence(gate: GateVerdict, verdict: Verdict, run: Run, policy: Policy) -> str:
    """What there is to say of the gate's kind; where another kind blocks, of that one, with the failures behind it."""
    quarantined = any(case.quarantined for case in verdict.cases)
    suites = [suite for suite in verdict.suites if not suite.advisory]
    if verdict.suites and not suites:
        by_severity = all(suite.suite in policy.advisory for suite in verdict.suites)
        return (
            f"Every {'suite is advisory' if by_severity or not quarantined else 'case is quarantined'} (non-blocking)."
        )
    counts = _DecidingCases(
        cases=[case for suite in suites for case in suite.cases if not case.quarantined],
        noun="deciding case" if quarantined or len(suites) < len(verdict.suites) else "case",
        open=verdict.open,
    )
    failed, flaky, lacking = counts.failed, counts.flaky, counts.unmeasured
    shown = gate.blocked_by or gate.kind
    where = words.listed(
        (suite.suite for suite in suites if suite.cases and shown in (suite.kind, *suite.beside)), limit=3
    )
    origins = _origin_counts(verdict, failed)
    said = f" ({origins})" if origins else ""
    broken = _broken_files(suites, run)
    match shown:
        case VerdictKind.PASS:
            return _pass_sentence(counts, origins)
        case VerdictKind.FAIL:
            rest = f"; {flaky} flaky (non-blocking)" if flaky else ""
            rest += f"; {lacking} could not be evaluated" if lacking else ""
            return f"{counts.share(len(failed))} failed{said} in {where}{rest}. {broken}".rstrip()
        case VerdictKind.NOT_MEASURED:
            partial = sum(case.partial and not case.nonblocking for case in counts.cases)
            partial = partial if gate.kind is VerdictKind.FAIL else 0
            if broken and not lacking + partial:
                return f"{broken} {f'{counts.share(len(failed))} failed.' if failed else ''}".rstrip()
            return f"{broken} {_lacking_sentence(counts, where, partial=partial, truncated=run.truncated)}".lstrip()
        case VerdictKind.INCONCLUSIVE:
            is_told = failed and (origins or gate.kind is not shown)
            rest = f" {counts.share(len(failed))} failed{said}." if is_told else ""
            return f"The run was cut short ({run.truncated or 'budget'}), so there is no verdict.{rest}"


@frozen_dataclass
class _DecidingCases:
    """The cases that decide, by how they ended. `open`: failures that could not be rerun."""

    cases: Sequence[CaseVerdict]
    noun: str
    open: Collection[CaseKey]

    @property
    def flaky(self) -> int:
        return sum(case.nonblocking is NonBlocking.FLAKY for case in self.cases)

    @property
    def failed(self) -> list[CaseVerdict]:
        return [
            case for case in self.cases if case.kind is VerdictKind.FAIL and case.nonblocking is not NonBlocking.FLAKY
        ]

    @property
    def unmeasured(self) -> int:
        return sum(case.kind is VerdictKind.NOT_MEASURED and case.nonblocking is None for case in self.cases)

    def share(self, count: int) -> str:
        """`2 of 3 cases`."""
        return words.share_of(count, len(self.cases), self.noun)


def _origin_counts(verdict: Verdict, failed: Sequence[CaseVerdict]) -> str:
    """`1 new, 2 pre-existing and 1 not confirmed`; empty where there is no base."""
    counts = Counter(verdict.origins[case.key] for case in failed if case.key in verdict.origins)
    return words.listed(SAID[origin].format(counts[origin]) for origin in FailureOrigin if counts[origin])


def _broken_files(suites: Sequence[SuiteVerdict], run: Run) -> str:
    """That whole files could not be evaluated, and why the first of them; "" without any."""
    keys = {suite.key for suite in run.suites if suite.problem}
    broken = [suite for suite in suites if suite.suite in keys]
    if not broken:
        return ""
    files = words.counted(len(broken), "evaluation file")
    return f"{files} could not be evaluated: {broken[0].suite}: {broken[0].reason.rstrip('.')}."


def _pass_sentence(counts: _DecidingCases, origins: str) -> str:
    failed, flaky, unmeasured, total = len(counts.failed), counts.flaky, counts.unmeasured, len(counts.cases)
    passed = counts.share(sum(case.kind is VerdictKind.PASS for case in counts.cases))
    beside = f"; {flaky} flaky (non-blocking)" if flaky else ""
    if failed and origins:
        return f"{passed} passed; allowed failures: {origins}{beside}."
    if failed:
        return f"{passed} passed, as many as required{beside}."
    if flaky:
        rest = f"; {unmeasured} could not be evaluated" if unmeasured else ""
        return f"{passed} passed{beside}{rest}."
    if unmeasured:
        lack = f"{unmeasured} of {total} could not be evaluated, which the policy allows"
        return f"Every measured {counts.noun} passed; {lack}."
    return f"The {counts.noun} passed." if total == 1 else f"All {words.counted(total, counts.noun)} passed."


def _lacking_sentence(counts: _DecidingCases, where: str, *, partial: int, truncated: str) -> str:
    """What could not be measured. `partial`: failures that could not be measured whole."""
    if not counts.cases:
        return "There was no case to evaluate."
    if lacking := counts.unmeasured + partial:
        rest = f" ({len(counts.failed)} failed)" if counts.failed else ""
        return f"{counts.share(lacking)} could not be {'fully ' if partial else ''}evaluated in {where}{rest}."
    # what a budget cut short counts as inconclusive, unless it begins badly
    if suspects := sum(case.key in counts.open for case in counts.failed):
        return f"{counts.share(suspects)} failed and could not be rerun to confirm it ({truncated or 'budget'})."
    doubtful = counts.share(sum(case.doubtful for case in counts.cases))
    return f"{doubtful} below a threshold could not be fully evaluated in {where}."


class _Regression:
    """What the regression gate has to tell of. `rows`: the criteria that decide."""

    def __init__(self, run: Run, comparison: Comparison, policy: Policy) -> None:
        self.run, self.comparison, self.policy = run, comparison, policy
        self.rows = [row for row in comparison.criteria if row.rule.gating]
        self.truncated = run.truncated or (comparison.base.truncated if comparison.base else "")
        self.problem = (comparison.problem or "there are no base results").rstrip(".")

    def of(self, change: Change) -> list[CriterionComparison]:
        """The criteria that changed so."""
        return [row for row in self.rows if row.change is change]

    def policy_sentence(self) -> str:
        """What follows where the base cannot be compared with, by the policy."""
        if FailOn.INCONCLUSIVE in self.policy.fail_on:
            return " `fail-on: inconclusive` blocks."
        return " The thresholds decide." if FailOn.THRESHOLD in self.policy.fail_on else ""


def _worse(about: _Regression) -> str:
    """That head is worse, how sure that is, and by what: the criterion that fell furthest, the others by name."""
    rows, told = about.of(Change.REGRESSED), f"Worse than the base, {words.evidence(about.comparison.book.worse)}"
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
    return f"{told}: {_change(worst)}{turned}.{rest}"


def _change(row: CriterionComparison) -> str:
    """`` `x` dropped from 0.95 to 0.71 (-0.24) ``."""
    delta = row.delta or 0.0
    if delta == 0:
        stays = "-" if row.head is None else f"{row.head:.2f}" if abs(row.head) < 1000 else f"{row.head:,.0f}"
        return f"`{row.name}` stayed at {stays}"
    verb = "rose" if delta > 0 else "fell" if row.rule.lower_is_better else "dropped"
    base, head, difference = words.compared(row.base, row.head)
    return f"`{row.name}` {verb} from {base} to {head} ({difference})"


def _largest_drop(row: CriterionComparison) -> float:
    return (row.drop or 0.0) / max(row.rule.floor, 1e-9)


def _no_evidence(about: _Regression) -> str:
    """That the bets do not say that head is worse."""
    book = about.comparison.book
    cases = words.counted(max(row.cases.compared for row in about.rows), "compared case")
    better = [f"`{row.name}`" for row in about.of(Change.IMPROVED)]
    rose = f"; {words.listed(better)} improved" if better else ""
    evidence = f" ({words.evidence(book.worse)})" if book.worse > 1 else ""
    return f"No regression seen in {cases}{evidence}{rose}."


def _unscored(about: _Regression) -> str:
    """How much of the worst-measured criterion is missing."""
    rows = [*about.of(Change.NOT_MEASURED), *(row for row in about.of(Change.REGRESSED) if row.short)]
    if timed := next((row for row in rows if row.clock_based), None):
        return (
            f"`{timed.name}` measures time and the base was measured at another time: "
            "set `baseline: rerun` to run the base alongside."
        )
    worst = max(rows, key=lambda row: row.cases.unpaired)
    others = f" ({words.counted(len(rows), 'criterion', 'criteria')} affected)" if len(rows) > 1 else ""
    lack = f"{words.counted(worst.cases.unpaired, 'case')} {'lacks' if worst.cases.unpaired == 1 else 'lack'} a score"
    return f"Too few scores to compare `{worst.name}` with the base: {lack}{others}."


def _undecided(about: _Regression) -> str:
    """The criterion that could have fallen furthest."""
    rows = about.of(Change.INCONCLUSIVE)
    known = [row for row in rows if row.cases.compared]
    if not known:
        return f"Not compared: the agent crashed in every case of `{rows[0].name}`."
    return f"{_change(max(known, key=_largest_drop))}, with too few scores to tell."


def _past(about: _Regression) -> str:
    """The criterion that fell furthest beside results of another time."""
    rows = [row for row in about.of(Change.INCONCLUSIVE) if not (row.base_failed or row.short)]
    at = about.comparison.origin.measured_at
    told = f"{_change(max(rows, key=_largest_drop))} beside stored results{f' of {at[:10]}' if at else ''}"
    return f"{told}; the base was not run today, so it may be the provider's model that moved, not the agent."


def _unpaired(about: _Regression) -> str:
    """Why no case could be compared, and what would help."""
    counts = Counter(case.status for case in about.comparison.cases if case.suite not in about.policy.advisory)
    told = words.listed(f"{counts[each]} {each.value}" for each in CaseStatus if counts[each])
    hint = ""
    if counts[CaseStatus.CHANGED]:
        hint = " Use `baseline: auto` to rerun the base on the same cases."
    elif counts[CaseStatus.NEW] and counts[CaseStatus.REMOVED]:
        hint = " Keep the old cases in this pull request and delete them in the next."
    elif counts[CaseStatus.NEW]:
        hint = " Select cases that also exist on the base."
    return f"No case can be compared with the base: {told}.{hint}"


def _tokens(about: _Regression) -> str:
    """How much more head takes than the base."""
    assert about.comparison.base is not None
    ours, then, count = about.run.tokens_beside(about.comparison.base)
    if then is None:
        return f"Head used {ours:,} tokens, the base told of none, and {about.truncated}."
    runs = f"same {count} runs" if count > 1 else "same run"
    return f"Head used {ours:,} tokens where the base used {then:,} for the {runs}, and so {about.truncated}."


def _base_failed(about: _Regression) -> str:
    """That the base's own failures leave too little to compare, and what the first of them was."""
    assert about.comparison.base is not None
    name = next(row.name for row in about.rows if row.base_failed)
    failed = [trial for trial in about.comparison.base.trials if trial.own_failure]
    cases = words.counted(len({trial.key.case for trial in failed}), "case")
    first = failed[0].failure if failed else None
    why = f": {first.why}" if first is not None else ""
    told = f"Too few scores to compare `{name}` with the base, whose agent failed in {cases}{why}."
    return f"{told}{about.policy_sentence()}"


def _untouched(about: _Regression) -> str:
    """That nothing that the agent reads has changed, and which file it might have read."""
    unread = about.comparison.unread
    if not unread:
        return "This change does not touch the agent."
    files = plain.label(unread[0], FILE_WIDTH)
    if len(unread) > 1:
        files += f" and {words.counted(len(unread) - 1, 'other changed file')}"
    cases = words.counted(len({trial.key.case for trial in about.run.trials}), "case")
    verb = "were" if len(unread) > 1 else "was"
    return f"This change does not touch the agent: {files} {verb} opened in none of {cases}."


FILE_WIDTH = 120
CAUSES: Final[Mapping[GateCause, Callable[[_Regression], str]]] = {
    GateCause.WORSE: _worse,
    GateCause.NO_EVIDENCE: _no_evidence,
    GateCause.NO_AGENT: lambda about: f"Nothing to compare with yet: {about.problem}.",
    GateCause.NO_BASE: lambda about: f"Not compared with the base: {about.problem}.",
    GateCause.BASE_FAILED: lambda about: f"Not compared: {about.problem}.{about.policy_sentence()}",
    GateCause.BASE_LACKS: _base_failed,
    GateCause.UNPAIRED: _unpaired,
    GateCause.UNSCORED: _unscored,
    GateCause.CUT_SHORT: lambda about: f"The comparison with the base was cut short ({about.truncated}): no result.",
    GateCause.APPETITE: _tokens,
    GateCause.PAST: _past,
    GateCause.UNDECIDED: _undecided,
    GateCause.UNTOUCHED: _untouched,
    GateCause.ONLY_CASES: lambda _: "This change adds or edits evaluation files, not the agent.",
}
"""Each cause in words."""
