"""What is said of a worker that stops answering."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from evalgate.agents import protocol
from evalgate.agents.base import AgentFailed, AgentLimits
from evalgate.agents.protocol import Stalled
from evalgate.agents.worker_process import Mailboxes, Phase, WorkerConversation, running_tools
from evalgate.formats.adk_shapes import StepEvent
from evalgate.model import (
    AgentFailure,
    Case,
    Content,
    FailureKind,
    Text,
    ToolCall,
    ToolResponse,
    Usage,
)

ANSWERS: Mapping[str, list[Mapping[str, Any]]] = {
    "start": [{"type": "started"}],
    "turn": [{"type": "turn_end"}],
    "end": [{"type": "ended"}],
}


class Worker:
    """Answers at once, but for the messages of one type."""

    failure: AgentFailure | None = None

    asks = takes_history = False

    def __init__(self, silent: str) -> None:
        self.boxes, self.silent, self.said = Mailboxes(output_bytes=10_000), silent, list[str]()
        self.answers, self.asked = ANSWERS, dict[str, Mapping[str, Any]]()

    def send(self, message: Mapping[str, Any], *, timeout_s: float) -> None:
        self.said.append(message["type"])
        self.asked[message["type"]] = message
        if message["type"] != self.silent:
            for answer in self.answers[message["type"]]:
                parsed = protocol.parse_worker_message(
                    json.dumps({**answer, "session": message["session"]}).encode()
                )
                assert self.boxes.add(parsed, size=1) is None  # type: ignore[arg-type]  # all of a session

    def redact(self, text: str) -> str:
        return text

    def detail(self) -> str:
        return ""

    def end(self, failure: AgentFailure) -> None:
        self.failure = failure


def conversation_with(
    worker: Worker,
    *,
    turn_timeout_s: float = 0.1,
    on_timeout: Callable[[], None] = lambda: None,
) -> WorkerConversation:
    return WorkerConversation(
        worker,  # type: ignore[arg-type]  # as much of it as a conversation needs
        case=Case(case_id="c", conversation=()),
        seed=0,
        limits=AgentLimits(turn_timeout_s=turn_timeout_s),
        on_timeout=on_timeout,
        tools=None,
        vouches_for_tools=False,
        traces=None,
    )


@pytest.mark.parametrize(
    ("silent", "turn"),
    [
        ("start", None),
        ("turn", 1),
        ("end", None),  # its turns were all answered in time
    ],
)
def test_a_worker_that_goes_silent_fails_the_turn_that_it_was_asked(
    silent: str, turn: int | None
) -> None:
    worker, gave_up = Worker(silent), list[bool]()

    def talk() -> None:
        conversation = conversation_with(worker, on_timeout=lambda: gave_up.append(True))
        conversation.send(Content(parts=(Text(text="hello"),), role="user"))
        conversation.finish()

    with pytest.raises(AgentFailed) as caught:
        talk()
    failure = caught.value.failure
    assert (failure.kind, failure.turn) == (FailureKind.TIMEOUT, turn)
    assert failure.message == "the agent timed out after 0.1 s (`turn-timeout`)"
    assert len(failure.partial) == (silent == "end")
    assert gave_up == [True]


@pytest.mark.parametrize(
    ("holder", "kind", "words"),
    [
        ("s1", FailureKind.TIMEOUT, "(`turn-timeout`); it waits without `await`"),
        ("s2", FailureKind.UNREACHABLE, "in another conversation it waits without `await`"),
    ],
)
def test_who_blocks_the_process_times_out_and_the_others_are_lost_with_it(
    holder: str, kind: FailureKind, words: str
) -> None:
    worker = Worker("turn")
    conversation = conversation_with(worker)
    worker.boxes.open(Phase.TURN)
    worker.boxes.note_stall(Stalled(type="stalled", session=holder, seconds=1.0))
    with pytest.raises(AgentFailed) as caught:
        conversation.send(Content(parts=(Text(text="hello"),), role="user"))
    assert (caught.value.failure.kind, words in caught.value.failure.message) == (kind, True)
    assert worker.failure is not None
    assert worker.failure.kind is FailureKind.UNREACHABLE
    assert worker.boxes.is_lost_together  # each is run again in a process of its own


@pytest.mark.parametrize(
    ("holder", "kind"), [("s1", FailureKind.TIMEOUT), ("s2", FailureKind.UNREACHABLE)]
)
def test_a_timeout_after_another_conversation_blocked_the_process_is_no_result(
    holder: str, kind: FailureKind
) -> None:
    worker = Worker("turn")
    conversation = conversation_with(worker)
    worker.boxes.note_stall(Stalled(type="stalled", session=holder, seconds=1.0))
    worker.boxes.note_stall(None)
    with pytest.raises(AgentFailed) as caught:
        conversation.send(Content(parts=(Text(text="hello"),), role="user"))
    assert caught.value.failure.kind is kind
    assert worker.boxes.is_lost_together == (kind is FailureKind.UNREACHABLE)
    assert worker.failure is None  # the others go on


def step(*parts: Any, usage: Usage | None = None) -> StepEvent:
    return StepEvent(author="agent", content=Content(role="model", parts=parts), usage=usage)


@pytest.mark.parametrize(
    ("steps", "running"),
    [
        ([], []),
        # called, and answered by its id or its name
        ([step(ToolCall(name="a", id="1"))], ["a"]),
        ([step(ToolCall(name="a", id="1")), step(ToolResponse(name="a", id="1"))], []),
        ([step(ToolCall(name="a")), step(ToolResponse(name="a"))], []),
        # side by side, told in one event or in several
        (
            [
                step(ToolCall(name="a", id="1"), ToolCall(name="a", id="2")),
                step(ToolResponse(name="a", id="2")),
            ],
            ["a"],
        ),
        (
            [step(ToolCall(name="a", id="1"), usage=Usage()), step(ToolCall(name="b", id="2"))],
            ["a", "b"],
        ),
        # a call that gets no answer, such as a handoff, is over when a model speaks
        ([step(ToolCall(name="transfer", id="1")), step(Text(text="hello"))], []),
        (
            [
                step(ToolCall(name="transfer", id="1")),
                step(ToolCall(name="a", id="2"), usage=Usage()),
            ],
            ["a"],
        ),
    ],
)
def test_the_tools_that_were_running(steps: list[StepEvent], running: list[str]) -> None:
    assert running_tools(steps) == running


def test_who_listens_hears_a_text_as_it_comes_which_is_no_step_of_the_turn() -> None:
    """A worker that sends partial texts unasked is understood as well: they are never scored."""
    text = {"type": "event", "author": "a", "partial": True, "content": {"parts": [{"text": "he"}]}}
    whole = {**text, "partial": False, "final": True, "content": {"parts": [{"text": "hello"}]}}
    artifact = {"type": "artifact", "name": "a.png", "version": 0}
    for is_heard in (True, False):
        worker = Worker("")
        worker.answers = {**ANSWERS, "turn": [text, whole, artifact, {"type": "turn_end"}]}
        conversation = conversation_with(worker, turn_timeout_s=300)
        heard: list[Any] = []
        if is_heard:
            conversation.listen(heard.append)
        turn = conversation.send(Content(parts=(Text(text="hello"),), role="user"))
        assert turn.final_response == Content(parts=(Text(text="hello"),))
        assert len(turn.events or ()) == 1
        assert [step.type for step in heard] == ["event", "event", "artifact"] * is_heard
        assert ("live" in worker.asked["turn"]) == is_heard
