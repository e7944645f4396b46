"""The one answer: is head good enough, and is it worse than base?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalgate.gate import allowances, explaining
from evalgate.gate import verdict as verdicts
from evalgate.gate.pairing import CaseKey
from evalgate.gate.threshold import Scale
from evalgate.model import (
    Change,
    Comparison,
    CriterionComparison,
    GateKind,
    GateVerdict,
    Policy,
    Run,
    Verdict,
    VerdictKind,
)


def decide(
    run: Run,
    policy: Policy,
    *,
    scales: Mapping[str, Scale],
    comparison: Comparison | None,
    unreliable: frozenset[CaseKey] = frozenset(),
) -> Verdict:
    """Both gates together: the most severe of the two, and a sentence that begins with what blocks.

    Without a comparison only the threshold gate is asked; with one that has no base, the regression gate is not
    measured, unless there is nothing yet that could have become worse. `unreliable`: cases that are shown and never
    decide (`admission`).
    """
    allowed = allowances.find(run, policy, comparison=comparison, unreliable=unreliable)
    threshold = verdicts.decide(run, policy, scales=scales, allowed=allowed)
    regression = None if comparison is None else regression_gate(run, comparison, policy)
    gates = (*threshold.gates, *(() if regression is None else (regression,)))
    return Verdict(
        kind=next(kind for kind in verdicts.SEVERITY if any(gate.kind is kind for gate in gates)),
        reason=_reason(gates),
        blocked_by=verdicts.worst_of([gate.blocked_by for gate in gates if gate.blocked_by is not None]),
        suites=threshold.suites,
        gates=gates,
    )


def _reason(gates: Sequence[GateVerdict]) -> str:
    """What blocks comes first, then what is worse; a gate that passes is told of only where all do."""
    ordered = sorted(gates, key=lambda gate: (not gate.blocks, verdicts.SEVERITY.index(gate.blocked_by or gate.kind)))
    wrong = [gate for gate in ordered if gate.kind is not VerdictKind.PASS]
    return " ".join(gate.reason for gate in wrong or ordered)


def regression_gate(run: Run, comparison: Comparison, policy: Policy) -> GateVerdict | None:
    """Whether head is worse than base; None where the policy lets no criterion decide that."""
    if comparison.base is None:
        why = (comparison.problem or "there are no base results").rstrip(".")
        if comparison.no_agent:
            # the change that brings the first agent is neither stopped for it nor called unmeasured: nothing is broken
            return _gate({VerdictKind.PASS: f"Nothing to compare with yet: {why}."}, policy)
        return _gate({VerdictKind.NOT_MEASURED: f"Not compared with the base: {why}."}, policy)
    rows = [row for row in comparison.criteria if row.gating]
    if not rows:
        return _without_rows(comparison, policy)
    return _gate(_judge_rows(rows, truncated=run.truncated or comparison.base.truncated), policy)


def _judge_rows(rows: Sequence[CriterionComparison], *, truncated: str) -> Mapping[VerdictKind, str]:
    """Every kind that is there, with its sentence, most severe first: a fall is a fall, whatever else is unknown; what
    a budget cut short is inconclusive at best."""
    by_change = {change: [row for row in rows if row.change is change] for change in Change}
    found: dict[VerdictKind, str] = {}
    if regressed := by_change[Change.REGRESSED]:
        found[VerdictKind.FAIL] = explaining.regressed(regressed)
    if unknown := [*by_change[Change.NOT_MEASURED], *(row for row in by_change[Change.REGRESSED] if row.short)]:
        found[VerdictKind.NOT_MEASURED] = explaining.not_measured(unknown)
    if truncated:
        found[VerdictKind.INCONCLUSIVE] = explaining.cut_short(truncated)
    elif undecided := by_change[Change.INCONCLUSIVE]:
        found[VerdictKind.INCONCLUSIVE] = explaining.inconclusive(undecided)
    return found or {VerdictKind.PASS: explaining.passed(rows)}


def _without_rows(comparison: Comparison, policy: Policy) -> GateVerdict | None:
    deciding = [case for case in comparison.cases if case.suite not in policy.advisory]
    if not deciding or comparison.criteria:
        return None
    return _gate({VerdictKind.NOT_MEASURED: explaining.nothing_paired(deciding)}, policy)


def _gate(found: Mapping[VerdictKind, str], policy: Policy) -> GateVerdict:
    """The most severe kind decides what it is called, every kind whether it blocks; the one that does is told first."""
    kind = next(iter(found))
    blocked_by = verdicts.worst_of(verdicts.blocking(GateKind.REGRESSION, policy).intersection(found))
    told = dict.fromkeys((blocked_by or kind, kind))
    reason = " ".join(found[each] for each in told)
    return GateVerdict(gate=GateKind.REGRESSION, kind=kind, reason=reason, blocked_by=blocked_by)
