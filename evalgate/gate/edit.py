"""Changes of evaluation files: a case changes, a failure is accepted, recorded conversations become
cases.

Only that place of a file changes (`formats.expectations`). Accepting a case makes the agent's calls
and answers its expectations."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from evalgate.config import places
from evalgate.errors import (
    ConfigError,
    Place,
    UnavailableError,
    errors_in,
)
from evalgate.formats import (
    FORMATS,
    adk_shapes,
    eval_set,
    expectations,
    fingerprints,
    rewrite,
)
from evalgate.formats.recordings import Recording
from evalgate.formats.rewrite import Source
from evalgate.model import (
    Case,
    CaseKey,
    Content,
    Event,
    Invocation,
    SessionInput,
    Text,
    VerdictKind,
    call_diff,
    turn_score,
)
from evalgate.reports import turns
from evalgate.reports.turns import Turn
from evalgate.results.labels import UNSTABLE
from evalgate.system import redact
from evalgate.text import words
from evalgate.values import Sentence, frozen_dataclass, json_text
from .stored_results import StoredCase


def find(root: Path, key: CaseKey) -> tuple[Source, Case | None]:
    """The file of a case, and the case in its current form. Raises ConfigError,
    UnavailableError."""
    suite, case_id = key
    reason = places.refusal_reason(root, suite)
    if reason:
        raise ConfigError(f"the path {reason}", place=Place(suite))
    source = rewrite.read(root / suite, shown_as=suite)
    reading = eval_set.parse_eval_set(source.text, file=suite)
    if reading.eval_set is None:
        raise ConfigError.collected(reading.problems)
    return source, next((case for case in reading.eval_set.cases if case.case_id == case_id), None)


def changed(
    root: Path, key: CaseKey, version: str, change_text: Callable[[str], str]
) -> tuple[Source, str]:
    """The file of a case, and its new text. Raises ConfigError, also if the case is no longer
    `version`; UnavailableError."""
    source, case = find(root, key)
    if case is None or fingerprints.of_case(case) != version:
        message = f"case {key[1]!r} was changed meanwhile"
        raise ConfigError(message, place=Place(key[0]), hint="Look at it again, then change it.")
    return source, change_text(source.text)


# --- accept a failure ----------------------------------------------------------------------------


CALLS = frozenset({"tool_trajectory_avg_score"})
"""The criteria that compare tool calls with those that a case expects."""
ANSWER = frozenset({"response_match_score", "final_response_match_v2"})
"""The criteria that compare the answer with the one that a case expects. Other criteria have no
expectations in its file."""
REDACTED = "***"
"""What stands in results for a secret: a text with it cannot be an expectation."""


class CaseUnchanged(Exception):  # noqa: N818 - an answer, no error
    """A case stays as it is. The message is the reason."""


@frozen_dataclass
class TurnEdit:
    """The new expectations of one turn."""

    turn: Turn
    """What the case expects in it, and what the agent did."""
    answer: str | None
    """None: it stays as it is."""
    edits_calls: bool
    """The calls become those of the agent."""


@frozen_dataclass
class Proposal:
    """The changes of one case."""

    stored_case: StoredCase
    """The result to accept."""
    root: Path
    """The folder to which the name of the case's file is relative."""
    version: str
    """The version of the case that was viewed."""
    changes: tuple[TurnEdit, ...]
    """Of the turns that change, in order."""


