"""How many model calls a run makes at the least."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from evalgate.config.settings import Settings
from evalgate.criteria import (
    final_response_match_v2,
    hallucinations_v1,
    rubrics,
    user_simulation,
)
from evalgate.gate import prepare
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
from evalgate.runner import trials
from evalgate.wings.google_cloud import criteria as google_criteria

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
    turns = tuple(
        Invocation(user_content=said, events=(CALL,) * count if count else None) for count in steps
    )
    return Case(case_id=case_id, conversation=turns)


def suite(*cases: Case, criteria: str = "", options: dict[str, Any] | None = None) -> Suite:
    return Suite(
        key="x",
        eval_set=EvalSet(eval_set_id="x", cases=cases),
        criteria=tuple(
            CriterionUse(
                name=name, threshold=0.5, options=options or {}, needs=frozenset(NEEDS[name])
            )
            for name in criteria.split()
        ),
        criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS),
        agent=AgentUse(driver="adk"),
    )


def calls(made: Suite, **settings: Any) -> tuple[int, int]:
    """The calls of the agent's model and of judges that a run expects."""
    given = Settings.model_validate(settings)
    tasks = trials.tasks([[made]], trials.first_rounds(given.runs))
    said = prepare.tell_expected(tasks, given)
    counts = (re.search(rf"(\d+) {who} call", said) for who in ("agent model", "judge"))
    of_agent, of_judges = (int(count[1]) if count else 0 for count in counts)
    return of_agent, of_judges


def test_a_call_a_turn_a_repeat() -> None:
    scenario = ConversationScenario(starting_prompt="hello", conversation_plan="Ask.")
    made = suite(case("a", 0, 0), case("b", 0), Case(case_id="c", scenario=scenario), case("d"))
    assert calls(made, runs=3) == (12, 0)


def test_a_call_more_after_each_step_of_tool_calls_that_is_expected() -> None:
    assert calls(suite(case("a", 1, 0)), runs=2)[0] == 2 * (2 + 1)
    assert calls(suite(case("a", 2)))[0] == 3
    (turn,) = case("a", 0).conversation or ()
    together = Event(
        author="agent", content=Content(parts=(ToolCall(name="x"), ToolCall(name="y")))
    )
    made = Case(case_id="a", conversation=(dataclasses.replace(turn, events=(together,)),))
    assert calls(suite(made))[0] == 2
    # no tool expected, explicitly
    silent = Case(case_id="a", conversation=(dataclasses.replace(turn, events=()),))
    assert calls(suite(silent))[0] == 1


def test_nothing_asked_is_nothing_called() -> None:
    assert calls(suite())[0] == 0


@pytest.mark.parametrize(
    ("criteria", "options", "more", "count"),
    [
        ("response_match_score", {}, {}, 0),
        (RUBRICS, {}, {}, 1),
        (RUBRICS, {"judge_model_options": {"num_samples": 5}}, {}, 3),  # three that agree decide
        (RUBRICS, {"judge_model_options": 5}, {}, 1),  # told as a problem elsewhere
        (RUBRICS, {"judge_model_options": {"num_samples": 4}}, {}, 2),  # a tie is a no
        (RUBRICS, {"judge_model_options": {"num_samples": 5}, "exhaustive": True}, {}, 5),
        (RUBRICS, {"judge_model_options": {"num_samples": 5}}, {"adk_compat": True}, 5),
        # Google Cloud is asked once
        ("safety_v1", {"judge_model_options": {"num_samples": 5}}, {}, 1),
        (f"{RUBRICS} safety_v1", {}, {}, 2),
    ],
)
def test_a_question_a_trial_of_each_judged_criterion(
    criteria: str, options: dict[str, Any], more: dict[str, Any], count: int
) -> None:
    made = suite(case("a", 0, 0), case("b", 0), criteria=criteria, options=options)
    assert calls(made, runs=3, **more)[1] == count * 2 * 3
    assert calls(made, runs=3, skip_judged=True, **more)[1] == 0


JUDGE = {"judge_model_options": {"judge_model": "gemini-2.5-flash", "num_samples": 5}}


@pytest.mark.parametrize(
    ("driver", "criteria", "given", "said"),
    [
        ("adk", "response_match_score", {}, "expecting at least 3 agent model calls"),
        ("replay", "response_match_score", {}, ""),  # nobody is asked
        # three samples of each of two cases, 100 tokens in and 5 out
        (
            "adk",
            RUBRICS,
            {},
            "expecting at least 3 agent model calls and 6 judge calls ($0.0003 or more; cached replies are free)",
        ),
        (
            "replay",
            RUBRICS,
            {},
            "expecting at least 6 judge calls ($0.0003 or more; cached replies are free)",
        ),
        ("adk", RUBRICS, {"skip_judged": True}, "expecting at least 3 agent model calls"),
        (
            "adk",
            RUBRICS,
            {"gate_file": {"judge": {"replay": "said.jsonl"}}},
            "expecting at least 3 agent model calls",
        ),
    ],
)
def test_what_a_run_says_before_it_starts(
    driver: str, criteria: str, given: dict[str, Any], said: str
) -> None:
    made = suite(case("a", 1), case("b", 0), criteria=criteria, options=JUDGE)
    made = dataclasses.replace(made, agent=AgentUse(driver=driver))
    assert (
        prepare.tell_expected(
            trials.tasks([[made]], trials.first_rounds(1)), Settings.model_validate(given)
        )
        == said
    )


@pytest.mark.parametrize(
    "question",
    [
        final_response_match_v2.RULES + final_response_match_v2.REPLY,
        hallucinations_v1.SEGMENT_RULES + hallucinations_v1.SEGMENT_REPLY,
        rubrics._COMMON + rubrics._REPLY,
        user_simulation._RULES + user_simulation._REPLY,
        google_criteria._COHERENCE_RULES + google_criteria._COHERENCE_REPLY,
    ],
    ids=lambda question: question[:24],
)
def test_no_question_is_shorter_than_the_least(question: str) -> None:
    """Its fixed text alone is longer, by tokens of six characters."""
    assert len(question) / 6 > (prepare.LEAST.prompt_tokens or 0)
