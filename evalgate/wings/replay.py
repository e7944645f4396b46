"""The driver `replay`: recorded conversations instead of an agent."""

from __future__ import annotations

import functools
import glob
import json
import math
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from evalgate.agents.base import (
    Agent,
    AgentDriver,
    AgentFailed,
    AgentLimits,
    AgentSetting,
    Conversation,
    DriverOptions,
    DriverTools,
    Turns,
    exists,
)
from evalgate.errors import errors_in
from evalgate.formats import json_source, recordings
from evalgate.model import (
    Case,
    Content,
    CriterionUse,
    FailureKind,
    Grade,
    Invocation,
    Reason,
    Text,
    Transcript,
    TrialKey,
    TrialView,
    not_evaluated,
)
from evalgate.model.shapes import to_fields, to_snake
from evalgate.text import words
from evalgate.text.plain import BYTE_ORDER_MARK
from evalgate.values import Json, frozen_dataclass

RECORDING_PATTERNS = (
    "*.evalset_result.json",
    "*.session.json",
    "*.recording.json",
    "*.recording.jsonl",
)
"""Names of recordings that are found without a `path`."""
EVALUATION_PATTERNS = ("*.evalset.json", "*.test.json", "test_config.json")
"""Files with expectations, which are no recordings in a folder of `path`."""


@frozen_dataclass
class Record:
    """A recording of a case."""

    path: Path
    """Of the file that it is in."""
    eval_set_id: str | None
    """The id of its evaluation set, if it has one."""
    transcript: Transcript | None
    """None if it is invalid."""
    problem: str = ""
    """The reason why it is invalid."""


def _finite(digits: str) -> float:
    """Raises ValueError for NaN, infinity, and numbers too large for a float, which JSON does not
    have."""
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is not a JSON number")
    return value


_PLAIN_JSON = json.JSONDecoder(parse_constant=_finite, parse_float=_finite)
"""Refuses what only Python's JSON has."""


def split_cases(text: str) -> tuple[str, str | None, list[tuple[str, Any]]] | None:
    """An ADK result or evaluation set: the key of its cases, as the file spells it, its id, and its
    cases by id as JSON values, to read with `parse_case` on demand.

    None for every other or unusual file: `parse_recordings` reads it and reports its problems."""
    try:
        document = _PLAIN_JSON.decode(text.removeprefix(BYTE_ORDER_MARK))
        if json_source.SURROGATE.search(text):
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    keys = (
        [key for key in document if to_snake(key) in recordings.STREAMED]
        if isinstance(document, dict)
        else []
    )
    if len(keys) != 1 or text.count(f'"{keys[0]}"') != 1 or not isinstance(document[keys[0]], list):
        return None
    names: list[Any] = [to_fields(raw).get("eval_id") for raw in document[keys[0]]]
    if not all(isinstance(name, str) and name for name in names):
        return None
    cases = list(zip(names, document[keys[0]], strict=True))
    eval_set_id = to_fields(document).get("eval_set_id")
    return keys[0], eval_set_id if isinstance(eval_set_id, str) else None, cases


class RecordedCases:
    """The recordings in some files. Results of `adk eval` come first, the newest first, then other
    files by name.

    A case in a list of cases is parsed when it is needed. `sought`: the searched places, in
    words."""

    def __init__(self, paths: Iterable[Path], *, sought: str) -> None:
        """Reads all files; files that cannot be read are problems, for `why_absent`."""
        self._sought = sought
        """The searched places, in words."""
        self._problems: list[str] = []
        """In words, each with its file."""
        self._readers: dict[str, list[Callable[[], Record]]] = {}
        """By case id: functions that parse a recording, in the order of use."""
        for path in sorted(paths, key=_order):
            try:
                text = path.read_text("utf-8", "replace")
            except OSError as error:
                self._problems.append(f"{path.name}: {error.strerror or error}")
                continue
            # ADK results and evaluation sets are lists of cases
            case_list = split_cases(text)
            if case_list is not None:
                key, eval_set_id, cases = case_list
                for case_id, raw in cases:
                    self._readers.setdefault(case_id, []).append(
                        functools.partial(_read_case, path, key, eval_set_id, raw)
                    )
                continue
            reading = recordings.parse_recordings(text, file=path.name)
            self._problems += map(str, errors_in(reading.problems))
            # a single session in a file has a random id; users name the file after the case
            names = [path.name.partition(".")[0]] if len(reading.recordings) == 1 else []
            for recording in reading.recordings:
                record = Record(
                    path=path, eval_set_id=recording.eval_set_id, transcript=recording.transcript
                )
                for name in dict.fromkeys((recording.case_id, *names)):
                    self._readers.setdefault(name, []).append(lambda record=record: record)  # type: ignore[misc]

    def find(self, case_id: str) -> list[Record]:
        """All recordings of a case, in the order of the files, then in the order within a file."""
        return [reader() for reader in self._readers.get(case_id, ())]

    def why_absent(self, case_id: str) -> str:
        """The reason why a case has no recording, in words."""
        reasons = words.listed(self._problems, limit=3)
        if not self._readers:
            return f"there are no recordings {self._sought}{f': {reasons}' if reasons else ''}"
        names = self._readers if len(self._readers) < 10_000 else ()
        nearest_id = words.nearest(case_id, names)
        hint = f"; the nearest recorded case is {nearest_id}" if nearest_id else ""
        problems_text = f" ({words.listed(self._problems, limit=2)})" if self._problems else ""
        return f"there is no recording of case {case_id}{problems_text}{hint}"


