"""A whole JSON file: its top level read at once, its long lists item by item, its faults in the ledger."""

from __future__ import annotations

import bisect
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from evalgate.config import gate_file
from evalgate.errors import Place, Problem, Severity
from evalgate.model.shapes import to_snake
from evalgate.text import words
from evalgate.text.decoding import BYTE_ORDER_MARK
from evalgate.text.words import counted

# -- JSON text read value by value, so that a large file never stands in memory twice, and its faults explained --

LONGEST_TEXT = 600_000_000  # characters; about six times the largest file that we are measured with
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
    return JsonFault(
        f"this is not JSON: {complaint[:1].lower()}{complaint[1:]}, found {_shown_text(text, at)}", offset=at
    )


def _shown_text(text: str, at: int) -> str:
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
            f"a comma is missing before {_shown_text(text, at)}, or a quote inside a string is not escaped",
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
        return JsonFault(f"the key {_shown_text(text, at)} needs double quotes", offset=at)
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


# -- The problems of one file as they are found --

if TYPE_CHECKING:
    from json_source_map.types import TSourceMap

Path: TypeAlias = tuple[str | int, ...]

ERRORS_SHOWN = 20  # of one kind; the rest is counted
LONGEST_MAPPED = 200_000  # characters; the source map costs about 10 microseconds each
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*")


