"""JSON text read value by value, so that a large file never stands in memory twice, and its faults explained."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

LONGEST_TEXT = 600_000_000  # characters; about six times the largest file that we are measured with
BYTE_ORDER_MARK = "\ufeff"
_BLANK = re.compile(r"[ \t\n\r]*")
_WORD = re.compile(r"[A-Za-z_]\w*")


class JsonFault(Exception):  # noqa: N818 - a fault of the user's file, not an error of ours
    """The text is not JSON from `offset` on; `code` is the code of the problem that it becomes."""

    def __init__(self, message: str, *, offset: int, code: str = "json-syntax", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.code = code
        self.hint = hint


class JsonText:
    """A JSON text and the offsets of its values. Every method raises JsonFault where the text is not JSON."""

    def __init__(self, text: str, *, on_oddity: Callable[[str, str], None] | None = None) -> None:
        """`on_oddity(code, name)` is told of what json reads in silence: `duplicate-key`, `json-nan`, `json-huge`."""
        self.text = text
        self._on_oddity = on_oddity or (lambda _code, _name: None)
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object, parse_constant=self._constant, parse_float=self._float
        )

    def start(self) -> int:
        """Offset of the document's first value, behind a byte order mark and blanks."""
        if len(self.text) > LONGEST_TEXT:
            raise JsonFault(f"the file has {len(self.text):,} characters", offset=0, code="file-too-large")
        at = self.skip_blanks(1 if self.text.startswith(BYTE_ORDER_MARK) else 0)
        if at >= len(self.text):
            raise JsonFault("the file is empty", offset=0, code="file-empty")
        return at

    def skip_blanks(self, at: int) -> int:
        """Offset of the next character that is no blank, or the length of the text."""
        found = _BLANK.match(self.text, at)
        return found.end() if found else at

    def value(self, at: int) -> tuple[Any, int]:
        """The value that begins at `at`, and the offset behind it."""
        try:
            return self._decoder.raw_decode(self.text, at)
        except json.JSONDecodeError as error:
            raise explain(self.text, error.pos, error.msg) from None
        except RecursionError:
            raise JsonFault("the values are nested too deeply", offset=at, code="json-too-deep") from None
        except ValueError:  # an integer longer than Python converts
            raise JsonFault("a number has too many digits", offset=at, code="json-number") from None

    def each_member(self, at: int, handle: Callable[[str, int, int], int]) -> int:
        """Call `handle(key, key offset, value offset)` for each member of the object at `at`.

        `handle` returns the offset behind the value. The result is the offset behind the object.
        """
        at = self.skip_blanks(at + 1)
        if self._at(at) == "}":
            return at + 1
        while True:
            if self._at(at) != '"':
                raise explain(self.text, at, "Expecting property name enclosed in double quotes")
            key, end = self.value(at)
            colon = self.skip_blanks(end)
            if self._at(colon) != ":":
                raise explain(self.text, colon, "Expecting ':' delimiter")
            end = handle(key, at, self.skip_blanks(colon + 1))
            at = self.skip_blanks(end)
            if self._at(at) == "}":
                return at + 1
            at = self._behind_comma(at)

    def each_item(self, at: int, handle: Callable[[int, int], int]) -> int:
        """Call `handle(index, offset)` for each item of the array at `at`; otherwise as `each_member`."""
        at = self.skip_blanks(at + 1)
        if self._at(at) == "]":
            return at + 1
        index = 0
        while True:
            end = handle(index, at)
            index += 1
            at = self.skip_blanks(end)
            if self._at(at) == "]":
                return at + 1
            at = self._behind_comma(at)

    def finish(self, at: int) -> None:
        """Only blanks may follow the document's value, which ended at `at`."""
        at = self.skip_blanks(at)
        if at < len(self.text):
            raise explain(self.text, at, "Extra data")

    def _at(self, at: int) -> str:
        return self.text[at : at + 1]

    def _behind_comma(self, at: int) -> int:
        if self._at(at) != ",":
            raise explain(self.text, at, "Expecting ',' delimiter")
        return self.skip_blanks(at + 1)

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    self._on_oddity("duplicate-key", key)
                seen.add(key)
        return made

    def _constant(self, name: str) -> float:
        self._on_oddity("json-nan", name)
        return float(name)

    def _float(self, digits: str) -> float:
        value = float(digits)
        if math.isinf(value):
            self._on_oddity("json-huge", digits)
        return value


