"""All cases of two runs, one beside the other: which are compared, which decide, how each ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from evalgate.comparison import divergence, pairing, tests
from evalgate.comparison import verdict as comparison_verdict
from evalgate.comparison.pairing import Pair
from evalgate.comparison.tests import Stratum
from evalgate.model import (
    CaseComparison,
    CaseKey,
    CaseOutcome,
    CaseStatus,
    CaseVerdict,
    CriterionUse,
    Divergence,
    FailureOrigin,
    GradedTrial,
    Policy,
    Run,
    Scale,
    Suite,
    VerdictKind,
)

# -- One case on both sides --


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """One case on one side: its trials, how many there were to be, the threshold gate's word on it, and its `arm`: the
    trials by outcome; those that never ran count as unmeasured."""

    trials: Sequence[GradedTrial]
    verdict: CaseVerdict
    expected: int
    arm: CaseOutcome

    @classmethod
    def of(
        cls, trials: Sequence[GradedTrial], verdict: CaseVerdict, uses: Sequence[CriterionUse], *, expected: int
    ) -> Self:
        """The trials of a case by what all criteria that decide say of them."""
        arm = _arm(trials, uses, verdict.kind, expected=expected)
        return cls(trials=trials, verdict=verdict, expected=expected, arm=arm)

    @property
    def failed(self) -> frozenset[str]:
        """The criteria that fail it."""
        return frozenset(each.name for each in self.verdict.criteria if each.kind is VerdictKind.FAIL)

    def by(self, use: CriterionUse) -> CaseOutcome:
        """The trials by what one criterion says of them."""
        kind = next((each.kind for each in self.verdict.criteria if each.name == use.name), None)
        return _arm(self.trials, (use,), kind or VerdictKind.NOT_MEASURED, expected=self.expected)


def _arm(
    trials: Sequence[GradedTrial], uses: Sequence[CriterionUse], kind: VerdictKind, *, expected: int
) -> CaseOutcome:
    deciding = pairing.deciding(uses)
    outcomes = [pairing.passes(pairing.pattern_of(trial, deciding)) for trial in trials]
    outcomes += [None] * (expected - len(outcomes))
    return CaseOutcome(
        passed=outcomes.count(True), failed=outcomes.count(False), unmeasured=outcomes.count(None), kind=kind
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """Whose failure a case is (None: head does not fail), and the criteria that head alone fails."""

    origin: FailureOrigin | None
    newly: tuple[str, ...] = ()


def failure_origin(head: Ended, base: Ended | None, uses: Sequence[CriterionUse], *, alpha: float) -> Whose:
    """Whose failure a case is, looked at as a whole and by every criterion that head fails.

    New where either says so: a case that failed all along can fail in a new way. Known only where the base fails every
    one of these criteria too.
    """
    if head.verdict.kind is not VerdictKind.FAIL:
        return Whose(origin=None)
    if base is None:
        return Whose(origin=FailureOrigin.UNKNOWN)
    whole = origin(head.arm, base.arm, alpha=alpha)
    parts = {
        use.name: origin(head.by(use), base.by(use), alpha=alpha)
        for use in pairing.deciding(uses)
        if use.name in head.failed
    }
    newly = tuple(name for name, found in parts.items() if found is FailureOrigin.NEW)
    if newly or whole is FailureOrigin.NEW:
        return Whose(origin=FailureOrigin.NEW, newly=newly)
    if whole is FailureOrigin.UNKNOWN or not base.failed:  # under `adk-compat` an agent that failed is a failure
        return Whose(origin=whole)
    unlike = (FailureOrigin.UNKNOWN, FailureOrigin.FLAKY)
    return Whose(origin=next((each for each in unlike if each in parts.values()), whole))


def origin(head: CaseOutcome, base: CaseOutcome, *, alpha: float) -> FailureOrigin | None:
    """Whose failure it is by the outcomes of both sides; None where head does not fail.

    Where runs of a side differ among themselves the failure is flaky, unless base passes and the case alone shows
    that head is worse (exact test): 5 of 5 against 1 of 5 is no coin toss.
    """
    if head.kind is not VerdictKind.FAIL:
        return None
    if base.kind in (VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE):
        return FailureOrigin.UNKNOWN
    passed = base.kind is VerdictKind.PASS
    if not (head.flaky or base.flaky):
        return FailureOrigin.NEW if passed else FailureOrigin.KNOWN
    return FailureOrigin.NEW if passed and _worse(head, base, alpha=alpha) else FailureOrigin.FLAKY


def _worse(head: CaseOutcome, base: CaseOutcome, *, alpha: float) -> bool:
    stratum = Stratum(
        head_passes=head.passed,
        head_runs=head.passed + head.failed,
        base_passes=base.passed,
        base_runs=base.passed + base.failed,
    )
    # 1 of 20 ways is a p of 0.05 exactly, and counts
    return tests.exact([stratum]).drop <= alpha + 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All cases of both sides: `pairs` are compared; `deciding` of them count, `shown` do not."""

    head: Run
    base: Run
    uses: Mapping[CaseKey, Sequence[CriterionUse]]
    head_trials: pairing.Trials
    base_trials: pairing.Trials
    head_verdicts: Mapping[CaseKey, CaseVerdict]
    base_verdicts: Mapping[CaseKey, CaseVerdict]
    unpaired: Mapping[CaseKey, CaseStatus]
    pairs: tuple[Pair, ...]
    deciding: tuple[Pair, ...]
    shown: tuple[Pair, ...]

    def cases(self, policy: Policy) -> tuple[CaseComparison, ...]:
        """Every case of head, then those that only base has."""
        led = _led(self.head)
        own = [self._case(key, alpha=policy.alpha, led=led) for key in self.uses]
        gone = [key for key in self.unpaired if key not in self.uses]
        return (*own, *(_removed(key, self.unpaired[key]) for key in gone))

    def _case(self, key: CaseKey, *, alpha: float, led: Mapping[CaseKey, Suite]) -> CaseComparison:
        status, uses = self.unpaired.get(key, CaseStatus.PAIRED), self.uses[key]
        # what the base made of another question, or has no question for, is no outcome of this case
        head, base = self._ended(key, head=True), self._ended(key, head=False) if status is CaseStatus.PAIRED else None
        found = failure_origin(head, base, uses, alpha=alpha)
        return CaseComparison(
            suite=key[0],
            case_id=key[1],
            status=status,
            head=head.arm,
            base=None if base is None else base.arm,
            origin=found.origin,
            newly=found.newly,
            why=_why(status, base_ran=bool(self.base_trials.get(key))),
            divergence=_divergence(self, key, led.get(key)),
        )

    def _ended(self, key: CaseKey, *, head: bool) -> Ended:
        run, trials, found = (
            (self.head, self.head_trials, self.head_verdicts)
            if head
            else (self.base, self.base_trials, self.base_verdicts)
        )
        return Ended.of(trials.get(key, ()), found[key], self.uses[key], expected=run.expected(*key))


