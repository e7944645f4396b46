"""tool_trajectory_avg_score: the share of turns with the expected tool calls."""

from __future__ import annotations

import enum
import itertools
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from pydantic import Field, ValidationInfo, field_validator

from evalgate.criteria.base import Criterion, CriterionServices, CriterionSpec
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
    turns,
)
from evalgate.model.deviations import Deviations
from evalgate.model.shapes import Wire
from evalgate.worker.approval import QUESTIONS


class MatchType(enum.StrEnum):
    """ADK's three ways to compare the calls of a turn."""

    EXACT = "EXACT"  # the same calls in the same order, no others
    IN_ORDER = "IN_ORDER"  # the expected calls in their order, others may stand between
    ANY_ORDER = "ANY_ORDER"  # the expected calls in any order, others may stand between


class ArgsMatch(enum.StrEnum):
    """How the arguments of a call are compared."""

    EXACT = "exact"
    SUBSET = "subset"  # arguments that the expected call does not name are free, at every depth


class Options(Wire):
    """The object form without its threshold. From `args_match` on the options are ours: ADK ignores
    them."""

    match_type: MatchType = MatchType.EXACT
    ignore_args: bool = False
    args_match: ArgsMatch = ArgsMatch.EXACT
    matchers: dict[str, dict[str, json_match.Matcher]] = Field(default_factory=dict)
    forbidden_tools: list[str] = Field(default_factory=list)
    allow_extra_tools: list[str] = Field(default_factory=list)

    @field_validator("match_type", mode="before")
    @classmethod
    def _adk_spellings(cls, value: Any) -> Any:
        """As ADK takes them: any case, `-` or a space for `_`, and the numbers 0, 1, 2."""
        if isinstance(value, str):
            return value.strip().upper().replace("-", "_").replace(" ", "_")
        if isinstance(value, int | float) and value in (0, 1, 2):
            return tuple(MatchType)[int(value)]
        return value

    @field_validator("args_match", "matchers")
    @classmethod
    def _args_are_compared(cls, value: Any, info: ValidationInfo) -> Any:
        if value and value is not ArgsMatch.EXACT and info.data.get("ignore_args"):
            raise ValueError("no effect while ignore_args is true")
        return value

    @field_validator("allow_extra_tools")
    @classmethod
    def _extras_need_leave(cls, value: list[str], info: ValidationInfo) -> list[str]:
        match_type = info.data.get("match_type", MatchType.EXACT)
        if value and match_type is not MatchType.EXACT:
            raise ValueError(f"no effect with match_type {match_type}, which allows any extra call")
        return value


Same: TypeAlias = Callable[[ToolCall, ToolCall], bool]


