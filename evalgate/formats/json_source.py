"""A JSON file: its top level is read at once, its long lists element by element; or YAML. The
places of all problems."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from evalgate.config import gate_file, yaml
from evalgate.errors import Place, Problem, Severity
from evalgate.model.shapes import to_camel, to_snake
from evalgate.text import words
from evalgate.text.plain import BYTE_ORDER_MARK
from evalgate.values import Json, JsonObject, Wording

LONGEST_TEXT = 600_000_000  # characters; about six times the largest measured file
_BLANK = re.compile(r"[ \t\n\r]*")
_WORD = re.compile(r"[A-Za-z_]\w*")


class JsonFault(Exception):  # noqa: N818 - a fault of the user's file, not an error of evalgate
    """The text is not JSON from `offset` on. `code`: the code of its problem."""

    def __init__(
        self, message: str, *, offset: int, code: str = "json-syntax", hint: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.code = code
        self.hint = hint


class JsonText:
    """A JSON text and the offsets of its values. Every method raises JsonFault if the text is not
    JSON.

    `end`: the offset after the last value that was read. `noted`: oddities that json accepts, as a
    code (`duplicate-key`, `json-nan`, `json-huge`) and a name."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.end = 0
        self.noted: list[tuple[str, str]] = []
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object, parse_constant=self._constant, parse_float=self._number
        )

    def start(self) -> int:
        """Offset of the document's first value, after a byte order mark and blanks."""
        if len(self.text) > LONGEST_TEXT:
            raise JsonFault(
                f"the file has {len(self.text):,} characters", offset=0, code="file-too-large"
            )
        offset = self.next_at(1 if self.text.startswith(BYTE_ORDER_MARK) else 0)
        if offset >= len(self.text):
            raise JsonFault("the file is empty", offset=0, code="file-empty")
        return offset

    def next_at(self, offset: int) -> int:
        """Offset of the next non-blank character, or the length of the text."""
        blank = _BLANK.match(self.text, offset)
        return blank.end() if blank else offset

    def value(self, offset: int) -> Any:
        """The value that begins at `offset`."""
        try:
            value, self.end = self._decoder.raw_decode(self.text, offset)
        except json.JSONDecodeError as error:
            raise fault_at(self.text, error.pos, error.msg) from None
        except RecursionError:
            raise JsonFault(
                "the values are nested too deeply", offset=offset, code="json-too-deep"
            ) from None
        except ValueError:  # an integer that is too long for Python's conversion
            raise JsonFault(
                "a number has too many digits", offset=offset, code="json-number"
            ) from None
        return value

    def members(self, offset: int) -> Iterator[tuple[str | int, int, int]]:
        """Each member of the object or list at `offset`: its key or position, its offset, and
        the offset of its value.

        The caller must read the value before the next member. After the last one, `end` is after
        the whole."""
        is_object = self.text.startswith("{", offset)
        closing = "}" if is_object else "]"
        offset = self.next_at(offset + 1)
        for index in itertools.count():
            if self.text.startswith(closing, offset):
                break
            if index:
                if not self.text.startswith(",", offset):
                    raise fault_at(self.text, offset, "Expecting ',' delimiter")
                offset = self.next_at(offset + 1)
            key: str | int = index
            start = offset
            if is_object:
                if not self.text.startswith('"', offset):
                    complaint = "Expecting property name enclosed in double quotes"
                    raise fault_at(self.text, offset, complaint)
                key = self.value(offset)
                colon = self.next_at(self.end)
                if not self.text.startswith(":", colon):
                    raise fault_at(self.text, colon, "Expecting ':' delimiter")
                start = self.next_at(colon + 1)
            yield key, offset, start
            offset = self.next_at(self.end)
        self.end = offset + 1

    def within(self, at: int, part: str | int) -> tuple[int, int] | None:
        """The offsets of a member of the value at `at`, and of that member's value; of the last
        one if the key is repeated."""
        offsets = None
        for name, member, start in self.members(at) if self.text.startswith(("{", "["), at) else ():
            offsets = (member, start) if name == part else offsets
            self.value(start)
        return offsets

    def _object(self, pairs: list[tuple[str, Any]]) -> JsonObject:
        members = dict(pairs)
        if len(members) != len(pairs):
            keys: set[str] = set()
            for key, _ in pairs:
                if key in keys:
                    self.noted.append(("duplicate-key", key))
                keys.add(key)
        return members

    def _constant(self, name: str) -> float:
        self.noted.append(("json-nan", name))
        return float(name)

    def _number(self, digits: str) -> float:
        value = float(digits)
        if math.isinf(value):
            self.noted.append(("json-huge", digits))
        return value


