"""What the base did in a case that the change broke."""

from __future__ import annotations

import pytest
from builders import comparing
from builders.compared_scenarios import COMPARED

from evalgate.exhibits import base_side, calls, cases
from evalgate.model import Report, ToolCall
from evalgate.reports import comment


def shown(report: Report, number: int = 0) -> tuple[base_side.BaseTurn, ...]:
    return base_side.turns(cases.collect(report)[number], report)


def test_the_bases_calls_and_answer_are_those_of_a_broken_case() -> None:
    (turn,) = shown(comparing.report("fail", "pass"))
    assert [call.args for call in turn.calls] == [{"city": "Oslo"}]
    assert turn.answer == "Booked."


@pytest.mark.parametrize(
    ("head", "base"),
    [
        ("pass", "pass"),  # nothing broke
        ("fail", "fail"),  # the base did no better
        ("pass", "fail"),
        ("fail", "error"),  # nothing is known of it
    ],
)
def test_there_is_nothing_to_show_where_the_base_was_no_better(head: str, base: str) -> None:
    assert shown(comparing.report(head, base)) == ()


def test_another_run_stands_in_where_the_base_has_fewer() -> None:
    report = comparing.report("pass/fail/fail", "pass/never/never", deterministic=True)
    (exhibit,) = cases.collect(report)
    assert exhibit.shown is not None
    assert exhibit.shown.key.repeat == 1
    assert shown(comparing.report("fail*2", "pass*2")) != ()


def test_an_expected_base_is_told_in_a_sentence_and_another_one_shown() -> None:
    text = comment.render(COMPARED["base_regressed"]())
    assert "The base made the expected calls and gave the expected answer." in text
    assert "What the base did here" not in text
    hostile = comment.render(COMPARED["base_hostile"]())
    assert "What the base did here" in hostile


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (ToolCall(name="a", args={"x": 1}, id="1"), ToolCall(name="a", args={"x": 1}, id="2"), True),  # ids are chance
        (ToolCall(name="a"), ToolCall(name="a", args={}), True),
        (ToolCall(name="a", args={"x": 1}), ToolCall(name="a", args={"x": 2}), False),
        (ToolCall(name="a"), ToolCall(name="b"), False),
    ],
)
def test_calls_are_the_same_by_name_and_arguments(left: ToolCall, right: ToolCall, same: bool) -> None:
    assert calls.same((left,), (right,)) is same
    assert calls.same((left,), ()) is False
    assert calls.same(None, ())
