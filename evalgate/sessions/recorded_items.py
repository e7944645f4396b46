"""Where in a large file of recordings each case stands, found without keeping the file in memory."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from evalgate.wire.spelling import to_snake

CHUNK_BYTES: Final = 1024 * 1024
_LISTS: Final = frozenset({"eval_case_results", "eval_cases"})
_DECODER: Final = json.JSONDecoder()
_BLANKS: Final = " \t\r\n\ufeff"


@dataclass(frozen=True, slots=True)
class Item:
    """One case of a file: its id and its bytes, from `start` to before `end`."""

    case_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The cases of one file; `key` is the list that holds them, as the file spells it."""

    key: str
    eval_set_id: str | None
    items: tuple[Item, ...]


def scan(stream: BinaryIO) -> Scan | None:
    """Find the cases of an ADK result or evaluation set; None for every other or unusual file, to be read in whole."""
    window = _Window(stream)
    try:
        return _scan_object(window)
    except ValueError:  # no JSON, no UTF-8, or not the shape: who reads it in whole can say what is wrong
        return None


def _scan_object(window: _Window) -> Scan:
    eval_set_id: str | None = None
    key_of_list = ""
    items: list[Item] = []
    window.expect("{")
    while window.peek() != "}":
        key = window.value()
        window.expect(":")
        if not isinstance(key, str):
            raise ValueError("not a key")  # noqa: TRY004 - a fault of the text, handled as all of them
        if to_snake(key) in _LISTS:
            if key_of_list:
                raise ValueError("two lists of cases")
            key_of_list = key
            items = _scan_list(window)
        else:
            value = window.value()
            if to_snake(key) == "eval_set_id" and isinstance(value, str):
                eval_set_id = value
        if window.peek() == ",":
            window.expect(",")
    window.expect("}")
    if window.peek() or not key_of_list:
        raise ValueError("not a file of cases")
    return Scan(key=key_of_list, eval_set_id=eval_set_id, items=tuple(items))


def _scan_list(window: _Window) -> list[Item]:
    items: list[Item] = []
    window.expect("[")
    while window.peek() != "]":
        start = window.byte()
        raw = window.value()
        items.append(Item(_case_id(raw), start, window.byte()))
        if window.peek() == ",":
            window.expect(",")
    window.expect("]")
    return items


def _case_id(raw: Any) -> str:
    found = (raw.get("eval_id") or raw.get("evalId")) if isinstance(raw, dict) else None
    if not isinstance(found, str):
        raise ValueError("a case without an id")  # noqa: TRY004 - a fault of the text, handled as all of them
    return found


class _Window:
    """The part of a file that is being read, as text, with the way back to byte offsets."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        self._known = (0, 0)  # a place in the text, and its byte offset

    def peek(self) -> str:
        """The next character that is no blank; empty at the end of the file."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANKS:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def expect(self, character: str) -> None:
        """Go past it. Raises ValueError where something else stands."""
        if self.peek() != character:
            raise ValueError(f"expected {character}")
        self._at += 1

    def value(self) -> Any:
        """Read a whole JSON value, with as much of the file as that takes. Raises ValueError."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except ValueError:
                if not self._more():
                    raise
                continue
            if end == len(self._text) and self._more():  # a number may go on
                continue
            self._at = end
            return value

    def byte(self) -> int:
        """The offset in the file of the place that is read next."""
        place, byte = self._known
        self._known = (self._at, byte + len(self._text[place : self._at].encode()))
        return self._known[1]

    def _more(self) -> bool:
        self.byte()
        if self._at > CHUNK_BYTES:  # what was read is not needed any more
            self._known = (0, self._known[1])
            self._text = self._text[self._at :]
            self._at = 0
        chunk = self._stream.read(max(CHUNK_BYTES, len(self._text) - self._at))
        self._text += self._utf8.decode(chunk, final=not chunk)
        return bool(chunk)
