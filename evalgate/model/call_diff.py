"""Expected and actual tool calls of a turn: their pairs, and the differences within a pair."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal, TypeAlias

from evalgate.text import diff, plain
from evalgate.values import Json
from . import ToolCall

Mark: TypeAlias = Literal[" ", "-", "+"]
"""The side that has a line: both, only the expected calls, or only the actual ones."""

LINE_WIDTH = 88
"""In characters: two different calls of at most two arguments are shown in one line each up to
here."""
VALUE_WIDTH = 160
"""Characters of an argument's value that are shown."""
NAME_WIDTH = 100
"""Characters of a tool's or an argument's name that are shown."""
MAX_CALLS = 300
"""Calls of a turn that are aligned; more would take too long."""
CONTEXT = 3
"""Equal calls that are kept before the first difference of a longer list."""


_AS_IS = json.JSONEncoder(ensure_ascii=False, default=str)
"""Writes values as they are shown."""
_IN_ORDER = json.JSONEncoder(ensure_ascii=False, default=str, sort_keys=True)
"""Writes equal values alike, so that they can be compared."""


@dataclass(frozen=True, slots=True)
class CallPair:
    """An expected call and the actual call that matches it; one of them is None without a match."""

    expected: ToolCall | None
    """None if no call was expected."""
    actual: ToolCall | None
    """None if the agent did not make this call."""

    @property
    def same(self) -> bool:
        """True if both exist and are equal; missing arguments equal empty arguments."""
        return (
            self.expected is not None
            and self.actual is not None
            and _key(self.expected) == _key(self.actual)
        )


@dataclass(frozen=True, slots=True)
class CallLine:
    """One line of a difference: `-` only expected, `+` only actual, blank in both."""

    mark: Mark
    """The side that has the line."""
    text: str = ""
    """The call, or one of its arguments; empty for the count of equal ones."""
    equal: int = 0
    """The number of equal arguments, which are not listed."""


def same(expected: Sequence[ToolCall] | None, actual: Sequence[ToolCall] | None) -> bool:
    """True if both sides call the same tools with the same arguments in the same order. Call ids
    are ignored."""
    expected_keys, actual_keys = (
        [_key(call) for call in calls or ()] for calls in (expected, actual)
    )
    return expected_keys == actual_keys


def pair(expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> tuple[CallPair, ...]:
    """The aligned calls of a turn: equal calls first, then calls of the same tool between them. In
    a very long list, equal calls at the beginning are left out."""
    start = 0
    if max(len(expected), len(actual)) > MAX_CALLS:
        pairs = enumerate(zip(expected, actual, strict=False))
        unequal = (
            index for index, (left_call, right_call) in pairs if _key(left_call) != _key(right_call)
        )
        start = max(next(unequal, min(len(expected), len(actual))) - CONTEXT, 0)
    left, right = (calls[start : start + MAX_CALLS] for calls in (expected, actual))
    return tuple(_aligned(left, right, _key, lambda call: call.name))


def difference(pairs: Sequence[CallPair]) -> tuple[CallLine, ...]:
    """The aligned calls as lines. Within a pair of one tool, only different arguments are
    marked."""
    return tuple(line for call_pair in pairs for line in _lines(call_pair))


def spell(call: ToolCall) -> str:
    """The call as text, such as `book(city="Oslo", nights=2)`; long values are clipped."""
    arguments = (
        f"{_name(name)}={plain.clip_end(_dumps(value), VALUE_WIDTH)}"
        for name, value in call.arguments.items()
    )
    return f"{_tool(call.name)}({', '.join(arguments)})"


def _aligned(
    expected: Sequence[ToolCall],
    actual: Sequence[ToolCall],
    key_of: Callable[[ToolCall], Any],
    *fallbacks: Any,
) -> list[CallPair]:
    """Pair the calls with equal keys. Align calls between them by the keys in `fallbacks`, or leave
    them unpaired."""
    matcher = SequenceMatcher(
        None, [key_of(call) for call in expected], [key_of(call) for call in actual], autojunk=False
    )
    pairs: list[CallPair] = []
    for tag, start, end, right_start, right_end in matcher.get_opcodes():
        left = expected[start:end]
        right = actual[right_start:right_end]
        if tag == "equal":
            pairs += map(CallPair, left, right)
        elif fallbacks:
            pairs += _aligned(left, right, *fallbacks)
        else:
            pairs += [CallPair(call, None) for call in left]
            pairs += [CallPair(None, call) for call in right]
    return pairs


def _lines(call_pair: CallPair) -> list[CallLine]:
    """The lines of one pair."""
    if call_pair.expected is None:
        return [CallLine("+", spell(call_pair.actual))] if call_pair.actual is not None else []
    if call_pair.actual is None:
        return [CallLine("-", spell(call_pair.expected))]
    if call_pair.same:
        return [CallLine(" ", spell(call_pair.actual))]
    expected = spell(call_pair.expected)
    actual = spell(call_pair.actual)
    left = call_pair.expected.arguments
    right = call_pair.actual.arguments
    if (
        expected != actual
        and len(left.keys() | right.keys()) <= 2
        and max(len(expected), len(actual)) <= LINE_WIDTH
    ):
        return [CallLine("-", expected), CallLine("+", actual)]
    return _argument_lines(_tool(call_pair.expected.name), left, right)


def _argument_lines(tool: str, expected: Json, actual: Json) -> list[CallLine]:
    """The call over several lines, with the arguments that differ."""
    lines = [CallLine(" ", f"{tool}(")]
    equal_count = 0
    for name in [*expected, *(name for name in actual if name not in expected)]:
        left = _dumps(expected[name]) if name in expected else None
        right = _dumps(actual[name]) if name in actual else None
        if left == right:
            equal_count += 1
            continue
        if left is None or right is None:
            left, right = (text and plain.clip(text, VALUE_WIDTH) for text in (left, right))
        else:
            left, right = (text.strip() for text in diff.excerpts(left, right, VALUE_WIDTH))
        lines += [CallLine("-", f"    {_name(name)}={left},")] if left is not None else []
        lines += [CallLine("+", f"    {_name(name)}={right},")] if right is not None else []
    if equal_count:
        lines.append(CallLine(" ", equal=equal_count))
    return [*lines, CallLine(" ", ")")]


def _tool(name: str) -> str:
    """The name of a tool, limited in length."""
    return plain.clip(name, NAME_WIDTH)


def _name(name: str) -> str:
    """An argument's name, quoted if it is no identifier."""
    short_name = plain.clip(name, NAME_WIDTH)
    return short_name if short_name.isidentifier() else json.dumps(short_name, ensure_ascii=False)


def _key(call: ToolCall) -> tuple[str, str]:
    """Equal for equal calls."""
    return call.name, _dumps(call.arguments, ordered=True)


def _dumps(value: Any, *, ordered: bool = False) -> str:
    """A value as JSON; a remark for one that is no JSON."""
    try:
        return (_IN_ORDER if ordered else _AS_IS).encode(value)
    except (RecursionError, TypeError, ValueError):
        return "(a value that is not JSON)"
