"""The tool calls of one conversation on the line: asked, answered (some of them later), and told."""

from __future__ import annotations

import heapq
import time
from collections.abc import Mapping
from typing import Any

from evalgate.model import FailureKind
from evalgate.plugins import AskedCall, RunTool, TrialTools, Unmatched
from evalgate.sessions import losses, tool_messages
from evalgate.sessions.losses import Loss
from evalgate.sessions.tool_messages import ToolCallSaid, ToolResultSaid


class ToolLine:
    """Keeps the books of a conversation's tool calls; `tools` None: nothing is ever asked.

    Answers that take their time wait here, so that calls which were made at once are answered side by side.
    """

    def __init__(self, session: str, tools: TrialTools | None) -> None:
        self._session = session
        self._tools = tools
        self._asked: dict[str, AskedCall] = {}
        self._running: set[str] = set()
        self._waiting: list[tuple[float, int, dict[str, Any]]] = []

    @property
    def names(self) -> frozenset[str]:
        """The tools that were asked for."""
        return frozenset(call.tool for call in self._asked.values())

    @property
    def active(self) -> bool:
        """Whether every tool has to be asked for."""
        return self._tools is not None

    def ask(self, said: ToolCallSaid) -> Loss | None:
        """Decide on a call; its answer is among those that are `due`. A loss where the call ends the conversation."""
        if self._tools is None:
            return losses.misplaced(said.type, "where tools run without a request")
        if said.call in self._asked:
            return losses.misplaced(said.type, f"with the name {said.call[:80]!r} for a second call")
        call = AskedCall(number=len(self._asked) + 1, tool=said.name, args=said.args, kind=said.kind)
        self._asked[said.call] = call
        answer = self._tools.answer(call)
        if isinstance(answer, RunTool) and answer.report:
            self._running.add(said.call)
        delay_s = 0.0 if isinstance(answer, Unmatched) else answer.delay_s
        message = tool_messages.tool_response(self._session, call=said.call, answer=answer)
        heapq.heappush(self._waiting, (time.monotonic() + delay_s, call.number, message))
        if isinstance(answer, Unmatched):
            return Loss(kind=FailureKind.TOOL_UNMATCHED, message=answer.message)
        return None

    def tell(self, said: ToolResultSaid) -> Loss | None:
        """What came of a call; a loss where nobody wanted to know."""
        if self._tools is None or said.call not in self._running:
            return losses.misplaced(said.type, f"for {said.call[:80]!r}, an unexpected call")
        self._running.discard(said.call)
        self._tools.keep(self._asked[said.call], said.reply())
        return None

    def due_in(self) -> float | None:
        """Seconds until the next answer is to be sent; None where none waits."""
        return max(self._waiting[0][0] - time.monotonic(), 0.0) if self._waiting else None

    def due(self) -> list[Mapping[str, Any]]:
        """The answers whose time has come; they wait no longer."""
        now = time.monotonic()
        ready: list[Mapping[str, Any]] = []
        while self._waiting and self._waiting[0][0] <= now:
            ready.append(heapq.heappop(self._waiting)[2])
        return ready

    def finish(self) -> None:
        """The conversation came to its end. Raises UnavailableError where what was recorded cannot be kept."""
        if self._tools is not None:
            self._tools.finish()
