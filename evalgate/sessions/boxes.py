"""Where the messages of each conversation wait for their reader, and which message may come when."""

from __future__ import annotations

import enum
import queue
import threading
from collections.abc import Mapping
from typing import TypeAlias

from evalgate import words
from evalgate.sessions import losses
from evalgate.sessions.losses import Loss
from evalgate.sessions.messages import (
    EndedSaid,
    EventSaid,
    MetricResult,
    SessionMessage,
    Started,
    TurnEnd,
    TurnFailed,
)
from evalgate.sessions.tool_messages import ToolCallSaid, ToolResultSaid

MOST_EVENTS = 20_000  # in one turn: small events take many times their bytes in memory

Mail: TypeAlias = SessionMessage | MetricResult | Loss


class Phase(enum.Enum):
    """What a box waits for."""

    STARTING = "being opened"
    IDLE = "not in a turn"
    TURN = "in a turn"
    ENDING = "being ended"
    METRIC = "grading"


_EXPECTED: Mapping[Phase, tuple[type, ...]] = {
    Phase.STARTING: (Started, TurnFailed),
    Phase.IDLE: (),
    Phase.TURN: (EventSaid, ToolCallSaid, ToolResultSaid, TurnEnd, TurnFailed),
    Phase.ENDING: (EndedSaid, TurnFailed),
    Phase.METRIC: (MetricResult,),
}


class Box:
    """The mail of one conversation, or the result of one metric."""

    __slots__ = ("bytes", "events", "mail", "name", "phase")

    def __init__(self, name: str, phase: Phase) -> None:
        self.name = name
        self.mail: queue.SimpleQueue[Mail] = queue.SimpleQueue()
        self.enter(phase)

    def enter(self, phase: Phase) -> None:
        """Wait for something else now; the count of bytes and events begins anew."""
        self.phase = phase
        self.bytes = 0
        self.events = 0


class Boxes:
    """All boxes of one worker; safe to use from many threads.

    `output_bytes` bounds what one box takes in one turn, and what comes for boxes that are closed.
    """

    def __init__(self, *, output_bytes: int) -> None:
        self._output_bytes = output_bytes
        self._lock = threading.Lock()
        self._boxes: dict[str, Box] = {}
        self._issued = 0
        self._late_bytes = 0
        self._ended: Loss | None = None

    def open(self, phase: Phase) -> Box:
        """A box under a new name; where the worker has ended already, its loss is in it."""
        with self._lock:
            self._issued += 1
            box = Box(f"{'m' if phase is Phase.METRIC else 's'}{self._issued}", phase)
            self._boxes[box.name] = box
            if self._ended is not None:
                box.mail.put(self._ended)
            return box

    def close(self, box: Box) -> None:
        """Nobody listens any more: what still comes for it is dropped."""
        with self._lock:
            self._boxes.pop(box.name, None)

    def deliver(self, message: SessionMessage | MetricResult, *, size: int) -> Loss | None:
        """Put a message of `size` bytes into its box; a loss where it has no place there, or no room."""
        name = message.id if isinstance(message, MetricResult) else message.session
        with self._lock:
            box = self._boxes.get(name)
            if box is None:
                return self._late(message, name, size)
            if not isinstance(message, _EXPECTED[box.phase]):
                return losses.misplaced(message.type, f"for a conversation that is {box.phase.value}")
            box.bytes += size
            box.events += 1
            if box.bytes > self._output_bytes:
                return losses.flooded(f"{words.size(self._output_bytes)} in one turn")
            if box.events > MOST_EVENTS:
                return losses.flooded(f"{MOST_EVENTS:,} events in one turn")
            if not isinstance(message, EventSaid | ToolCallSaid | ToolResultSaid):
                box.phase = Phase.IDLE
            box.mail.put(message)
            return None

    def end(self, loss: Loss) -> None:
        """Tell every conversation that the worker is gone."""
        with self._lock:
            self._ended = loss
            for box in self._boxes.values():
                box.mail.put(losses.in_company(loss, len(self._boxes) - 1))

    def _late(self, message: SessionMessage | MetricResult, name: str, size: int) -> Loss | None:
        number = name[1:]
        known = name[:1] in {"s", "m"} and number.isdecimal() and 1 <= int(number[:18]) <= self._issued
        if not known:
            return losses.misplaced(message.type, f"for {name[:80]!r}, an unknown conversation")
        self._late_bytes += size
        if self._late_bytes > self._output_bytes:
            return losses.flooded(f"{words.size(self._output_bytes)} in conversations that had ended")
        return None