_FOREIGN = {
    **dict.fromkeys(
        ("<<<<<<<", "=======", ">>>>>>>"),
        ("unresolved merge conflict", "resolve it and commit again"),
    ),
    "<": ("this is markup (HTML or XML), not JSON", ""),
    **dict.fromkeys(
        ("#", "//", "/*"),
        ("a comment: JSON has none", 'remove it, or use a key such as "_comment"'),
    ),
    "'": ("single quotes: JSON needs double quotes", ""),
    **dict.fromkeys(
        "\u201c\u201d\u2018\u2019", ("typographic quotes: JSON needs straight double quotes", "")
    ),
}
_COMPLAINTS = {
    "Illegal trailing comma": ("extra comma before a closing bracket", "remove the comma"),
    "Expecting ',' delimiter": (
        "a comma is missing before {found}, or a quote inside a string is not escaped",
        'write `\\"` for a quote inside a string',
    ),
    "Invalid control character": ("{control} inside a string", "write `\\n` or `\\t` instead"),
    "Invalid \\": ("an invalid backslash escape", "write `\\\\` for a backslash"),
    "Extra data": (
        "extra text after the end of the JSON value",
        "a file must contain one JSON value; JSON Lines are not supported here",
    ),
}
_CONTROLS = {"\n": "a line break", "\t": "a tab", "\r": "a line break"}
_LITERALS = {"none": "null", "undefined": "null", "true": "true", "false": "false", "null": "null"}


def fault_at(text: str, offset: int, complaint: str) -> JsonFault:
    """The fault at `offset`, in words. `complaint`: the message of Python's json."""
    truncation = _cut_short(text, offset, complaint)
    if truncation is not None:
        return truncation
    character = text[offset : offset + 1]
    word = _WORD.match(text, offset)
    name = (word.group() if word else character)[:30]
    token = f"`{name}`" if name else "the end of the file"
    prefix = text[max(0, offset - 10_000) : offset].rstrip()
    if character in ("}", "]") and prefix.endswith(","):
        return JsonFault(
            f"extra comma before the closing `{character}`", offset=offset, hint="remove the comma"
        )
    row = _row(_FOREIGN, text, offset) or _row(_COMPLAINTS, complaint)
    if row is None and word and complaint.startswith("Expecting property name"):
        row = "the key {found} needs double quotes", ""
    elif row is None and name.lower() in _LITERALS:
        row = f"`{name}` is not JSON", f"write `{_LITERALS[name.lower()]}`"
    message, hint = row or ("this is not JSON: {complaint}, found {found}", "")
    message = message.format(
        found=token,
        control=_CONTROLS.get(character, "a control character"),
        complaint=f"{complaint[:1].lower()}{complaint[1:]}",
    )
    return JsonFault(message, offset=offset, hint=hint)


def _row(
    table: Mapping[str, tuple[str, str]], text: str, offset: int = 0
) -> tuple[str, str] | None:
    return next(
        (row for beginning, row in table.items() if text.startswith(beginning, offset)), None
    )


