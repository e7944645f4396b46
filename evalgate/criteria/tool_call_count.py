"""tool_call_count_v1: tool calls per turn, for information."""

from __future__ import annotations

import functools

from evalgate import turns
from evalgate.model import CriterionUse, Evidence, Grade
from evalgate.plugins import Criterion, CriterionServices, CriterionSpec
from evalgate.wire.shapes import Wire


class Options(Wire):
    """It has no options."""


def build(_options: Options, _use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion."""
    return functools.partial(grade, adk_compat=services.adk_compat)


def grade(evidence: Evidence, *, adk_compat: bool) -> Grade:
    """The calls of all agents, mean over turns. A turn without recorded steps is unknown (`adk_compat`: 0)."""
    counts = (
        None if turn.events is None and not adk_compat else float(len(turn.tool_calls)) for turn in evidence.actual
    )
    return turns.inform(counts, nothing="no steps were recorded")


SPEC = CriterionSpec(
    name="tool_call_count_v1",
    summary="tool calls per turn",
    options=Options,
    build=build,
    highest=None,
    informational=True,
    lower_is_better=True,
)
