"""Recorded conversations: ADK's results and sessions, traces (agents-cli's, OpenTelemetry's),
evaluation sets."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from evalgate.errors import Problem
from evalgate.model import Case, Invocation, Transcript
from evalgate.model.shapes import to_fields, to_snake
from evalgate.text.plain import BYTE_ORDER_MARK
from evalgate.values import Json, frozen_dataclass
from . import adk_shapes, base, json_source, repair
from .adk_shapes import InvocationWire
from .json_source import JsonFault, JsonText, Path, Problems, Spot
from .kind import Dialect, is_dataset_case

Recorded = list[tuple[str, Transcript]]
_OF_EVENT = frozenset({"author", "content", "text"})
"""Each event has one of these keys; messages of other kinds have none."""


def read_lines(text: str, problems: Problems) -> Recorded:
    """Read JSON objects, one after another."""
    values: list[Any] = []
    json_text = JsonText(text)
    try:
        offset = json_text.start()
        while offset < len(text):
            values.append(json_text.value(offset))
            offset = json_text.next_at(json_text.end)
    except JsonFault as fault:
        problems.fault(fault)
        return []
    return read_items(values, problems)


def read_items(values: Sequence[Any], problems: Problems) -> Recorded:
    """Read a list of traces, of spans, or of an ADK session's events."""
    if row := base.format_of_traces(values):
        return row.read_traces(values, problems)
    if any(isinstance(value, dict) and value.keys().isdisjoint(_OF_EVENT) for value in values):
        return []
    events = repair.read_events(values, Spot(problems))
    if not events or len(events) < len(values):
        return []
    return [("", Transcript(invocations=adk_shapes.turns_of(events)))]


# as OpenTelemetry's console exporter writes spans
_NEXT_OBJECT = re.compile(r"^}\r?\n\{", re.MULTILINE)
_STREAMED = frozenset({"eval_cases", "eval_case_results"})


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits} is not a JSON number")
    return value


_PLAIN_JSON = json.JSONDecoder(parse_constant=_finite, parse_float=_finite)


@frozen_dataclass
class Recording:
    """One conversation of one case. A repeated case has several, in order."""

    case_id: str
    eval_set_id: str | None
    transcript: Transcript


@frozen_dataclass
class RecordingReading:
    """The valid recordings of a file, and problems with the others."""

    recordings: tuple[Recording, ...]
    problems: tuple[Problem, ...] = ()


def parse_recordings(text: str, *, file: str) -> RecordingReading:
    """Read a file of recordings; its shape decides the kind.

    `{eval_case_results}`: the agent's actual turns (`actual_invocation`). `{events}`: an ADK
    session, named by its id. `{eval_cases}`: the expected conversation of each case, or its
    `actual_conversation` or trace if there is one. `{resourceSpans}`: a trace in OTLP's JSON. A
    list, or one JSON object after another: traces, spans, or the events of one session."""
    problems = Problems(text, file=file)
    first_line, _, other_lines = text[:65_536].lstrip(BYTE_ORDER_MARK).strip().partition("\n")
    is_json_lines = (
        first_line.startswith("{")
        and first_line.rstrip().endswith("}")
        and other_lines.lstrip().startswith("{")
    )
    if is_json_lines or (first_line.rstrip() == "{" and _NEXT_OBJECT.search(other_lines)):
        return _reading(read_lines(text, problems), None, problems)
    reader = _RecordingReader(problems)
    value = json_source.read(text, problems, consumer=reader.element, streamed=_STREAMED)
    if value is None and problems.error_count:
        return _reading([], None, problems)
    return _reading(*reader.conclude(value), problems)


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
        [key for key in document if to_snake(key) in _STREAMED]
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


def parse_case(raw: Any, *, key: str, eval_set_id: str | None, file: str) -> RecordingReading:
    """Read one case of a file's list `key`, as `parse_recordings` reads a file with only this case.

    A case without problems is read without tracking places, many times as fast."""
    problems = Problems("", file="")
    reader = _RecordingReader(problems)
    reader.element((key, 0), raw, 0)
    if not problems.all() and len(reader.by_case) == 1:
        return _reading(reader.by_case, eval_set_id, problems)
    text = json.dumps({"eval_set_id": eval_set_id or "", key: [raw]}, ensure_ascii=False)
    return parse_recordings(text, file=file)


def _reading(
    conversations: Recorded, eval_set_id: str | None, problems: Problems
) -> RecordingReading:
    if not conversations and not problems.error_count:
        hint = "see docs/formats.md for the supported formats"
        Spot(problems).error("nothing-recorded", "the file contains no conversations", hint)
    recordings = (
        Recording(case_id=name, eval_set_id=eval_set_id, transcript=talk)
        for name, talk in conversations
    )
    return RecordingReading(recordings=tuple(recordings), problems=problems.all())


