"""Cases whose turns stand alone: what each session begins after, and what becomes of failures and
other agents."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import pytest

from evalgate.agents.base import AgentFailed, Stopwatch
from evalgate.model import (
    AgentFailure,
    Case,
    Content,
    Event,
    FailureKind,
    Invocation,
    SimulatorUse,
    Text,
    ToolCall,
    ToolResponse,
    Transcript,
    TrialKey,
    TurnSetup,
)
from evalgate.runner import trials
from evalgate.runner.trials import Task
from evalgate.simulation import user
from evalgate.values import Json
from tests.builders.build import suite

KEY = TrialKey(suite="s", case_id="c")


def said(text: str) -> Content:
    return Content(parts=(Text(text=text),), role="user")


def expected(text: str, *parts: ToolCall | ToolResponse) -> Invocation:
    events = tuple(Event(author="agent", content=Content(parts=(part,))) for part in parts)
    return Invocation(
        user_content=said(text), final_response=said(f"{text}, as expected"), events=events
    )


class Agent:
    """Answers every turn, fails in the turn with the text `fails`, keeps the cases of its
    sessions."""

    def __init__(self, *, takes_history: bool = True, fails: str = "") -> None:
        self.takes_history = takes_history
        self.fails = fails
        self.opened: list[Case] = []

    @contextlib.contextmanager
    def converse(self, case: Case, key: TrialKey) -> Iterator[Agent]:
        self.opened.append(case)
        yield self

    def send(self, user_content: Content) -> Invocation:
        if user_content == said(self.fails):
            raise AgentFailed(AgentFailure(kind=FailureKind.RAISED, message="no", turn=1))
        return Invocation(user_content=user_content, final_response=said("mine"), events=())

    def finish(self) -> Json | None:
        return {"sessions": len(self.opened)}


CALLS = (
    ToolCall(name="find", args={"id": 1}),
    ToolCall(name="renew"),
    ToolResponse(name="renew", response={"ok": 1}),
)
TURNS = (expected("one", *CALLS), expected("two"), expected("three"))
SETUPS = (TurnSetup(state={"a": 1}), TurnSetup(), TurnSetup(state={"b": 2}))
CASE = Case(case_id="c", conversation=TURNS, setups=SETUPS, isolated=True)


SPOKEN = user.begin(CASE, SimulatorUse())


def converse(agent: Agent, told: list[str] | None = None, *, case: Case = CASE) -> Transcript:
    task = Task(key=KEY, suite=suite(case), case=case)
    found = trials.converse(
        agent, task, SPOKEN, Stopwatch(), say=[].append if told is None else told.append
    )
    assert isinstance(found, Transcript)
    return found


def test_each_session_begins_after_what_is_expected_before() -> None:
    agent = Agent()
    found = converse(agent)
    assert [len(case.history) for case in agent.opened] == [0, 1, 2]
    assert [case.setups for case in agent.opened] == [(setup,) for setup in SETUPS]
    assert [turn.user_content for turn in found.invocations] == [
        said("one"),
        said("two"),
        said("three"),
    ]
    # the state of each turn is that of its own session
    assert [turn.state for turn in found.invocations] == [
        {"sessions": number} for number in (1, 2, 3)
    ]
    assert found.final_state == {"sessions": 3}


def test_every_call_before_has_an_answer_behind_it_with_the_same_id() -> None:
    agent = Agent()
    converse(agent)
    (before, _) = agent.opened[2].history
    calls, responses = before.tool_calls, before.tool_responses
    assert [type(part) for part in before.parts()] == [
        ToolCall,
        ToolResponse,
        ToolCall,
        ToolResponse,
    ]
    assert [each.response for each in responses] == [{}, {"ok": 1}]
    assert [each.id for each in calls] == [each.id for each in responses]
    assert len({each.id for each in calls}) == 2
    assert before.final_response == said("one, as expected")


def test_calls_of_one_event_have_their_answers_behind_it() -> None:
    agent = Agent()
    calls = Event(author="agent", content=Content(parts=CALLS[:2]))
    answer = Event(author="agent", content=Content(parts=CALLS[2:]))
    first = dataclasses.replace(TURNS[0], events=(calls, answer))
    converse(agent, case=dataclasses.replace(CASE, conversation=(first, *TURNS[1:])))
    (before, _) = agent.opened[2].history
    assert [type(part) for part in before.parts()] == [
        ToolCall,
        ToolCall,
        ToolResponse,
        ToolResponse,
    ]
    assert [each.response for each in before.tool_responses] == [{}, {"ok": 1}]
    assert [each.id for each in before.tool_calls] == [each.id for each in before.tool_responses]


def test_an_agent_that_takes_no_turns_before_has_one_session_and_that_is_told() -> None:
    agent, told = Agent(takes_history=False), list[str]()
    found = converse(agent, told)
    assert told == [trials.NAIVE_MESSAGE]
    assert agent.opened[-1] is CASE
    assert len(found.invocations) == 3
    assert found.final_state == {"sessions": 2}  # the first was left before anything was said


def test_a_failure_names_its_turn_and_keeps_the_turns_before() -> None:
    with pytest.raises(AgentFailed) as failed:
        converse(Agent(fails="two"))
    assert (failed.value.failure.turn, len(failed.value.failure.partial)) == (2, 1)
