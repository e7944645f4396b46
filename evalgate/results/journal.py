"""The journal: one JSON line per finished trial and grade, so that no paid work is lost.

A line is written in one piece and flushed at once. When the journal is read again, a line that a
kill cut off is dropped, and a damaged one is skipped. Trials and grades are found by content
address (`formats.fingerprints`), so a journal of other cases, other criteria or another agent is
not used. The files that an agent read of its checkout come before the trials that they may have
changed."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pydantic_core import from_json

from evalgate.errors import UnavailableError
from evalgate.model import AgentDetails, Grade, Inputs, Outcome, Transcript, Trial, TrialKey
from evalgate.values import Json, JsonObject, Redactor, mapped_texts
from . import output, shapes

VERSION = 2
"""Of the layout; a journal with another one is refused."""
_READ_BYTES = 8192
"""Of the first and the last line, read at once; most lines are shorter."""


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Numbers of errors that mean that there is no more room."""


class _Line(NamedTuple):
    """Where a trial's line is in the file."""

    offset: int
    """Its start, in bytes."""
    size: int
    """Its length in bytes, without its end."""
    mark: bytes
    """Its hash when it was written or the journal was opened (`_mark_of`)."""


CACHED_BYTES = 8_000_000
"""The length of all lines whose transcripts are kept in memory, the last ones that were written or
read: a transcript takes a few times the length of its line."""


