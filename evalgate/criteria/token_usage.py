"""token_usage_v1: tokens a turn and their kinds, for information."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields

from evalgate import turns
from evalgate.model import CriterionUse, Evidence, Grade, Invocation, NotEvaluated, Reason, Score
from evalgate.plugins import Criterion, CriterionServices, CriterionSpec
from evalgate.wire.shapes import Wire


class Options(Wire):
    """It has no options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tokens:
    """Tokens of one turn by kind, in ADK's words; None where no model call reported the kind."""

    total_tokens: int | None
    input_tokens: int | None
    prompt_tokens: int | None
    cached_tokens: int | None
    tool_use_tokens: int | None
    output_tokens: int | None
    candidates_tokens: int | None
    reasoning_tokens: int | None


_KINDS = tuple(field.name for field in fields(_Tokens))


def build(_options: Options, _use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion."""
    return functools.partial(grade, adk_compat=services.adk_compat)


def grade(evidence: Evidence, *, adk_compat: bool) -> Grade:
    """Input and output tokens a turn, mean over the turns that reported any usage.

    Within those a kind that is not reported counts 0: models leave out what they did not spend. A turn without any
    usage is unknown and left out; under `adk_compat` it counts 0. Source: google-adk _efficiency_evaluators.
    """
    spent = [_spent(turn) for turn in evidence.actual]
    totals = tuple(None if each.total_tokens is None else float(each.total_tokens) for each in spent)
    counted = spent if adk_compat else [each for each in spent if _any_reported(each)]
    means = {kind: _mean([getattr(each, kind) for each in counted]) for kind in _KINDS}
    breakdown = {kind: value for kind, value in means.items() if value is not None}
    total = breakdown.get("total_tokens")
    if total is None:
        return NotEvaluated(reason=Reason.NOTHING_RECORDED, message="no model call reported its tokens", turns=totals)
    return Score(value=total, turns=totals, breakdown=breakdown)


def _spent(turn: Invocation) -> _Tokens:
    reported = [event.usage for event in turn.events or () if event.usage is not None]
    prompt = _sum([usage.prompt_tokens for usage in reported])
    tool_use = _sum([usage.tool_use_prompt_tokens for usage in reported])
    candidates = _sum([usage.candidates_tokens for usage in reported])
    reasoning = _sum([usage.thoughts_tokens for usage in reported])
    given = _sum([prompt, tool_use])
    said = _sum([candidates, reasoning])
    return _Tokens(
        total_tokens=_sum([given, said]),
        input_tokens=given,
        prompt_tokens=prompt,
        cached_tokens=_sum([usage.cached_tokens for usage in reported]),
        tool_use_tokens=tool_use,
        output_tokens=said,
        candidates_tokens=candidates,
        reasoning_tokens=reasoning,
    )


def _any_reported(tokens: _Tokens) -> bool:
    return any(getattr(tokens, kind) is not None for kind in _KINDS)


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _mean(counts: Sequence[int | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return turns.mean([*known, *[0] * (len(counts) - len(known))]) if known else None


SPEC = CriterionSpec(
    name="token_usage_v1",
    summary="tokens a turn, input and output",
    options=Options,
    build=build,
    highest=None,
    informational=True,
    lower_is_better=True,
)
