"""A shelf of recorded conversations: which files hold one for a case, and the conversation itself when it is wanted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalgate import words
from evalgate.errors import Severity
from evalgate.model import Transcript
from evalgate.wire import recordings
from evalgate.wire.recordings import CaseList

_ADK_TIME = re.compile(r"_(\d{9,}(?:\.\d+)?)\.evalset_result\.json$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A recording of a case: the file that it stands in, the id of its evaluation set where one is named.

    `transcript` None: it cannot be understood, and `problem` says why.
    """

    path: Path
    eval_set_id: str | None
    transcript: Transcript | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Unread:
    """A case as JSON, read when it is wanted."""

    path: Path
    of: CaseList
    raw: Any

    def read(self) -> Record:
        reading = recordings.parse_case(self.raw, key=self.of.key, eval_set_id=self.of.eval_set_id, file=self.path.name)
        return Record(
            path=self.path,
            eval_set_id=self.of.eval_set_id,
            transcript=reading.recordings[0].transcript if reading.recordings else None,
            problem=words.listed([each.message for each in reading.problems], limit=3),
        )


@dataclass(slots=True)
class Shelf:
    """The recordings of some files. `sought`: where they were looked for, in words."""

    sought: str = ""
    problems: list[str] = field(default_factory=list)
    _held: dict[str, list[_Unread | Record]] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Iterable[Path], *, sought: str = "") -> Shelf:
        """Index the files: results of `adk eval` newest first, as their names tell, others by name."""
        shelf = cls(sought=sought)
        for path in sorted(paths, key=_order):
            try:
                shelf._add(path, path.read_text(encoding="utf-8", errors="replace"))
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
        return [held.read() if isinstance(held, _Unread) else held for held in self._held.get(case_id, ())]

    def _add(self, path: Path, text: str) -> None:
        split = recordings.split_cases(text)
        if split is None:
            self._add_whole(path, text)
            return
        for case_id, raw in split.cases:
            self._held.setdefault(case_id, []).append(_Unread(path, split, raw))

    def _add_whole(self, path: Path, text: str) -> None:
        reading = recordings.parse_recordings(text, file=path.name)
        self.problems += [str(problem) for problem in reading.problems if problem.severity is Severity.ERROR]
        stem = path.name.partition(".")[0]
        for recording in reading.recordings:
            record = Record(path=path, eval_set_id=recording.eval_set_id, transcript=recording.transcript)
            # One session in a file is named by its random id; people name the file after the case.
            names = {recording.case_id, stem} if len(reading.recordings) == 1 else {recording.case_id}
            for name in names:
                self._held.setdefault(name, []).append(record)


def _order(path: Path) -> tuple[float, str]:
    written = _ADK_TIME.search(path.name)
    return (-float(written[1]) if written else 0.0, str(path))
