"""invocation_duration_v1: seconds a turn and where they went, for information."""

from __future__ import annotations

from collections.abc import Mapping

from evalgate.model import CriterionUse, Evidence, Grade, Invocation, NotEvaluated, Reason, Score
from evalgate.plugins import Criterion, CriterionServices, CriterionSpec
from evalgate.wire.shapes import Wire

RESOLUTION_S = 0.1
"""Two processes of one agent, side by side on one machine, differ by some hundredths of a second a turn all along."""

_PHASES = ("total_seconds", "model_seconds", "tool_seconds", "framework_seconds")


class Options(Wire):
    """It has no options."""


def build(_options: Options, _use: CriterionUse, _services: CriterionServices) -> Criterion:
    """The criterion."""
    return grade


def grade(evidence: Evidence) -> Grade:
    """Wall seconds a turn, mean over the turns that were timed, to the millisecond.

    The breakdown splits them into model, tools and what is left (the framework), each over the turns that know it.
    Source: google-adk _efficiency_evaluators.
    """
    spent = [_phases(turn) for turn in evidence.actual]
    totals = tuple(each.get("total_seconds") for each in spent)
    breakdown = {}
    for phase in _PHASES:
        known = [each[phase] for each in spent if phase in each]
        if known:
            breakdown[phase] = round(sum(known) / len(known), 3)
    if not breakdown:
        return NotEvaluated(reason=Reason.NOTHING_RECORDED, message="no turn has a duration", turns=totals)
    return Score(value=breakdown["total_seconds"], turns=totals, breakdown=breakdown)


def _phases(turn: Invocation) -> Mapping[str, float]:
    timings = turn.timings
    if timings is None:
        return {}
    phases = {"total_seconds": timings.total_s}
    if timings.model_s is not None:
        phases["model_seconds"] = timings.model_s
    if timings.tool_s is not None:
        phases["tool_seconds"] = timings.tool_s
    if timings.model_s is not None and timings.tool_s is not None:
        # the clocks stop at slightly different moments: the rest may come out a hair below zero
        phases["framework_seconds"] = round(max(timings.total_s - timings.model_s - timings.tool_s, 0.0), 3)
    return phases


SPEC = CriterionSpec(
    name="invocation_duration_v1",
    summary="seconds per turn",
    options=Options,
    build=build,
    highest=None,
    informational=True,
    lower_is_better=True,
    resolution=RESOLUTION_S,
    clocked=True,
)
