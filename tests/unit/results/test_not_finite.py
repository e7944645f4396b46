"""Whatever an agent or an evaluation file holds, what is written is strict JSON, and reads back as
what it was."""

from __future__ import annotations

import json
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
from evalgate.results.file import CaseEntry

INF = float("inf")


def strict(data: bytes) -> Any:
    def refuse(name: str) -> float:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(data, parse_constant=refuse)


keys = st.sampled_from(["a", "NaN", "\ud800"])
values = st.recursive(
    st.floats() | st.sampled_from([INF, -INF, *shapes.NAMES, "\udc00", 1, None]),
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
    # in words, since NaN is not equal to itself
    assert repr(shapes.parse_outcome(raw, agents_seen={})) == repr(outcome)


def test_grades_come_back_as_they_were() -> None:
    finding = Finding(text="x", score=float("nan"))
    grade = Score(value=0.5, turns=(INF, None, -INF), breakdown={"a": INF}, findings=(finding,))
    assert repr(shapes.parse_grade(strict(shapes.encode(shapes.grade_json(grade))))) == repr(grade)


def test_cases_come_back_as_they_were() -> None:
    case = {
        "eval_id": "c",
        "conversation": [
            {
                "user_content": {},
                "intermediate_data": {"tool_uses": [{"name": "t", "args": {"n": INF}}]},
            }
        ],
    }
    raw = {"case_id": "c", "fingerprint": "f", "verdict": "pass", "eval_case": case,
           "not_finite": shapes.not_finite_places(case)}  # fmt: skip
    read = CaseEntry.model_validate(strict(shapes.encode(raw)))
    assert read.eval_case is not None
    (turn,) = read.eval_case.to_model().conversation or ()
    (event,) = turn.events or ()
    assert event.content is not None
    assert event.content.parts == (ToolCall(name="t", args={"n": INF}),)


@pytest.mark.parametrize(
    "at",
    [
        "x",  # no list
        [1, "a", None, []],  # no paths
        # not there
        [["nowhere"], ["a", 7], ["a", -1], ["a", True], ["a", "b"], ["s", 0], ["s", 0, 0]],
        [["s"]],  # an honest text
        [["n"]],  # no text
    ],
)
def test_places_that_do_not_fit_change_nothing(at: Any) -> None:
    value = {"a": ["NaN", "x"], "s": "text", "n": 1}
    assert shapes.with_not_finite(value, at) == value


def test_what_was_read_is_not_changed() -> None:
    value = {"a": [["NaN"]], "b": "NaN"}
    restored = shapes.with_not_finite(value, [["a", 0, 0]])
    assert repr(restored) == "{'a': [[nan]], 'b': 'NaN'}"
    assert value == {"a": [["NaN"]], "b": "NaN"}


def test_absurdly_many_end() -> None:
    deep: Any = [INF] * 1000
    for _ in range(500):
        deep = [deep]
    assert sum(map(len, shapes.not_finite_places(deep))) < shapes.MOST_STEPS + 1000


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
