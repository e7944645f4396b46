"""Whatever an agent or an evaluation file holds, what is written is strict JSON, and reads back as
what it was; numbers that JSON does not have are texts in what agents said, numbers in scores."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from evalgate.model import (
    AgentFailure,
    Content,
    Event,
    FailureKind,
    Finding,
    Invocation,
    Score,
    ToolCall,
    ToolResponse,
    Transcript,
)
from evalgate.results import shapes

INF = float("inf")
NAMES = ("NaN", "Infinity", "-Infinity")


def strict(data: bytes) -> Any:
    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(data, parse_constant=refuse)


def _named(found: re.Match[str]) -> str:
    return repr({"nan": "NaN", "inf": f"{found[1]}Infinity"}[found[2]])


keys = st.sampled_from(["a", "NaN", "\ud800"])
values = st.recursive(
    st.floats() | st.sampled_from([INF, -INF, *NAMES, "\udc00", 1, None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(keys, values, max_size=3)


@settings(max_examples=60, deadline=None)
@given(objects, objects, objects, st.booleans())
def test_outcomes_come_back_as_they_were(args: Any, said: Any, state: Any, failed: bool) -> None:
    parts = (ToolCall(name="t", args=args), ToolResponse(name="t", response=said))
    event = Event(author="a", content=Content(parts=parts), at=0.5)
    turn = Invocation(
        user_content=Content(), events=(event,), trace=({"kind": "tool", "args": args},)
    )
    failure = AgentFailure(kind=FailureKind.RAISED, message="m", partial=(turn,))
    outcome = failure if failed else Transcript(invocations=(turn,), final_state=state)
    raw = strict(shapes.encode(shapes.outcome_json(outcome, agents_seen={})))
    read = shapes.parse_outcome(raw, agents_seen={})
    assert repr(read) == re.sub(r"(?<![\w'])(-?)(inf|nan)(?![\w'])", _named, repr(outcome))


def test_grades_come_back_as_they_were() -> None:
    finding = Finding(text="x", score=float("nan"))
    grade = Score(value=0.5, turns=(INF, None, -INF), breakdown={"a": INF}, findings=(finding,))
    assert repr(shapes.parse_grade(strict(shapes.encode(shapes.grade_json(grade))))) == repr(grade)


@pytest.mark.parametrize(
    ("told", "at", "traced"),
    [
        ({}, [None, None], [0, 0]),
        ({"times": [[0.5], [1.5]]}, [0.5, 1.5], [0, 0]),
        ({"times": [[0.5, 0.7]]}, [None, None], [0, 0]),  # of other events than these: of no event
        ({"traces": [[{"kind": "event"}]]}, [None, None], [1, 0]),  # fewer than turns
        ({"traces": [[], [], [{"kind": "event"}]]}, [None, None], [0, 0]),  # more
    ],
)
def test_times_and_traces_that_anybody_wrote_lose_no_turn(
    told: Any, at: list[Any], traced: list[int]
) -> None:
    turn = Invocation(user_content=Content(), events=(Event(author="a"),))
    raw = shapes.outcome_json(Transcript(invocations=(turn, turn)), agents_seen={})
    outcome = shapes.parse_outcome({**raw, **told}, agents_seen={})
    assert isinstance(outcome, Transcript)
    assert [turn.events[0].at for turn in outcome.invocations if turn.events] == at
    assert [len(turn.trace) for turn in outcome.invocations] == traced
