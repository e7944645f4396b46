"""inference_call_count_v1: model calls per turn, for information."""

from __future__ import annotations

import functools

from evalgate import turns
from evalgate.model import CriterionUse, Evidence, Grade, Invocation
from evalgate.plugins import Criterion, CriterionServices, CriterionSpec
from evalgate.wire.shapes import Wire


class Options(Wire):
    """It has no options."""


def build(_options: Options, _use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion."""
    return functools.partial(grade, adk_compat=services.adk_compat)


def grade(evidence: Evidence, *, adk_compat: bool) -> Grade:
    """The events that came from a model, mean over turns.

    An event tells so by its usage or its model version. A turn where no event tells is unknown: the framework may
    not report either. Under `adk_compat` it counts 0, provided that events were recorded at all.
    """
    counts = (_count(turn, adk_compat=adk_compat) for turn in evidence.actual)
    return turns.inform(counts, nothing="no event records a model call")


def _count(turn: Invocation, *, adk_compat: bool) -> float | None:
    if turn.events is None or not turn.itemized:
        return None
    count = sum(1 for event in turn.events if event.usage is not None or event.model_version is not None)
    return float(count) if count or adk_compat else None


SPEC = CriterionSpec(
    name="inference_call_count_v1",
    summary="model calls per turn",
    options=Options,
    build=build,
    highest=None,
    informational=True,
    lower_is_better=True,
)
