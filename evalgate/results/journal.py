"""The journal: one JSON line per finished trial and grade, so that nothing paid for is lost.

A line is written whole and flushed at once; a line that a kill cut off is dropped when the journal
is read again, and one that is damaged is passed over. Trials and grades are found by content
address (`formats.fingerprints`), so a journal made with other cases, other criteria or another
agent is simply not used. What an agent read of its checkout stands before the trials that it may
have changed."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Self

from pydantic_core import from_json

from evalgate.errors import UnavailableError
from evalgate.formats import fingerprints
from evalgate.model import AgentDetails, Grade, Inputs, Transcript, Trial, TrialKey
from evalgate.results import output, shapes
from evalgate.values import Json, JsonObject, mapped_json

VERSION = 2
_FINISHED: Final = {"finished": True}
_ONE_READ: Final = 8192  # bytes; most lines are shorter


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class _Line(NamedTuple):
    """The start of a trial's line, and its mark from when it was written or the journal was opened
    (`_mark_of`)."""

    offset: int
    mark: bytes


class Peeked(NamedTuple):
    """What a journal says of itself: when its run began (ISO 8601), in which workflow run, and
    whether it came to its end."""

    started_at: str
    workflow_run: str
    finished: bool


MOST_FOUND = 8
"""So many transcripts are kept in memory."""


class Journal:
    """An append-only file of what happened; the transcripts of a run are read from it too.

    Safe for many threads of one process; a lock on the file allows one process at a time.
    `damaged`: how many lines of a reopened one could not be read; their contents are unknown.
    `about`: its first line. `redact`: takes secrets out of everything that is written, so that
    readers and reports see none."""

    def __init__(self, path: Path, *, redact: Callable[[str], str] = str) -> None:
        self.path = path
        self._redact = redact
        self.damaged = 0
        self.about: Json = {}
        self._lock = threading.RLock()
        self._trials: dict[str, _Line] = {}
        self._grades: dict[str, Grade] = {}
        self._by_key: dict[TrialKey, str] = {}
        self.inputs: dict[str, Inputs] = {}
        self._found: dict[str, Transcript | None] = {}
        self._agents: dict[str, tuple[AgentDetails, ...]] = {}
        self._agents_written: set[str] = set()
        self._reader: BinaryIO | None = None
        self._writer: FileIO | None = None
        self._end = 0

    @classmethod
    def create(cls, path: Path, *, about: Json, redact: Callable[[str], str] = str) -> Journal:
        """A new, empty journal in place of whatever was there. Raises UnavailableError."""
        journal = cls(path, redact=redact)
        journal._open()
        try:
            journal._write_from(0)
            journal._append({"journal": VERSION, **about})
        except UnavailableError:
            journal.close()
            raise
        return journal

    @classmethod
    def read(cls, path: Path) -> Journal:
        """The journal of an earlier run, to be read alone. It lacks trials that secrets were taken
        out of: they are no longer what the agent said.

        Raises UnavailableError, also for a journal in another layout than this version writes.
        """
        journal = cls(path)
        try:
            journal._reader = path.open("rb")
            journal._read_all()
        except OSError as error:
            raise _not_read(path, error) from error
        except UnavailableError:
            journal.close()
            raise
        return journal

    # --- what is known ---------------------------------------------------------------------------

    @property
    def trials(self) -> int:
        """How many trials it holds."""
        return len(self._trials)

    def knows(self, address: str) -> bool:
        """True if the trial with this address has ended."""
        return address in self._trials

    def trial(self, address: str, key: TrialKey) -> Trial | None:
        """The trial with this address; None if it does not exist, is not a trial, or is
        incomplete."""
        if address not in self._trials:
            return None
        raw = self._read(self._trials[address])
        try:
            trial = Trial(
                key=key,
                outcome=shapes.parse_outcome(raw["outcome"], agents_seen=self._agents),
                seconds=raw.get("seconds", 0.0),
                attempts=raw.get("attempts", 1),
            )
        except ValueError:  # pydantic's
            return None
        if isinstance(trial.outcome, Transcript) and trial.outcome.redacted:
            return None
        with self._lock:
            self._by_key[key] = address
        return trial

    def measured_at(self, address: str) -> str:
        """When the trial with this address was run, ISO 8601; "" if unknown."""
        timestamp = self._read(self._trials[address]).get("measured_at") or self.about.get(
            "started_at", ""
        )
        return timestamp if isinstance(timestamp, str) else ""

    def grade(self, address: str) -> Grade | None:
        """The grade with this address, or None."""
        return self._grades.get(address)

    def find(self, key: TrialKey) -> Transcript | None:
        """See `model.Transcripts`. The last ones are kept: several reports ask for the same few."""
        address = self._by_key.get(key)
        if address is None:
            return None
        line = self._line(self._trials[address])  # also for a cached one: reports any change
        if address not in self._found:
            outcome = shapes.parse_outcome(_parsed(line)["outcome"], agents_seen=self._agents)
            self._found[address] = outcome if isinstance(outcome, Transcript) else None
            if len(self._found) > MOST_FOUND:
                self._found.pop(next(iter(self._found)), None)
        return self._found.get(address)

    def find_json(self, key: TrialKey) -> JsonObject | None:
        """Return the outcome of a trial as written, None if it is unknown."""
        address = self._by_key.get(key)
        if address is None:
            return None
        outcome: JsonObject = self._read(self._trials[address])["outcome"]
        return outcome

    def agents(self) -> Mapping[str, tuple[AgentDetails, ...]]:
        """Agents' instructions and tools, by the address that outcomes refer to."""
        return self._agents

    def without_secrets(self, grade: Grade) -> Grade:
        """The grade as it may be shown."""
        if self._redact is str:
            return grade
        fields = shapes.grade_json(grade)
        clean = self._without_secrets(fields, shapes.parse_grade)
        return grade if clean is fields else shapes.parse_grade(clean)

    # --- what is new -----------------------------------------------------------------------------

    def add_trial(
        self, address: str, trial: Trial, *, agent: str = "", measured_at: str = ""
    ) -> None:
        """Keep a finished trial. `agent`: see `add_inputs`. `measured_at`: of a reused trial, ISO
        8601. Raises UnavailableError if the disk is full or fails."""
        agents_seen: dict[str, tuple[AgentDetails, ...]] = {}
        fields = shapes.outcome_json(
            trial.outcome, agents_seen=agents_seen, address=fingerprints.digest
        )
        outcome = self._without_secrets(
            fields, lambda raw: shapes.parse_outcome(raw, agents_seen={})
        )
        if outcome is not fields:
            outcome["redacted"] = True
        line = {
            "trial": address,
            "key": [trial.key.suite, trial.key.case_id, trial.key.purpose, trial.key.number],
            "seconds": round(trial.seconds, 4),
            "attempts": trial.attempts,
            "outcome": outcome,
        }
        if measured_at:
            line["measured_at"] = measured_at
        if agent in self.inputs:
            line["asked"] = [agent, len(self.inputs[agent].answers)]
        for agents_address, agents in agents_seen.items():
            self._add_agents(agents_address, agents)
        place = self._append(line)
        with self._lock:
            self._trials[address] = place
            self._by_key[trial.key] = address
            self._found.pop(address, None)

    def add_inputs(self, agent: str, inputs: Inputs) -> None:
        """Keep the new questions and answers of an agent; call it before a trial that depends on
        them. Raises UnavailableError if the disk is full or fails."""
        with self._lock:
            last = self.inputs.get(agent, Inputs())
            more = {
                name: text
                for name, text in inputs.answers.items()
                if last.answers.get(name) != text
            }
            if more or inputs.environment != last.environment:
                self._append({"inputs": agent, "environment": inputs.environment, "answers": more})
                self.inputs[agent] = Inputs(
                    environment=inputs.environment, answers={**last.answers, **more}
                )

    def add_grade(self, address: str, grade: Grade) -> None:
        """Keep a grade, known from then on. Raises UnavailableError if the disk is full or
        fails."""
        grade = self.without_secrets(grade)
        self._append({"grade": address, **shapes.grade_json(grade)})
        with self._lock:
            self._grades[address] = grade

    def finish(self) -> None:
        """The run came to its end: nothing is left to be continued. Raises UnavailableError."""
        self._append({"journal": VERSION, **_FINISHED})

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
        # until it is written: no other thread's trial may stand before what it refers to
        with self._lock:
            if address not in self._agents_written:
                fields = {"details": shapes.agents_json(agents)}
                fields = self._without_secrets(
                    fields, lambda raw: shapes.parse_agents(raw["details"])
                )
                self._append({"agents": address, **fields})
                self._agents_written.add(address)
                agents = shapes.parse_agents(fields["details"])
                self._agents[address] = agents

    def _without_secrets(
        self, fields: JsonObject, parse: Callable[[JsonObject], object]
    ) -> JsonObject:
        """`fields` without secrets, except those that are words of the layout. As text: secrets may
        be at any depth."""
        if self._redact is str:
            return fields
        text = shapes.encode(fields).decode()
        clean = self._redact(text)
        if clean == text:
            return fields
        # a secret that is JSON itself may reach over the quotes of several texts
        for as_text in (True, False):
            with suppress(ValueError, KeyError, RecursionError):
                read: JsonObject = (
                    json.loads(clean)
                    if as_text
                    else mapped_json(json.loads(text), self._clean, key=self._redact)
                )
                parse(read)
                if read.get("kind") == fields.get("kind"):
                    return fields if read == fields else read
        return fields

    def _clean(self, value: Any) -> Any:
        return self._redact(value) if isinstance(value, str) else value

    def _open(self) -> None:
        """Raises UnavailableError, also where another process has it open."""
        self._writer = _open_alone(self.path)
        try:
            self._reader = self.path.open("rb")
        except OSError as error:
            self.close()
            raise _not_read(self.path, error) from error

    def _write_from(self, end: int) -> None:
        """What is behind `end` goes; the next line is written there."""
        assert self._writer is not None
        try:
            if self.path.stat().st_size > end:
                self._writer.truncate(end)
            self._writer.seek(end)
        except OSError as error:
            raise not_written(self.path, error) from error
        self._end = end

    def _append(self, value: Json) -> _Line:
        """Write a line. Raises UnavailableError, also if others wrote to the file; the line is
        written then."""
        line = shapes.encode(value)
        data = line + b"\n"
        with self._lock:
            if self._writer is None:
                raise UnavailableError(f"the journal {self.path} is closed")
            try:
                untouched = os.fstat(self._writer.fileno()).st_size == self._end
                remaining_bytes = memoryview(data)
                while remaining_bytes:
                    remaining_bytes = remaining_bytes[self._writer.write(remaining_bytes) :]
            except OSError as error:
                # the file may end in a cut line: nothing may follow it
                self._writer.close()
                self._writer = None
                raise not_written(self.path, error) from error
            offset = self._end
            self._end += len(data)
            if not untouched:
                raise _changed(self.path)
            return _Line(offset, _mark_of(line))

    def _line(self, place: _Line) -> bytes:
        """The line of a trial. Raises UnavailableError if it has changed."""
        if self._reader is None:
            raise UnavailableError(f"the journal {self.path} is not open")
        size = _ONE_READ
        data = os.pread(self._reader.fileno(), size, place.offset)
        while b"\n" not in data and len(data) == size:
            size *= 8
            data = os.pread(self._reader.fileno(), size, place.offset)
        line = data[: data.find(b"\n")]
        if _mark_of(line) != place.mark:
            raise _changed(self.path)
        return line

    def _read(self, place: _Line) -> JsonObject:
        value: JsonObject = _parsed(self._line(place))
        return value

    def _read_all(self) -> None:
        for line, value in _read_lines(self.path):
            if value is None or not self._remember(line, value):
                self.damaged += 1

    def _remember(self, place: _Line, line: JsonObject) -> bool:
        """True if the line is one of ours, and whole."""
        if line.get("journal", VERSION) != VERSION:
            raise UnavailableError(
                f"the journal {self.path} was written by an incompatible version of evalgate",
                hint="Finish the run with the version that started it, or start over without --resume.",
            )
        try:
            if "trial" in line:
                self._remember_trial(place, line)
            elif "grade" in line and not line.keys().isdisjoint({"value", "reason"}):
                address = str(line.pop("grade"))
                self._grades[address] = shapes.parse_grade(line)
            elif "agents" in line:
                address = str(line["agents"])
                self._agents[address] = shapes.parse_agents(line["details"])
                self._agents_written.add(address)
            elif "inputs" in line:
                self._remember_inputs(line)
            elif "journal" in line:
                self.about = self.about or line
            else:
                return False
        # pydantic's ValidationError is a ValueError
        except (KeyError, TypeError, AttributeError, ValueError):
            return False
        return True

    def _remember_trial(self, place: _Line, line: JsonObject) -> None:
        outcome = line["outcome"]
        for address in outcome.get("agents", ()):
            # its line is damaged: instructions are part of the trial
            if address and address not in self._agents:
                raise KeyError(address)
        agent, count = line.get("asked", ("", 0))
        if len(self.inputs.get(agent, Inputs()).answers) < count:  # a line of them is damaged
            raise KeyError(agent)
        if outcome["kind"] == "transcript" and outcome.get("redacted"):
            self._trials.pop(str(line["trial"]), None)
        else:
            self._trials[str(line["trial"])] = place

    def _remember_inputs(self, line: JsonObject) -> None:
        agent = str(line["inputs"])
        environment = str(line["environment"])
        answers = line["answers"]
        if not all(isinstance(text, str) for text in answers.values()):
            raise TypeError(agent)
        last = self.inputs.get(agent, Inputs(environment=environment))
        # it ran in two environments: nobody knows which trial in which
        if last.environment != environment:
            environment = ""
        self.inputs[agent] = Inputs(environment=environment, answers={**last.answers, **answers})


