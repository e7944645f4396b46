"""CES evaluations, and what an agent did in them, for criteria."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalgate.model import (
    AgentUse,
    Case,
    ConfigOrigin,
    Content,
    CriteriaSource,
    EvalSet,
    Event,
    Invocation,
    Suite,
    Text,
    ToolCall,
    TrialView,
)
from evalgate.wings.ces.outcomes import NO_VERDICT, Judge, JudgeQuestion, Plan, Verdict
from evalgate.wings.ces.shapes import Evaluation

APP = "projects/p/locations/l/apps/desk"


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"expectation": {"agentResponse": {"chunks": [{"text": text}]}, **more}}


def turn(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"steps": [{"userInput": {"text": "Hi"}}, *steps]}


def did(said: str, *calls: ToolCall) -> Invocation:
    events = tuple(Event(author="desk", content=Content(parts=(call,))) for call in calls)
    user = Content(parts=(Text(text="Hi"),))
    return Invocation(
        user_content=user, final_response=Content(parts=(Text(text=said),)), events=events
    )


def evidence(raw: dict[str, Any], *actual: Invocation, **plan: Any) -> TrialView:
    whole = Plan(evaluation=Evaluation.model_validate({"displayName": "e", **raw}), **plan)
    case = Case(case_id="e", conversation=actual, ces=whole.json())
    return TrialView(case=case, actual=actual, expected=actual)


def suite_of(case: Case) -> Suite:
    """A suite of one evaluation, without criteria."""
    return Suite(
        key="s",
        eval_set=EvalSet(eval_set_id="s", cases=(case,)),
        criteria=(),
        criteria_source=CriteriaSource(origin=ConfigOrigin.DEFAULTS),
        agent=AgentUse(driver="ces"),
    )


def question_key(question: JudgeQuestion) -> tuple[str, int, int, str]:
    return question.kind, question.turn, question.step, question.argument


def judge_by(verdicts: Mapping[Any, Verdict]) -> Judge:
    """A judge that has these verdicts by `question_key`, and none on other questions."""
    return lambda question: verdicts.get(question_key(question), NO_VERDICT)