def explain(text: str, at: int, complaint: str) -> JsonFault:
    """What is wrong at offset `at`, in words; `complaint` is what Python's json said."""
    here = text[at : at + 1]
    before = text[:at].rstrip() if at < 10_000 else text[at - 10_000 : at].rstrip()
    for test in (_foreign_file, _cut_short, _comment, _comma, _quotes, _in_string, _literal, _more):
        fault = test(text, at, complaint, here, before)
        if fault is not None:
            return fault
    return JsonFault(f"this is not JSON: {complaint[:1].lower()}{complaint[1:]}, found {_shown(text, at)}", offset=at)


def _shown(text: str, at: int) -> str:
    word = _WORD.match(text, at)
    found = word.group() if word else text[at : at + 1]
    return f"`{found[:30]}`" if found else "the end of the file"


def _foreign_file(text: str, at: int, _complaint: str, here: str, _before: str) -> JsonFault | None:
    if text.lstrip(BYTE_ORDER_MARK).startswith("version https://git-lfs"):
        hint = "check out with LFS: `git lfs pull`, or `lfs: true` for actions/checkout"
        return JsonFault("this is a Git LFS pointer, not the file itself", offset=0, code="git-lfs-pointer", hint=hint)
    if text.startswith(("<<<<<<<", "=======", ">>>>>>>"), at):
        return JsonFault("unresolved merge conflict", offset=at, hint="resolve it and commit again")
    if here == "<":
        return JsonFault("this is markup (HTML or XML), not JSON", offset=at)
    return None


def _cut_short(text: str, at: int, complaint: str, _here: str, before: str) -> JsonFault | None:
    if complaint.startswith("Unterminated string"):
        if "\n" not in text[at:]:
            return JsonFault("the file ends inside this string: it is truncated", offset=at, code="json-truncated")
        return JsonFault("this string has no closing quote", offset=at)
    if at >= len(text.rstrip()) and before:
        return JsonFault(
            "the file ends too early: it is truncated, or a bracket is missing", offset=at, code="json-truncated"
        )
    return None


def _comma(text: str, at: int, complaint: str, here: str, before: str) -> JsonFault | None:
    hint = "remove the comma"
    if here in ("}", "]") and before.endswith(","):
        return JsonFault(f"extra comma before the closing `{here}`", offset=at, hint=hint)
    if complaint.startswith("Illegal trailing comma"):
        return JsonFault("extra comma before a closing bracket", offset=at, hint=hint)
    if complaint.startswith("Expecting ',' delimiter"):
        return JsonFault(
            f"a comma is missing before {_shown(text, at)}, or a quote inside a string is not escaped",
            offset=at,
            hint='write `\\"` for a quote inside a string',
        )
    return None


def _quotes(text: str, at: int, complaint: str, here: str, _before: str) -> JsonFault | None:
    if here == "'":
        return JsonFault("single quotes: JSON needs double quotes", offset=at)
    if here in ("\u201c", "\u201d", "\u2018", "\u2019"):
        return JsonFault("typographic quotes: JSON needs straight double quotes", offset=at)
    if complaint.startswith("Expecting property name") and _WORD.match(text, at):
        return JsonFault(f"the key {_shown(text, at)} needs double quotes", offset=at)
    return None


def _comment(text: str, at: int, _complaint: str, here: str, _before: str) -> JsonFault | None:
    if here == "#" or text.startswith(("//", "/*"), at):
        return JsonFault("a comment: JSON has none", offset=at, hint='remove it, or use a key such as "_comment"')
    return None


def _in_string(_text: str, at: int, complaint: str, here: str, _before: str) -> JsonFault | None:
    if complaint.startswith("Invalid control character"):
        name = {"\n": "a line break", "\t": "a tab", "\r": "a line break"}.get(here, "a control character")
        return JsonFault(f"{name} inside a string", offset=at, hint="write `\\n` or `\\t` instead")
    if complaint.startswith("Invalid \\"):
        return JsonFault("a backslash that escapes nothing", offset=at, hint="write `\\\\` for a backslash")
    return None


def _literal(text: str, at: int, _complaint: str, _here: str, _before: str) -> JsonFault | None:
    word = _WORD.match(text, at)
    right = {"none": "null", "undefined": "null", "true": "true", "false": "false", "null": "null"}
    if word and word.group().lower() in right:
        return JsonFault(f"`{word.group()}` is not JSON", offset=at, hint=f"write `{right[word.group().lower()]}`")
    return None


def _more(_text: str, at: int, complaint: str, _here: str, _before: str) -> JsonFault | None:
    if complaint.startswith("Extra data"):
        return JsonFault(
            "extra text after the end of the JSON value",
            offset=at,
            hint="a file must contain one JSON value; JSON Lines are not supported here",
        )
    return None