def spelled(path: Path) -> str:
    """`eval_cases[3].conversation[0]`; odd keys stand quoted in brackets."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{part[:60]!r}]"
    return text


@dataclass(slots=True, kw_only=True)
class _Scope:
    path: Path = ()
    start: int = 0
    end: int = 0
    entries: TSourceMap | None = None


@dataclass(slots=True)
class _Group:
    last: int  # index of the last one shown
    count: int = 0


class Ledger:
    """Collects problems. Places inside the current `scope` (a slice of the text) get lines and columns."""

    def __init__(self, text: str, *, file: str) -> None:
        self.file = file
        self._text = text
        self._problems: list[Problem] = []
        self._groups: dict[tuple[Severity, str, str], _Group] = {}
        self._scope = _Scope(end=len(text))
        self._anchors: dict[Path, int] = {}
        self._has_lines = True
        self._line_starts: list[int] | None = None
        self._counted = (0, 1, 0)  # offset, its line, where that line begins

    # --- places ---------------------------------------------------------------------------------

    def enter(self, path: Path, start: int, end: int) -> None:
        """From now on, paths below `path` are looked up in text[start:end], a single JSON value."""
        self._scope = _Scope(path=path, start=start, end=end)

    def anchor(self, path: Path, offset: int) -> None:
        """Remember where `path` stands, for problems found when its scope has been left."""
        self._anchors[path] = offset

    def unwrap(self, text: str) -> None:
        """From now on all offsets count in `text`, which came out of a JSON string: there are no lines any more."""
        self._text = text
        self._has_lines = False
        self._scope = _Scope()
        self._anchors = {}

    def place_at(self, offset: int, path: Path = ()) -> Place:
        """Line and column of an offset. Cheap for offsets that grow from call to call."""
        if not self._has_lines:
            return Place(file=self.file, json_path=spelled(path))
        line, line_start = self._line(offset)
        column = offset - line_start + 1
        if line == 1 and self._text.startswith("\ufeff"):
            column = max(1, column - 1)
        return Place(file=self.file, line=line, column=column, json_path=spelled(path))

    def place_of(self, path: Path) -> Place:
        """The place of the value at `path`, or of the nearest value above it that the text has."""
        offset = self._offset(path)
        if offset is None:
            return Place(file=self.file, json_path=spelled(path))
        return self.place_at(offset, path)

    def _line(self, offset: int) -> tuple[int, int]:
        """The line of an offset, and where that line begins; a file of one endless line costs no more than others."""
        at, line, start = self._counted
        if offset < at:
            if self._line_starts is None:
                self._line_starts = [0, *(found.end() for found in re.finditer("\n", self._text))]
            line = bisect.bisect_right(self._line_starts, offset)
            return line, self._line_starts[line - 1]
        breaks = self._text.count("\n", at, offset)
        if breaks:
            line, start = line + breaks, self._text.rfind("\n", at, offset) + 1
        self._counted = (offset, line, start)
        return line, start

    def _offset(self, path: Path) -> int | None:
        scope = self._scope
        if scope.end <= scope.start or path[: len(scope.path)] != scope.path:
            return next((self._anchors[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self._anchors), None)
        entries = self._entries(scope)
        pointer = ""
        for part in path[len(scope.path) :]:
            spellings = [str(part), to_camel(part), to_snake(part)] if isinstance(part, str) else [str(part)]
            found = next((f"{pointer}/{name}" for name in spellings if f"{pointer}/{name}" in entries), None)
            if found is None:
                break
            pointer = found
        entry = entries.get(pointer)
        if entry is None:
            return scope.start
        begin = entry.key_start or entry.value_start
        return scope.start + int(begin.position)

    def _entries(self, scope: _Scope) -> TSourceMap:
        if scope.entries is None:
            scope.entries = {}
            if scope.end - scope.start <= LONGEST_MAPPED:
                import json_source_map  # noqa: PLC0415 - only a file with problems pays for it

                try:
                    scope.entries = json_source_map.calculate(self._text[scope.start : scope.end])
                except (json_source_map.errors.BaseError, RecursionError, ValueError):
                    scope.entries = {}
        return scope.entries

    # --- problems -------------------------------------------------------------------------------

    def error(self, code: str, message: str, *, path: Path = (), hint: str = "", place: Place | None = None) -> None:
        """Something cannot be understood."""
        self._add(Severity.ERROR, code, message, path=path, hint=hint, place=place)

    def warn(self, code: str, message: str, *, path: Path = (), hint: str = "", place: Place | None = None) -> None:
        """Something was understood that others would refuse, or is probably not what was meant."""
        self._add(Severity.WARNING, code, message, path=path, hint=hint, place=place)

    def note(self, code: str, message: str, *, path: Path = (), hint: str = "", place: Place | None = None) -> None:
        """Something worth knowing."""
        self._add(Severity.NOTE, code, message, path=path, hint=hint, place=place)

    @property
    def failed(self) -> int:
        """How many errors were found so far."""
        return sum(group.count for key, group in self._groups.items() if key[0] is Severity.ERROR)

    def problems(self) -> tuple[Problem, ...]:
        """All problems in the order of the file; a kind that repeats says how often."""
        made = list(self._problems)
        for (severity, *_), group in self._groups.items():
            hidden = group.count - _shown_value(severity)
            if hidden > 0:
                more = counted(hidden, "more place")
                made[group.last] = replace(made[group.last], message=f"{made[group.last].message} (and in {more})")
        return tuple(sorted(made, key=_position))

    def _add(self, severity: Severity, code: str, message: str, *, path: Path, hint: str, place: Place | None) -> None:
        kind = _kind(spelled(path) if place is None else place.json_path)
        key = (severity, code, kind)
        group = self._groups.setdefault(key, _Group(last=len(self._problems)))
        group.count += 1
        if group.count > _shown_value(severity):
            return
        group.last = len(self._problems)
        found = place or self.place_of(path)
        self._problems.append(Problem(severity=severity, code=code, message=message, place=found, hint=hint))


def _position(problem: Problem) -> tuple[int, int]:
    place = problem.place
    return (place.line or 0, place.column or 0) if place else (0, 0)


def _shown_value(severity: Severity) -> int:
    return ERRORS_SHOWN if severity is Severity.ERROR else 1


def _kind(json_path: str) -> str:
    return re.sub(r"\[\d+\]", "[]", json_path)


# -- What pydantic found wrong, in words --

_EXPECTED = {
    "string_type": "text",
    "dict_type": "an object",
    "mapping_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "list_type": "a list",
    "tuple_type": "a list of two: author and parts",
    "too_short": "a list of two: author and parts",
    "too_long": "a list of two: author and parts",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}
_OWN = frozenset({"no_conversation", "two_conversations", "two_records", "unknown_persona"})


def complain(error: ValidationError, raw: Any, *, path: Path, ledger: Ledger) -> None:
    """Put every finding of `error` about `raw`, which stands at `path`, into the ledger."""
    told: set[Path] = set()
    for finding in error.errors(include_url=False):
        where = _user_path(finding["loc"], raw)
        if where in told and finding["type"] not in ("missing", "extra_forbidden"):
            continue  # the branches of a union say the same thing twice
        told.add(where)
        _complain(finding, raw, where=where, path=path, ledger=ledger)


def _complain(finding: Mapping[str, Any], raw: Any, *, where: Path, path: Path, ledger: Ledger) -> None:
    kind = str(finding["type"])
    full = (*path, *where)
    if kind == "missing":
        key = to_snake(str(where[-1])) if where else ""
        hint = _probably(key, _at(raw, where[:-1]))
        ledger.error("missing-key", f"`{key}` is missing", path=full, hint=hint)
    elif kind == "extra_forbidden":
        ledger.error("unknown-key", f"`{where[-1] if where else ''}` is not known here", path=full)
    elif kind in _EXPECTED:
        found = described(finding.get("input"))
        ledger.error("wrong-type", f"expected {_EXPECTED[kind]}, found {found}", path=full)
    elif kind == gate_file.REFUSED:
        inner, near = finding["ctx"]["at"], finding["ctx"]["near"]
        hint = f"did you mean `{near}`?" if near else ""
        ledger.error("bad-option", str(finding["msg"]), path=(*full, *inner), hint=hint)
    elif kind in _OWN:
        near = (finding.get("ctx") or {}).get("near")
        hint = f"did you mean `{near}`?" if near else ""
        ledger.error(kind.replace("_", "-"), str(finding["msg"]), path=full, hint=hint)
    else:
        message = str(finding["msg"])
        ledger.error("wrong-value", f"{message[:1].lower()}{message[1:]}", path=full)


def described(value: Any) -> str:
    """A short name for a JSON value: `the number 3`, `an object`, `null`."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {value[:40]!r}" if value else "an empty text"
    kind = "an object" if isinstance(value, dict) else "a list"
    return kind if value else f"{kind} without content"


