"""How many model calls a run makes at the least."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from evalgate.cli import listing
from evalgate.config.settings import Settings
from evalgate.model import (
    AgentUse,
    Case,
    ConfigOrigin,
    Content,
    ConversationScenario,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    Event,
    Invocation,
    Need,
    Suite,
    Text,
    ToolCall,
)

NEEDS = {
    "response_match_score": {Need.REFERENCE},
    "rubric_based_final_response_quality_v1": {Need.JUDGE, Need.RUBRICS},
    "safety_v1": {Need.VERTEX},
}
RUBRICS = "rubric_based_final_response_quality_v1"
CALL = Event(author="agent", content=Content(parts=(ToolCall(name="look_up", args={}),)))


def case(case_id: str, *steps: int) -> Case:
    """A case with a turn for each number: that of its expected steps of tool calls."""
    said = Content(parts=(Text(text="hi"),), role="user")
    turns = tuple(Invocation(user_content=said, events=(CALL,) * count if count else None) for count in steps)
    return Case(case_id=case_id, conversation=turns)


def suite(*cases: Case, criteria: str = "", options: dict[str, Any] | None = None) -> Suite:
    return Suite(
        key="x",
        eval_set=EvalSet(eval_set_id="x", cases=cases),
        criteria=tuple(
            CriterionUse(name=name, threshold=0.5, options=options or {}, needs=frozenset(NEEDS[name]))
            for name in criteria.split()
        ),
        criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS),
        agent=AgentUse(driver="adk"),
    )


def estimate(made: Suite, **settings: Any) -> listing.Estimate:
    return listing.estimate(made, Settings.model_validate(settings))


def test_a_call_a_turn_a_repeat() -> None:
    scenario = ConversationScenario(starting_prompt="hello", conversation_plan="Ask.")
    made = suite(case("a", 0, 0), case("b", 0), Case(case_id="c", scenario=scenario), case("d"))
    told = estimate(made, runs=3)
    assert (told.cases, told.trials, told.turns, told.model_calls) == (4, 12, 12, 12)


def test_a_call_more_after_each_step_of_tool_calls_that_is_expected() -> None:
    assert estimate(suite(case("a", 1, 0)), runs=2).model_calls == 2 * (2 + 1)
    assert estimate(suite(case("a", 2))).model_calls == 3
    (turn,) = case("a", 0).conversation or ()
    together = Event(author="agent", content=Content(parts=(ToolCall(name="x"), ToolCall(name="y"))))
    made = Case(case_id="a", conversation=(dataclasses.replace(turn, events=(together,)),))
    assert estimate(suite(made)).model_calls == 2
    silent = Case(case_id="a", conversation=(dataclasses.replace(turn, events=()),))  # no tool expected, explicitly
    assert estimate(suite(silent)).model_calls == 1


def test_nothing_asked_is_nothing_called() -> None:
    assert estimate(suite()).model_calls == 0


@pytest.mark.parametrize(
    ("criteria", "options", "more", "calls"),
    [
        ("response_match_score", {}, {}, 0),
        (RUBRICS, {}, {}, 1),
        (RUBRICS, {"judge_model_options": {"num_samples": 5}}, {}, 3),  # three that agree decide
        (RUBRICS, {"judge_model_options": 5}, {}, 1),  # told as a problem elsewhere
        (RUBRICS, {"judge_model_options": {"num_samples": 4}}, {}, 2),  # a tie is a no
        (RUBRICS, {"judge_model_options": {"num_samples": 5}, "exhaustive": True}, {}, 5),
        (RUBRICS, {"judge_model_options": {"num_samples": 5}}, {"adk_compat": True}, 5),
        ("safety_v1", {"judge_model_options": {"num_samples": 5}}, {}, 1),  # Google Cloud is asked once
        (f"{RUBRICS} safety_v1", {}, {}, 2),
    ],
)
def test_a_question_a_trial_of_each_judged_criterion(
    criteria: str, options: dict[str, Any], more: dict[str, Any], calls: int
) -> None:
    made = suite(case("a", 0, 0), case("b", 0), criteria=criteria, options=options)
    assert estimate(made, runs=3, **more).judge_calls == calls * 2 * 3
    assert estimate(made, runs=3, skip_judged=True, **more).judge_calls == 0
