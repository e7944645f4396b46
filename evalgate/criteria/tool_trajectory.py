"""tool_trajectory_avg_score: the share of turns with the expected tool calls."""

from __future__ import annotations

import enum
import itertools
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from pydantic import Field, ValidationInfo, field_validator

from evalgate.model import (
    CriterionUse,
    Finding,
    Grade,
    Invocation,
    Need,
    NotEvaluated,
    Reason,
    Score,
    ToolCall,
    TrialView,
    json_match,
    not_evaluated,
    turns,
)
from evalgate.model.deviations import Deviations
from evalgate.model.shapes import Wire
from evalgate.text import plain
from evalgate.values import Sentence, Wording, matches_any
from evalgate.worker.pipe import QUESTIONS
from .base import Criterion, CriterionServices, CriterionSpec


class MatchType(enum.StrEnum):
    """ADK's three ways to compare the calls of a turn."""

    EXACT = "EXACT"  # the same calls in the same order, no others
    IN_ORDER = "IN_ORDER"  # the expected calls in their order, with other calls between them
    ANY_ORDER = "ANY_ORDER"  # the expected calls in any order, with other calls between them


class ArgsMatch(enum.StrEnum):
    """How the arguments of a call are compared."""

    EXACT = "exact"
    SUBSET = "subset"  # arguments that the expected call omits may have any value, at every depth


class Options(Wire):
    """The object form without its threshold. The options from `args_match` on are evalgate's own:
    ADK ignores them."""

    match_type: MatchType = MatchType.EXACT
    ignore_args: bool = False
    args_match: ArgsMatch = ArgsMatch.EXACT
    matchers: dict[str, dict[str, json_match.Matcher]] = Field(default_factory=dict)
    forbidden_tools: list[str] = Field(default_factory=list)
    allow_extra_tools: list[str] = Field(default_factory=list)

    @field_validator("match_type", mode="before")
    @classmethod
    def _adk_spellings(cls, value: Any) -> Any:
        """ADK's spellings: any case, `-` or a space for `_`, and the numbers 0, 1, 2."""
        if isinstance(value, str):
            return value.strip().upper().replace("-", "_").replace(" ", "_")
        if isinstance(value, int | float) and value in (0, 1, 2):
            return tuple(MatchType)[int(value)]
        return value

    @field_validator("args_match", "matchers")
    @classmethod
    def _check_args(cls, value: Any, info: ValidationInfo) -> Any:
        if value and value is not ArgsMatch.EXACT and info.data.get("ignore_args"):
            raise ValueError("no effect while ignore_args is true")
        return value

    @field_validator("allow_extra_tools")
    @classmethod
    def _check_extras(cls, value: list[str], info: ValidationInfo) -> list[str]:
        match_type = info.data.get("match_type", MatchType.EXACT)
        if value and match_type is not MatchType.EXACT:
            raise ValueError(f"no effect with match_type {match_type}, which allows any extra call")
        return value


SameCall: TypeAlias = Callable[[ToolCall, ToolCall], bool]