def peek(path: Path) -> Peeked | None:
    """What the first and the last line of a journal say, without reading the others; None if it
    does not exist or is not a file."""
    if path.is_symlink() or not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            first = _value(file.readline(_ONE_READ)) or {}
            file.seek(max(file.seek(0, os.SEEK_END) - _ONE_READ, 0))
            last = _value(file.read().splitlines()[-1]) or {}
    except (OSError, IndexError):
        return None
    return Peeked(
        started_at=str(first.get("started_at") or ""),
        workflow_run=str(first.get("workflow_run") or ""),
        finished=last.get("finished") is True,
    )


def is_free(path: Path) -> bool:
    """True if no process has a journal open."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


# --- the file under it: one writer at a time, whole lines told from damaged ones ------------------


def _open_alone(path: Path) -> FileIO:
    """Open or create the file, for the only process that writes it. Raises UnavailableError.

    The lock ends with the process, however it ends."""
    try:
        output.make_folder(path.parent)
        # unbuffered: after a failed write nothing waits in memory for a second failure. Created if
        # missing, and never emptied: another process may have just opened it
        file = FileIO(
            path, "r+", opener=lambda name, flags: os.open(name, flags | os.O_CREAT, 0o666)
        )
    except OSError as error:
        raise not_written(path, error) from error
    try:
        with suppress(OSError):  # a file system without locks
            _lock(file, path)
    except UnavailableError:
        file.close()
        raise
    return file


def _read_lines(path: Path) -> Iterator[tuple[_Line, JsonObject | None]]:
    """Every complete line, and its value (None: it is damaged); a line cut off by a kill may follow
    the last. Raises OSError.

    Text before a NUL byte is not part of a line: a program that empties the file under its writer
    leaves a hole of them."""
    offset = 0
    with path.open("rb") as file:
        for data in file:
            if not data.endswith(b"\n"):
                return
            offset += len(data)
            line = data[data.rfind(b"\0") + 1 :]
            yield _Line(offset=offset - len(line), mark=_mark_of(line[:-1])), _value(line)


def _mark_of(line: bytes) -> bytes:
    """What tells a line (without its end) from every other."""
    return hashlib.blake2b(line, digest_size=8).digest()


def not_written(path: Path, error: OSError) -> UnavailableError:
    """What the user can do about a journal that cannot be written."""
    note = "Completed runs are saved in the journal."
    if error.errno in _FULL:
        hint = f"{note} Free some disk space, then continue with --resume."
    elif error.errno == errno.EIO:
        hint = f"{note} The disk failed: see the system log, then continue with --resume."
    else:
        hint = f"Make the folder {path.parent} writable, or set `output` to another folder."
    return UnavailableError(
        f"cannot write the journal {path}: {error.strerror or error}", hint=hint
    )


def _not_read(path: Path, error: OSError) -> UnavailableError:
    return UnavailableError(
        f"cannot read the journal {path}: {error.strerror or error}",
        hint="Make it readable, or start over without --resume.",
    )


def _changed(path: Path) -> UnavailableError:
    return UnavailableError(
        f"the journal {path} was changed during the run, by the agent or by another program",
        hint=f"Keep other programs out of {path.parent}, or set `output` to another folder. --resume recovers intact "
        f"entries.",
    )


def _lock(file: FileIO, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UnavailableError(
            f"another evalgate is running in the folder {path.parent}",
            hint="Wait until it ends, or use a separate folder for this run: `--output FOLDER` (the action's input "
            "`output`).",
        ) from None


def _parsed(line: bytes) -> Any:
    """JSON by pydantic's reader, which is the faster; what it refuses (half an emoji, 200 levels)
    by Python's. Raises ValueError, RecursionError."""
    try:
        return from_json(line)
    except ValueError:
        return json.loads(line)


def _value(data: bytes) -> JsonObject | None:
    try:
        value = _parsed(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
