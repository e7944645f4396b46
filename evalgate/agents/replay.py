"""The driver `replay`: recorded conversations instead of an agent."""

from __future__ import annotations

import codecs
import contextlib
import glob
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from evalgate import words
from evalgate.agents.base import Agent, AgentFailed, AgentSetting, Conversation
from evalgate.agents.tools.base import ToolHandling
from evalgate.errors import Severity
from evalgate.model import (
    AgentFailure,
    Case,
    Content,
    CriterionUse,
    Evidence,
    FailureKind,
    Grade,
    Invocation,
    Json,
    NotEvaluated,
    Reason,
    Text,
    Transcript,
    TrialKey,
)
from evalgate.wire import recordings
from evalgate.wire.spelling import to_snake

CHUNK_BYTES: Final = 1024 * 1024
_LISTS: Final = frozenset({"eval_case_results", "eval_cases"})
_DECODER: Final = json.JSONDecoder()
_BLANKS: Final = " \t\r\n\ufeff"


@dataclass(frozen=True, slots=True)
class Item:
    """One case of a file: its id and its bytes, from `start` to before `end`."""

    case_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The cases of one file; `key` is the list that holds them, as the file spells it."""

    key: str
    eval_set_id: str | None
    items: tuple[Item, ...]


def scan(stream: BinaryIO) -> Scan | None:
    """Find the cases of an ADK result or evaluation set; None for every other or unusual file, to be read in whole."""
    window = _Window(stream)
    try:
        return _scan_object(window)
    except ValueError:  # no JSON, no UTF-8, or not the shape: who reads it in whole can say what is wrong
        return None


def _scan_object(window: _Window) -> Scan:
    eval_set_id: str | None = None
    key_of_list = ""
    items: list[Item] = []
    window.expect("{")
    while window.peek() != "}":
        key = window.value()
        window.expect(":")
        if not isinstance(key, str):
            raise ValueError("not a key")  # noqa: TRY004 - a fault of the text, handled as all of them
        if to_snake(key) in _LISTS:
            if key_of_list:
                raise ValueError("two lists of cases")
            key_of_list = key
            items = _scan_list(window)
        else:
            value = window.value()
            if to_snake(key) == "eval_set_id" and isinstance(value, str):
                eval_set_id = value
        if window.peek() == ",":
            window.expect(",")
    window.expect("}")
    if window.peek() or not key_of_list:
        raise ValueError("not a file of cases")
    return Scan(key=key_of_list, eval_set_id=eval_set_id, items=tuple(items))


def _scan_list(window: _Window) -> list[Item]:
    items: list[Item] = []
    window.expect("[")
    while window.peek() != "]":
        start = window.byte()
        raw = window.value()
        items.append(Item(_case_id(raw), start, window.byte()))
        if window.peek() == ",":
            window.expect(",")
    window.expect("]")
    return items


def _case_id(raw: Any) -> str:
    found = (raw.get("eval_id") or raw.get("evalId")) if isinstance(raw, dict) else None
    if not isinstance(found, str):
        raise ValueError("a case without an id")  # noqa: TRY004 - a fault of the text, handled as all of them
    return found


class _Window:
    """The part of a file that is being read, as text, with the way back to byte offsets."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        self._known = (0, 0)  # a place in the text, and its byte offset

    def peek(self) -> str:
        """The next character that is no blank; empty at the end of the file."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANKS:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def expect(self, character: str) -> None:
        """Go past it. Raises ValueError where something else stands."""
        if self.peek() != character:
            raise ValueError(f"expected {character}")
        self._at += 1

    def value(self) -> Any:
        """Read a whole JSON value, with as much of the file as that takes. Raises ValueError."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except ValueError:
                if not self._more():
                    raise
                continue
            if end == len(self._text) and self._more():  # a number may go on
                continue
            self._at = end
            return value

    def byte(self) -> int:
        """The offset in the file of the place that is read next."""
        place, byte = self._known
        self._known = (self._at, byte + len(self._text[place : self._at].encode()))
        return self._known[1]

    def _more(self) -> bool:
        self.byte()
        if self._at > CHUNK_BYTES:  # what was read is not needed any more
            self._known = (0, self._known[1])
            self._text = self._text[self._at :]
            self._at = 0
        chunk = self._stream.read(max(CHUNK_BYTES, len(self._text) - self._at))
        self._text += self._utf8.decode(chunk, final=not chunk)
        return bool(chunk)


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
class RecordedCases:
    """The recordings of some files. Of large files only the place of each case is kept, not the case.

    `sought`: where they were looked for, in words.
    """

    sought: str = ""
    problems: list[str] = field(default_factory=list)
    _files: list[_File] = field(default_factory=list)
    _held: dict[str, list[_Held]] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Iterable[Path], *, sought: str = "") -> RecordedCases:
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
            scan = scan(stream)
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


