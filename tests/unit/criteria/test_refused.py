"""A refusal is a model's error code in place of an answer; nothing else is."""

from __future__ import annotations

import pytest

from evalgate.criteria import refused
from evalgate.model import (
    Case,
    Content,
    Event,
    Invocation,
    NotEvaluated,
    Reason,
    Score,
    Text,
    ToolCall,
    TrialView,
)

ANSWER = Content(parts=(Text(text="Yes."),), role="model")


def stop(code: str) -> Invocation:
    return Invocation(
        user_content=Content(),
        events=(Event(author="a", error_code=code, error_message="blocked"),),
    )


def answered(*events: Event) -> Invocation:
    return Invocation(user_content=Content(), final_response=ANSWER, events=events)


def unknown(**fields: Content) -> Invocation:
    return Invocation(user_content=Content(), **fields)


CALL = Event(author="a", content=Content(parts=(ToolCall(name="t"),)))
ROWS = [
    # codes of refusal, and others that are no refusal
    ([stop("SAFETY")], [1.0]),
    ([stop("RECITATION"), stop("JAILBREAK")], [1.0, 1.0]),
    ([stop("MAX_TOKENS")], [0.0]),
    ([stop("MALFORMED_FUNCTION_CALL")], [0.0]),
    # an answer after a refused step is an answer
    ([answered(Event(author="a", error_code="SAFETY"))], [0.0]),
    ([answered(CALL), stop("SAFETY")], [0.0, 1.0]),
    # silence is no refusal
    ([Invocation(user_content=Content(), events=())], [0.0]),
    # an answer whose steps were not recorded
    ([unknown(final_response=ANSWER)], [0.0]),
]


@pytest.mark.parametrize(("turns", "values"), ROWS)
def test_the_share_of_refused_turns(turns: list[Invocation], values: list[float]) -> None:
    grade = refused.grade(TrialView(case=Case(case_id="c"), actual=tuple(turns), expected=None))
    assert isinstance(grade, Score)
    assert list(grade.turns) == values
    assert grade.value == sum(values) / len(values)


@pytest.mark.parametrize("turns", [(), (unknown(),)])
def test_unknown_stays_unknown(turns: tuple[Invocation, ...]) -> None:
    grade = refused.grade(TrialView(case=Case(case_id="c"), actual=turns, expected=None))
    assert isinstance(grade, NotEvaluated)
    assert grade.reason is Reason.NOTHING_RECORDED


def test_the_code_and_its_message_are_shown() -> None:
    grade = refused.grade(
        TrialView(case=Case(case_id="c"), actual=(stop("SAFETY"),), expected=None)
    )
    assert [finding.text for finding in grade.findings] == ["SAFETY: blocked"]