class Journal(AbstractContextManager["Journal"]):
    """An append-only file of trials, grades and inputs; the transcripts of a run are read from it
    too. Safe for many threads of one process; a lock on the file allows one process at a time."""

    def __init__(self, path: Path, *, redact: Redactor = str) -> None:
        """Neither opens nor creates the file, see `create` and `read`."""
        self.path = path
        self._redact = redact
        """Removes secrets from everything that is written, so that readers and reports see none."""
        self.damaged = 0
        """The number of unreadable lines of a reopened journal; their contents are unknown."""
        self.about: Json = {}
        """Its first line."""
        self._lock = threading.RLock()
        """For the file and the tables, which many threads change."""
        self._trials: dict[str, _Line] = {}
        """By the trial's address."""
        self._grades: dict[str, Grade] = {}
        """By the grade's address."""
        self._by_key: dict[TrialKey, str] = {}
        """The address of each trial of this run."""
        self.inputs: dict[str, Inputs] = {}
        """By agent."""
        self._transcripts: dict[str, tuple[Outcome, int]] = {}
        """By address: outcomes in memory, each with the length of its line, the oldest first."""
        self._cached_bytes = 0
        """The length of the lines of `_transcripts`."""
        self._agents: shapes.AgentsTable = {}
        """By the address that outcomes refer to."""
        self._agents_written: set[str] = set()
        """Addresses that are in the file already."""
        self._reader: BinaryIO | None = None
        """None before it is opened, and once it is closed."""
        self._writer: FileIO | None = None
        """None for a journal that is only read, and once it is closed."""
        self._end = 0
        """The length of the file in bytes, up to the end of its last whole line."""
        self._expected = 0
        """The trials that were announced."""

    @classmethod
    def create(cls, path: Path, *, about: Json, redact: Redactor = str) -> Journal:
        """A new, empty journal in place of whatever was there, for the only process that writes
        it. Raises UnavailableError."""
        journal = cls(path, redact=redact)
        try:
            output.make_folder(path.parent)
            # unbuffered: after a failed write, no data in memory fails again later. Created if
            # missing, and never emptied: another process may have just opened it
            writer = FileIO(
                path, "r+", opener=lambda name, flags: os.open(name, flags | os.O_CREAT, 0o666)
            )
        except OSError as error:
            raise not_written(path, error) from error
        # the lock ends with the process, however it ends
        if not _lock(writer):
            writer.close()
            raise in_use(path)
        journal._writer = writer
        try:
            journal._reader = path.open("rb")
            if path.stat().st_size:
                writer.truncate()
            journal._append({"journal": VERSION, **about})
        except OSError as error:
            journal.close()
            raise not_written(path, error) from error
        except UnavailableError:
            journal.close()
            raise
        return journal

    @classmethod
    def read(cls, path: Path) -> Journal:
        """The journal of an earlier run, read-only. It lacks trials from which secrets were
        removed: they no longer have the agent's words.

        Raises UnavailableError, also for a journal in another layout than this version writes."""
        journal = cls(path)
        try:
            journal._reader = path.open("rb")
            for line, document in _read_lines(path):
                if document is None or not journal._add_line(line, document):
                    journal.damaged += 1
        except OSError as error:
            raise UnavailableError(
                f"cannot read the journal {path}: {error.strerror or error}",
                hint="Make it readable, or start over without --resume.",
            ) from error
        except UnavailableError:
            journal.close()
            raise
        return journal

    # --- reading ----------------------------------------------------------------------------------

    @property
    def trials(self) -> int:
        """The number of its trials."""
        return len(self._trials)

    def knows(self, address: str) -> bool:
        """True if the trial with this address is finished."""
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
        """The time at which the trial with this address ran, ISO 8601; "" if unknown."""
        timestamp = self._read(self._trials[address]).get("measured_at") or self.about.get(
            "started_at", ""
        )
        return timestamp if isinstance(timestamp, str) else ""

    def inputs_of(self, agent: str) -> Inputs:
        """The inputs of an agent; unknown ones if it did not run."""
        return self.inputs.get(agent, Inputs())

    def grade(self, address: str) -> Grade | None:
        """The grade with this address, or None."""
        return self._grades.get(address)

    def find(self, key: TrialKey) -> Transcript | None:
        """See `Run.transcripts`. The last transcripts are cached: several reports ask for them."""
        address = self._by_key.get(key)
        if address is None:
            return None
        place = self._trials[address]
        line = self._line(place)  # also for a cached one: reports any change
        outcome, _ = self._transcripts.get(address, (None, 0))
        if outcome is None:
            outcome = shapes.parse_outcome(_parsed(line)["outcome"], agents_seen=self._agents)
            self._cache(address, outcome, place.size)
        return outcome if isinstance(outcome, Transcript) else None

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
        """The grade without secrets."""
        if self._redact is str:
            return grade
        fields = shapes.grade_json(grade)
        clean_fields = self._without_secrets(fields, shapes.parse_grade)
        return grade if clean_fields is fields else shapes.parse_grade(clean_fields)

    # --- writing ---------------------------------------------------------------------------------

    def add_trial(
        self, address: str, trial: Trial, *, agent: str = "", measured_at: str = ""
    ) -> None:
        """Keep a finished trial. `agent`: see `add_inputs`. `measured_at`: time of a reused trial,
        ISO 8601. Raises UnavailableError if the disk is full or fails."""
        agents_seen: shapes.AgentsTable = {}
        fields = shapes.outcome_json(trial.outcome, agents_seen=agents_seen)
        outcome = self._without_secrets(
            fields, lambda raw: shapes.parse_outcome(raw, agents_seen={})
        )
        if outcome is not fields:
            outcome["redacted"] = True
        fields_of_line = {
            "trial": address,
            "key": [trial.key.suite, trial.key.case_id, trial.key.purpose, trial.key.number],
            "seconds": round(trial.seconds, 4),
            "attempts": trial.attempts,
            "outcome": outcome,
        }
        if measured_at:
            fields_of_line["measured_at"] = measured_at
        if agent in self.inputs:
            fields_of_line["asked"] = [agent, len(self.inputs[agent].answers)]
        for agents_address, agents in agents_seen.items():
            self._add_agents(agents_address, agents)
        position = self._append(fields_of_line)
        with self._lock:
            self._trials[address] = position
            self._by_key[trial.key] = address
        # without secrets; agents' instructions are in memory once
        is_cached = outcome is fields and not agents_seen
        self._cache(address, trial.outcome if is_cached else None, position.size)

    def _cache(self, address: str, outcome: Outcome | None, size: int) -> None:
        """Keep an outcome in place of the one that was kept, and remove the first ones if there is
        no room. `size`: the length of its line."""
        with self._lock:
            self._cached_bytes -= self._transcripts.pop(address, (None, 0))[1]
            if outcome is not None:
                self._transcripts[address] = outcome, size
                self._cached_bytes += size
            while self._cached_bytes > CACHED_BYTES:
                self._cached_bytes -= self._transcripts.pop(next(iter(self._transcripts)))[1]

    def add_inputs(self, agent: str, inputs: Inputs) -> None:
        """Keep the new questions and answers of an agent. Call it before a trial that depends on
        them. Raises UnavailableError if the disk is full or fails."""
        with self._lock:
            known_inputs = self.inputs_of(agent)
            new_answers = {
                name: text
                for name, text in inputs.answers.items()
                if known_inputs.answers.get(name) != text
            }
            if new_answers or inputs.environment != known_inputs.environment:
                self._append(
                    {"inputs": agent, "environment": inputs.environment, "answers": new_answers}
                )
                self.inputs[agent] = Inputs(
                    environment=inputs.environment, answers={**known_inputs.answers, **new_answers}
                )

    def add_grade(self, address: str, grade: Grade) -> None:
        """Keep a grade; it is known from then on. Raises UnavailableError if the disk is full or
        fails."""
        grade = self.without_secrets(grade)
        self._append({"grade": address, **shapes.grade_json(grade)})
        with self._lock:
            self._grades[address] = grade

    def expect(self, trials: int) -> None:
        """Keep that this many more trials will be run or reused, for whoever finds the journal of a
        run that was killed. Raises UnavailableError."""
        self._expected += trials
        self._append({"journal": VERSION, "trials": self._expected})

    def finish(self) -> None:
        """Mark the run as completed: it cannot be continued. Raises UnavailableError."""
        self._append({"journal": VERSION, "finished": True})

    def close(self) -> None:
        """Close the file; it can no longer be read or written."""
        with self._lock:
            for file in (self._writer, self._reader):
                if file is not None:
                    file.close()
            self._writer = self._reader = None

    def __exit__(self, *_: object) -> None:
        """Closes the file, whatever was raised."""
        self.close()

    # --- the file --------------------------------------------------------------------------------

    def _add_agents(self, address: str, agents: tuple[AgentDetails, ...]) -> None:
        """Keep agents before the first trial that refers to them."""
        # the lock is held until it is written: no other thread's trial may precede the line that it
        # refers to
        with self._lock:
            if address not in self._agents_written:
                fields = {"details": shapes.agents_json(agents)}
                fields = self._without_secrets(
                    fields, lambda raw: shapes.parse_agents(raw["details"])
                )
                self._append({"agents": address, **fields})
                self._agents_written.add(address)
                self._agents[address] = shapes.parse_agents(fields["details"])

    def _without_secrets(
        self, fields: JsonObject, parse: Callable[[JsonObject], object]
    ) -> JsonObject:
        """`fields` without secrets, except secrets that are words of the layout. It works on text:
        secrets may be at any depth."""
        if self._redact is str:
            return fields
        text = shapes.encode(fields).decode()
        clean_text = self._redact(text)
        if clean_text == text:
            return fields
        # a secret that is itself JSON may span the quotes of several texts
        for is_text in (True, False):
            with suppress(ValueError, KeyError, RecursionError):
                clean_fields: JsonObject = (
                    json.loads(clean_text)
                    if is_text
                    else mapped_texts(json.loads(text), self._redact)
                )
                parse(clean_fields)
                if clean_fields.get("kind") == fields.get("kind"):
                    return fields if clean_fields == fields else clean_fields
        return fields

    def _append(self, document: Json) -> _Line:
        """Write a line. Raises UnavailableError, also if another program wrote to the file; the
        line is still written."""
        line = shapes.encode(document)
        encoded = line + b"\n"
        with self._lock:
            if self._writer is None:
                raise UnavailableError(f"the journal {self.path} is closed")
            try:
                is_untouched = os.fstat(self._writer.fileno()).st_size == self._end
                remaining_bytes = memoryview(encoded)
                while remaining_bytes:
                    remaining_bytes = remaining_bytes[self._writer.write(remaining_bytes) :]
            except OSError as error:
                # the file may end in a cut line: nothing may follow it
                self._writer.close()
                self._writer = None
                raise not_written(self.path, error) from error
            offset = self._end
            self._end += len(encoded)
            if not is_untouched:
                raise _changed(self.path)
            return _Line(offset=offset, size=len(line), mark=_mark_of(line))

    def _line(self, place: _Line) -> bytes:
        """The line of a trial. Raises UnavailableError if it has changed."""
        if self._reader is None:
            raise UnavailableError(f"the journal {self.path} is not open")
        line = os.pread(self._reader.fileno(), place.size, place.offset)
        if _mark_of(line) != place.mark:
            raise _changed(self.path)
        return line

    def _read(self, place: _Line) -> JsonObject:
        """The content of a trial's line."""
        document: JsonObject = _parsed(self._line(place))
        return document

    def _add_line(self, place: _Line, line: JsonObject) -> bool:
        """Add a line to the index; False if it is damaged or unknown."""
        if line.get("journal", VERSION) != VERSION:
            raise UnavailableError(
                f"the journal {self.path} was written by an incompatible version of evalgate",
                hint="Finish the run with the version that started it, or start over without --resume.",
            )
        try:
            if "trial" in line:
                self._add_trial_line(place, line)
            elif "grade" in line and not line.keys().isdisjoint({"value", "reason"}):
                address = str(line.pop("grade"))
                self._grades[address] = shapes.parse_grade(line)
            elif "agents" in line:
                address = str(line["agents"])
                self._agents[address] = shapes.parse_agents(line["details"])
                self._agents_written.add(address)
            elif "inputs" in line:
                self._add_inputs_line(line)
            elif "journal" in line:
                self.about = self.about or line
            else:
                return False
        # pydantic's ValidationError is a ValueError
        except (KeyError, TypeError, AttributeError, ValueError):
            return False
        return True

    def _add_trial_line(self, place: _Line, line: JsonObject) -> None:
        """Add a trial to the index. Raises an error if what it needs is damaged."""
        outcome = line["outcome"]
        for address in outcome.get("agents", ()):
            # the line of its agents is damaged: instructions are part of the trial
            if address and address not in self._agents:
                raise KeyError(address)
        agent, count = line.get("asked", ("", 0))
        if len(self.inputs_of(agent).answers) < count:  # one of their lines is damaged
            raise KeyError(agent)
        if outcome["kind"] == "transcript" and outcome.get("redacted"):
            self._trials.pop(str(line["trial"]), None)
        else:
            self._trials[str(line["trial"])] = place

    def _add_inputs_line(self, line: JsonObject) -> None:
        """Add an agent's answers."""
        agent = str(line["inputs"])
        environment = str(line["environment"])
        answers = line["answers"]
        if not all(isinstance(text, str) for text in answers.values()):
            raise TypeError(agent)
        known_inputs = self.inputs.get(agent, Inputs(environment=environment))
        # it ran in two environments: nobody knows which trial ran in which
        if known_inputs.environment != environment:
            environment = ""
        self.inputs[agent] = Inputs(
            environment=environment, answers={**known_inputs.answers, **answers}
        )