def _user_path(loc: Sequence[str | int], raw: Any) -> Path:
    """`loc` without the names of union branches, in snake_case."""
    path: list[str | int] = []
    here = raw
    for i, part in enumerate(loc):
        last = i == len(loc) - 1
        if isinstance(part, int):
            path.append(part)
            here = here[part] if isinstance(here, list | tuple) and part < len(here) else None
        elif isinstance(here, dict):
            name = part if part in here else to_snake(part)
            path.append(name)
            here = here.get(name)
        elif not last:
            continue  # a branch of a union: not a key of the file
    return tuple(path)


def _at(raw: Any, path: Path) -> Any:
    for part in path:
        if (isinstance(raw, dict) and part in raw) or (isinstance(raw, list) and isinstance(part, int)):
            raw = raw[part]  # type: ignore[index]  # the keys were checked above
        else:
            return None
    return raw


def _probably(key: str, siblings: Any) -> str:
    if not isinstance(siblings, dict):
        return ""
    near = words.nearest(key, [str(name) for name in siblings], cutoff=0.8)
    return f"`{near}` is there instead" if near else f"found there: {_names(siblings)}"


def _names(siblings: Mapping[str, Any]) -> str:
    return words.listed([f"`{str(name)[:40]}`" for name in siblings]) or "nothing"


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


def expected(kind: str, document: Document) -> str:
    """`expected an object, found a list`."""
    found = {"object": "an object", "list": "a list"}.get(document.kind) or described(document.value)
    return f"expected {kind}, found {found}"
