"""Recorded conversations, written as cases: of simulated users, or from a user's recordings."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalgate.config.settings import Settings
from evalgate.discovery import project
from evalgate.errors import ConfigError, EvalgateError, NothingToDo, Place, Problem, errors_in
from evalgate.formats import adk_shapes, eval_set, fingerprints, recordings, rewrite
from evalgate.formats.recordings import Recording
from evalgate.model import (
    Case,
    ConfigOrigin,
    Content,
    Event,
    Invocation,
    Run,
    SessionInput,
    Suite,
    Text,
    ToolCall,
    TrialKey,
)
from evalgate.results import file as results_file
from evalgate.text import words
from evalgate.values import Environ, JsonObject, Redactor

DESCRIPTION = "Conversations with simulated users, recorded by evalgate; review before use."


def record_simulated(root: Path, *, results: Path, into: str) -> tuple[Path, str]:
    """Write the first conversation of every scenario in `results` into an evaluation set below
    `into`.

    `into` is relative to `root`. Returns the file, and its content in words. Raises ConfigError if
    the results cannot be read or were recorded before, NothingToDo without scenarios,
    UnavailableError if the file cannot be written."""
    run = results_file.read_results(results).run
    cases, skipped_count = cases_of(run)
    if not cases:
        raise NothingToDo(f"{results.name} has no complete conversation with a simulated user")
    case_documents = [adk_shapes.case_json(case) for case in cases]
    name = f"recorded_{fingerprints.digest(case_documents)[:8]}"
    path = root / into / f"{name}.evalset.json"
    document = {
        "eval_set_id": name,
        "name": name,
        "description": DESCRIPTION,
        "eval_cases": case_documents,
    }
    rewrite.create(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n", root=root)
    addition = f"; {words.counted(skipped_count, 'scenario')} had none" if skipped_count else ""
    return path, words.counted(len(cases), "conversation") + addition


def cases_of(run: Run) -> tuple[tuple[Case, ...], int]:
    """A case for each scenario: its first conversation, with the agent's actions as the reference;
    and the number of scenarios without one."""
    new_cases: list[Case] = []
    skipped_count = 0
    names: set[str] = set()
    for suite in run.suites:
        for case in suite.cases:
            if case.scenario is None:
                continue
            # the conversation of the first completed repeat
            repeats = range(run.repeats)
            keys = [
                TrialKey(suite=suite.key, case_id=case.case_id, number=number) for number in repeats
            ]
            conversations = (
                transcript.invocations
                for key in keys
                if (transcript := run.transcripts(key)) and transcript.invocations
            )
            first_conversation = next(conversations, None)
            if first_conversation is None:
                skipped_count += 1
                continue
            name = _unused_id(case.case_id, names)
            names.add(name)
            turns = tuple(_turn(turn) for turn in first_conversation)
            new_cases.append(
                replace(case, case_id=name, scenario=None, conversation=turns, place=None)
            )
    return tuple(new_cases), skipped_count


def _unused_id(case_id: str, names: Container[str]) -> str:
    """The id, with a number if another suite has it, too."""
    numbered_ids = (f"{case_id}_{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([case_id], numbered_ids) if name not in names)


def _turn(turn: Invocation) -> Invocation:
    """The turn as a reference: the user's message, the agents' texts and calls, the answer."""
    events = steps_of(turn)
    final = None if turn.final_response is None else _answer_of(turn.final_response)
    return Invocation(
        user_content=turn.user_content,
        final_response=final if final is not None and final.parts else None,
        events=None if turn.events is None else events,
        itemized=turn.itemized,
        rubrics=turn.rubrics,
    )


def steps_of(turn: Invocation | None) -> tuple[Event, ...]:
    """The steps of a turn as a reference has them."""
    return tuple(
        Event(author=event.author, content=answer)
        for event in (turn.events if turn else None) or ()
        if event.content is not None and (answer := _answer_of(event.content)).parts
    )


def _answer_of(content: Content) -> Content:
    """A message without the model's thoughts."""
    parts = tuple(part for part in content.parts if not (isinstance(part, Text) and part.thought))
    return Content(parts=parts, role=content.role)