def propose(
    stored_case: StoredCase, *, root: Path, parts: Sequence[str], run_number: int | None
) -> Proposal:
    """The changes if a case is accepted. `parts`: `calls`, `answer`; (): the parts that failed its
    criteria. `run_number`: one of its runs, from 1.

    Raises CaseUnchanged if the agent's behavior is unknown, or if runs differ and none is
    chosen."""
    case = _current_case(stored_case, root)
    failing = stored_case.failing
    if stored_case.kind is VerdictKind.PASS and not parts:
        raise CaseUnchanged("it passes")
    # one run's answer is no better than the expectation
    if stored_case.label in UNSTABLE:
        raise CaseUnchanged(Sentence("unacceptable", stored_case.label))
    if stored_case.kind not in (VerdictKind.FAIL, VerdictKind.PASS):
        raise CaseUnchanged(
            f"it was not measured: {stored_case.verdict.reason or stored_case.kind.value.replace('_', ' ')}"
        )
    names = [verdict.name for verdict in failing]
    edits_calls = "calls" in parts if parts else not CALLS.isdisjoint(names)
    edits_answer = "answer" in parts if parts else not ANSWER.isdisjoint(names)
    if not edits_calls and not edits_answer:
        subject = f"its failed criteria ({words.listed(names)})"
        raise CaseUnchanged(
            f"{subject} do not compare with an expectation in its file: choose --calls or --answer"
        )
    actual_turns = _agent_turns(
        stored_case, edits_calls=edits_calls, edits_answer=edits_answer, run=run_number
    )
    count = len(case.turns)
    if len(actual_turns) != count:
        turn_count = words.counted(len(actual_turns), "turn")
        raise CaseUnchanged(f"the agent answered {turn_count}, but the case has {count}")
    turn_pairs = zip(case.turns, actual_turns, strict=True)
    turn_edits = [
        _turn_edit(
            Turn(number=number, of=count, expected=expected, actual=actual),
            edits_calls=edits_calls,
            edits_answer=edits_answer and (bool(parts) or _is_wrong(number - 1, stored_case)),
        )
        for number, (expected, actual) in enumerate(turn_pairs, 1)
    ]
    changes = tuple(edit for edit in turn_edits if edit.answer is not None or edit.edits_calls)
    if not changes:
        raise CaseUnchanged("its calls and answers are already the expected ones")
    for change in changes:
        calls = (change.turn.actual_calls or ()) if change.edits_calls else ()
        texts = [[[call.name, call.args] for call in calls], change.answer]
        if REDACTED in json.dumps(texts, default=str):
            raise CaseUnchanged(
                "a secret was removed from the agent's output, so the exact output is unknown"
            )
    return Proposal(
        stored_case=stored_case, root=root, version=fingerprints.of_case(case), changes=changes
    )


def apply(proposal: Proposal) -> tuple[Source, str]:
    """The file with its new text if a case is accepted. Raises ConfigError if that is not possible,
    also if the case has changed since it was viewed; UnavailableError."""
    key = proposal.stored_case.key

    def change_text(text: str) -> str:
        """The file's text with the changes of all turns. Raises ConfigError."""
        for change in proposal.changes:
            text = expectations.change(
                text,
                file=key[0],
                case_id=key[1],
                turn=change.turn.number - 1,
                answer=change.answer,
                steps=steps_of(change.turn.actual) if change.edits_calls else None,
            )
        return text

    return changed(proposal.root, key, proposal.version, change_text)


def _current_case(stored_case: StoredCase, root: Path) -> Case:
    """The case in its current form."""
    suite, _ = stored_case.key
    try:
        _, case = find(root, stored_case.key)
    except ConfigError as error:
        reason = ""
        if any(problem.code == "not-an-eval-set" for problem in error.problems):
            text = rewrite.read(root / suite, shown_as=suite).text
            reason = next(
                filter(None, (row.why_unchanged(text, file=suite) for row in FORMATS.values())), ""
            )
        if reason:
            raise CaseUnchanged(reason) from None
        cause = next(iter(errors_in(error.problems)), error.message)
        raise CaseUnchanged(f"its file cannot be changed: {cause}") from error
    except UnavailableError as error:
        raise CaseUnchanged(error.message) from error
    if case is None:
        raise CaseUnchanged("it is no longer in its file")
    if case.conversation is None:
        raise CaseUnchanged("a simulated user speaks, so no turn of it is written down")
    fingerprint = fingerprints.of_case(case, simulator=stored_case.suite.simulator)
    if stored_case.stored.run.fingerprints.get(stored_case.key) != fingerprint:
        raise CaseUnchanged("it was changed since it ran: run it again")
    return case


