"""Tool calls, expected beside actual."""

from __future__ import annotations

import pytest
from builders.build import call
from hypothesis import given, strategies as st

from evalgate.model import ToolCall, call_diff

CALLS = st.lists(
    st.builds(
        lambda name, city: call(name, city=city),
        st.sampled_from("abc"),
        st.sampled_from(["Oslo", "Rome"]),
    ),
    max_size=8,
)


def shown(expected: list[ToolCall], actual: list[ToolCall]) -> list[str]:
    return [
        f"{line.mark} {line.text or line.equal}"
        for line in call_diff.difference(call_diff.pair(expected, actual))
    ]


FLIGHT = {"origin": "ZRH", "destination": "OSL", "cabin": "economy", "adults": 1}


@pytest.mark.parametrize(
    ("expected", "actual", "lines"),
    [
        # the same
        ([call("a", x=1)], [call("a", x=1)], ["  a(x=1)"]),
        # the order of arguments is no difference, nor is none against empty
        ([call("a", x=1, y=2)], [call("a", y=2, x=1)], ["  a(y=2, x=1)"]),
        ([ToolCall(name="a")], [call("a")], ["  a()"]),
        # missing, extra
        ([call("a"), call("b")], [call("b")], ["- a()", "  b()"]),
        ([call("b")], [call("a"), call("b")], ["+ a()", "  b()"]),
        # another tool
        ([call("a")], [call("b")], ["- a()", "+ b()"]),
        # one short argument: both calls whole
        (
            [call("book", city="Oslo")],
            [call("book", city="Rome")],
            ['- book(city="Oslo")', '+ book(city="Rome")'],
        ),
        # many arguments: only those that differ
        (
            [call("find", **FLIGHT)],
            [call("find", **{**FLIGHT, "cabin": "first"})],
            ["  find(", '-     cabin="economy",', '+     cabin="first",', "  3", "  )"],
        ),
        # an argument that is only there, or only here
        (
            [call("find", **FLIGHT, date="x")],
            [call("find", **FLIGHT, via="y")],
            ["  find(", '-     date="x",', '+     via="y",', "  4", "  )"],
        ),
        # a name that is no identifier
        ([call("a", **{"my key": None})], [], ['- a("my key"=null)']),
    ],
)
def test_differences(expected: list[ToolCall], actual: list[ToolCall], lines: list[str]) -> None:
    assert shown(expected, actual) == lines


def test_equal_calls_are_matched_before_calls_of_the_same_tool() -> None:
    pairs = call_diff.pair([call("a", x=1), call("a", x=2)], [call("a", x=2)])
    assert [(each.expected is not None, each.actual is not None) for each in pairs] == [
        (True, False),
        (True, True),
    ]
    assert pairs[1].same


@given(expected=CALLS, actual=CALLS)
def test_every_call_is_shown_once_and_in_order(
    expected: list[ToolCall], actual: list[ToolCall]
) -> None:
    pairs = call_diff.pair(expected, actual)
    assert [each.expected for each in pairs if each.expected is not None] == expected
    assert [each.actual for each in pairs if each.actual is not None] == actual
    assert all(
        each.expected.name == each.actual.name
        for each in pairs
        if each.expected is not None and each.actual is not None
    )


def test_long_values_show_where_they_differ() -> None:
    common = "x" * 5_000
    lines = shown(
        [call("a", text=common + "left", n=1, m=2)], [call("a", text=common + "right", n=1, m=2)]
    )
    assert any("left" in line for line in lines)
    assert any("right" in line for line in lines)
    assert all(len(line) < 300 for line in lines)


def test_what_is_no_json_is_said_to_be_none() -> None:
    endless: dict[str, object] = {}
    endless["self"] = endless
    assert "not JSON" in call_diff.spell(call("a", x=endless))
    assert len(call_diff.spell(call("t" * 1_000, x="y" * 10_000_000))) < 500
