"""How an unanswered call reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from evalgate.agents import toolbox


@pytest.mark.parametrize(
    ("actual", "recorded", "words"),
    [
        ({"city": "Paris", "unit": "F"}, {"city": "Paris", "unit": "C"}, "argument `unit` differs"),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}, "arguments `a` and `b` differ"),
        ({"a": 1, "b": 2}, {"a": 1}, "argument `b` is new"),
        ({}, {"a": 1, "b": 2}, "arguments `a` and `b` are missing"),
        (
            {"a": 1, "c": 1},
            {"a": 2, "b": 1},
            "argument `a` differs; argument `c` is new; argument `b` is missing",
        ),
        # within an object the place is named
        (
            {"filter": {"date": "today", "n": 1}},
            {"filter": {"date": "tomorrow", "n": 1.0}},
            "argument `filter.date` differs",
        ),
        ({"a": {"b": 1}}, {"a": [1]}, "argument `a` differs"),
    ],
)
def test_which_argument_differs(actual: Any, recorded: Any, words: str) -> None:
    assert toolbox.difference(actual, recorded) == words


def test_the_nearest_recorded_call_has_the_fewest_differences() -> None:
    recorded = [{"city": "Rome", "unit": "C"}, {"city": "Paris", "unit": "C"}, {"city": "Paris"}]
    assert toolbox.nearest_args({"city": "Paris", "unit": "F"}, recorded) == {
        "city": "Paris",
        "unit": "C",
    }
    assert toolbox.nearest_args({"city": "Paris"}, []) is None


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ([], "no tool call was recorded for this case"),
        (["get_weather"], "the nearest is `get_weather`"),
        (["book", "sell"], "no call of `get_wether` was recorded (recorded: `book` and `sell`)"),
    ],
)
def test_a_tool_that_was_never_called(known: list[str], words: str) -> None:
    assert words in toolbox.unknown_tool_message("get_wether", known)


ARGS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=4)


@settings(max_examples=40, deadline=None)
@given(ARGS, ARGS)
def test_there_is_a_difference_exactly_where_arguments_differ(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    if any("***" in value for value in other.values() if isinstance(value, str)):
        return
    assert any(toolbox.changed_args(one, other)) is (one != other)