def read_recordings(
    path: Path, *, sessions: Sequence[str] = ()
) -> tuple[list[Recording], tuple[Problem, ...]]:
    """The recorded conversations of a file, all or those of the named sessions, and the problems of
    the file.

    Raises ConfigError if it has none, or not that session."""
    reading = recordings.parse_recordings(
        rewrite.read(path, shown_as=str(path)).text, file=str(path)
    )
    if not reading.recordings or errors_in(reading.problems):
        raise ConfigError.collected(reading.problems)
    names = [recording.case_id for recording in reading.recordings]
    for session in sessions:
        if session not in names:
            nearest_name = words.nearest(session, names)
            hint = (
                f"Did you mean {nearest_name!r}?"
                if nearest_name
                else f"It has {words.listed(names, limit=5)}."
            )
            raise ConfigError(f"has no session {session!r}", place=Place(str(path)), hint=hint)
    selected_recordings = [
        recording
        for recording in reading.recordings
        if not sessions or recording.case_id in sessions
    ]
    return selected_recordings, reading.problems


def add(
    target: Path,
    new_recordings: Sequence[Recording],
    *,
    name: str,
    redact: Redactor,
    session: SessionInput | None = None,
) -> list[Case]:
    """Append conversations as cases to an evaluation set, which is created if it is missing.
    `name`: the id of the only case; empty: the sessions' own ids. `session`: of each case. Secrets
    are written as `***`.

    Raises ConfigError if the file is not an evaluation set in ADK's current format,
    UnavailableError if it cannot be written."""
    display_path = str(target)
    stem = target.name.partition(".")[0]
    source = rewrite.read(target, shown_as=display_path) if target.exists() else None
    text = json.dumps({"eval_set_id": stem, "name": stem, "eval_cases": []}, indent=2) + "\n"
    names: set[str] = set()
    if source is not None:
        text = source.text
        reading = eval_set.parse_eval_set(text, file=display_path)
        if reading.eval_set is None:
            raise ConfigError.collected(reading.problems)
        names = {case.case_id for case in reading.eval_set.cases}
    new_cases: list[Case] = []
    for recording in new_recordings:
        for number, turn in enumerate(recording.transcript.invocations, 1):
            if not turn.user_content.parts:
                raise ConfigError(
                    f"session {recording.case_id[:100]!r} cannot be a case: in turn {number} the user says nothing",
                    place=Place(display_path),
                    hint="Its log needs the user's events, too.",
                )
        turns = tuple(_turn(turn) for turn in recording.transcript.invocations)
        case = Case(
            case_id=_unused_id(name or recording.case_id or stem, names),
            conversation=turns,
            session=session,
        )
        names.add(case.case_id)
        new_cases.append(case)
        case_text = json.dumps(adk_shapes.case_json(case), ensure_ascii=False)
        # a lone surrogate, which no file can contain
        case_document = json.loads(redact(case_text.encode("utf-8", "replace").decode()))
        keys = ("eval_cases", "evalCases")
        new_text = next(
            (
                candidate
                for key in keys
                if (candidate := rewrite.appended(text, (key,), case_document)) is not None
            ),
            None,
        )
        if new_text is None:
            hint = "`evalgate migrate` writes old formats in ADK's current one."
            raise ConfigError(
                "has no list `eval_cases` to add to", place=Place(display_path), hint=hint
            )
        text = new_text
    if source is not None:
        rewrite.save(source, text)
    else:
        rewrite.create(target, text, root=target.parent)
    return new_cases


# --- ids and times that differ in each run -------------------------------------------------------


TRAJECTORY = "tool_trajectory_avg_score"
CONFIG = "test_config.json"
UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
MOMENT = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
HEXADECIMAL = "[0-9a-f]{16,}"
_VARIANT = re.compile(
    rf"(?<![0-9a-zA-Z])(?:({UUID})|({MOMENT})|((?=[a-f]*\d)(?=\d*[a-f]){HEXADECIMAL}))(?![0-9a-zA-Z])"
)
EPOCH = range(1_577_836_800, 2_208_988_800)
"""Seconds since 1970 that are a moment from 2020 to 2039; times 1,000 they are milliseconds."""
Patterns = dict[str, dict[str, JsonObject]]
"""By tool and argument, a matcher of `tool_trajectory_avg_score`."""


def patterns_of(cases: Iterable[Case]) -> Patterns:
    """Matchers for the ids and times in the calls that these cases expect, except those that the
    user wrote: an agent makes them anew in each run."""
    patterns: Patterns = {}
    for case in cases:
        text = json.dumps(
            [adk_shapes.content_json(turn.user_content) for turn in case.conversation or ()]
        )
        for call in _calls((case,)):
            for name, value in (call.args or {}).items():
                matcher = _matcher(value, text)
                if matcher:
                    patterns.setdefault(call.name, {})[name] = matcher
    return patterns


