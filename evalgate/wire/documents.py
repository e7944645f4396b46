"""A whole JSON file: its top level read at once, its long lists item by item, its faults in the ledger."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from evalgate.errors import Place, Problem, Severity
from evalgate.wire.complaints import described
from evalgate.wire.json_text import BYTE_ORDER_MARK, JsonFault, JsonText
from evalgate.wire.ledger import Ledger, Path
from evalgate.wire.spelling import to_snake

Each: TypeAlias = Callable[[Path, Any, int], None]
"""Told of each item of a long list: its path, the value, and its offset in the text."""

_STRINGS_UNWRAPPED = 3
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(slots=True, kw_only=True)
class Document:
    """The top level of a file. `members`: those of an object, except what was handed out item by item."""

    kind: str  # object, list, other
    members: dict[str, Any] = field(default_factory=dict)
    value: Any = None


def read(text: str, ledger: Ledger, *, each: Each, streamed: frozenset[str] = frozenset()) -> Document | None:
    """Read a JSON file; None where it is not JSON, and the ledger says why.

    `each` gets the items of a list at the top, and of the lists under the keys `streamed` (snake_case; camelCase
    is taken too). A string that holds JSON is read as the JSON that it holds.
    """
    if text.startswith(BYTE_ORDER_MARK):
        ledger.warn("byte-order-mark", "the file begins with a byte order mark; ADK itself rejects it")
    for _ in range(_STRINGS_UNWRAPPED):
        reader = _Reader(text, ledger, each=each, streamed=streamed)
        try:
            document = reader.read()
        except JsonFault as fault:
            ledger.error(fault.code, fault.message, place=ledger.place_at(fault.offset), hint=fault.hint)
            return None
        if not isinstance(document.value, str) or not document.value.lstrip().startswith(("{", "[", '"')):
            return document
        text = document.value
        ledger.warn("json-in-string", "the whole file is one JSON string that contains JSON; its content is used")
        ledger.unwrap(text)
    ledger.error("json-in-string", "JSON within JSON strings, nested too deeply")
    return None


class _Reader:
    def __init__(self, text: str, ledger: Ledger, *, each: Each, streamed: frozenset[str]) -> None:
        self._oddities: list[tuple[str, str]] = []
        self._json = JsonText(text, on_oddity=lambda code, name: self._oddities.append((code, name)))
        self._ledger = ledger
        self._each = each
        self._streamed = streamed
        self._members: dict[str, Any] = {}
        self._may_break = _SURROGATE.search(text) is not None

    def read(self) -> Document:
        start = self._json.start()
        self._ledger.anchor((), start)
        opening = self._json.text[start]
        if opening == "{":
            self._json.finish(self._json.each_member(start, self._member))
            self._ledger.enter((), 0, 0)
            return Document(kind="object", members=self._members)
        if opening == "[":
            self._json.finish(self._json.each_item(start, lambda index, at: self._item((index,), at)))
            self._ledger.enter((), 0, 0)
            return Document(kind="list")
        value, end = self._json.value(start)
        self._json.finish(end)
        return Document(kind="other", value=value)

    def _member(self, key: str, key_at: int, at: int) -> int:
        self._ledger.anchor((key,), key_at)
        if key in self._members:
            self._oddities.append(("duplicate-key", key))
        if to_snake(key) in self._streamed and self._json.text[at : at + 1] == "[":
            self._members[key] = []
            return self._json.each_item(at, lambda index, start: self._item((key, index), start))
        self._members[key], end = self._json.value(at)
        self._scope((key,), at, end)
        self._check_text((key,), self._members[key])
        return end

    def _item(self, path: Path, at: int) -> int:
        value, end = self._json.value(at)
        self._scope(path, at, end)
        if self._check_text(path, value):
            self._each(path, value, at)
        return end

    def _check_text(self, path: Path, value: Any) -> bool:
        """Whether all texts of a value can be stored; only escapes of surrogates make one that cannot."""
        if not self._may_break:
            return True
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            found = ascii(error.object[error.start])[1:-1]
            message = f"a text holds half a character ({found}), which cannot be stored"
            self._ledger.error("broken-text", message, path=path, hint="write both halves of the escape, or remove it")
            return False
        except RecursionError:
            self._ledger.error("json-too-deep", "the values are nested too deeply", path=path)
            return False
        return True

    def _scope(self, path: Path, at: int, end: int) -> None:
        self._ledger.enter(path, at, end)
        for code, name in self._oddities:
            if code == "duplicate-key":
                self._ledger.warn(code, f"duplicate key `{name[:60]}`; the last value is used", path=path)
            elif code == "json-huge":
                message = f"`{_shortened(name)}` is too large; read as infinite"
                self._ledger.warn(code, message, path=path)
            else:
                self._ledger.warn(code, f"`{name}` is not a JSON number; read anyway", path=path)
        self._oddities.clear()


def _shortened(digits: str) -> str:
    return digits if len(digits) <= 20 else f"{digits[:12]}...{digits[-5:]}"


def decode(data: bytes, *, file: str) -> str | Problem:
    """The text of a file: UTF-8, or UTF-16 with a byte order mark. The mark stays, so that parsers can tell of it."""
    try:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return BYTE_ORDER_MARK + data.decode("utf-16")
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{data[error.start]:02x} at offset {error.start:,}"
        binary = "; it looks like a binary file" if b"\0" in data[:4096] else ""
        return Problem(
            severity=Severity.ERROR,
            code="not-utf-8",
            message=f"the file is not UTF-8: {found}{binary}",
            place=Place(file=file, line=line),
            hint="save it as UTF-8",
        )


def expected(kind: str, document: Document) -> str:
    """`expected an object, found a list`."""
    found = {"object": "an object", "list": "a list"}.get(document.kind) or described(document.value)
    return f"expected {kind}, found {found}"
