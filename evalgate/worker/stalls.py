"""Tells when one session keeps the event loop from all others, as an `async def` does that waits without `await`."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any

from . import errors

STALL_S = 0.5
BEAT_S = 0.2

SESSION: ContextVar[str] = ContextVar("evalgate_session", default="")
"""The session that the running task works for."""


def watch(loop: asyncio.AbstractEventLoop, send: Callable[[dict[str, Any]], None]) -> None:
    """From now on, tell of each stall of the running loop, and of its end; to be called in the loop's thread."""
    beat = time.monotonic()
    thread = threading.get_ident()

    def tick() -> None:
        nonlocal beat
        beat = time.monotonic()
        loop.call_later(BEAT_S, tick)

    def look() -> None:
        told = ""
        while True:
            time.sleep(BEAT_S)
            seconds = time.monotonic() - beat
            frame = sys._current_frames().get(thread) if seconds > STALL_S else None  # noqa: SLF001 - no other way
            session = session_of(frame)
            if session and session != told:
                send({"type": "stalled", "session": session, "seconds": round(seconds, 3), "where": where(frame)})
            elif told and not session:
                send({"type": "resumed"})
            told = session

    tick()
    threading.Thread(target=look, daemon=True).start()


def session_of(frame: FrameType | None) -> str:
    """The session that a loop works for which is at this frame; "" where that is not known."""
    while frame is not None:
        if frame.f_code is asyncio.Handle._run.__code__:  # noqa: SLF001 - runs a task's step in the task's context
            return str(frame.f_locals["self"]._context.get(SESSION, ""))  # noqa: SLF001 - as above
        frame = frame.f_back
    return ""


def where(frame: FrameType | None) -> str:
    """The innermost function that is the user's own, and its line."""
    while frame is not None:
        if errors.is_users(frame.f_code.co_filename):
            return f"{frame.f_code.co_name} ({os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno})"
        frame = frame.f_back
    return ""