def of(
    head: Run,
    base: Run,
    *,
    policy: Policy,
    scales: Mapping[str, Scale],
    unpaired: Mapping[CaseKey, CaseStatus],
    unreliable: frozenset[CaseKey],
) -> Table:
    """Head's cases on both sides, judged by head's criteria."""
    uses = pairing.uses_by_case(head)
    head_trials, base_trials = pairing.trials_by_case(head), pairing.trials_by_case(base)
    pairs = tuple(
        pairing.pair(key, head=head, base=base, head_trials=head_trials, base_trials=base_trials, uses=own)
        for key, own in uses.items()
        if unpaired.get(key, CaseStatus.PAIRED) is CaseStatus.PAIRED
    )
    silent = {pair.key for pair in pairs if pair.key[0] in policy.advisory or pair.key in unreliable}
    return Table(
        head=head,
        base=base,
        uses=uses,
        head_trials=head_trials,
        base_trials=base_trials,
        head_verdicts=comparison_verdict.case_verdicts(head, uses, policy=policy, scales=scales),
        base_verdicts=comparison_verdict.case_verdicts(base, uses, policy=policy, scales=scales),
        unpaired=unpaired,
        pairs=pairs,
        deciding=tuple(pair for pair in pairs if pair.key not in silent),
        shown=tuple(pair for pair in pairs if pair.key in silent),
    )


def _led(run: Run) -> dict[CaseKey, Suite]:
    """The suites of the cases that a simulated user leads."""
    return {
        (suite.key, case.case_id): suite
        for suite in run.suites
        for case in suite.eval_set.cases
        if case.scenario is not None
    }


def _divergence(table: Table, key: CaseKey, suite: Suite | None) -> Divergence | None:
    """Where the conversations of a simulated user part, in the first repeat that both sides have; None without one
    (`suite` None), and where they do not part."""
    for trial in () if suite is None else table.head_trials.get(key, ()):
        head, base = (run.transcripts.find(trial.key) for run in (table.head, table.base))
        if suite is not None and head is not None and base is not None:
            hears_calls = suite.simulator.include_function_calls
            return divergence.compare(base.invocations, head.invocations, hears_calls=hears_calls)
    return None


def _removed(key: CaseKey, status: CaseStatus) -> CaseComparison:
    why = _why(status, base_ran=True)
    return CaseComparison(suite=key[0], case_id=key[1], status=status, head=None, base=None, why=why)


def _why(status: CaseStatus, *, base_ran: bool) -> str:
    match status:
        case CaseStatus.PAIRED:
            return "" if base_ran else "the base did not run it"
        case CaseStatus.NEW:
            return "not in the base's evaluation files"
        case CaseStatus.CHANGED:
            return "the case changed since the base's results"
        case CaseStatus.REMOVED:
            return "only on the base"