def _cut_short(text: str, at: int, complaint: str) -> JsonFault | None:
    """The fault of an incomplete file; None if it is complete."""
    if text.lstrip(BYTE_ORDER_MARK).startswith("version https://git-lfs"):
        hint = "check out with LFS: `git lfs pull`, or `lfs: true` for actions/checkout"
        return JsonFault(
            "this is a Git LFS pointer, not the file itself",
            offset=0,
            code="git-lfs-pointer",
            hint=hint,
        )
    if complaint.startswith("Unterminated string"):
        if "\n" in text[at:]:
            return JsonFault("this string has no closing quote", offset=at)
        return JsonFault(
            "the file ends inside this string: it is truncated", offset=at, code="json-truncated"
        )
    if at >= len(text.rstrip()) and text[max(0, at - 10_000) : at].rstrip():
        message = "the file ends too early: it is truncated, or a bracket is missing"
        return JsonFault(message, offset=at, code="json-truncated")
    return None


Path: TypeAlias = tuple[str | int, ...]
AnyWire = TypeVar("AnyWire", bound=BaseModel)
REJECTED = "ADK itself rejects this"

ERRORS_SHOWN = 20  # of one kind; others are counted
_SHOWN = {Severity.ERROR: ERRORS_SHOWN, Severity.WARNING: 1, Severity.NOTE: 1}
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*")


