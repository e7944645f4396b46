"""The worker's end of the protocol: one JSON object per line, on streams that the agent cannot
reach."""

from __future__ import annotations

import io
import json
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

Message = dict[str, Any]
"""A message of the protocol, or a part of one: a JSON object."""
Emit = Callable[[Message], None]
"""Gets each message of a turn at once."""

BUFFER_BYTES = 64 * 1024
"""Kept messages are written as soon as they exceed this."""
CONFIRMATION = "adk_request_confirmation"
"""Asks the user whether a tool may run."""
INPUT = "adk_request_input"
"""Asks the user for a value."""
QUESTIONS = frozenset({CONFIRMATION, INPUT, "adk_request_credential"})
"""Names of google-adk's question calls."""


class Pipe:
    """Lines in and lines out. `send` and `keep` may be called from any thread."""

    def __init__(self, source: io.BufferedReader, sink: int) -> None:
        """`sink`: a descriptor, since no buffer may hold back a part of a message."""
        self._source = source
        self._sink = sink
        self._lock = threading.Lock()
        self._buffer = bytearray()
        """Kept messages, each with its end of line."""

    def messages(self) -> Iterator[Message]:
        """Every message until the end of input. Raises ValueError for a line without a JSON
        object."""
        for line in self._source:
            if not line.strip():
                continue
            message = json.loads(line)
            if not isinstance(message, dict):
                raise ValueError("a protocol message is a JSON object")  # noqa: TRY004 - an error of the text
            yield message

    def send(self, message: Message) -> None:
        """Write one message after the kept ones. A missing parent ends the worker."""
        line = encode(message)
        with self._lock:
            self._buffer += line
            self._write()

    def keep(self, message: Message) -> None:
        """Keep one message for the next `send`, because nobody waits for it and each write wakes
        the reader."""
        line = encode(message)
        with self._lock:
            self._buffer += line
            if len(self._buffer) > BUFFER_BYTES:
                self._write()

    def _write(self) -> None:
        """Write all that is kept; the lock is held."""
        data, self._buffer = bytes(self._buffer), bytearray()
        try:
            while data:
                data = data[os.write(self._sink, data) :]
        except BrokenPipeError:
            os._exit(0)


def encode(message: Message) -> bytes:
    """One line of strict JSON. A value without a JSON form is written as text, never as an invalid
    token."""
    try:
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(
            to_json(message), ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )
    # A lone surrogate has no UTF-8; its backslash form is the JSON escape for it.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def present(**fields: Any) -> Message:
    """The fields that are not empty."""
    return {name: value for name, value in fields.items() if value}


def dump_model(value: Any) -> Any:
    """A pydantic model as JSON, as far as possible. `encode` converts the remaining Python
    values."""
    if not hasattr(value, "model_dump"):
        return value
    try:
        return value.model_dump(mode="json", exclude_none=True)
    except Exception:
        return value.model_dump(mode="python", exclude_none=True)


def to_json(value: Any, depth: int = 0) -> Any:
    """The nearest JSON of any Python value: tuples become lists, unknown objects and NaN their
    repr."""
    if (
        value is None
        or isinstance(value, (str, int))
        or (isinstance(value, float) and math.isfinite(value))
    ):
        return value
    if depth < 60:
        if isinstance(value, dict):
            # keys as `json.dumps` writes them
            return {
                str(key).lower() if isinstance(key, bool) else str(to_json(key)): to_json(
                    member, depth + 1
                )
                for key, member in value.items()
            }
        if isinstance(value, (list, tuple, set, frozenset)):
            return [to_json(member, depth + 1) for member in value]
        dump = getattr(value, "model_dump", None)
        if callable(dump) and not isinstance(value, type):
            try:
                content = dump(mode="python", exclude_none=True)
            except Exception as error:
                content = f"<{type(error).__name__} while reading it>"
            return to_json(content, depth + 1)
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def claim() -> Pipe:
    """Keep the real standard streams for the protocol and give the agent harmless ones.

    Output of the agent, its extensions and its children goes to standard error. Their standard
    input is empty. Children do not inherit the private descriptors."""
    source = os.dup(0)
    sink = os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - descriptors, for the process's life
    sys.stdout = sys.__stdout__ = open(  # type: ignore[misc]  # noqa: SIM115 - as above; the original wrote to the protocol
        1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    return Pipe(open(source, "rb"), sink)