def _read_case(path: Path, key: str, eval_set_id: str | None, raw: Any) -> Record:
    """The recording of a case in a list of cases. `key`: that of the list, which decides the
    form."""
    reading = recordings.parse_case(raw, key=key, eval_set_id=eval_set_id, file=path.name)
    problem = words.listed([str(issue.message) for issue in reading.problems], limit=3)
    transcript = reading.recordings[0].transcript if reading.recordings else None
    return Record(path=path, eval_set_id=eval_set_id, transcript=transcript, problem=problem)


def _order(path: Path) -> tuple[float, str]:
    """The key of a file's place: the newest result of `adk eval` first, by the time in its name."""
    time_match = re.search(r"_(\d{9,}(?:\.\d+)?)\.evalset_result\.json$", path.name)
    return (-float(time_match[1]) if time_match else 0.0, str(path))


def no_recording(message: str) -> AgentFailed:
    """A failure because of a missing recording, as an exception to raise."""
    return AgentFailed(FailureKind.NO_RECORDING.failure(message))


def pick(cases: RecordedCases, *, case: Case, key: TrialKey, suite_file: Path) -> Transcript:
    """The recording of one trial. Raises AgentFailed (NO_RECORDING).

    Candidates have the case's id and are in another file than the suite, whose expectations would
    be compared with themselves. If several evaluation sets have a case with that id, use the set
    that is named like the suite's file. Repeat k uses the k-th recording; a single recording serves
    all repeats."""
    case_records = cases.find(case.case_id)
    candidates = [
        record
        for record in case_records
        if record.path.name != suite_file.name or record.path.resolve() != suite_file.resolve()
    ]
    if not candidates:
        message = (
            f"case {case.case_id} has no recording, only the expectations in the evaluation file"
        )
        raise no_recording(message if case_records else cases.why_absent(case.case_id))
    records = _of_one_set(candidates, key)
    if len(records) > 1 and key.number >= len(records):
        count = words.counted(len(records), "recording")
        raise no_recording(
            f"case {case.case_id} has only {count}, but this is run {key.number + 1}"
        )
    record = records[key.number if len(records) > 1 else 0]
    if record.transcript is None:
        raise no_recording(f"the recording in {record.path.name} cannot be read: {record.problem}")
    return record.transcript


def _of_one_set(records: Sequence[Record], key: TrialKey) -> Sequence[Record]:
    """The records of one evaluation set. Raises AgentFailed if several sets have the case, none
    named like the suite."""
    sets = {record.eval_set_id for record in records}
    if len(sets) == 1:
        return records
    file = key.suite.rpartition("/")[2]
    for name in (key.suite, file, file.partition(".")[0]):
        if name in sets:
            return [record for record in records if record.eval_set_id == name]
    names = words.listed(sorted(str(name) for name in sets))
    raise no_recording(
        f"case {key.case_id} is recorded for several evaluation sets ({names}); name the file to use"
    )


class RecordedConversation(Turns):
    """A recorded conversation, replayed turn by turn while the user's messages are the same as
    recorded. The turns of the case's history are over."""

    takes_history = True
    """The recording has the turns before, too."""

    def __init__(self, transcript: Transcript, case: Case, limits: AgentLimits) -> None:
        super().__init__(case, limits, str)
        self._transcript = transcript

    def send(self, user_content: Content) -> Invocation:
        """The recorded turn. Raises AgentFailed (NO_RECORDING) if the user's message differs."""
        number = len(self._case.history) + len(self.done)
        self.turn = number + 1
        recorded_turns = self._transcript.invocations
        if number >= len(recorded_turns):
            reason = f"the recording has only {words.counted(len(recorded_turns), 'turn')}"
            raise self.failed(FailureKind.NO_RECORDING, reason)
        invocation = recorded_turns[number]
        recorded_message = _split_content(invocation.user_content)
        user_message = _split_content(user_content)
        if recorded_message != user_message:
            reason = f"the recording is of a different conversation: {_difference(recorded_message[0], user_message[0])}"
            raise self.failed(FailureKind.NO_RECORDING, reason)
        self.done.append(invocation)
        return invocation

    def finish(self) -> Json | None:
        """The recorded state, if the recording ends at this turn."""
        count = len(self._case.history) + len(self.done)
        return self._transcript.final_state if count == len(self._transcript.invocations) else None


def _split_content(content: Content) -> tuple[str, tuple[Any, ...]]:
    """A user's message without its division into parts: the text, and all other parts."""
    text = "".join(part.text for part in content.parts if isinstance(part, Text))
    return text, tuple(part for part in content.parts if not isinstance(part, Text))