def path_text(path: Path) -> str:
    """A path as text, such as `eval_cases[3].conversation[0]`; unusual keys are quoted in
    brackets."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{part[:60]!r}]"
    return text


_Kind: TypeAlias = tuple[Severity, str, str]
"""A severity, a code, and a path without positions."""
_Finding: TypeAlias = tuple[_Kind, Wording, Place, Wording]
"""A kind, the message, the place and the hint."""


class Problems:
    """Collects problems, each with its line and column.

    `error_count`: the number of errors so far. `starts`: offsets of members and of their values;
    deeper places are searched when a problem needs them."""

    def __init__(self, text: str, *, file: str) -> None:
        self.file = file
        self.error_count = 0
        self.starts: dict[Path, tuple[int, int]] = {(): (0, 0)}
        self._text = text
        self._findings: list[_Finding] = []
        self._counts: Counter[_Kind] = Counter()
        self._locate: Callable[[Path], Place] | None = None
        self._last_line = (0, 1, 0)  # an offset, its line, and the offset of that line

    def use_places(self, locate: Callable[[Path], Place]) -> None:
        """Find places with `locate` from now on, because the text has no JSON with lines."""
        self._locate = locate

    def place_at(self, offset: int, path: Path = ()) -> Place:
        """Line and column of an offset. Fast for an offset near the last one, also within one very
        long line."""
        if self._locate is not None:
            return self._locate(path)
        last_offset, line, start = self._last_line
        line_breaks = self._text.count("\n", *sorted((last_offset, offset)))
        if line_breaks:
            line += line_breaks if offset > last_offset else -line_breaks
            start = self._text.rfind("\n", 0, offset) + 1
        self._last_line = offset, line, start
        column = offset - start + 1
        if line == 1 and self._text.startswith(BYTE_ORDER_MARK):
            column = max(1, column - 1)
        return Place(self.file, line, column=column, json_path=path_text(path))

    def place_of(self, path: Path) -> Place:
        """The place of the value at `path`, or of its nearest parent in the text."""
        if self._locate is not None:
            return self._locate(path)
        depth = next(depth for depth in range(len(path), -1, -1) if path[:depth] in self.starts)
        member, start = self.starts[path[:depth]]
        text = JsonText(self._text)
        for part in path[depth:]:
            names = (part, to_camel(part), to_snake(part)) if isinstance(part, str) else (part,)
            place = None
            with suppress(JsonFault):
                place = next(filter(None, (text.within(start, name) for name in names)), None)
            if place is None:
                break
            member, start = place
        return self.place_at(member, path)

    def fault(self, fault: JsonFault) -> None:
        """Report that the text is not JSON."""
        place = self.place_at(fault.offset)
        self.add(Severity.ERROR, fault.code, fault.message, place=place, hint=fault.hint)

    def all(self) -> tuple[Problem, ...]:
        """All problems in the order of the file. A repeated kind reports its number."""
        last_indexes = {finding[0]: index for index, finding in enumerate(self._findings)}
        problems = []
        for index, (kind, message, place, hint) in enumerate(self._findings):
            severity, code, _ = kind
            hidden_count = self._counts[kind] - _SHOWN[severity]
            shown = message
            if hidden_count > 0 and last_indexes[kind] == index:
                shown = f"{message} (and in {words.counted(hidden_count, 'more place')})"
            problems.append(
                Problem(severity=severity, code=code, message=shown, place=place, hint=hint)
            )
        return tuple(sorted(problems, key=_position))

    def add(
        self,
        severity: Severity,
        code: str,
        message: Wording,
        *,
        path: Path = (),
        hint: Wording = "",
        place: Place | None = None,
    ) -> None:
        """Report a finding at a path, or at a place."""
        steps = path_text(path) if place is None else place.json_path
        kind = severity, code, re.sub(r"\[\d+\]", "[]", steps)
        self._counts[kind] += 1
        self.error_count += severity is Severity.ERROR
        if self._counts[kind] <= _SHOWN[severity]:
            self._findings.append((kind, message, place or self.place_of(path), hint))


class Spot:
    """The place of a value that is being read: its `path`, and the `problems` of its file."""

    __slots__ = ("_errors_before", "path", "problems")

    def __init__(self, problems: Problems, path: Path = ()) -> None:
        self.problems = problems
        self.path = path
        self._errors_before = problems.error_count

    @property
    def is_broken(self) -> bool:
        """True if there are errors since the reading of the value began."""
        return self.problems.error_count > self._errors_before

    def at(self, *steps: str | int) -> Spot:
        """The place of a member of the value."""
        return Spot(self.problems, (*self.path, *steps))

    @property
    def place(self) -> Place:
        """The place in the file, or of the nearest parent there."""
        return self.problems.place_of(self.path)

    def error(self, code: str, message: Wording, hint: Wording = "") -> None:
        """Report something that cannot be understood."""
        self.problems.add(Severity.ERROR, code, message, path=self.path, hint=hint)

    def warning(self, code: str, message: Wording, hint: Wording = "") -> None:
        """Report something that was probably not intended."""
        self.problems.add(Severity.WARNING, code, message, path=self.path, hint=hint)

    def note(self, code: str, message: Wording) -> None:
        """Report a useful fact."""
        self.problems.add(Severity.NOTE, code, message, path=self.path)

    def adk_warning(self, code: str, message: str) -> None:
        """Report something that is read and that ADK rejects."""
        self.warning(code, f"{message}. {REJECTED}")

    def wrong_type(self, expected: str, value: Any, hint: str = "") -> None:
        """Report a value of another type."""
        self.error("wrong-type", f"expected {expected}, found {described(value)}", hint)

    def unknown_key(self, container: str, *, near: str | None, is_error: bool = False) -> None:
        """Report that the last key of the path is unknown in `container`: it is ignored, or an
        error."""
        hint = f"did you mean `{near}`?" if near else ""
        message = f"unknown key `{self.path[-1]}` in {container}{'' if is_error else ' (ignored)'}"
        if is_error:
            self.error("unknown-key", message, hint)
        elif near:
            self.warning("unused-key", message, hint)
        else:
            self.note("unused-key", message)

    def report(self, error: ValidationError, raw: Any) -> None:
        """Report pydantic's findings about `raw`, the value here."""
        paths: set[Path] = set()
        for finding in error.errors(include_url=False):
            inner_path, node = fault_path(finding["loc"], raw)
            if inner_path in paths and finding["type"] not in ("missing", "extra_forbidden"):
                continue  # the branches of a union repeat the same finding
            paths.add(inner_path)
            _add_finding(finding, node, self.at(*inner_path))

    def validated(self, wire: type[AnyWire], raw: Any) -> AnyWire | None:
        """The value in the shape `wire`; None, with a problem, if it has another shape."""
        try:
            return wire.model_validate(raw)
        except ValidationError as error:
            self.report(error, raw)
            return None


