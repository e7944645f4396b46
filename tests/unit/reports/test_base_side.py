"""What the base did in a case that the change broke."""

from __future__ import annotations

import pytest
from builders import comparing
from builders.compared_scenarios import COMPARED

from evalgate.model import Invocation, Report, ToolCall, call_diff
from evalgate.reports import comment, turns, view


def shown(report: Report, number: int = 0) -> tuple[Invocation, ...]:
    known = turns.conversation_of(view.view_of(report).cases[number]).turns
    return tuple(turn.base for turn in known if turn.base is not None)


def test_the_bases_calls_and_answer_are_those_of_a_broken_case() -> None:
    (turn,) = shown(comparing.report("fail", "pass"))
    assert [call.args for call in turn.tool_calls] == [{"city": "Oslo"}]
    assert turns.answer_text(turn.final_response) == "Booked."


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
    report = comparing.report("pass/fail/fail", "pass/never/never")
    (case,) = view.view_of(report).cases
    assert case.main_trial is not None
    assert case.main_trial.key.number == 1
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
        # ids are chance
        (
            ToolCall(name="a", args={"x": 1}, id="1"),
            ToolCall(name="a", args={"x": 1}, id="2"),
            True,
        ),
        (ToolCall(name="a"), ToolCall(name="a", args={}), True),
        (ToolCall(name="a", args={"x": 1}), ToolCall(name="a", args={"x": 2}), False),
        (ToolCall(name="a"), ToolCall(name="b"), False),
    ],
)
def test_calls_are_the_same_by_name_and_arguments(
    left: ToolCall, right: ToolCall, same: bool
) -> None:
    assert call_diff.same((left,), (right,)) is same
    assert call_diff.same((left,), ()) is False
    assert call_diff.same(None, ())
