"""Which message may come when, and how much of it."""

import queue

import pytest

from evalgate.agents.protocol import (
    EndedMessage,
    EventMessage,
    MetricResult,
    SessionMessage,
    Stalled,
    Started,
    TraceMessage,
    TurnEnd,
    TurnFailed,
)
from evalgate.agents.worker_process import MOST_EVENTS, Mailbox, Mailboxes, Phase
from evalgate.model import AgentFailure, FailureKind

LIMIT = 1000


def boxes() -> Mailboxes:
    return Mailboxes(output_bytes=LIMIT)


def mail(box: Mailbox) -> list[object]:
    found: list[object] = []
    while True:
        try:
            steps, message = box.mail.get_nowait()
        except queue.Empty:
            return [*found, *box.steps]
        found += [*steps, message]


def started(name: str = "s1") -> Started:
    return Started(type="started", session=name)


def event(name: str = "s1") -> EventMessage:
    return EventMessage(type="event", session=name)


def traced(name: str = "s1") -> TraceMessage:
    return TraceMessage(type="trace", session=name, number=0, entry={})


def turn_end(name: str = "s1") -> TurnEnd:
    return TurnEnd(type="turn_end", session=name)


def turn_failed(name: str = "s1") -> TurnFailed:
    return TurnFailed(type="turn_failed", session=name, message="no")


def ended(name: str = "s1") -> EndedMessage:
    return EndedMessage(type="ended", session=name)


@pytest.mark.parametrize(
    ("phase", "message", "welcome"),
    [
        (Phase.STARTING, started(), True),
        (Phase.STARTING, turn_failed(), True),
        (Phase.STARTING, event(), False),
        (Phase.TURN, event(), True),
        (Phase.TURN, traced(), True),
        (Phase.IDLE, traced(), False),
        (Phase.TURN, turn_end(), True),
        (Phase.TURN, turn_failed(), True),
        (Phase.TURN, started(), False),
        (Phase.TURN, ended(), False),
        (Phase.ENDING, ended(), True),
        (Phase.ENDING, turn_failed(), True),
        (Phase.ENDING, event(), False),
        (Phase.IDLE, event(), False),  # it would be taken for a part of the next turn
        (Phase.IDLE, turn_end(), False),
    ],
)
def test_a_message_is_welcome_only_in_its_place(
    phase: Phase, message: SessionMessage, welcome: bool
) -> None:
    all_boxes = boxes()
    box = all_boxes.open(phase)
    failure = all_boxes.add(message, size=10)
    assert (failure is None) is welcome
    assert mail(box) == ([message] if welcome else [])
    assert failure is None or failure.kind is FailureKind.PROTOCOL


def test_steps_wake_nobody_and_come_with_what_does() -> None:
    all_boxes = boxes()
    box = all_boxes.open(Phase.TURN)
    for message in (event(), traced()):
        assert all_boxes.add(message, size=10) is None
    assert box.mail.empty()
    assert all_boxes.add(turn_end(), size=10) is None
    assert box.mail.get_nowait() == ([event(), traced()], turn_end())


def test_a_turn_ends_once() -> None:
    all_boxes = boxes()
    all_boxes.open(Phase.TURN)
    assert all_boxes.add(turn_end(), size=10) is None
    assert all_boxes.add(turn_end(), size=10) is not None


def test_late_answers_are_dropped_and_counted() -> None:
    all_boxes = boxes()
    box = all_boxes.open(Phase.TURN)
    all_boxes.close(box)
    assert all_boxes.add(event(), size=LIMIT) is None
    assert mail(box) == []
    failure = all_boxes.add(event(), size=1)
    assert failure is not None
    assert failure.kind is FailureKind.FLOODED


@pytest.mark.parametrize("name", ["s2", "s0", "m99", "x1", "s", "", "s1x", "s" + "9" * 5000, "s²"])
def test_a_conversation_that_never_was_is_a_lie(name: str) -> None:
    all_boxes = boxes()
    all_boxes.open(Phase.TURN)
    failure = all_boxes.add(event(name), size=1)
    assert failure is not None
    assert failure.kind is FailureKind.PROTOCOL
    assert len(failure.message) < 300


def test_bytes_are_counted_turn_by_turn() -> None:
    all_boxes = boxes()
    box = all_boxes.open(Phase.TURN)
    assert all_boxes.add(event(), size=LIMIT - 1) is None
    assert all_boxes.add(turn_end(), size=1) is None
    box.enter(Phase.TURN)
    assert all_boxes.add(event(), size=LIMIT) is None
    failure = all_boxes.add(event(), size=1)
    assert failure is not None
    assert failure.kind is FailureKind.FLOODED


def test_one_conversation_does_not_use_up_the_room_of_another() -> None:
    all_boxes = boxes()
    all_boxes.open(Phase.TURN)
    all_boxes.open(Phase.TURN)
    assert all_boxes.add(event("s1"), size=LIMIT) is None
    assert all_boxes.add(event("s2"), size=LIMIT) is None


def test_events_are_counted_too() -> None:
    all_boxes = Mailboxes(output_bytes=10**9)
    all_boxes.open(Phase.TURN)
    failures = [all_boxes.add(event(), size=1) for _ in range(MOST_EVENTS + 1)]
    assert failures[:-1] == [None] * MOST_EVENTS
    assert failures[-1] is not None
    assert failures[-1].kind is FailureKind.FLOODED


def test_a_metric_gets_its_own_answer() -> None:
    all_boxes = boxes()
    box = all_boxes.open(Phase.METRIC)
    result = MetricResult(type="metric_result", id=box.name, score=1.0)
    assert all_boxes.add(result, size=1) is None
    assert mail(box) == [result]


def test_the_end_of_a_worker_reaches_every_conversation_and_says_that_it_was_shared() -> None:
    all_boxes = boxes()
    both = [all_boxes.open(Phase.TURN), all_boxes.open(Phase.IDLE)]
    all_boxes.end(AgentFailure(kind=FailureKind.KILLED, message="gone"))
    for box in both:
        [failure] = mail(box)
        assert isinstance(failure, AgentFailure)
        assert failure.kind is FailureKind.KILLED
        assert "1 other conversation" in failure.message


def test_a_box_that_is_opened_too_late_holds_the_loss() -> None:
    all_boxes = boxes()
    failure = AgentFailure(kind=FailureKind.EXITED, message="gone")
    all_boxes.end(failure)
    assert mail(all_boxes.open(Phase.STARTING)) == [failure]


@pytest.mark.parametrize(
    ("steps", "holder"),
    [
        (["stalled s1"], "s1"),
        (["stalled s1", "stalled s2"], "s2"),
        (["stalled s1", "resumed"], ""),
        (["stalled s1", "answered s1"], ""),
        (["stalled s1", "closed s1"], ""),
        (["stalled s1", "closed s2"], "s1"),
        (["stalled s9"], ""),  # nobody knows it
        (["answered s1", "stalled s1"], ""),  # it waits for nothing
    ],
)
def test_which_conversation_stalls_the_worker(steps: list[str], holder: str) -> None:
    all_boxes = boxes()
    both = {box.name: box for box in (all_boxes.open(Phase.TURN), all_boxes.open(Phase.TURN))}
    for step in steps:
        what, _, name = step.partition(" ")
        match what:
            case "stalled":
                all_boxes.note_stall(Stalled(type="stalled", session=name, seconds=1.0))
            case "resumed":
                all_boxes.note_stall(None)
            case "answered":
                all_boxes.add(turn_end(name), size=1)
            case "closed":
                all_boxes.close(both[name])
    stall = all_boxes.stall()
    assert (stall.session if stall else "") == holder
