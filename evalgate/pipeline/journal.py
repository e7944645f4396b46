"""The journal: one JSON line per finished trial and grade, so that nothing paid for is lost.

A line is written whole and flushed at once; a line that a kill cut off is dropped when the journal is read again.
Trials and grades are found by content address (`pipeline.fingerprints`), so a journal made with other cases, other
criteria or another agent is simply not used.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

from evalgate.errors import UnavailableError
from evalgate.model import AgentDetails, Grade, Transcript, Trial, TrialKey
from evalgate.pipeline import fingerprints
from evalgate.wire import lines, records

VERSION = 1
_ONE_READ: Final = 8192  # bytes; most lines are shorter


class Journal:
    """An append-only file of what happened; also where the transcripts of a run are read from.

    Safe for many threads of one process; one process at a time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._trials: dict[str, int] = {}  # where the line of a trial begins
        self._grades: dict[str, Grade] = {}
        self._by_key: dict[TrialKey, str] = {}
        self._agents: dict[str, tuple[AgentDetails, ...]] = {}
        self._agents_written: set[str] = set()
        self._reader: BinaryIO | None = None
        self._writer: FileIO | None = None
        self._end = 0

    @classmethod
    def create(cls, path: Path, *, about: Mapping[str, Any]) -> Journal:
        """A new, empty journal in place of whatever was there. Raises UnavailableError."""
        journal = cls(path)
        journal._open(truncate_to=0)
        try:
            journal._append({"journal": VERSION, **about})
        except UnavailableError:
            journal.close()
            raise
        return journal

    @classmethod
    def reopen(cls, path: Path) -> Journal:
        """The journal of an interrupted run, its torn last line cut off.

        Raises UnavailableError, also for a journal in another layout than this version writes.
        """
        journal = cls(path)
        journal._open(truncate_to=journal._index())
        return journal

    # --- what is known ---------------------------------------------------------------------------

    @property
    def trials(self) -> int:
        """How many trials it holds."""
        return len(self._trials)

    def knows(self, address: str) -> bool:
        """Whether the trial with this address has ended."""
        return address in self._trials

    def trial(self, address: str, key: TrialKey) -> Trial:
        """The trial with this address. Raises KeyError."""
        raw = self._read(self._trials[address])
        with self._lock:
            self._by_key[key] = address
        return Trial(
            key=key,
            outcome=records.parse_outcome(raw["outcome"], agents_seen=self._agents),
            seconds=raw.get("seconds", 0.0),
            attempts=raw.get("attempts", 1),
        )

    def grade(self, address: str) -> Grade | None:
        """The grade with this address, None where there is none."""
        return self._grades.get(address)

    def find(self, key: TrialKey) -> Transcript | None:
        """See `model.Transcripts`."""
        raw = self.find_json(key)
        if raw is None:
            return None
        outcome = records.parse_outcome(raw, agents_seen=self._agents)
        return outcome if isinstance(outcome, Transcript) else None

    def find_json(self, key: TrialKey) -> dict[str, Any] | None:
        """The outcome of a trial as it was written, None where it is unknown."""
        address = self._by_key.get(key)
        if address is None:
            return None
        outcome: dict[str, Any] = self._read(self._trials[address])["outcome"]
        return outcome

    def agents(self) -> Mapping[str, tuple[AgentDetails, ...]]:
        """What agents were told and given, by the address that outcomes refer to."""
        return self._agents

    # --- what is new -----------------------------------------------------------------------------

    def add_trial(self, address: str, trial: Trial) -> None:
        """Keep a finished trial. Raises UnavailableError where the disk takes no more."""
        seen: dict[str, tuple[AgentDetails, ...]] = {}
        outcome = records.outcome_json(trial.outcome, agents_seen=seen, address=fingerprints.digest)
        line = {
            "trial": address,
            "key": [trial.key.suite, trial.key.case_id, trial.key.repeat],
            "seconds": round(trial.seconds, 4),
            "attempts": trial.attempts,
            "outcome": outcome,
        }
        for agents_address, agents in seen.items():
            self._add_agents(agents_address, agents)
        where = self._append(line)
        with self._lock:
            self._trials[address] = where
            self._by_key[trial.key] = address

    def add_grade(self, address: str, grade: Grade) -> None:
        """Keep a grade, known from then on. Raises UnavailableError where the disk takes no more."""
        self._append({"grade": address, **records.grade_json(grade)})
        with self._lock:
            self._grades[address] = grade

    def close(self) -> None:
        """Close the file; nothing can be read or written after it."""
        with self._lock:
            for file in (self._writer, self._reader):
                if file is not None:
                    file.close()
            self._writer = self._reader = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the file --------------------------------------------------------------------------------

    def _add_agents(self, address: str, agents: tuple[AgentDetails, ...]) -> None:
        with self._lock:
            if address in self._agents_written:
                return
            self._agents_written.add(address)
            self._agents[address] = agents
        self._append({"agents": address, "details": records.agents_json(agents)})

    def _open(self, *, truncate_to: int) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # unbuffered: after a failed write nothing waits in memory for a second failure
            self._writer = self.path.open("r+b" if self.path.exists() else "w+b", buffering=0)
            if self.path.stat().st_size > truncate_to:
                self._writer.truncate(truncate_to)
            self._writer.seek(truncate_to)
            self._reader = self.path.open("rb")
        except OSError as error:
            self.close()
            raise _disk_error(self.path, error) from error
        self._end = truncate_to

    def _append(self, value: Mapping[str, Any]) -> int:
        """Write a line; where it begins."""
        data = lines.encode(value) + b"\n"
        with self._lock:
            if self._writer is None:
                raise UnavailableError(f"the journal {self.path} is closed")
            try:
                _write_all(self._writer, data)
            except OSError as error:
                # part of the line may stand there: nothing may follow it
                self._writer.close()
                self._writer = None
                raise _disk_error(self.path, error) from error
            where = self._end
            self._end += len(data)
            return where

    def _read(self, where: int) -> dict[str, Any]:
        """The line that begins there."""
        if self._reader is None:
            raise UnavailableError(f"the journal {self.path} is not open")
        size = _ONE_READ
        data = os.pread(self._reader.fileno(), size, where)
        while b"\n" not in data and len(data) == size:
            size *= 8
            data = os.pread(self._reader.fileno(), size, where)
        value: dict[str, Any] = json.loads(data[: data.find(b"\n")])
        return value

    def _index(self) -> int:
        """Read what is there; the offset behind the last whole line."""
        end = 0
        try:
            for where, behind, line in _lines(self.path):
                self._remember(where, line)
                end = behind
        except OSError as error:
            raise _disk_error(self.path, error) from error
        return end

    def _remember(self, where: int, line: dict[str, Any]) -> None:
        if line.get("journal", VERSION) != VERSION:
            raise UnavailableError(
                f"the journal {self.path} was written in another layout than this version of evalgate writes",
                hint="Finish the run with the version that began it, or begin anew without --resume.",
            )
        if "trial" in line:
            self._trials[str(line["trial"])] = where
        elif "grade" in line:
            address = str(line.pop("grade"))
            self._grades[address] = records.parse_grade(line)
        elif "agents" in line:
            address = str(line["agents"])
            self._agents[address] = records.parse_agents(line["details"])
            self._agents_written.add(address)


def _write_all(file: FileIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _lines(path: Path) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Whole, readable lines from the start up to the first that is not, each with its first offset and the one behind
    it."""
    offset = 0
    with path.open("rb") as file:
        for data in file:
            try:
                value = json.loads(data) if data.endswith(b"\n") else None
            except ValueError:
                value = None
            if not isinstance(value, dict):
                return
            yield offset, offset + len(data), value
            offset += len(data)


def _disk_error(path: Path, error: OSError) -> UnavailableError:
    return UnavailableError(
        f"cannot write the journal {path}: {error.strerror or error}",
        hint="What was finished before is in the journal. Make room, then go on with --resume.",
    )
