"""Recorded conversations, written as cases: of simulated users, or from a user's recordings."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from pathlib import Path

from evalgate.errors import ConfigError, NothingToDo, Place, Problem, errors_in
from evalgate.formats import adk_shapes, eval_set, fingerprints, recordings, rewrite
from evalgate.formats.recordings import Recording
from evalgate.model import Case, Content, Event, Invocation, Run, Text, TrialKey
from evalgate.results import file as results_file
from evalgate.text import words

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
        for case in suite.eval_set.cases:
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
                if (transcript := run.transcripts.find(key)) and transcript.invocations
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


def steps_of(turn: Invocation) -> tuple[Event, ...]:
    """The steps of a turn as a reference has them."""
    return tuple(
        Event(author=event.author, content=answer)
        for event in turn.events or ()
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
            raise ConfigError(f"has no session {session!r}", place=Place(file=str(path)), hint=hint)
    selected_recordings = [
        recording
        for recording in reading.recordings
        if not sessions or recording.case_id in sessions
    ]
    return selected_recordings, reading.problems


def add(
    target: Path, new_recordings: Sequence[Recording], *, name: str, redact: Callable[[str], str]
) -> list[Case]:
    """Append conversations as cases to an evaluation set, which is created if it is missing.
    `name`: the id of the only case; empty: the sessions' own ids. Secrets are written as `***`.

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
        _insist_on_questions(recording, display_path)
        turns = tuple(_turn(turn) for turn in recording.transcript.invocations)
        case = Case(
            case_id=_unused_id(name or recording.case_id or stem, names), conversation=turns
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
                "has no list `eval_cases` to add to", place=Place(file=display_path), hint=hint
            )
        text = new_text
    if source is not None:
        rewrite.save(source, text)
    else:
        rewrite.create(target, text, root=target.parent)
    return new_cases


def _insist_on_questions(recording: Recording, display_path: str) -> None:
    """Raises ConfigError if the user says nothing in a turn."""
    for number, turn in enumerate(recording.transcript.invocations, 1):
        if not turn.user_content.parts:
            message = f"session {recording.case_id[:100]!r} cannot be a case: in turn {number} the user says nothing"
            raise ConfigError(
                message,
                place=Place(file=display_path),
                hint="Its log needs the user's events, too.",
            )
