"""The criteria: one file for each, or one file for criteria that work alike; all are in the table
below."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evalgate.extensions import Table
from evalgate.model import CriterionUse, Need
from . import (
    custom_metric,
    final_response_match_v2,
    final_session_state,
    hallucinations_v1,
    informational,
    refused,
    response_match,
    rubric_based,
    tool_trajectory,
    user_simulation,
)
from .base import Criterion, CriterionServices, CriterionSpec

CRITERIA: Table[CriterionSpec] = Table(
    "evalgate.criteria",
    CriterionSpec,
    (
        tool_trajectory.SPEC,
        response_match.SPEC,
        final_session_state.SPEC,
        refused.SPEC,
        final_response_match_v2.SPEC,
        *rubric_based.SPECS,
        hallucinations_v1.SPEC,
        *user_simulation.SPECS,
        *informational.SPECS,
    ),
)
"""The criteria that a config may name, by name."""

CUSTOM: CriterionSpec = custom_metric.SPEC
"""The row of a user's custom criterion, whose code is in the repository. As in ADK, it may replace
a built-in criterion of the same name."""


def pick(name: str, code: str | None = None) -> CriterionSpec | None:
    """The row of a criterion as configured; None if the name is unknown, which the linter
    reports."""
    return CUSTOM if code is not None else CRITERIA.get(name)


def build(use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion of a checked use. Raises KeyError for an unknown name, pydantic.ValidationError
    for bad options."""
    spec = CUSTOM if use.code is not None else CRITERIA[use.metric or use.name]
    return spec.build(spec.options.model_validate(dict(use.options)), use, services)


def with_facts(use: CriterionUse, spec: CriterionSpec | None = None, **fields: Any) -> CriterionUse:
    """The use with the facts of its row, and with other `fields`; unchanged if no row has its
    name. `spec`: the row, if it is known."""
    spec = spec or pick(use.name, use.code)
    if spec is None:
        return use
    version = "" if spec.verdicts is None else spec.verdicts.prompt_version
    scale = spec.scale if use.code is None else use.scale  # a custom metric's own
    return replace(use, scale=scale, needs=spec.needs, prompt_version=version, **fields)


def use_by_model(name: str) -> CriterionUse:
    """A judged criterion outside any suite, asked by a judge model even if ADK asks a service."""
    by_model = {"judge": "llm"} if Need.VERTEX in CRITERIA[name].needs else {}
    return with_facts(CriterionUse(name=name, threshold=None, options=by_model))
