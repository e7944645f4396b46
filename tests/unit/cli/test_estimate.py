"""How many model calls a run makes at the least."""

import dataclasses

import pytest

from evalgate.cli import listing
from evalgate.criteria import with_facts
from evalgate.model import Content, Event, ToolCall

RUBRICS = "rubric_based_final_response_quality_v1"


def test_a_call_a_turn_a_repeat(suite, case):
    made = suite("x", case("a", "one", "two"), case("b", "one"), case("c", scenario="hello"), case("d"))
    told = listing.estimate(made, repeats=3)
    assert (told.cases, told.trials, told.turns, told.model_calls) == (4, 12, 12, 12)


def test_a_call_more_after_each_step_of_tool_calls_that_is_expected(suite, case):
    made = case("a", "hi -> look_up(1) -> hello", "bye -> () -> see you")
    assert listing.estimate(suite("x", made), repeats=2).model_calls == 2 * (2 + 1)
    two = tuple(ToolCall(name=name, args={}) for name in ("x", "y"))
    apart = tuple(Event(author="agent", content=Content(parts=(call,))) for call in two)
    together = (Event(author="agent", content=Content(parts=two)),)
    for events, calls in ((apart, 3), (together, 2)):
        turn = dataclasses.replace(made.conversation[0], events=events)
        alone = dataclasses.replace(made, conversation=(turn,))
        assert listing.estimate(suite("x", alone)).model_calls == calls


def test_nothing_asked_is_nothing_called(suite):
    assert listing.estimate(suite("x")).model_calls == 0


@pytest.mark.parametrize(
    ("criteria", "options", "more", "calls"),
    [
        ("response_match_score", {}, {}, 0),
        (RUBRICS, {}, {}, 1),
        (RUBRICS, {"judge_model_options": {"num_samples": 5}}, {}, 3),  # three that agree decide
        (RUBRICS, {"judge_model_options": 5}, {}, 1),  # told as a problem elsewhere
        (RUBRICS, {"judge_model_options": {"num_samples": 4}}, {}, 2),  # a tie is a no
        (RUBRICS, {"judge_model_options": {"num_samples": 5}, "exhaustive": True}, {}, 5),
        (RUBRICS, {"judge_model_options": {"num_samples": 5}}, {"all_samples": True}, 5),
        ("safety_v1", {"judge_model_options": {"num_samples": 5}}, {}, 1),  # Google Cloud is asked once
        (f"{RUBRICS} safety_v1", {}, {}, 2),
    ],
)
def test_a_question_a_trial_of_each_judged_criterion(suite, case, criteria, options, more, calls):
    made = suite("x", case("a", "one", "two"), case("b", "one"), criteria=criteria, options=options)
    made = dataclasses.replace(made, criteria=tuple(map(with_facts, made.criteria)))
    assert listing.estimate(made, repeats=3, **more).judge_calls == calls * 2 * 3
    assert listing.estimate(made, repeats=3, skip_judged=True, **more).judge_calls == 0
