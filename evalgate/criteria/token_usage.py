"""token_usage_v1: tokens a turn and their kinds, for information."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from evalgate import turns
from evalgate.model import CriterionUse, Evidence, Grade, Invocation, NotEvaluated, Reason, Score
from evalgate.plugins import Criterion, CriterionServices, CriterionSpec
from evalgate.wire.shapes import Wire


class Options(Wire):
    """It has no options."""


_Tokens: TypeAlias = Mapping[str, int]
"""Tokens of one turn by kind, in ADK's words; kinds that no model call reported are left out."""


_KINDS: Final[tuple[str, ...]] = (
    "total_tokens",
    "input_tokens",
    "prompt_tokens",
    "cached_tokens",
    "tool_use_tokens",
    "output_tokens",
    "candidates_tokens",
    "reasoning_tokens",
)


def build(_options: Options, _use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion."""
    return functools.partial(grade, adk_compat=services.adk_compat)


def grade(evidence: Evidence, *, adk_compat: bool) -> Grade:
    """Input and output tokens a turn, mean over the turns that reported any usage.

    Within those a kind that is not reported counts 0: models leave out what they did not spend. A turn without any
    usage is unknown and left out; under `adk_compat` it counts 0. Source: google-adk _efficiency_evaluators.
    """
    spent = [_spent(turn) for turn in evidence.actual]
    totals = tuple(float(each["total_tokens"]) if "total_tokens" in each else None for each in spent)
    counted = spent if adk_compat else [each for each in spent if each]
    reported: set[str] = set().union(*counted)
    breakdown = {kind: turns.mean([each.get(kind, 0) for each in counted]) for kind in _KINDS if kind in reported}
    total = breakdown.get("total_tokens")
    if total is None:
        return NotEvaluated(reason=Reason.NOTHING_RECORDED, message="no model call reported token usage", turns=totals)
    return Score(value=total, turns=totals, breakdown=breakdown)


def _spent(turn: Invocation) -> _Tokens:
    reported = [event.usage for event in turn.events or () if event.usage is not None]
    if not reported:
        return {}
    prompt = _sum([usage.prompt_tokens for usage in reported])
    tool_use = _sum([usage.tool_use_prompt_tokens for usage in reported])
    candidates = _sum([usage.candidates_tokens for usage in reported])
    reasoning = _sum([usage.thoughts_tokens for usage in reported])
    given = _sum([prompt, tool_use])
    said = _sum([candidates, reasoning])
    counts = (
        _sum([given, said]),
        given,
        prompt,
        _sum([usage.cached_tokens for usage in reported]),
        tool_use,
        said,
        candidates,
        reasoning,
    )
    return {kind: count for kind, count in zip(_KINDS, counts, strict=True) if count is not None}


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


SPEC = CriterionSpec(
    name="token_usage_v1",
    summary="tokens per turn, input and output",
    options=Options,
    build=build,
    highest=None,
    informational=True,
    lower_is_better=True,
)
