"""One case on both sides: how it ended on each, and whose failure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from evalgate.gate import pairing, permutation
from evalgate.gate.permutation import Stratum
from evalgate.model import Arm, CaseVerdict, CriterionUse, FailureOrigin, GradedTrial, VerdictKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """One case on one side: its trials, how many there were to be, the threshold gate's word on it, and its `arm`: the
    trials by outcome; those that never ran count as unmeasured."""

    trials: Sequence[GradedTrial]
    verdict: CaseVerdict
    expected: int
    arm: Arm

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

    def by(self, use: CriterionUse) -> Arm:
        """The trials by what one criterion says of them."""
        kind = next((each.kind for each in self.verdict.criteria if each.name == use.name), None)
        return _arm(self.trials, (use,), kind or VerdictKind.NOT_MEASURED, expected=self.expected)


def _arm(trials: Sequence[GradedTrial], uses: Sequence[CriterionUse], kind: VerdictKind, *, expected: int) -> Arm:
    deciding = pairing.deciding(uses)
    outcomes = [pairing.passes(pairing.pattern_of(trial, deciding)) for trial in trials]
    outcomes += [None] * (expected - len(outcomes))
    return Arm(passed=outcomes.count(True), failed=outcomes.count(False), unmeasured=outcomes.count(None), kind=kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """Whose failure a case is (None: head does not fail), and the criteria that head alone fails."""

    origin: FailureOrigin | None
    newly: tuple[str, ...] = ()


def whose(head: Ended, base: Ended | None, uses: Sequence[CriterionUse], *, alpha: float) -> Whose:
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


def origin(head: Arm, base: Arm, *, alpha: float) -> FailureOrigin | None:
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


def _worse(head: Arm, base: Arm, *, alpha: float) -> bool:
    stratum = Stratum(
        head_passes=head.passed,
        head_runs=head.passed + head.failed,
        base_passes=base.passed,
        base_runs=base.passed + base.failed,
    )
    # 1 of 20 ways is a p of 0.05 exactly, and counts
    return permutation.exact([stratum]).drop <= alpha + 1e-12
