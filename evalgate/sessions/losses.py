"""Why a worker is gone, in words: exits, signals, floods, lies."""

from __future__ import annotations

from dataclasses import dataclass

from evalgate import words
from evalgate.model import FailureKind
from evalgate.process.child import Ended

EXCERPT = 200
SHELL_SAYS_SIGNAL = range(129, 160)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Why a worker, or a conversation with it, is of no use any more. `retry_after_s`: what its provider asks for."""

    kind: FailureKind
    message: str
    detail: str = ""
    retry_after_s: float | None = None


def of_end(ended: Ended, *, unfinished: bytes, memory_bytes: int | None) -> Loss:
    """It ended by itself or by somebody else's signal; `memory_bytes` where its memory was capped."""
    kind = FailureKind.EXITED if ended.signal is None else FailureKind.KILLED
    text = f"the agent's process {ended}"
    if ended.returncode in SHELL_SAYS_SIGNAL:
        text += f", which means signal {ended.returncode - 128}"
    if ended.signal == 9 or ended.returncode == 137:
        text += " (out of memory?)"
    if memory_bytes is not None and not 0 <= ended.returncode < SHELL_SAYS_SIGNAL.start:
        text += f"; its memory is capped at {words.size(memory_bytes)}"
    if unfinished:
        text += f", in the middle of a line: {excerpt(unfinished)}"
    return Loss(kind=kind, message=text)


def in_company(loss: Loss, others: int) -> Loss:
    """The same, told to one of several conversations: any of them may be the cause."""
    if others < 1:
        return loss
    company = words.counted(others, "other conversation")
    text = f"{loss.message}; {company} ran in the same process (with `isolation: case` only the cause would fail)"
    return Loss(kind=loss.kind, message=text, detail=loss.detail)


def flooded(limit: str) -> Loss:
    """It said more than the limit, named in words."""
    return Loss(kind=FailureKind.FLOODED, message=f"the agent produced more than {limit}")


def garbled(why: str, line: bytes) -> Loss:
    """It wrote something that is no message."""
    text = f"the agent wrote a line to standard output that {why} (logs belong on standard error): {excerpt(line)}"
    return Loss(kind=FailureKind.PROTOCOL, message=text)


def misplaced(message_type: str, about: str) -> Loss:
    """It said something that has no place in the conversation."""
    return Loss(kind=FailureKind.PROTOCOL, message=f"the agent said {message_type!r} {about}")


def excerpt(line: bytes) -> str:
    """The beginning of a line, quoted."""
    text = line[: EXCERPT * 4].decode("utf-8", "backslashreplace")
    return repr(text[:EXCERPT] + (" ..." if len(text) > EXCERPT or len(line) > EXCERPT * 4 else ""))
