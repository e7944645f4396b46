"""A shelf of recorded conversations: which files hold one for a case, and the conversation itself when it is wanted."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from evalgate.errors import Severity
from evalgate.model import Transcript
from evalgate.sessions import recorded_items
from evalgate.text import words
from evalgate.wire import recordings

_ADK_TIME = re.compile(r"_(\d{9,}(?:\.\d+)?)\.evalset_result\.json$")


@dataclass(frozen=True, slots=True)
class _Slice:
    file: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Whole:
    file: int
    transcript: Transcript


_Held: TypeAlias = _Slice | _Whole


@dataclass(slots=True, kw_only=True)
class _File:
    path: Path
    eval_set_id: str | None = None
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A recording of a case: the file that it stands in, the id of its evaluation set where one is named.

    `transcript` None: it cannot be understood, and `problem` says why.
    """

    path: Path
    eval_set_id: str | None
    transcript: Transcript | None
    problem: str = ""


@dataclass(slots=True)
class Shelf:
    """The recordings of some files. Of large files only the place of each case is kept, not the case.

    `sought`: where they were looked for, in words.
    """

    sought: str = ""
    problems: list[str] = field(default_factory=list)
    _files: list[_File] = field(default_factory=list)
    _held: dict[str, list[_Held]] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Iterable[Path], *, sought: str = "") -> Shelf:
        """Index the files: results of `adk eval` newest first, as their names tell, others by name."""
        shelf = cls(sought=sought)
        for path in sorted(paths, key=_order):
            try:
                shelf._add(path)
            except OSError as error:
                shelf.problems.append(f"{path.name}: {error.strerror or error}")
        return shelf

    def __len__(self) -> int:
        return sum(len(held) for held in self._held.values())

    def names(self) -> Iterable[str]:
        """The case ids that something is recorded for."""
        return self._held.keys()

    def find(self, case_id: str) -> list[Record]:
        """Every recording of a case, in the order of the files and within them."""
        return [self._record(held) for held in self._held.get(case_id, ())]

    def _add(self, path: Path) -> None:
        number = len(self._files)
        file = _File(path=path)
        self._files.append(file)
        with path.open("rb") as stream:
            scan = recorded_items.scan(stream)
        if scan is None:
            self._add_whole(number, file)
            return
        file.eval_set_id, file.key = scan.eval_set_id, scan.key
        for item in scan.items:
            self._held.setdefault(item.case_id, []).append(_Slice(number, item.start, item.end))

    def _add_whole(self, number: int, file: _File) -> None:
        text = file.path.read_text(encoding="utf-8", errors="replace")
        reading = recordings.parse_recordings(text, file=file.path.name)
        self.problems += [str(problem) for problem in reading.problems if problem.severity is Severity.ERROR]
        for recording in reading.recordings:
            file.eval_set_id = recording.eval_set_id
            self._held.setdefault(recording.case_id, []).append(_Whole(number, recording.transcript))
        stem = file.path.name.partition(".")[0]
        if len(reading.recordings) == 1 and stem != reading.recordings[0].case_id:
            # One session in a file is named by its random id; people name the file after the case.
            self._held.setdefault(stem, []).append(_Whole(number, reading.recordings[0].transcript))

    def _record(self, held: _Held) -> Record:
        file = self._files[held.file]
        if isinstance(held, _Whole):
            return Record(path=file.path, eval_set_id=file.eval_set_id, transcript=held.transcript)
        try:
            item = _cut(file.path, held).decode("utf-8")
        except (OSError, ValueError) as error:
            return Record(path=file.path, eval_set_id=file.eval_set_id, transcript=None, problem=str(error))
        reading = recordings.parse_one(item, key=file.key, eval_set_id=file.eval_set_id, file=file.path.name)
        problem = words.listed([each.message for each in reading.problems], limit=3)
        found = reading.recordings[0].transcript if reading.recordings else None
        return Record(path=file.path, eval_set_id=file.eval_set_id, transcript=found, problem=problem)


def _cut(path: Path, held: _Slice) -> bytes:
    """The bytes of one case. A file object would take twice as long to make."""
    opened = os.open(path, os.O_RDONLY)
    try:
        return os.pread(opened, held.end - held.start, held.start)
    finally:
        os.close(opened)


def _order(path: Path) -> tuple[float, str]:
    written = _ADK_TIME.search(path.name)
    return (-float(written[1]) if written else 0.0, str(path))
