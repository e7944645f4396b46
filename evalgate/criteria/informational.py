"""Informational criteria: calls, tokens and seconds per turn. They run on every case and decide
only if the policy makes them gating."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from evalgate.model import Grade, Invocation, Reason, Scale, Score, TrialView, not_evaluated, turns
from evalgate.model.deviations import Deviations
from .base import CriterionSpec, NoOptions

# --- calls ---


def grade_tool_calls(view: TrialView, deviations: Deviations) -> Grade:
    """The tool calls of all agents, mean over turns. A turn without recorded steps is unknown (in
    ADK 0)."""
    counts = (
        None if turn.events is None and deviations.steps_unrecorded else float(len(turn.tool_calls))
        for turn in view.actual
    )
    return turns.inform(counts, absence="no_steps")


def grade_model_calls(view: TrialView, deviations: Deviations) -> Grade:
    """The events of models, mean over turns.

    An event is of a model if it has usage or a model version. A turn without such an event is
    unknown, because the framework may report neither. In ADK it counts 0, if events were
    recorded."""
    counts: list[float | None] = []
    for turn in view.actual:
        events = turn.events if turn.itemized else None
        count = sum(
            event.usage is not None or event.model_version is not None for event in events or ()
        )
        counts.append(
            float(count) if count or not (deviations.model_calls_untold or events is None) else None
        )
    return turns.inform(counts, absence="no_model_calls")


# --- tokens ---

_KINDS = (
    "total_tokens",
    "input_tokens",
    "prompt_tokens",
    "cached_tokens",
    "tool_use_tokens",
    "output_tokens",
    "candidates_tokens",
    "reasoning_tokens",
)


def grade_tokens(view: TrialView, deviations: Deviations) -> Grade:
    """Input and output tokens per turn, mean over the turns that reported usage.

    In those turns a kind that is not reported counts 0, because models omit kinds without tokens. A
    turn without usage is unknown and left out; in ADK it counts 0. Source: google-adk
    _efficiency_evaluators."""
    turn_tokens = [_spent(turn) for turn in view.actual]
    totals = tuple(
        float(tokens["total_tokens"]) if "total_tokens" in tokens else None
        for tokens in turn_tokens
    )
    usages = (
        [tokens for tokens in turn_tokens if tokens] if deviations.usage_unreported else turn_tokens
    )
    reported_kinds: set[str] = set().union(*usages)
    breakdown = {
        kind: turns.mean([tokens.get(kind, 0) for tokens in usages])
        for kind in _KINDS
        if kind in reported_kinds
    }
    total = breakdown.get("total_tokens")
    if total is None:
        return not_evaluated(Reason.NOTHING_RECORDED, "no_tokens", turns=totals)
    return Score(value=total, turns=totals, breakdown=breakdown)


def _spent(turn: Invocation) -> Mapping[str, int]:
    """The tokens of a turn by kind, without the kinds that no model call reported."""
    usages = [event.usage for event in turn.steps if event.usage is not None]
    prompt = _total([usage.prompt_tokens for usage in usages])
    tool_use = _total([usage.tool_use_prompt_tokens for usage in usages])
    candidates = _total([usage.candidates_tokens for usage in usages])
    reasoning = _total([usage.thoughts_tokens for usage in usages])
    input_tokens = _total([prompt, tool_use])
    output_tokens = _total([candidates, reasoning])
    counts = (
        _total([input_tokens, output_tokens]),
        input_tokens,
        prompt,
        _total([usage.cached_tokens for usage in usages]),
        tool_use,
        output_tokens,
        candidates,
        reasoning,
    )
    return {kind: count for kind, count in zip(_KINDS, counts, strict=True) if count is not None}


def _total(counts: Sequence[int | None]) -> int | None:
    known_counts = [count for count in counts if count is not None]
    return sum(known_counts) if known_counts else None


# --- seconds ---

RESOLUTION_S = 0.1
"""Two processes of one agent on one machine always differ by some hundredths of a second per
turn."""

_PHASES = ("total_seconds", "model_seconds", "tool_seconds", "framework_seconds")


def grade_seconds(view: TrialView, deviations: Deviations) -> Grade:  # noqa: ARG001 - the shape of a rule
    """Seconds of wall time per turn, mean over the turns that were timed, to the millisecond.

    The breakdown divides them into model, tools and the remaining time (the framework), each over
    the turns that report it. Source: google-adk _efficiency_evaluators."""
    turn_seconds = [_seconds(turn) for turn in view.actual]
    totals = tuple(timing.get("total_seconds") for timing in turn_seconds)
    breakdown = {}
    for phase in _PHASES:
        durations = [timing[phase] for timing in turn_seconds if phase in timing]
        if durations:
            breakdown[phase] = round(sum(durations) / len(durations), 3)
    if not breakdown:
        return not_evaluated(Reason.NOTHING_RECORDED, "no_durations", turns=totals)
    return Score(value=breakdown["total_seconds"], turns=totals, breakdown=breakdown)


def _seconds(turn: Invocation) -> Mapping[str, float]:
    timings = turn.timings
    if timings is None:
        return {}
    phases = {
        "total_seconds": timings.total_s,
        "model_seconds": timings.model_s,
        "tool_seconds": timings.tool_s,
    }
    if timings.model_s is not None and timings.tool_s is not None:
        # the clocks stop at slightly different moments: the remainder may be slightly below zero
        phases["framework_seconds"] = round(
            max(timings.total_s - timings.model_s - timings.tool_s, 0.0), 3
        )
    return {phase: seconds for phase, seconds in phases.items() if seconds is not None}


UNBOUNDED = Scale(highest=None)
SECONDS = Scale(highest=None, resolution=RESOLUTION_S, clocked=True)


def _spec(
    name: str, summary: str, rule: Callable[..., Grade], scale: Scale = UNBOUNDED
) -> CriterionSpec:
    return CriterionSpec(
        name=name,
        summary=summary,
        options=NoOptions,
        build=lambda _options, _use, services: partial(rule, deviations=services.deviations),
        informational=True,
        lower_is_better=True,
        scale=scale,
    )


SPECS = (
    _spec("tool_call_count_v1", "tool calls per turn", grade_tool_calls),
    _spec("inference_call_count_v1", "model calls per turn", grade_model_calls),
    _spec("token_usage_v1", "tokens per turn, input and output", grade_tokens),
    _spec("invocation_duration_v1", "seconds per turn", grade_seconds, SECONDS),
)