def _add_finding(finding: Json, node: Any, spot: Spot) -> None:
    """Report one of pydantic's findings. `node`: the value, or the object without the value."""
    kind = str(finding["type"])
    message = str(finding["msg"])
    context = finding.get("ctx") or {}
    hint = f"did you mean `{context['near']}`?" if context.get("near") else ""
    if kind == "missing":
        key = to_snake(str(spot.path[-1]))
        hint = instead_of(key, getattr(node, "raw", node))
        spot.error("missing-key", f"`{key}` is missing", hint)
    elif kind in ("extra_forbidden", "unexpected_keyword_argument"):
        spot.error("unknown-key", f"`{spot.path[-1]}` is not known here")
    elif kind in EXPECTED:
        spot.wrong_type(EXPECTED[kind], finding.get("input"))
    elif kind == gate_file.REFUSED:
        spot.at(*context["at"]).error("bad-option", message, hint)
    elif kind in _OWN:
        spot.error(kind.replace("_", "-"), message, hint)
    else:
        spot.error("wrong-value", f"{message[:1].lower()}{message[1:]}")


def _position(problem: Problem) -> tuple[int, int]:
    place = problem.place
    return (place.line or 0, place.column or 0) if place else (0, 0)


EXPECTED = {
    "string_type": "text",
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"),
        "an object",
    ),
    "list_type": "a list",
    **dict.fromkeys(("tuple_type", "too_short", "too_long"), "a list of two: author and parts"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
}
"""What pydantic's findings expected, in words."""
_OWN = frozenset({"no_conversation", "two_conversations", "two_records", "unknown_persona"})


def described(value: Any) -> str:
    """A short text for a JSON value: `the number 3`, `an object`, `null`."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {value[:40]!r}" if value else "an empty text"
    kind = "an object" if isinstance(value, dict) else "a list"
    return kind if value else f"{kind} without content"


def fault_path(steps: Sequence[str | int], raw: Any) -> tuple[Path, Any]:
    """The path of a fault as the file spells it, without the names of union branches; and the value
    there, or of its object if it is missing."""
    path: list[str | int] = []
    node: Any = raw
    for number, step in enumerate(steps, start=1):
        name = step
        spelling: Mapping[Any, str] = getattr(node, "spelling", {})
        if isinstance(node, dict):
            name = step if step in node else to_snake(str(step))
            is_member = name in node
        else:
            is_member = isinstance(node, list | tuple) and step in range(len(node))
        if is_member:
            node = node[name]
        elif number < len(steps):  # the name of one of several shapes
            continue
        path.append(spelling.get(name, name))
    return tuple(path), node


def instead_of(key: str, keys: Any) -> str:
    """The hint for a key that is missing among the `keys` of an object: the most similar key, else
    all keys."""
    if not isinstance(keys, dict):
        return ""
    guess = words.nearest(key, [str(name) for name in keys], cutoff=0.8)
    return f"`{guess}` is there instead" if guess else f"found there: {listed_keys(keys)}"


def listed_keys(keys: Json) -> str:
    """The keys of an object, in words."""
    return words.listed([f"`{str(name)[:40]}`" for name in keys]) or "nothing"


Consumer: TypeAlias = Callable[[Path, Any, int], None]
"""Receives each element of a long list: its path, the value, and its offset in the text."""

_STRINGS_UNWRAPPED = 3
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""A lone surrogate, which no file can store."""


def read(
    text: str, problems: Problems, *, consumer: Consumer, streamed: frozenset[str] = frozenset()
) -> Any:
    """The value of a JSON file; None, with an error, if it is not JSON.

    `consumer` receives the elements of a list at the top, and of lists under the keys `streamed`
    (snake_case; camelCase is accepted too), which are empty in the value. A string that contains
    JSON is read as that JSON."""
    spot = Spot(problems)
    if text.startswith(BYTE_ORDER_MARK):
        spot.warning(
            "byte-order-mark", "the file begins with a byte order mark; ADK itself rejects it"
        )
    for _ in range(_STRINGS_UNWRAPPED):
        try:
            value = _JsonReader(text, problems, consumer=consumer, streamed=streamed).read()
        except JsonFault as fault:
            problems.fault(fault)
            return None
        if not isinstance(value, str) or not value.lstrip().startswith(("{", "[", '"')):
            return value
        text = value
        spot.warning(
            "json-in-string",
            "the whole file is one JSON string that contains JSON; its content is used",
        )
        problems.use_places(lambda path: Place(problems.file, json_path=path_text(path)))
    spot.error("json-in-string", "JSON within JSON strings, nested too deeply")
    return None