def no_recording(message: str, *, turn: int | None = None, partial: tuple[Invocation, ...] = ()) -> AgentFailed:
    """There is nothing to replay, ready to be raised."""
    failure = AgentFailure(kind=FailureKind.NO_RECORDING, message=message, turn=turn, partial=partial)
    return AgentFailed(failure)


def pick(shelf: RecordedCases, *, case: Case, key: TrialKey, suite_file: Path) -> Transcript:
    """The recording of one trial. Raises AgentFailed (NO_RECORDING).

    Candidates have the case's id and stand in another file than the suite (whose expectations would be compared
    with themselves). Where several evaluation sets have a case of that id, the one that is named like the suite's
    file is meant, else the only one in which the user says the same. Repeat k takes the k-th recording, and a single
    one stands for all repeats.
    """
    everything = shelf.find(case.case_id)
    found = [record for record in everything if not _same_file(record.path, suite_file)]
    if not found:
        expected = f"all that is known of case {case.case_id} is what is expected of it, in the evaluation file itself"
        raise no_recording(expected if everything else _nothing_for(shelf, case))
    records = _of_one_set(found, case, key)
    if len(records) > 1 and key.repeat >= len(records):
        count = words.counted(len(records), "recording")
        raise no_recording(f"there are {count} of case {case.case_id}, and none for repeat {key.repeat + 1}")
    record = records[key.repeat if len(records) > 1 else 0]
    if record.transcript is None:
        raise no_recording(f"the recording in {record.path.name} cannot be understood: {record.problem}")
    return record.transcript


def _same_file(one: Path, other: Path) -> bool:
    return one.name == other.name and one.resolve() == other.resolve()


def _nothing_for(shelf: RecordedCases, case: Case) -> str:
    if not len(shelf):
        why = f": {words.listed(shelf.problems, limit=3)}" if shelf.problems else ""
        return f"there are no recordings{f' {shelf.sought}' if shelf.sought else ''}{why}"
    near = words.nearest(case.case_id, shelf.names()) if len(shelf) < 10_000 else None
    hint = f"; there is one of {near}" if near else ""
    trouble = f" ({words.listed(shelf.problems, limit=2)})" if shelf.problems else ""
    return f"nothing is recorded for case {case.case_id}{hint}{trouble}"


def _of_one_set(records: Sequence[Record], case: Case, key: TrialKey) -> Sequence[Record]:
    sets = {record.eval_set_id for record in records}
    if len(sets) == 1:
        return records
    file = key.suite.rpartition("/")[2]
    for name in (key.suite, file, file.partition(".")[0]):
        if name in sets:
            return [record for record in records if record.eval_set_id == name]
    alike = [record for record in records if _same_questions(record.transcript, case)]
    left = {record.eval_set_id for record in alike}
    if len(left) == 1:
        return alike
    names = words.listed(sorted(str(name) for name in sets))
    raise no_recording(f"case {case.case_id} is recorded for several evaluation sets ({names}); name the file to use")


def _same_questions(transcript: Transcript | None, case: Case) -> bool:
    if transcript is None or case.conversation is None or len(transcript.invocations) < len(case.conversation):
        return False
    pairs = zip(transcript.invocations, case.conversation, strict=False)  # what was recorded beyond it does not matter
    return all(_said(recorded.user_content) == _said(asked.user_content) for recorded, asked in pairs)


