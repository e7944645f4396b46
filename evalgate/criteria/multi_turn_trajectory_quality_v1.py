"""multi_turn_trajectory_quality_v1: how well the steps of the conversation led to its goal, by Google Cloud."""

from __future__ import annotations

from evalgate.judged import vertex_conversations
from evalgate.judged.vertex import VertexOptions
from evalgate.model import CriterionUse
from evalgate.plugins import Criterion, CriterionServices, CriterionSpec, Need

METRIC = "multi_turn_trajectory_quality_v1"


def build(options: VertexOptions, use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion, by the service or, where `judge: llm` says so, by the judge model."""
    return vertex_conversations.build(options, use, services, metric=METRIC)


SPEC = CriterionSpec(
    name=METRIC,
    summary="how well the steps of the conversation led to its goal",
    options=VertexOptions,
    build=build,
    needs=frozenset({Need.VERTEX}),
    verdicts=vertex_conversations.VERDICTS,
)
