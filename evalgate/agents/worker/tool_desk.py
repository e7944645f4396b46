"""Asking evalgate what becomes of a tool call, and doing what it says."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextvars import ContextVar
from typing import Any

from .pipe import plain

Message = dict[str, Any]

NATIVE = (str, int, float, bool, dict, list)


class ToolRefused(Exception):  # noqa: N818 - it says what happened
    """Nothing answers this call, and it must not run."""


class ToolDesk:
    """The tool calls of one session; used from the event loop and from the threads of plain functions."""

    def __init__(self, send: Callable[[Message], None], session: str) -> None:
        self._send = send
        self._session = session
        self._lock = threading.Lock()
        self._waiting: dict[str, Future[Message]] = {}
        self._issued = 0
        self._closed = False
        self.asked: set[str] = set()
        self.listings: dict[str, list[Any]] = {}

    def ask(self, name: str, args: Any, kind: str = "tool") -> Call:
        """Ask about a call. Raises ToolRefused where the conversation is over."""
        answer: Future[Message] = Future()
        with self._lock:
            if self._closed:
                raise ToolRefused(f"the conversation was over when the tool {name!r} was called")
            self._issued += 1
            number = f"t{self._issued}"
            self._waiting[number] = answer
            self.asked.add(name)
        told = {"call": number, "name": name, "args": plain(dict(args or {})), "kind": kind}
        self._send({"type": "tool_call", "session": self._session, **told})
        return Call(self, number, answer)

    def tell(self, message: Message) -> None:
        """An answer has come."""
        with self._lock:
            answer = self._waiting.pop(str(message.get("call")), None)
        if answer is not None:
            with contextlib.suppress(InvalidStateError):  # its turn was given up
                answer.set_result(message)

    def report(self, number: str, fields: Message) -> None:
        """What came of a call that ran."""
        self._send({"type": "tool_result", "session": self._session, "call": number, **fields})

    def close(self) -> None:
        """Nobody answers any more: whoever waits is refused, and so is whoever asks again."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = list(self._waiting.values()), {}
        for answer in waiting:
            with contextlib.suppress(InvalidStateError):
                answer.set_result({"refused": "the conversation is over"})


class Call:
    """One call that was asked about."""

    def __init__(self, desk: ToolDesk, number: str, answer: Future[Message]) -> None:
        self._desk = desk
        self._number = number
        self._answer = answer

    def wait(self, run: Callable[[], Any]) -> Any:
        """The call's result: what evalgate says, or what `run` gives. Raises what the tool raises, and ToolRefused."""
        answer = self._answer.result()
        if not answer.get("run"):
            return given(answer)
        try:
            result = run()
        except Exception as error:
            self._tell(answer, failure(error))
            raise
        self._tell(answer, {"response": recordable(result)})
        return result

    async def settle(
        self,
        run: Callable[[], Awaitable[Any]],
        *,
        effects: Callable[[], Message] = dict,
        apply: Callable[[Message], object] = dict,
    ) -> Any:
        """The same without blocking; `effects` tells what else the call did, `apply` does it again."""
        answer = await asyncio.wrap_future(self._answer)
        if not answer.get("run"):
            apply(answer.get("effects") or {})
            return given(answer)
        try:
            result = await run()
        except Exception as error:
            self._tell(answer, {**failure(error), **_if_any(effects())})
            raise
        self._tell(answer, {"response": recordable(result), **_if_any(effects())})
        return result

    def _tell(self, answer: Message, fields: Message) -> None:
        if answer.get("report"):
            self._desk.report(self._number, fields)


def given(answer: Message) -> Any:
    """What evalgate says that the tool gives. Raises what it says that the tool raises, and ToolRefused."""
    if "refused" in answer:
        raise ToolRefused(str(answer["refused"]))
    error = answer.get("error")
    if isinstance(error, dict):
        raise simulated(str(error.get("type") or "RuntimeError"), str(error.get("message") or ""))
    return answer.get("response")


def recordable(result: Any) -> Any:
    """A result as JSON; what is no JSON of its own becomes the `result` of an object, as frameworks make it."""
    return plain(result) if result is None or isinstance(result, NATIVE) else {"result": plain(result)}


def failure(error: Exception) -> Message:
    """An exception as the field `error`."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(error)
    except Exception:
        message = ""
    return {"error": {"type": name, "message": message}}


def simulated(name: str, message: str) -> Exception:
    """An exception that is caught as the named one is, where that is known here, and that says `message`.

    `simulated_tool_error` marks it: what looks like a lost connection is none that another try could cure.
    """
    module, _, short = name.rpartition(".")
    found = getattr(sys.modules.get(module) if module else builtins, short, None)
    base = found if isinstance(found, type) and issubclass(found, Exception) else Exception
    members = {"__init__": Exception.__init__, "__str__": lambda _: message, "simulated_tool_error": True}
    try:
        return type(short, (base,), members)(message)  # type: ignore[no-any-return]  # an Exception, as its base is
    except Exception:
        return RuntimeError(message)


def _if_any(effects: Message) -> Message:
    return {"effects": effects} if effects else {}


CURRENT: ContextVar[ToolDesk | None] = ContextVar("evalgate_tools", default=None)
"""The desk of the session that the running task works for; None where tools just run."""