def _agent_turns(
    stored_case: StoredCase, *, edits_calls: bool, edits_answer: bool, run: int | None
) -> Sequence[Invocation]:
    """The agent's turns in the chosen run, or in all runs if they agree."""
    trials = sorted(stored_case.trials, key=lambda trial: trial.key)
    if run is not None:
        trials = [trial for trial in trials if trial.key.is_first and trial.key.number == run - 1]
        if not trials:
            raise CaseUnchanged(f"it has no run {run}")
    variants: dict[str, Sequence[Invocation]] = {}
    for trial in trials:
        transcript = stored_case.stored.outcomes.find(trial.key)
        if transcript is None:
            raise CaseUnchanged(
                "the agent failed"
                if trial.failure is not None
                else "what the agent did was not kept"
            )
        calls = [
            [[call.name, call.arguments] for call in turn.tool_calls]
            for turn in transcript.invocations
        ]
        answers = [turns.answer_text(turn.final_response) for turn in transcript.invocations]
        variants[
            json.dumps([calls if edits_calls else 0, answers if edits_answer else 0], default=str)
        ] = transcript.invocations
    if len(variants) > 1:
        raise CaseUnchanged(
            f"its {len(trials)} runs differ: choose one with --run 1 ... --run {len(trials)}"
        )
    return next(iter(variants.values()), ())


def _turn_edit(turn: Turn, *, edits_calls: bool, edits_answer: bool) -> TurnEdit:
    """The edit of a turn; calls and answers that are equal stay. Raises CaseUnchanged without an
    answer."""
    answer = turn.actual_answer if edits_answer else None
    if edits_answer and answer is None and turn.expected_answer is not None:
        raise CaseUnchanged(f"the agent gave no answer in turn {turn.number}")
    has_same_calls = call_diff.same(turn.expected_calls or (), turn.actual_calls)
    return TurnEdit(
        turn=turn,
        answer=None if answer == turn.expected_answer else answer,
        edits_calls=edits_calls and not has_same_calls,
    )


def _is_wrong(turn: int, stored_case: StoredCase) -> bool:
    """True if a criterion of answers is below its threshold in a turn, or does not score single
    turns."""
    return any(
        score is None or score < verdict.threshold
        for verdict in stored_case.failing
        if verdict.name in ANSWER and verdict.threshold is not None
        for score in (
            turn_score(trial.grades.get(verdict.name), turn) for trial in stored_case.trials
        )
    )


# --- recorded conversations ----------------------------------------------------------------------


def _unused_id(case_id: str, names: set[str]) -> str:
    """The id, with a number if `names` has it, which then has the new one, too."""
    numbered_ids = (f"{case_id}_{number}" for number in itertools.count(2))
    name = next(name for name in itertools.chain([case_id], numbered_ids) if name not in names)
    names.add(name)
    return name


def _turn(turn: Invocation) -> Invocation:
    """The turn as a reference: the user's message, the agents' texts and calls, the answer."""
    final = None if turn.final_response is None else _answer_of(turn.final_response)
    return Invocation(
        user_content=turn.user_content,
        final_response=final if final is not None and final.parts else None,
        events=None if turn.events is None else steps_of(turn),
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


def add(
    target: Path,
    new_recordings: Sequence[Recording],
    *,
    name: str,
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
    text = json_text({"eval_set_id": stem, "name": stem, "eval_cases": []})
    redact_text = redact.redactor_of_files(os.environ)
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
        case = Case(
            case_id=_unused_id(name or recording.case_id or stem, names),
            conversation=tuple(map(_turn, recording.transcript.invocations)),
            session=session,
        )
        new_cases.append(case)
        case_text = json.dumps(adk_shapes.case_json(case), ensure_ascii=False)
        # a lone surrogate, which no file can contain
        case_document = json.loads(redact_text(case_text.encode("utf-8", "replace").decode()))
        new_text = rewrite.appended(text, ("eval_cases",), case_document) or rewrite.appended(
            text, ("evalCases",), case_document
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
