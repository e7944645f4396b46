"""The ADK worker asks before a tool runs, whatever the tool and whoever calls it; the agent's
callbacks still run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders.nightly import ADKS, BY_NIGHT

from tests.integration.agents.line_client import Message, Worker, responses, texts

pytestmark = pytest.mark.integration

Answer = Callable[[Message], Message]


class Asked:
    """A worker that asks about tools, and what it asked; `trace`: which tools really ran."""

    def __init__(self, worker: Worker, trace: Path) -> None:
        self.worker = worker
        self.trace = trace
        self.calls: list[Message] = []
        self.results: list[Message] = []
        self._sessions = 0

    def ask(self, answer: Answer | Message, *script: str) -> tuple[list[Message], Message, Message]:
        """One turn in a session of its own, its tool calls answered; the events, how it ended, the
        final state."""
        self.calls, self.results = [], []
        self.trace.write_text("")
        self._sessions += 1
        session = f"a{self._sessions}"
        self.worker.start(session)
        self.worker.begin_turn(session, "\n".join(script))
        events: list[Message] = []
        while True:
            said = self.worker.hear(
                "event", "turn_end", "turn_failed", "tool_call", "tool_result", session=session
            )
            if said["type"] == "event":
                events.append(said)
            elif said["type"] == "tool_result":
                self.results.append(said)
            elif said["type"] == "tool_call":
                self.calls.append(said)
                told = answer(said) if callable(answer) else answer
                self.worker.say(type="tool_response", session=session, call=said["call"], **told)
            else:
                state = (
                    self.worker.end(session).get("state", {}) if said["type"] == "turn_end" else {}
                )
                return events, said, state

    def asked(self) -> list[tuple[str, Any, str]]:
        return [(call["name"], call["args"], call["kind"]) for call in self.calls]

    def ran(self) -> list[str]:
        return self.trace.read_text().splitlines()


@pytest.fixture(scope="module", params=ADKS)
def asked(request: pytest.FixtureRequest, spawn, tmp_path_factory) -> Asked:
    trace = tmp_path_factory.mktemp("trace") / "trace.txt"
    worker = spawn(
        {"path": "adk_tools"},
        which=request.param,
        environment={"TRACE": str(trace)},
        tools="replay",
        forked=True,
    )
    assert worker.greeting["type"] == "ready", worker.greeting
    assert worker.greeting["tools"] is True
    return Asked(worker, trace)


RUN = {"run": True, "report": False}
RECORD = {"run": True, "report": True}


def test_a_worker_that_is_not_told_to_ask_does_not(spawn, tmp_path: Path) -> None:
    trace = {"TRACE": str(tmp_path / "t")}
    worker = spawn({"path": "adk_tools"}, environment=trace, forked=True)
    assert not worker.greeting["tools"]
    events, _ = worker.ask('call weather {"city": "Oslo"}', "say done")
    assert responses(events) == [{"city": "Oslo", "degrees": 21}]
    assert (tmp_path / "t").read_text() == "weather Oslo C\n"


def test_a_recorded_answer_stands_in_for_the_tool(asked: Asked) -> None:
    events, ended, _ = asked.ask(
        {"response": {"degrees": -3}}, 'call weather {"city": "Oslo"}', "say cold"
    )
    assert asked.asked() == [("weather", {"city": "Oslo"}, "tool")]
    assert responses(events) == [{"degrees": -3}]
    assert (texts(events), ended["type"]) == (["cold"], "turn_end")
    assert asked.ran() == []


def test_a_tool_that_is_to_run_runs_and_tells(asked: Asked) -> None:
    events, _, _ = asked.ask(RECORD, 'call weather {"city": "Oslo", "unit": "F"}', "say done")
    assert asked.ran() == ["weather Oslo F"]
    assert responses(events) == [{"city": "Oslo", "degrees": 21}]
    (told,) = asked.results
    assert (told["response"], told.get("effects")) == ({"city": "Oslo", "degrees": 21}, None)
    asked.ask(RUN, 'call weather {"city": "Oslo"}', "say done")
    assert (asked.ran(), asked.results) == (["weather Oslo C"], [])


def test_what_a_tool_does_to_the_session_is_told_and_done_again(asked: Asked) -> None:
    script = ('call book {"seat": "4A"}', "call read_seats", "say done")
    events, _, state = asked.ask(RECORD, *script)
    told = asked.results[0]
    assert (told["response"], told["effects"]["state_delta"]) == ("4A is yours", {"seats": ["4A"]})

    def replay(call: Message) -> Message:
        return (
            RUN
            if call["name"] == "read_seats"
            else {"response": told["response"], "effects": told["effects"]}
        )

    again, _, state_again = asked.ask(replay, *script)
    assert asked.ran() == []
    assert responses(again) == responses(events) == [{"result": "4A is yours"}, {"seats": ["4A"]}]
    assert state_again["seats"] == state["seats"] == ["4A"]


def test_a_tool_that_ends_the_turn_ends_it_in_a_replay_too(asked: Asked) -> None:
    events, _, _ = asked.ask(RECORD, "call finish", "say never")
    told = asked.results[0]
    assert told["effects"] == {"skip_summarization": True}
    again, _, _ = asked.ask(
        {"response": told["response"], "effects": told["effects"]}, "call finish", "say never"
    )
    assert texts(again) == texts(events) == []
    assert [event["final"] for event in again] == [event["final"] for event in events]


@pytest.mark.parametrize(
    "script", ['call print_ticket {"copies": 2}', 'call lookup {"key": "city"}']
)
def test_an_error_is_told_and_raised_again(asked: Asked, script: str) -> None:
    _, failed, _ = asked.ask(RECORD, script, "say never")
    (told,) = asked.results
    assert failed["type"] == "turn_failed"
    _, again, _ = asked.ask({"error": told["error"]}, script, "say never")
    assert (again["kind"], again["message"]) == (failed["kind"], failed["message"])
    assert asked.ran() == []


def test_an_injected_lost_connection_is_nobodys_outage(asked: Asked) -> None:
    error = {"type": "ConnectionResetError", "message": "injected"}
    _, failed, _ = asked.ask({"error": error}, 'call weather {"city": "Oslo"}', "say never")
    assert (failed["kind"], failed["message"]) == ("raised", "ConnectionResetError: injected")


def test_what_is_refused_never_runs(asked: Asked) -> None:
    _, failed, _ = asked.ask(
        {"refused": "nothing answers"}, 'call weather {"city": "Oslo"}', "say never"
    )
    assert failed["type"] == "turn_failed"
    assert asked.ran() == []


def test_sub_agents_ask_and_a_transfer_is_a_step_of_the_agent(asked: Asked) -> None:
    def answer(call: Message) -> Message:
        return RUN if call["kind"] == "agent" else {"response": {"degrees": 1}}

    events, _, _ = asked.ask(answer, "transfer helper", 'call weather {"city": "Rome"}', "say done")
    assert [(name, kind) for name, _, kind in asked.asked()] == [
        ("transfer_to_agent", "agent"),
        ("weather", "tool"),
    ]
    assert events[-1]["author"] == "helper"
    assert asked.ran() == []


def test_an_agent_as_a_tool_runs_and_its_own_tools_ask(asked: Asked) -> None:
    def answer(call: Message) -> Message:
        return RUN if call["kind"] == "agent" else {"response": {"degrees": 1}}

    request = 'call weather {\\"city\\": \\"Rome\\"}\\nsay inner done'
    events, _, _ = asked.ask(answer, f'call inner {{"request": "{request}"}}', "say done")
    assert [(name, kind) for name, _, kind in asked.asked()] == [
        ("inner", "agent"),
        ("weather", "tool"),
    ]
    assert responses(events) == [{"result": "inner done"}]
    assert asked.ran() == []


def test_the_agents_own_callbacks_see_what_they_would_see(asked: Asked) -> None:
    # one before the tool changes an argument: the changed call is asked about
    _, _, state = asked.ask(
        {"response": {"city": "Paris"}}, 'call weather {"city": "paris"}', "say done"
    )
    assert asked.asked()[0][1] == {"city": "Paris"}
    assert state["seen_before"] == "weather ['city']"
    assert state["seen_after"] == {"city": "Paris"}
    # one answers itself: nothing is asked
    events, _, _ = asked.ask({"response": {}}, 'call weather {"city": "Nowhere"}', "say done")
    assert (asked.calls, responses(events)) == (
        [],
        [{"city": "Nowhere", "degrees": "none: said the callback"}],
    )
    # one after the tool changes a recorded answer
    events, _, _ = asked.ask(
        {"response": {"city": "Loud"}}, 'call weather {"city": "Loud"}', "say done"
    )
    assert responses(events) == [{"city": "Loud", "shouted": True}]


def test_long_running_tools_may_say_nothing_yet(asked: Asked) -> None:
    events, ended, _ = asked.ask({"response": None}, 'call order {"item": "nothing"}', "say never")
    assert (responses(events), ended["type"]) == ([], "turn_end")
    events, _, _ = asked.ask(
        {"response": {"ticket": "T1"}}, 'call order {"item": "tea"}', "say ordered"
    )
    assert responses(events)[0] == {"ticket": "T1"}
    assert asked.ran() == []


def test_calls_of_sessions_at_once_stay_apart(asked: Asked) -> None:
    worker = asked.worker
    names = [f"par{number}" for number in range(6)]
    for name in names:
        worker.start(name)
        worker.begin_turn(name, f'call weather {{"city": "{name}"}}\nsay done')
    calls = [worker.hear("tool_call", session=name) for name in names]
    for call in reversed(calls):
        worker.say(
            type="tool_response",
            session=call["session"],
            call=call["call"],
            response={"for": call["session"]},
        )
    for name in names:
        events, ended = worker.end_turn(name)
        assert (responses(events), ended["type"]) == ([{"for": name}], "turn_end")
        worker.end(name)


def test_a_turn_that_is_given_up_waits_for_no_answer(asked: Asked) -> None:
    worker = asked.worker
    worker.start("given-up")
    worker.begin_turn("given-up", 'call weather {"city": "Oslo"}\nsay never')
    call = worker.hear("tool_call", session="given-up")
    worker.end("given-up")
    # too late, and harmless
    worker.say(type="tool_response", session="given-up", call=call["call"], response={})
    events, _, _ = asked.ask(
        {"response": {"degrees": 2}}, 'call weather {"city": "Oslo"}', "say fine"
    )
    assert texts(events) == ["fine"]


@BY_NIGHT
def test_an_mcp_server_is_recorded_with_its_list_of_tools_and_needs_not_be_there_again(
    spawn, tmp_path_factory
) -> None:
    trace = tmp_path_factory.mktemp("mcp") / "trace.txt"
    script = ('call sea_level {"harbour": "Bergen"}', "say done")
    recorder = spawn(
        {"path": "adk_mcp"}, which="old", environment={"TRACE": str(trace)}, tools="record"
    )
    if "No module named 'mcp'" in recorder.greeting.get("message", ""):
        pytest.skip("the package mcp is not installed beside google-adk")
    recording = Asked(recorder, trace)
    events, ended, _ = recording.ask(RECORD, *script)
    assert ended["type"] == "turn_end", ended
    assert recording.asked() == [
        ("list_tools", {"toolset": "McpToolset"}, "listing"),
        ("sea_level", {"harbour": "Bergen"}, "tool"),
    ]
    recorded = {
        call["name"]: told["response"]
        for call, told in zip(recording.calls, recording.results, strict=True)
    }
    assert recording.ran() == ["sea_level Bergen"]

    replaying = Asked(
        spawn(
            {"path": "adk_mcp"},
            which="old",
            environment={"TRACE": str(trace), "MCP_COMMAND": "gone"},
            tools="replay",
        ),
        trace,
    )
    again, ended, _ = replaying.ask(lambda call: {"response": recorded[call["name"]]}, *script)
    assert ended["type"] == "turn_end", ended
    assert replaying.ran() == []
    assert responses(again) == responses(events)
    assert texts(again) == ["done"]
