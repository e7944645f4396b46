"""The conversation with evalgate: one event loop, many sessions, one task for whatever is under way."""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from . import faults
from .pipe import Pipe
from .tool_desk import CURRENT, ToolDesk

PROTOCOL = 1
CLOSE_GRACE_S = 5.0

Message = dict[str, Any]


class Session(Protocol):
    """One conversation with the agent."""

    async def turn(self, content: Message, emit: Callable[[Message], None]) -> Message:
        """Run a turn, give every event to `emit`; the fields of `turn_end`. Raises what the agent raises."""

    async def end(self) -> Message:
        """The fields of `ended`."""


class Host(Protocol):
    """One kind of agent; `asks`: its tools can be asked about, known once it is loaded."""

    sessions: int
    asks: bool

    async def load(self, options: Message) -> dict[str, str]:
        """Import the agent; what to say about it. Raises faults.CannotLoad."""

    async def open(self, start: Message, desk: ToolDesk | None) -> Session:
        """A fresh session; with a desk, its tools are asked about there."""

    async def metric(self, message: Message) -> Message:
        """The fields of `metric_result`; faults are its `error`."""

    async def close(self) -> None:
        """Let go of what the agent holds open."""


class Server:
    """Turns messages into calls of a host, and what comes of them into messages."""

    def __init__(self, pipe: Pipe, host: Host) -> None:
        self._pipe = pipe
        self._host = host
        self._inbox: asyncio.Queue[Message | None] = asyncio.Queue()
        self._sessions: dict[str, Session] = {}
        self._turns: dict[str, asyncio.Task[Any]] = {}
        self._given_up: set[str] = set()
        self._asks = False
        self._desks: dict[str, ToolDesk] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Serve until `bye` or the end of input; the exit code."""
        threading.Thread(target=self._read, args=(asyncio.get_running_loop(),), daemon=True).start()
        hello = await self._inbox.get()
        if hello is None:
            return 0
        if not await self._greet(hello):
            return 1
        while True:
            message = await self._inbox.get()
            if message is None or message.get("type") == "bye":
                break
            self._begin(self._handle(message))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_GRACE_S)
        try:
            await asyncio.wait_for(self._host.close(), timeout=CLOSE_GRACE_S)
        except Exception as error:
            sys.stderr.write(f"while closing the agent: {faults.sentence(error)}\n")
        return 0

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            for message in self._pipe.messages():
                if message.get("type") == "tool_response":
                    self._answer(message)
                else:
                    loop.call_soon_threadsafe(self._inbox.put_nowait, message)
        except ValueError as error:
            self._pipe.send({"type": "fatal", "kind": "protocol", "message": str(error), "detail": ""})
        loop.call_soon_threadsafe(self._inbox.put_nowait, None)

    def _answer(self, message: Message) -> None:
        """From here and not from the loop, so that a plain function which waits on the loop is answered, too."""
        desk = self._desks.get(str(message.get("session", "")))
        if desk is not None:
            desk.tell(message)

    async def _greet(self, hello: Message) -> bool:
        if hello.get("type") != "hello" or hello.get("protocol") != PROTOCOL:
            text = f"this worker speaks protocol {PROTOCOL} and was greeted with {hello.get('protocol')!r}"
            self._pipe.send({"type": "fatal", "kind": "protocol", "message": text, "detail": ""})
            return False
        try:
            about = await self._host.load(hello.get("options") or {})
        except BaseException as error:
            found = error.found if isinstance(error, faults.CannotLoad) else faults.describe_start(error, "the agent")
            self._pipe.send({"type": "fatal", **found})
            return False
        ready = {"type": "ready", "protocol": PROTOCOL, "about": about, "sessions": self._host.sessions}
        self._asks = bool(hello.get("tools")) and self._host.asks
        self._pipe.send({**ready, "tools": True} if self._asks else ready)
        return True

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, message: Message) -> None:
        kind = message.get("type")
        name = str(message.get("session", ""))
        try:
            if kind == "start":
                if self._asks:
                    self._desks[name] = ToolDesk(self._pipe.send, name)
                self._sessions[name] = await self._host.open(message, self._desks.get(name))
                self._pipe.send({"type": "started", "session": name})
            elif kind == "turn":
                await self._turn(name, message)
            elif kind == "end":
                await self._end(name)
            elif kind == "metric":
                answer = await self._host.metric(message)
                self._pipe.send({"type": "metric_result", "id": message.get("id"), **answer})
            else:
                raise ValueError(f"unknown message type {kind!r}")
        except BaseException as error:
            if name in self._given_up:
                self._given_up.discard(name)
            else:
                self._fail(kind, name, message, error)

    async def _turn(self, name: str, message: Message) -> None:
        def emit(event: Message) -> None:
            if name not in self._given_up:
                self._pipe.hold({"type": "event", "session": name, **event})

        session = self._sessions[name]
        CURRENT.set(self._desks.get(name))
        self._turns[name] = asyncio.ensure_future(session.turn(message.get("content") or {}, emit))
        try:
            answer = await self._turns[name]
        finally:
            self._turns.pop(name, None)
        if name not in self._given_up:
            self._pipe.send({"type": "turn_end", "session": name, **answer})

    async def _end(self, name: str) -> None:
        """End a session; a turn that is under way is given up, and nothing more is said of it."""
        self._dismiss(name)
        session = self._sessions.pop(name, None)
        if session is None:
            return
        turn = self._turns.get(name)
        if turn is not None:
            self._given_up.add(name)
            turn.cancel()
            await asyncio.wait([turn], timeout=CLOSE_GRACE_S)
        self._pipe.send({"type": "ended", "session": name, **await session.end()})

    def _dismiss(self, name: str) -> None:
        desk = self._desks.pop(name, None)
        if desk is not None:
            desk.close()

    def _fail(self, kind: Any, name: str, message: Message, error: BaseException) -> None:
        if kind == "metric":
            answer = {"id": message.get("id"), "score": None, "error": faults.sentence(error)}
            self._pipe.send({"type": "metric_result", **answer})
            return
        found = error.found if isinstance(error, faults.ModelAnsweredError) else faults.describe(error)
        self._dismiss(name)
        self._sessions.pop(name, None)
        self._pipe.send({"type": "turn_failed", "session": name, **found})


def serve(pipe: Pipe, host: Host) -> int:
    """Serve and leave; a `sys.exit` somewhere in the agent ends its turn, not the other sessions."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    main = loop.create_task(Server(pipe, host).run())
    while not main.done():
        try:
            loop.run_until_complete(main)
        except (SystemExit, KeyboardInterrupt):
            # asyncio lets these two escape from the loop although a task holds them already: go on where it stood.
            continue
    code = main.result()
    _leave(code)
    return code


def _leave(code: int) -> None:
    """Exit with the agent's own exit hooks, but without waiting for its threads or taking thousands of modules down."""
    atexit._run_exitfuncs()  # noqa: SLF001 - the one way to run them without a full shutdown
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(code)