def peek(path: Path) -> tuple[str, str, bool] | None:
    """The start of a journal's run (ISO 8601), its workflow run, and whether it was completed: its
    first and last line, without reading the others. None if it does not exist or is not a file."""
    if path.is_symlink() or not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            first_line = _value(file.readline(_READ_BYTES)) or {}
            file.seek(max(file.seek(0, os.SEEK_END) - _READ_BYTES, 0))
            last_line = _value(file.read().splitlines()[-1]) or {}
    except (OSError, IndexError):
        return None
    started_at, workflow_run = (
        str(first_line.get(name) or "") for name in ("started_at", "workflow_run")
    )
    return started_at, workflow_run, last_line.get("finished") is True


def progress(path: Path) -> tuple[int, int]:
    """The numbers of trials that a journal has and expects. Raises OSError."""
    lines = [line for _, line in _read_lines(path) if line is not None]
    expected = [line["trials"] for line in lines if "journal" in line and "trials" in line]
    return sum("trial" in line for line in lines), max(expected, default=0)


def is_free(path: Path) -> bool:
    """True if no process has the journal open."""
    try:
        with path.open("rb") as file:
            return _lock(file)
    except OSError:
        return True


def in_use(path: Path) -> UnavailableError:
    """The error for a journal that another process has open."""
    return UnavailableError(
        f"another evalgate is running in the folder {path.parent}",
        hint="Wait until it ends, or use a separate folder for this run: `--output FOLDER` (the action's input "
        "`output`).",
    )


