"""The problems of one file as they are found: each with its place, repetitions counted instead of repeated."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from evalgate.errors import Place, Problem, Severity
from evalgate.text.words import counted
from evalgate.wire.spelling import to_camel, to_snake

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
            hidden = group.count - _shown(severity)
            if hidden > 0:
                more = counted(hidden, "more place")
                made[group.last] = replace(made[group.last], message=f"{made[group.last].message} (and in {more})")
        return tuple(sorted(made, key=_position))

    def _add(self, severity: Severity, code: str, message: str, *, path: Path, hint: str, place: Place | None) -> None:
        kind = _kind(spelled(path) if place is None else place.json_path)
        key = (severity, code, kind)
        group = self._groups.setdefault(key, _Group(last=len(self._problems)))
        group.count += 1
        if group.count > _shown(severity):
            return
        group.last = len(self._problems)
        found = place or self.place_of(path)
        self._problems.append(Problem(severity=severity, code=code, message=message, place=found, hint=hint))


def _position(problem: Problem) -> tuple[int, int]:
    place = problem.place
    return (place.line or 0, place.column or 0) if place else (0, 0)


def _shown(severity: Severity) -> int:
    return ERRORS_SHOWN if severity is Severity.ERROR else 1


def _kind(json_path: str) -> str:
    return re.sub(r"\[\d+\]", "[]", json_path)
