"""Tool calls on the line: who may ask and tell, what is answered when."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from evalgate.agents import protocol, worker_process
from evalgate.agents.base import (
    CallAnswer,
    PendingCall,
    ToolError,
    ToolReply,
)
from evalgate.agents.protocol import ToolCallMessage, ToolResultMessage
from evalgate.agents.worker_process import ToolCalls
from evalgate.model import FailureKind


class Tools:
    """Answers every call by the argument `as`."""

    answers: dict[str, CallAnswer] = {  # noqa: RUF012 - a table of the test
        "run": CallAnswer(report=True),
        "quiet": CallAnswer(),
        "no": CallAnswer(refusal="nothing answers"),
        "slow": CallAnswer(reply=ToolReply(response="slow"), delay_s=5.0),
        "slower": CallAnswer(reply=ToolReply(response="slower"), delay_s=9.0),
    }

    def __init__(self) -> None:
        self.kept: list[tuple[str, ToolReply]] = []
        self.finished = False

    def answer(self, call: PendingCall) -> CallAnswer:
        return self.answers.get(
            call.args.get("as", ""), CallAnswer(reply=ToolReply(response=call.number))
        )

    def keep(self, call: PendingCall, reply: ToolReply) -> None:
        self.kept.append((call.tool, reply))

    def finish(self) -> None:
        self.finished = True


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = [100.0]
    monkeypatch.setattr(worker_process.time, "monotonic", lambda: clock[0])
    return clock


def said(call: str, **args: Any) -> ToolCallMessage:
    return ToolCallMessage(type="tool_call", session="s1", call=call, name="t", args=args)


def told(call: str, **fields: Any) -> ToolResultMessage:
    return ToolResultMessage.model_validate(
        {"type": "tool_result", "session": "s1", "call": call, **fields}
    )


def test_a_call_is_answered_at_once(now: list[float]) -> None:
    line = ToolCalls("s1", Tools())
    assert line.due_in() == math.inf
    assert line.ask(said("a")) is None
    assert line.due_in() == 0.0
    assert line.due() == [{"type": "tool_response", "session": "s1", "call": "a", "response": 1}]
    assert (line.due(), line.due_in()) == ([], math.inf)
    assert line.names == {"t"}


def test_answers_that_take_their_time_wait_side_by_side(now: list[float]) -> None:
    line = ToolCalls("s1", Tools())
    for name in ("slower", "slow", "slow"):
        line.ask(said(f"{name}-{len(line.due())}-{line.due_in()}", **{"as": name}))
    assert line.due_in() == 5.0
    now[0] += 5.0
    assert [message["response"] for message in line.due()] == ["slow", "slow"]
    assert line.due_in() == 4.0
    now[0] += 4.0
    assert [message["response"] for message in line.due()] == ["slower"]


def test_a_call_that_nothing_answers_is_refused_and_ends_the_conversation(now: list[float]) -> None:
    line = ToolCalls("s1", Tools())
    failure = line.ask(said("a", **{"as": "no"}))
    assert failure is not None
    assert (failure.kind, failure.message) == (FailureKind.TOOL_UNMATCHED, "nothing answers")
    assert line.due()[0]["refused"] == "nothing answers"


def test_what_was_to_be_reported_is_kept_once() -> None:
    tools = Tools()
    line = ToolCalls("s1", tools)
    line.ask(said("a", **{"as": "run"}))
    line.ask(said("b", **{"as": "quiet"}))
    assert line.add_result(told("a", response={"n": 1}, effects={"state_delta": {"k": 1}})) is None
    [(tool, reply)] = tools.kept
    assert (tool, reply.response, reply.error) == ("t", {"n": 1}, None)
    assert reply.effects == {"state_delta": {"k": 1}}
    for call in ("a", "b", "never asked"):
        failure = line.add_result(told(call, response=1))
        assert failure is not None
        assert failure.kind is FailureKind.PROTOCOL


@pytest.mark.parametrize("tools", [None, Tools()])
def test_what_has_no_place(tools: Tools | None) -> None:
    line = ToolCalls("s1", tools)
    if tools is not None:  # a name for a second call
        line.ask(said("a"))
    failure = line.ask(said("a"))
    assert failure is not None
    assert failure.kind is FailureKind.PROTOCOL


@pytest.mark.parametrize(
    ("answer", "fields"),
    [
        (CallAnswer(report=True), {"run": True, "report": True}),
        (CallAnswer(refusal="no"), {"refused": "no"}),
        (CallAnswer(reply=ToolReply(response=None)), {"response": None}),
        (
            CallAnswer(reply=ToolReply(error=ToolError(type="E", message="m"), effects={"a": 1})),
            {"error": {"type": "E", "message": "m"}, "effects": {"a": 1}},
        ),
    ],
)
def test_answers_as_messages(answer: CallAnswer, fields: dict[str, Any]) -> None:
    message = protocol.tool_response("s1", call="t1", answer=answer)
    assert message == {"type": "tool_response", "session": "s1", "call": "t1", **fields}


def test_the_messages_are_read_as_every_other() -> None:
    line = json.dumps(
        {"type": "tool_call", "session": "s1", "call": "t1", "name": "t", "new": 1}
    ).encode()
    read = protocol.parse_worker_message(line)
    assert isinstance(read, ToolCallMessage)
    assert (read.args, read.kind) == ({}, "tool")
    result = protocol.parse_worker_message(
        b'{"type":"tool_result","session":"s1","call":"t1","error":{"message":"m"}}'
    )
    assert isinstance(result, ToolResultMessage)
    assert (result.response, result.error) == (None, ToolError(type="RuntimeError", message="m"))
    with pytest.raises(protocol.ProtocolError, match="kind"):
        protocol.parse_worker_message(
            b'{"type":"tool_call","session":"s","call":"c","name":"t","kind":"odd"}'
        )


def test_tools_are_asked_for_only_where_that_is_wished() -> None:
    assert "tools" not in protocol.hello({})
    assert protocol.hello({}, tools="replay")["tools"] == "replay"