def _calls(cases: Iterable[Case]) -> Iterator[ToolCall]:
    for case in cases:
        for turn in case.conversation or ():
            yield from turn.tool_calls


def _matcher(value: Any, user_text: str) -> JsonObject:
    """A matcher of every value of the same form; {} if the value is the same in each run."""
    if isinstance(value, list | dict):
        nested = value.values() if isinstance(value, dict) else value
        return {"any": True} if any(_matcher(part, user_text) for part in nested) else {}
    if isinstance(value, int | float) and not isinstance(value, bool):
        is_moment = int(value) in EPOCH or int(value) // 1000 in EPOCH
        return {"any": True} if is_moment and str(value) not in user_text else {}
    pattern = ""
    end = 0
    for match in _VARIANT.finditer(value) if isinstance(value, str) else ():
        if match[0] not in user_text:
            form = (UUID, MOMENT, HEXADECIMAL)[(match.lastindex or 1) - 1]
            pattern += re.escape(value[end : match.start()]) + form
            end = match.end()
    return {"regex": f"^{pattern}{re.escape(value[end:])}$"} if pattern else {}


def write_patterns(
    target: Path, cases: Sequence[Case], settings: Settings, environ: Environ
) -> tuple[str, Patterns]:
    """Let the criteria of an evaluation set accept any ids and times where the calls of `cases`
    have them. Returns the file of criteria that was changed, "" if it cannot be, and the matchers.
    Raises UnavailableError."""
    patterns = patterns_of(cases)
    suite = _suite_of(target, settings, environ) if patterns else None
    use = next((use for use in suite.criteria if use.name == TRAJECTORY), None) if suite else None
    if suite is None or use is None or use.options.get("ignore_args"):
        return "", patterns if suite is None else {}
    matchers: Mapping[str, Any] = use.options.get("matchers") or {}
    patterns = _fitting(patterns, suite.cases)
    merged = {
        tool: {**patterns.get(tool, {}), **matchers.get(tool, {})}
        for tool in {**matchers, **patterns}
    }
    if merged == matchers:
        return "", {}
    criterion = {"threshold": use.threshold, **use.options, "matchers": merged}
    origin = suite.criteria_source.origin
    if origin is ConfigOrigin.DEFAULTS:
        deciding_uses = (use for use in suite.criteria if not use.informational)
        criteria = {use.name: use.threshold for use in deciding_uses} | {TRAJECTORY: criterion}
        path = target.with_name(CONFIG)
        rewrite.create(
            path, json.dumps({"criteria": criteria}, indent=2) + "\n", root=target.parent
        )
        return str(path), patterns
    path = settings.root / suite.criteria_source.file
    if origin not in (ConfigOrigin.BESIDE, ConfigOrigin.ABOVE) or path.suffix != ".json":
        return "", patterns
    source = rewrite.read(path, shown_as=str(path))
    text = rewrite.put(source.text, ("criteria", TRAJECTORY), criterion)
    if text is None:
        return "", patterns
    rewrite.save(source, text)
    return str(path), patterns


def _suite_of(target: Path, settings: Settings, environ: Environ) -> Suite | None:
    name = os.path.relpath(target, settings.root)
    try:
        only_target = settings.model_copy(update={"paths": (name,), "grep": ""})
        suites = project.prepare(only_target, environ=environ).suites
    except EvalgateError:
        return None
    return suites[0] if len(suites) == 1 else None


def _fitting(patterns: Patterns, cases: Sequence[Case]) -> Patterns:
    """The patterns, wider where another call of the set does not fit them: `any` value, or none."""
    fitting: Patterns = {}
    for tool, arguments in patterns.items():
        calls = [call.args or {} for call in _calls(cases) if call.name == tool]
        for name, matcher in arguments.items():
            values = [str(call[name]) for call in calls if name in call]
            is_met = all(re.search(matcher.get("regex", ""), value) for value in values)
            wider: JsonObject = {"ignore": True} if len(values) < len(calls) else {"any": True}
            is_kept = is_met and len(values) == len(calls)
            fitting.setdefault(tool, {})[name] = matcher if is_kept else wider
    return fitting
