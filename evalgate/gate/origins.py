"""One case on both sides: how it ended on each, and whose failure it is."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate.gate import pairing, permutation
from evalgate.gate.permutation import Stratum
from evalgate.model import Arm, CaseVerdict, CriterionUse, FailureOrigin, GradedTrial, VerdictKind


def arm(trials: Sequence[GradedTrial], verdict: CaseVerdict, uses: Sequence[CriterionUse], *, expected: int) -> Arm:
    """A side's trials of a case by outcome; those that never ran count as unmeasured."""
    deciding = pairing.deciding(uses)
    outcomes = [pairing.passes(pairing.pattern_of(trial, deciding)) for trial in trials]
    outcomes += [None] * (expected - len(outcomes))
    return Arm(
        passed=outcomes.count(True),
        failed=outcomes.count(False),
        unmeasured=outcomes.count(None),
        kind=verdict.kind,
    )


def origin(head: Arm | None, base: Arm | None, *, alpha: float) -> FailureOrigin | None:
    """Whose failure a case is; None where head does not fail.

    Where runs of a side differ among themselves the failure is flaky, unless base passes and the case alone shows
    that head is worse (exact test): 5 of 5 against 1 of 5 is no coin toss.
    """
    if head is None or head.kind is not VerdictKind.FAIL:
        return None
    if base is None or base.kind in (VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE):
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
