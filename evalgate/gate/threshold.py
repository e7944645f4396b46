"""The threshold gate: does a case, over its repeats, reach what its criteria ask for?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from evalgate.model import (
    AgentFailure,
    CaseVerdict,
    CriterionUse,
    CriterionVerdict,
    FailureKind,
    Grade,
    GradedTrial,
    NotEvaluated,
    Reason,
    Score,
    VerdictKind,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Ends of a criterion's scale, None where open.

    `resolution`: the largest difference that measuring itself may make. `clocked`: read from a clock, so that only what
    was measured side by side can be compared.
    """

    lowest: float | None = 0.0
    highest: float | None = 1.0
    resolution: float = 0.0
    clocked: bool = False


OPEN: Final = Scale(lowest=None, highest=None)
"""Of a criterion that says nothing of its scale."""


def judge_case(
    *,
    suite: str,
    case_id: str,
    criteria: Sequence[CriterionUse],
    trials: Sequence[GradedTrial],
    repeats: int,
    scales: Mapping[str, Scale],
    adk_compat: bool,
) -> CaseVerdict:
    """The verdict on one case.

    Any criterion that fails fails the case; else any that could not be measured leaves it not measured; else it
    passes, provided that at least one criterion decides. Under `adk_compat` a case with one pass passes in spite
    of criteria without a score, and an agent failure is a failure, as in ADK.
    """
    verdicts = tuple(
        judge_criterion(
            use,
            [trial.grades.get(use.name) for trial in trials],
            repeats=repeats,
            scale=scales.get(use.name, OPEN),
        )
        for use in criteria
    )
    kind, reason = combine(verdicts, adk_compat=adk_compat)
    failures = [trial.failure for trial in trials if trial.failure is not None]
    if failures and kind is not VerdictKind.FAIL:
        reason = _of_failure(failures[0])
        if adk_compat:
            kind = VerdictKind.FAIL
    elif not trials:
        reason = "never ran"
    return CaseVerdict(
        suite=suite,
        case_id=case_id,
        kind=kind,
        criteria=verdicts,
        reason=reason,
        seconds=sum(trial.seconds for trial in trials),
        doubtful=kind is VerdictKind.NOT_MEASURED and any(map(_is_doubtful, criteria, verdicts)),
    )


def _is_doubtful(use: CriterionUse, verdict: CriterionVerdict) -> bool:
    """Not measured whole, and some of what was is below the threshold; a criterion on the test blames no agent."""
    if verdict.kind is not VerdictKind.NOT_MEASURED or use.on_the_test:
        return False
    return any(value is not None and not reaches(value, use) for value in verdict.values)


def judge_criterion(
    use: CriterionUse, grades: Sequence[Grade | None], *, repeats: int, scale: Scale
) -> CriterionVerdict:
    """One criterion over the repeats of a case: the mean of its scores against the threshold.

    With repeats missing, the criterion is not measured, unless even the best possible scores in their place would
    leave the mean below the threshold: then it has failed whatever they would have been. A criterion on the test itself
    that misses its threshold leaves the case not measured: the test was broken, and nothing is known of the agent.
    """
    values = tuple(grade.value if isinstance(grade, Score) else None for grade in grades)
    values += (None,) * (repeats - len(values))
    missing = next((grade for grade in grades if isinstance(grade, NotEvaluated)), None)
    scored = [value for value in values if value is not None]
    # rounded once: a running sum, and fmean too, can miss a threshold by float dust (0.7, 0.8, 0.9 against 0.8)
    mean = (mean_of(scored) if len(scored) > 1 else scored[0]) if scored else None
    reason, message = (missing.reason, missing.message) if missing else (None, "")
    if use.informational or use.threshold is None:
        return CriterionVerdict(
            name=use.name, kind=None, value=mean, threshold=None, values=values, reason=reason, message=message
        )
    kind = _kind(use, values=values, mean=mean, scale=scale)
    if kind is VerdictKind.NOT_MEASURED and missing is None:
        reason, message = Reason.SKIPPED, "did not run"
    if kind is VerdictKind.FAIL and use.on_the_test:
        kind, reason = VerdictKind.NOT_MEASURED, Reason.TEST_BROKEN
        message = f"{mean:.3g} is below the required {use.threshold:g}" if mean is not None else "below its threshold"
    return CriterionVerdict(
        name=use.name, kind=kind, value=mean, threshold=use.threshold, values=values, reason=reason, message=message
    )


def _of_failure(failure: AgentFailure) -> str:
    who = "simulated user" if failure.kind is FailureKind.SIMULATOR else "agent"
    return f"{who} failed: {failure.message}"


def mean_of(values: Sequence[float]) -> float:
    """The mean, rounded once: what `statistics.mean` says of scores, 25 times as fast."""
    near = math.fsum(values) / len(values)
    if not math.isfinite(near):
        return near
    # what the division lost: sums of differences are exact, and so small that adding them rounds right
    return near + math.fsum((*values, *(-near,) * len(values))) / len(values)


def _kind(use: CriterionUse, *, values: Sequence[float | None], mean: float | None, scale: Scale) -> VerdictKind:
    if mean is None or math.isnan(mean):
        return VerdictKind.NOT_MEASURED
    if None not in values:
        return VerdictKind.PASS if reaches(mean, use) else VerdictKind.FAIL
    best = scale.lowest if use.lower_is_better else scale.highest
    if best is not None and not reaches(mean_of([best if value is None else value for value in values]), use):
        return VerdictKind.FAIL
    return VerdictKind.NOT_MEASURED


def reaches(value: float, use: CriterionUse) -> bool:
    """ADK's rule: value >= threshold, no tolerance; <= where lower is better."""
    if use.threshold is None:
        return True
    return value <= use.threshold if use.lower_is_better else value >= use.threshold


def combine(verdicts: Iterable[CriterionVerdict], *, adk_compat: bool) -> tuple[VerdictKind, str]:
    """The case's kind from its criteria's, and the reason in words."""
    deciding = [verdict for verdict in verdicts if verdict.kind is not None]
    failed = [verdict.name for verdict in deciding if verdict.kind is VerdictKind.FAIL]
    unmeasured = [verdict for verdict in deciding if verdict.kind is VerdictKind.NOT_MEASURED]
    passed = [verdict for verdict in deciding if verdict.kind is VerdictKind.PASS]
    broken = next((verdict for verdict in deciding if verdict.reason is Reason.TEST_BROKEN), None)
    if broken:
        return VerdictKind.NOT_MEASURED, f"invalid test run: {broken.name} {broken.message}"
    if failed:
        return VerdictKind.FAIL, f"below threshold: {', '.join(failed)}"
    if unmeasured and not (adk_compat and passed):
        first = unmeasured[0]
        return VerdictKind.NOT_MEASURED, f"{first.name} was not measured: {first.message or 'no score'}"
    if not passed:
        return VerdictKind.NOT_MEASURED, "the case has no deciding criterion"
    return VerdictKind.PASS, ""