def _difference(recorded: str, actual: str) -> str:
    """Where two messages differ, in words: from shortly before the first different character."""
    if recorded == actual:
        return (
            "the user's text is the same, but the other parts of the message (files, calls) differ"
        )
    same_text = os.path.commonprefix((recorded, actual))  # noqa: RUF071 - these are no paths
    start = max(len(same_text) - 30, 0)
    return f"the recorded message is {_excerpt(recorded, start)}, this one is {_excerpt(actual, start)}"


def _excerpt(text: str, start: int) -> str:
    """A part of a text in quotes, with `...` where it goes on."""
    excerpt = text[start : start + 80]
    return repr(f"{'...' if start else ''}{excerpt}{'...' if start + 80 < len(text) else ''}")


class ReplayOptions(DriverOptions):
    """The path of the recordings."""

    path: str | None = Field(
        default=None,
        description="A file, a folder or a glob, relative to the repository's root; by default what was recorded "
        "beside each evaluation file and in .adk/eval_history there.",
    )


class ReplayAgent(Agent):
    """Replays recordings. They are indexed on first use: once, or once per folder without a
    path."""

    def __init__(self, options: ReplayOptions, setting: AgentSetting) -> None:
        self._path = options.path
        """None: beside each evaluation file."""
        self._root = Path(setting.root)
        self._limits = setting.limits
        self._lock = threading.Lock()
        self._recorded: dict[Path | None, RecordedCases] = {}
        """By folder; the key is None if all folders have one `path`."""

    @contextmanager
    def converse(self, case: Case, key: TrialKey) -> Iterator[Conversation]:
        """The recorded conversation of a trial. Raises AgentFailed (NO_RECORDING)."""
        suite_file = self._root / key.suite
        transcript = pick(self._cases(suite_file.parent), case=case, key=key, suite_file=suite_file)
        yield RecordedConversation(transcript, case, self._limits)

    def run_metric(self, code: str, use: CriterionUse, evidence: TrialView) -> Grade:  # noqa: ARG002 - the shape of Agent
        """Not evaluated: a replay has no environment for metrics."""
        return not_evaluated(Reason.NOT_APPLICABLE, "metric_replayed", code)

    def about(self) -> Mapping[str, str]:
        """The path of the recordings."""
        return {"recordings": self._path or "beside the evaluation files"}

    def close(self) -> None:
        """Drop the recordings."""
        with self._lock:
            self._recorded.clear()

    def _cases(self, folder: Path) -> RecordedCases:
        """The recordings for the suites of a folder, indexed once, whichever thread comes first."""
        key = folder if self._path is None else None
        with self._lock:
            if key not in self._recorded:
                if self._path is None:
                    sought = "beside the evaluation file and in its .adk/eval_history"
                    paths = [
                        path
                        for place in (folder, folder / ".adk" / "eval_history")
                        for pattern in RECORDING_PATTERNS
                        for path in place.glob(pattern)
                        if path.is_file()
                    ]
                else:
                    sought = f"at {self._path}"
                    paths = _recording_files(self._root, self._path)
                self._recorded[key] = RecordedCases(paths, sought=sought)
            return self._recorded[key]


class ReplayDriver(AgentDriver):
    """Replays recordings instead of running an agent."""

    name = "replay"
    options = ReplayOptions
    default = "."
    tools = DriverTools.NO_AGENT
    is_asked = False

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """Open the agent; no file is read yet."""
        assert isinstance(options, ReplayOptions)
        return ReplayAgent(options, setting)

    def missing(self, options: Mapping[str, str], root: Path) -> tuple[str, str] | None:
        """The path, if no file matches it."""
        text = options.get("path")
        if text is None or exists(root / text) or _matches(root, text):
            return None
        return "path", f"there are no recordings at `{text}`"

    def files(
        self, options: Json, root: Path, below: Callable[[str], Iterable[str]]
    ) -> Iterable[str]:
        """The recordings: below `path`, else all files that are named like recordings."""
        location = options.get("path")
        if not isinstance(location, str):
            return [
                path
                for path in below(".")
                if any(Path(path).match(pattern) for pattern in RECORDING_PATTERNS)
            ]
        if (root / location).is_dir():
            return below(location)
        return [os.path.relpath(path, root) for path in sorted(_recording_files(root, location))]


def _recording_files(root: Path, text: str) -> list[Path]:
    """The files that a user named; of a folder, the files that may be recordings, never evaluation
    files."""
    path = root / text
    if path.is_file():
        return [path]
    if path.is_dir():
        return [
            file
            for pattern in ("*.json", "*.jsonl")
            for file in path.rglob(pattern)
            if file.is_file() and not any(file.match(name) for name in EVALUATION_PATTERNS)
        ]
    return [root / name for name in _matches(root, text) if (root / name).is_file()]


def _matches(root: Path, text: str) -> list[str]:
    """The paths that a glob matches, relative to the root."""
    return glob.glob(text, root_dir=root, recursive=True, include_hidden=True)  # noqa: PTH207 - Path.glob takes no absolute pattern


DRIVER = ReplayDriver()