# --- the file: complete lines distinguished from damaged ones -----------------------------------


def _read_lines(path: Path) -> Iterator[tuple[_Line, JsonObject | None]]:
    """Every complete line with its JSON object (None: damaged). A line cut off by a kill may follow
    the last. Raises OSError.

    Text before a NUL byte is not part of a line: a program that empties the file under its writer
    leaves a hole of NUL bytes."""
    offset = 0
    with path.open("rb") as file:
        for content in file:
            if not content.endswith(b"\n"):
                return
            offset += len(content)
            line = content[content.rfind(b"\0") + 1 :]
            place = _Line(offset=offset - len(line), size=len(line) - 1, mark=_mark_of(line[:-1]))
            yield place, _value(line)


def _mark_of(line: bytes) -> bytes:
    """A hash that identifies a line (without its end)."""
    return hashlib.blake2b(line, digest_size=8).digest()


def not_written(path: Path, error: OSError) -> UnavailableError:
    """The error for a journal that cannot be written, with advice."""
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


def _changed(path: Path) -> UnavailableError:
    """The error for a journal that somebody else writes to."""
    return UnavailableError(
        f"the journal {path} was changed during the run, by the agent or by another program",
        hint=f"Keep other programs out of {path.parent}, or set `output` to another folder. --resume recovers intact "
        f"entries.",
    )


def _lock(file: FileIO | BinaryIO) -> bool:
    """Lock the file for this process; False if another one has the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _parsed(line: bytes) -> Any:
    """JSON by pydantic's reader, which is faster; by Python's for texts that pydantic refuses (half
    an emoji, 200 levels). Raises ValueError, RecursionError."""
    try:
        return from_json(line)
    except ValueError:
        return json.loads(line)


def _value(content: bytes) -> JsonObject | None:
    """The JSON object of a line; None if it is damaged."""
    try:
        document = _parsed(content)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