class ReplayedConversation:
    """A recorded conversation, given again turn by turn while the user says what was said then."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._done: list[Invocation] = []

    def send(self, user_content: Content) -> Invocation:
        """The recorded turn. Raises AgentFailed (NO_RECORDING) where the user says something else than then."""
        number = len(self._done)
        recorded = self._transcript.invocations
        if number >= len(recorded):
            turns = words.counted(len(recorded), "turn")
            raise self._nothing(f"the recording has {turns} and no more")
        invocation = recorded[number]
        then, now = _said(invocation.user_content), _said(user_content)
        if then != now:
            raise self._nothing(f"the recording is of another conversation: {_difference(then, now)}")
        self._done.append(invocation)
        return invocation

    def finish(self) -> Json | None:
        """The recorded state, where the recording ends here too."""
        return self._transcript.final_state if len(self._done) == len(self._transcript.invocations) else None

    def _nothing(self, message: str) -> AgentFailed:
        return no_recording(message, turn=len(self._done) + 1, partial=tuple(self._done))


def _said(content: Content) -> tuple[str, tuple[Any, ...]]:
    """What a user says, however it is cut into parts: the text, and all that is no text."""
    text = "".join(part.text for part in content.parts if isinstance(part, Text))
    return text, tuple(part for part in content.parts if not isinstance(part, Text))


def _difference(then: tuple[str, tuple[Any, ...]], now: tuple[str, tuple[Any, ...]]) -> str:
    if then[0] == now[0]:
        return "the user's text is the same, but the other parts of the message (files, calls) differ"
    pairs = enumerate(zip(then[0], now[0], strict=False))  # the shorter text ends where they differ at the latest
    at = next((i for i, (a, b) in pairs if a != b), min(len(then[0]), len(now[0])))
    start = max(at - 30, 0)
    return f"the user said {_excerpt(then[0], start)} then, and says {_excerpt(now[0], start)} now"


def _excerpt(text: str, start: int) -> str:
    shown = text[start : start + 80]
    return repr(f"{'...' if start else ''}{shown}{'...' if start + 80 < len(text) else ''}")


RECORDED = ("*.evalset_result.json", "*.session.json", "*.recording.json", "*.recording.jsonl")
NOT_RECORDED = ("*.evalset.json", "*.test.json", "test_config.json")


class ReplayOptions(BaseModel):
    """Where the recordings are."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str | None = Field(
        default=None,
        description="A file, a folder or a glob, relative to the repository's root; by default what was recorded "
        "beside each evaluation file and in .adk/eval_history there.",
    )


class ReplayAgent:
    """Recordings (plugins.Agent). They are indexed on first use: once, or once a folder where no path is given."""

    def __init__(self, options: ReplayOptions, setting: AgentSetting) -> None:
        self._path = options.path
        self._root = Path(setting.root)
        self._lock = threading.Lock()
        self._shelves: dict[Path | None, RecordedCases] = {}

    @contextlib.contextmanager
    def converse(self, case: Case, key: TrialKey) -> Iterator[Conversation]:
        """The recorded conversation of a trial. Raises AgentFailed (NO_RECORDING)."""
        suite_file = self._root / key.suite
        transcript = pick(self._shelf(suite_file.parent), case=case, key=key, suite_file=suite_file)
        yield ReplayedConversation(transcript)

    def run_metric(self, code: str, use: CriterionUse, evidence: Evidence) -> Grade:  # noqa: ARG002 - the shape of Agent
        """Custom metrics run in an agent's environment, and here is none."""
        message = f"the metric {code} needs the agent's environment, which a replay does not have"
        return NotEvaluated(reason=Reason.NOT_APPLICABLE, message=message)

    def about(self) -> Mapping[str, str]:
        """Where the recordings are."""
        return {"recordings": self._path or "beside the evaluation files"}

    def close(self) -> None:
        """Forget the recordings."""
        with self._lock:
            self._shelves.clear()

    def _shelf(self, folder: Path) -> RecordedCases:
        key = folder if self._path is None else None
        with self._lock:
            if key not in self._shelves:
                paths = _beside(folder) if self._path is None else _named(self._root, self._path)
                sought = "beside the evaluation file and in its .adk/eval_history" if key else f"at {self._path}"
                self._shelves[key] = RecordedCases.of(paths, sought=sought)
            return self._shelves[key]


class ReplayDriver:
    """One row of DRIVERS."""

    name = "replay"
    options = ReplayOptions
    tools = ToolHandling.RUNS_NONE
    runs_metrics = False

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """The recordings; nothing is read yet."""
        assert isinstance(options, ReplayOptions)
        return ReplayAgent(options, setting)


DRIVER = ReplayDriver()


def _beside(folder: Path) -> list[Path]:
    places = (folder, folder / ".adk" / "eval_history")
    return [path for place in places for pattern in RECORDED for path in place.glob(pattern) if path.is_file()]


def _named(root: Path, text: str) -> list[Path]:
    """The files that a user named; of a folder those that may hold recordings, never what is expected of an agent."""
    path = root / text
    if path.is_file():
        return [path]
    if path.is_dir():
        found = [each for pattern in ("*.json", "*.jsonl") for each in path.rglob(pattern)]
        return [each for each in found if each.is_file() and not any(each.match(name) for name in NOT_RECORDED)]
    names = glob.glob(text, root_dir=root, recursive=True, include_hidden=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
    return [root / name for name in names if (root / name).is_file()]