def build(options: Options, _use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion with its options."""
    same = _same_call(options, services.deviations)
    return partial(grade, options=options, same=same, deviations=services.deviations)


def grade(evidence: TrialView, *, options: Options, same: Same, deviations: Deviations) -> Grade:
    """1.0 for each turn whose calls match, else 0.0; the score is their mean. Source: google-adk
    trajectory_evaluator.

    A turn without recorded steps is unknown, and so is the score then; in ADK it has no calls."""
    pairs = turns.pair(evidence)
    if isinstance(pairs, NotEvaluated):
        return pairs
    values: list[float | None] = []
    findings = []
    for number, (actual, expected) in enumerate(pairs, start=1):
        if actual.events is None and deviations.steps_unrecorded:
            values.append(None)
            continue
        questions = QUESTIONS if deviations.framework_calls else frozenset()
        problem = _difference(actual, expected, options, same, ignored=questions)
        values.append(0.0 if problem else 1.0)
        if problem:
            findings.append(Finding(text=problem, turn=number))
    known_scores = [value for value in values if value is not None]
    if len(known_scores) < len(values):
        message = f"no steps were recorded in turn {values.index(None) + 1}, so its tool calls are unknown"
        return NotEvaluated(reason=Reason.NOTHING_RECORDED, message=message, turns=tuple(values))
    return Score(value=turns.mean(known_scores), turns=tuple(values), findings=tuple(findings))


def _same_call(options: Options, deviations: Deviations) -> Same:
    if options.ignore_args:
        return lambda actual, expected: actual.name == expected.name
    if options.matchers or options.args_match is ArgsMatch.SUBSET:
        subset = options.args_match is ArgsMatch.SUBSET
        everywhere = options.matchers.get("*", {})
        by_tool = {tool: everywhere | matchers for tool, matchers in options.matchers.items()}
        return lambda actual, expected: (
            actual.name == expected.name
            and not json_match.entries_differing(
                actual.args or {},
                expected.args or {},
                matchers=by_tool.get(actual.name, everywhere),
                subset=subset,
            )
        )
    if deviations.null_args:
        return lambda actual, expected: (
            actual.name == expected.name and (actual.args or {}) == (expected.args or {})
        )
    return lambda actual, expected: actual.name == expected.name and actual.args == expected.args


def _difference(
    actual: Invocation,
    expected: Invocation,
    options: Options,
    same: Same,
    *,
    ignored: frozenset[str],
) -> str:
    """The first thing that is not as expected, in words; empty if the calls match. `ignored`: names
    of calls that count on neither side."""
    actual_calls, expected_calls = (
        tuple(call for call in turn.tool_calls if call.name not in ignored)
        for turn in (actual, expected)
    )
    for call in actual.tool_calls if options.forbidden_tools else ():
        if json_match.matches_any(call.name, options.forbidden_tools):
            return f"forbidden: {_call_text(call)}"
    match options.match_type:
        case MatchType.EXACT:
            counted_calls = (
                _without_extras(actual_calls, expected_calls, options, same)
                if options.allow_extra_tools
                else actual_calls
            )
            return _exact(counted_calls, expected_calls, same)
        case MatchType.IN_ORDER:
            return _in_order(actual_calls, expected_calls, same)
        case MatchType.ANY_ORDER:
            return _any_order(actual_calls, expected_calls, same)


def _exact(actual: Sequence[ToolCall], expected: Sequence[ToolCall], same: Same) -> str:
    for number, (actual_call, expected_call) in enumerate(
        itertools.zip_longest(actual, expected), start=1
    ):
        if actual_call is None:
            return f"call {number}: expected {_call_text(expected_call)}, got no call"
        if expected_call is None:
            return f"call {number}: {_call_text(actual_call)} was not expected"
        if not same(actual_call, expected_call):
            return f"call {number}: expected {_call_text(expected_call)}, got {_call_text(actual_call)}"
    return ""


def _in_order(actual: Sequence[ToolCall], expected: Sequence[ToolCall], same: Same) -> str:
    remaining_calls = iter(actual)
    for number, expected_call in enumerate(expected, start=1):
        if not any(same(actual_call, expected_call) for actual_call in remaining_calls):
            place = f" after expected call {number - 1}" if number > 1 else ""
            return f"expected call {number} was not made{place}: {_call_text(expected_call)}"
    return ""


def _any_order(actual: Sequence[ToolCall], expected: Sequence[ToolCall], same: Same) -> str:
    choices = [
        [place for place, actual_call in enumerate(actual) if same(actual_call, expected_call)]
        for expected_call in expected
    ]
    lonely = json_match.first_without_partner(choices)
    return (
        ""
        if lonely is None
        else f"expected call {lonely + 1} was not made: {_call_text(expected[lonely])}"
    )


def _without_extras(
    actual: Sequence[ToolCall], expected: Sequence[ToolCall], options: Options, same: Same
) -> Sequence[ToolCall]:
    """The actual calls without the extra ones that are allowed: `expected` itself if that explains
    all.

    `reach` holds how many expected calls can be behind us; a call that may be extra is also tried
    as an expected one."""
    reach = {0}
    for actual_call in actual:
        extra = json_match.matches_any(actual_call.name, options.allow_extra_tools)
        stepped = {
            done + 1 for done in reach if done < len(expected) and same(actual_call, expected[done])
        }
        reach = stepped | reach if extra else stepped
    if len(expected) in reach:
        return expected
    return [
        call for call in actual if not json_match.matches_any(call.name, options.allow_extra_tools)
    ]


def _call_text(call: ToolCall) -> str:
    args = ", ".join(
        f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in (call.args or {}).items()
    )
    text = f"{call.name}({args})"
    return text if len(text) <= 120 else f"{text[:117]}..."


SPEC = CriterionSpec(
    name="tool_trajectory_avg_score",
    summary="share of turns with the expected tool calls",
    options=Options,
    build=build,
    needs=frozenset({Need.REFERENCE}),
)