class _RecordingReader:
    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self.by_case: list[tuple[str, Transcript]] = []
        self._values: list[Any] = []

    def element(self, path: Path, raw: Any, _offset: int) -> None:
        """Add a case result, a case, or an element of a list at the top."""
        if len(path) == 1:
            self._values.append(raw)
        elif to_snake(str(path[0])) == "eval_case_results":
            self._result(raw, Spot(self._problems, path))
        else:
            self._case(raw, Spot(self._problems, path))

    def conclude(self, value: Any) -> tuple[Recorded, str | None]:
        """All recordings after the whole file was read, and the id of their evaluation set."""
        if isinstance(value, list):
            return read_items(self._values, self._problems), None
        if not isinstance(value, dict):
            message = f"expected recorded conversations, found {json_source.described(value)}"
            Spot(self._problems).error("not-a-recording", message)
            return [], None
        members = to_fields(value)
        eval_set_id = members.get("eval_set_id")
        if row := base.format_of_traces([value]):
            self.by_case = row.read_traces([value], self._problems)
        elif "events" in members:
            self._session(members)
        elif not members.keys() & _STREAMED:
            message = f"found neither results nor events, but {json.dumps(sorted(value)[:5])}"
            Spot(self._problems).error("not-a-recording", message)
        return self.by_case, eval_set_id if isinstance(eval_set_id, str) else None

    def _result(self, raw: Any, spot: Spot) -> None:
        fields = to_fields(raw)
        name = fields.get("eval_id")
        per_turn = fields.get("eval_metric_result_per_invocation")
        if not isinstance(name, str) or not isinstance(per_turn, list):
            key = "eval_metric_result_per_invocation" if isinstance(name, str) else "eval_id"
            spot.error("missing-key", f"`{key}` is missing or of the wrong type")
            return
        if not per_turn:
            message = f"the agent recorded no turn for {name[:60]}: it failed, and the result does not say why"
            spot.warning("nothing-recorded", message)
            return
        key_name = next(key for key in raw if to_snake(key) == "eval_metric_result_per_invocation")
        turns = [
            self._invocation(
                to_fields(turn).get("actual_invocation"),
                spot.at(key_name, number, "actual_invocation"),
            )
            for number, turn in enumerate(per_turn)
        ]
        self._keep(name, turns, to_fields(fields.get("session_details")).get("state"))

    def _case(self, raw: Any, spot: Spot) -> None:
        actual = to_fields(raw).get("actual_conversation")
        case: Case | None
        if is_dataset_case(raw):
            case = base.FORMATS[Dialect.AGENTS_CLI].read_recorded_case(raw, spot)
        elif isinstance(actual, list):
            turns = [
                self._invocation(turn, spot.at("actual_conversation", i))
                for i, turn in enumerate(actual)
            ]
            self._keep(str(to_fields(raw).get("eval_id") or f"case_{spot.path[-1]}"), turns, None)
            return
        else:
            case = repair.read_case(raw, spot)
        turns_of_case = case.turns if case is not None else ()
        if any(turn.final_response is None and turn.events is None for turn in turns_of_case):
            message = "a turn of this case has neither an answer nor steps, so the case cannot be replayed"
            spot.warning("nothing-recorded", message)
        elif case is not None:
            self._keep(case.case_id, turns_of_case, case.expects_state)

    def _session(self, members: Json) -> None:
        raw = members["events"]
        spot = Spot(self._problems, ("events",))
        if not isinstance(raw, list):
            spot.wrong_type("a list of events", raw)
            return
        events = repair.read_events(raw, spot)
        name = members.get("id") or members.get("session_id") or ""
        if len(events) == len(raw):
            self._keep(str(name), adk_shapes.turns_of(events), members.get("state"))

    def _invocation(self, raw: Any, spot: Spot) -> Invocation | None:
        try:
            return InvocationWire.model_validate(raw).to_model()
        except ValidationError:
            repaired_turn = repair.repair_invocation(raw, spot)
        wire = spot.validated(InvocationWire, repaired_turn)
        return wire.to_model() if wire else None

    def _keep(self, name: str, turns: Sequence[Invocation | None], state: Any) -> None:
        """Add a conversation if all of its turns are valid."""
        valid_turns = list(filter(None, turns))
        if valid_turns and len(valid_turns) == len(turns):
            final_state = state if isinstance(state, dict) else None
            # ADK writes the rubrics of that time into actual turns; a turn is judged by the case's
            # current rubrics
            plain_turns = tuple(
                replace(turn, rubrics=()) if turn.rubrics else turn for turn in valid_turns
            )
            self.by_case.append(
                (name, Transcript(invocations=plain_turns, final_state=final_state))
            )