def build(options: Options, _use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion with its options."""
    deviations = services.deviations
    is_subset = options.args_match is ArgsMatch.SUBSET
    shared_matchers = options.matchers.get("*", {})
    by_tool = {tool: shared_matchers | matchers for tool, matchers in options.matchers.items()}

    def same_call(actual: ToolCall, expected: ToolCall) -> bool:
        if actual.name != expected.name:
            return False
        if options.ignore_args:
            return True
        if options.matchers or is_subset:
            return not json_match.entries_differing(
                actual.arguments,
                expected.arguments,
                matchers=by_tool.get(actual.name, shared_matchers),
                subset=is_subset,
            )
        if deviations.null_args:
            return actual.arguments == expected.arguments
        return actual.args == expected.args

    return partial(grade, options=options, same_call=same_call, deviations=deviations)


def grade(
    view: TrialView, *, options: Options, same_call: SameCall, deviations: Deviations
) -> Grade:
    """The mean over turns: 1.0 for each turn whose calls match, else 0.0. Source: google-adk
    trajectory_evaluator.

    If a turn has no recorded steps, the turn and the score are unknown; in ADK the turn has no
    calls."""
    pairs = turns.pair(view)
    if isinstance(pairs, NotEvaluated):
        return pairs
    scores: list[float | None] = []
    findings = []
    for number, (actual, expected) in enumerate(pairs, start=1):
        if actual.events is None and deviations.steps_unrecorded:
            scores.append(None)
            continue
        questions = QUESTIONS if deviations.framework_calls else frozenset()
        problem = _difference(actual, expected, options, same_call, ignored=questions)
        scores.append(0.0 if problem else 1.0)
        if problem:
            findings.append(Finding(text=problem, turn=number))
    known_scores = [score for score in scores if score is not None]
    if len(known_scores) < len(scores):
        turn = scores.index(None) + 1
        return not_evaluated(Reason.NOTHING_RECORDED, "calls_unrecorded", turn, turns=tuple(scores))
    return Score(value=turns.mean(known_scores), turns=tuple(scores), findings=tuple(findings))


def _difference(
    actual: Invocation,
    expected: Invocation,
    options: Options,
    same_call: SameCall,
    *,
    ignored: frozenset[str],
) -> Wording:
    """The first difference from the expected calls, in words; "" if the calls match. `ignored`:
    names of calls that are not compared."""
    actual_calls, expected_calls = (
        tuple(call for call in turn.tool_calls if call.name not in ignored)
        for turn in (actual, expected)
    )
    for call in actual.tool_calls if options.forbidden_tools else ():
        if matches_any(call.name, options.forbidden_tools):
            return Sentence("call_forbidden", _call_text(call))
    match options.match_type:
        case MatchType.EXACT:
            if options.allow_extra_tools:
                actual_calls = _without_extras(actual_calls, expected_calls, options, same_call)
            return _exact(actual_calls, expected_calls, same_call)
        case MatchType.IN_ORDER:
            remaining_calls = iter(actual_calls)
            for number, expected_call in enumerate(expected_calls, start=1):
                if not any(same_call(call, expected_call) for call in remaining_calls):
                    return Sentence("call_not_made", number, _call_text(expected_call), number - 1)
            return ""
        case MatchType.ANY_ORDER:
            choices = [
                [place for place, call in enumerate(actual_calls) if same_call(call, expected_call)]
                for expected_call in expected_calls
            ]
            place = json_match.first_without_partner(choices)
            if place is None:
                return ""
            return Sentence("call_not_made", place + 1, _call_text(expected_calls[place]), 0)


def _exact(
    actual: Sequence[ToolCall], expected: Sequence[ToolCall], same_call: SameCall
) -> Wording:
    for number, (actual_call, expected_call) in enumerate(
        itertools.zip_longest(actual, expected), start=1
    ):
        if (
            actual_call is None
            or expected_call is None
            or not same_call(actual_call, expected_call)
        ):
            return Sentence("call_differs", number, *map(_call_text, (expected_call, actual_call)))
    return ""


def _without_extras(
    actual: Sequence[ToolCall], expected: Sequence[ToolCall], options: Options, same_call: SameCall
) -> tuple[ToolCall, ...]:
    """The actual calls without the extra calls that are allowed: those that are not the next
    expected call."""
    calls: list[ToolCall] = []
    for call in actual:
        is_extra = matches_any(call.name, options.allow_extra_tools)
        if not is_extra or (len(calls) < len(expected) and same_call(call, expected[len(calls)])):
            calls.append(call)
    return tuple(calls)


def _call_text(call: ToolCall | None) -> str:
    if call is None:
        return ""
    args = ", ".join(
        f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in call.arguments.items()
    )
    return plain.clip_end(f"{call.name}({args})", 120)


SPEC = CriterionSpec(
    name="tool_trajectory_avg_score",
    summary="share of turns with the expected tool calls",
    options=Options,
    build=build,
    needs=frozenset({Need.REFERENCE}),
)