class _JsonReader(JsonText):
    def __init__(
        self, text: str, problems: Problems, *, consumer: Consumer, streamed: frozenset[str]
    ) -> None:
        super().__init__(text)
        self._problems = problems
        self._consumer = consumer
        self._streamed = streamed
        self._may_break = SURROGATE.search(text) is not None

    def read(self) -> Any:
        starts = self._problems.starts
        start = self.start()
        starts[()] = start, start
        value: Any = {}
        if self.text[start] == "{":
            for name, member, offset in self.members(start):
                key = str(name)
                starts[(key,)] = member, offset
                if key in value:
                    self.noted.append(("duplicate-key", key))
                if to_snake(key) in self._streamed and self.text.startswith("[", offset):
                    value[key] = []
                    self._read_items((key,), offset)
                else:
                    value[key] = self._value((key,), offset)[0]
        elif self.text[start] == "[":
            value = []
            self._read_items((), start)
        else:
            value = self.value(start)
        end = self.next_at(self.end)
        if end < len(self.text):
            raise fault_at(self.text, end, "Extra data")
        return value

    def _read_items(self, path: Path, offset: int) -> None:
        """Pass the elements of a list to the consumer. Only the current element has a place,
        because all places would need much memory."""
        starts = self._problems.starts
        for index, member, start in self.members(offset):
            element_path = (*path, index)
            starts[element_path] = member, start
            value, is_storable = self._value(element_path, start)
            if is_storable:
                self._consumer(element_path, value, start)
            del starts[element_path]

    def _value(self, path: Path, offset: int) -> tuple[Any, bool]:
        """The value at a path, and True if its texts can be stored; escaped lone surrogates cannot.
        Oddities are reported."""
        value = self.value(offset)
        spot = Spot(self._problems, path)
        for code, name in self.noted:
            message = f"`{name}` is not a JSON number; read anyway"
            if code == "duplicate-key":
                message = f"duplicate key `{name[:60]}`; the last value is used"
            elif code == "json-huge":
                digits = name if len(name) <= 20 else f"{name[:12]}...{name[-5:]}"
                message = f"`{digits}` is too large; read as infinite"
            spot.warning(code, message)
        self.noted.clear()
        try:
            if self._may_break:
                json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            surrogate = ascii(error.object[error.start])[1:-1]
            message = f"a string has an unpaired surrogate ({surrogate})"
            hint = "write both halves of the surrogate pair, or remove it"
            spot.error("broken-text", message, hint)
        except RecursionError:
            spot.error("json-too-deep", "the values are nested too deeply")
        else:
            return value, True
        return value, False


def read_yaml(
    text: str, problems: Problems, *, loader_type: type[yaml.Loader] = yaml.Loader, hint: str = ""
) -> Any:
    """The content of a YAML file; None, with a problem that has the `hint`, if it is not YAML."""
    document = yaml.load(text, file=problems.file, loader_type=loader_type)
    findings = document.warnings if isinstance(document, yaml.YamlDocument) else (document,)
    for finding in findings:
        problems.add(
            finding.severity,
            finding.code,
            finding.message,
            place=finding.place,
            hint=finding.hint or hint,
        )
    if isinstance(document, Problem):
        return None
    problems.use_places(lambda path: _yaml_place(document, path))
    return document.raw


def _yaml_place(document: yaml.YamlDocument, path: Path) -> Place:
    """The line of a path, whose keys the file may write in the other spelling."""
    node = document.raw
    written: list[str | int] = []
    for step in path:
        spellings = (step, to_camel(step), to_snake(step)) if isinstance(step, str) else ()
        keys = node if isinstance(node, dict) else ()
        written.append(next((spelling for spelling in spellings if spelling in keys), step))
        try:
            node = node[written[-1]]
        except (LookupError, TypeError):
            node = None
    place = document.places(*written)
    return Place(place.file, place.line, column=place.column, json_path=path_text(path))
