"""The criteria: one file each, all in the table below."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from evalgate.criteria import (
    conversation_ended,
    custom_metric,
    final_response_match_v2,
    final_session_state,
    hallucinations_v1,
    inference_call_count,
    invocation_duration,
    multi_turn_task_success_v1,
    multi_turn_tool_use_quality_v1,
    multi_turn_trajectory_quality_v1,
    per_turn_user_simulator_quality_v1,
    response_evaluation_score,
    response_match,
    rubric_based_final_response_quality_v1,
    rubric_based_multi_turn_trajectory_quality_v1,
    rubric_based_tool_use_quality_v1,
    safety_v1,
    token_usage,
    tool_call_count,
    tool_trajectory,
)
from evalgate.model import CriterionUse
from evalgate.plugins import Criterion, CriterionServices, CriterionSpec

CRITERIA: Final[Mapping[str, CriterionSpec]] = MappingProxyType(
    {
        spec.name: spec
        for spec in (
            tool_trajectory.SPEC,
            response_match.SPEC,
            final_session_state.SPEC,
            final_response_match_v2.SPEC,
            rubric_based_final_response_quality_v1.SPEC,
            rubric_based_tool_use_quality_v1.SPEC,
            rubric_based_multi_turn_trajectory_quality_v1.SPEC,
            hallucinations_v1.SPEC,
            safety_v1.SPEC,
            response_evaluation_score.SPEC,
            multi_turn_task_success_v1.SPEC,
            multi_turn_trajectory_quality_v1.SPEC,
            multi_turn_tool_use_quality_v1.SPEC,
            per_turn_user_simulator_quality_v1.SPEC,
            conversation_ended.SPEC,
            tool_call_count.SPEC,
            inference_call_count.SPEC,
            token_usage.SPEC,
            invocation_duration.SPEC,
        )
    }
)
"""What a config may name, by that name."""

CUSTOM: Final[CriterionSpec] = custom_metric.SPEC
"""What a name of the user's own becomes that has code behind it; it may take a built-in name over, as in ADK."""


def pick(name: str, code: str | None = None) -> CriterionSpec | None:
    """The row for a criterion as configured; None where the name is unknown, which the linter reports."""
    return CUSTOM if code is not None else CRITERIA.get(name)


def build(use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion of a checked use. Raises KeyError on an unknown name, pydantic.ValidationError on bad options."""
    spec = CUSTOM if use.code is not None else CRITERIA[use.name]
    return spec.build(spec.options.model_validate(dict(use.options)), use, services)
