"""Edits of cases in their files: change the expectations and rubrics of turns, delete a case,
accept a failure.

Only that place of a file changes (`formats.expectations`). Accepting a case makes the agent's calls
and answers its expectations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from evalgate.config import places
from evalgate.errors import ConfigError, Place, UnavailableError, errors_in
from evalgate.formats import FORMATS, eval_set, expectations, fingerprints, rewrite
from evalgate.gate import record
from evalgate.gate.stored_results import StoredCase
from evalgate.model import (
    Case,
    CaseKey,
    Content,
    Event,
    Invocation,
    Rubric,
    ToolCall,
    VerdictKind,
    call_diff,
    turn_score,
)
from evalgate.reports import turns
from evalgate.reports.turns import Turn
from evalgate.results.labels import CaseLabel
from evalgate.text import words
from evalgate.values import frozen_dataclass


def find(root: Path, key: CaseKey) -> tuple[Path, Case | None]:
    """The file of a case, and the case in its current form. Raises ConfigError,
    UnavailableError."""
    suite, _ = key
    reason = places.refusal_reason(root, suite)
    if reason:
        raise ConfigError(f"the path {reason}", place=Place(suite))
    path = root / suite
    return path, _find_in(rewrite.read(path, shown_as=suite).text, key)


def _find_in(text: str, key: CaseKey) -> Case | None:
    suite, case_id = key
    reading = eval_set.parse_eval_set(text, file=suite)
    if reading.eval_set is None:
        raise ConfigError.collected(reading.problems)
    return next((case for case in reading.eval_set.cases if case.case_id == case_id), None)


def version_of(case: Case) -> str:
    """A fingerprint of the case, which changes with any part of it."""
    return fingerprints.of_case(case)


def change(
    root: Path,
    key: CaseKey,
    *,
    version: str,
    answers: Mapping[int, str],
    calls: Mapping[int, Sequence[ToolCall]],
    rubrics: Sequence[Rubric] | None = None,
) -> None:
    """Set the expected answers and calls of turns (from 0) of a case, and replace its rubrics.

    `rubrics` None: they stay. `version`: the version of the case that was viewed. Raises
    ConfigError, also if the case has changed since then."""
    file, case_id = key
    ids = [rubric.rubric_id for rubric in rubrics or ()]
    if (
        len({*ids}) != len(ids)
        or not all(ids)
        or not all(rubric.text.strip() for rubric in rubrics or ())
    ):
        raise ConfigError("each rubric needs an id of its own and a text", place=Place(file))

    def change_text(text: str) -> str:
        for turn in sorted({*answers, *calls}):
            parts = tuple(calls.get(turn, ()))
            steps = (
                [Event(author="agent", content=Content(parts=parts, role="model"))] if parts else []
            )
            text = expectations.change(
                text,
                file=file,
                case_id=case_id,
                turn=turn,
                answer=answers.get(turn),
                steps=steps if turn in calls else None,
            ).text
        if rubrics is None:
            return text
        return expectations.set_rubrics(text, file=file, case_id=case_id, rubrics=rubrics)

    _change(root, key, version, change_text)


def delete(root: Path, key: CaseKey, *, version: str) -> None:
    """Delete a case from its file. Raises as `change`."""
    _change(
        root, key, version, lambda text: expectations.delete_case(text, file=key[0], case_id=key[1])
    )


def _change(root: Path, key: CaseKey, version: str, make: Callable[[str], str]) -> None:
    path, case = find(root, key)
    source = rewrite.read(path, shown_as=key[0])
    _require_version(version, case, key)
    rewrite.save(source, make(source.text))


def _require_version(version: str, case: Case | None, key: CaseKey) -> None:
    if case is None or version_of(case) != version:
        message = f"case {key[1]!r} was changed meanwhile"
        raise ConfigError(message, place=Place(key[0]), hint="Look at it again, then change it.")


# --- accept a failure ----------------------------------------------------------------------------


CALLS = frozenset({"tool_trajectory_avg_score"})
ANSWER = frozenset({"response_match_score", "final_response_match_v2"})
"""The criteria that compare with expectations of a case; other criteria have none in its file."""
REFUSAL_REASONS = {
    CaseLabel.FLAKY: "it is flaky: reruns did not confirm its failure",
    CaseLabel.QUARANTINED: "it is quarantined, so what the agent does in it is not relied on: take it out of "
    "`quarantine` in evalgate.yml first",
}
"""By label, why a case cannot be accepted: one run's answer is no better than the expectation."""
REDACTED = "***"


class CaseUnchanged(Exception):  # noqa: N818 - an answer, no error
    """A case stays as it is. The message is the reason."""


@frozen_dataclass
class TurnEdit:
    """The new expectations of one turn. `answer` None: the answer is unchanged."""

    turn: Turn
    answer: str | None = None
    edits_calls: bool = False


@frozen_dataclass
class Proposal:
    """The changes of one case. `version`: the version of the case that was viewed."""

    stored_case: StoredCase
    path: Path
    version: str
    changes: tuple[TurnEdit, ...]


def is_wanted(stored_case: StoredCase, *, only_new: bool) -> bool:
    """True if a case failed. With `only_new`, the base must pass it, lack it, or have an unknown
    outcome."""
    is_candidate = stored_case.is_of_change or not only_new
    return is_candidate and stored_case.kind is not VerdictKind.PASS


def propose(
    stored_case: StoredCase, *, root: Path, parts: Sequence[str] = (), run_number: int | None = None
) -> Proposal:
    """The changes if a case is accepted. `parts`: `calls`, `answer`; (): the parts that failed its
    criteria. `run_number`: one of its runs, from 1.

    Raises CaseUnchanged if the agent's behavior is unknown, or if runs differ and none is
    chosen."""
    path, case = _current_case(stored_case, root)
    failing = stored_case.failing
    if stored_case.kind is VerdictKind.PASS and not parts:
        raise CaseUnchanged("it passes")
    if stored_case.label in REFUSAL_REASONS:
        raise CaseUnchanged(REFUSAL_REASONS[stored_case.label])
    if stored_case.kind not in (VerdictKind.FAIL, VerdictKind.PASS):
        raise CaseUnchanged(
            f"it was not measured: {stored_case.verdict.reason or stored_case.kind.value.replace('_', ' ')}"
        )
    edits_calls = "calls" in parts if parts else any(verdict.name in CALLS for verdict in failing)
    edits_answer = (
        "answer" in parts if parts else any(verdict.name in ANSWER for verdict in failing)
    )
    if not edits_calls and not edits_answer:
        names = words.listed([verdict.name for verdict in failing])
        raise CaseUnchanged(
            f"its failed criteria ({names}) do not compare with an expectation in its file: choose --calls or --answer"
        )
    actual_turns = _agent_turns(
        stored_case, edits_calls=edits_calls, edits_answer=edits_answer, run=run_number
    )
    conversation = case.conversation or ()
    if len(actual_turns) != len(conversation):
        turn_count = words.counted(len(actual_turns), "turn")
        raise CaseUnchanged(
            f"the agent answered {turn_count}, but the case has {len(conversation)}"
        )
    changes = [
        _turn_edit(
            Turn(number=number, of=len(conversation), expected=expected, actual=actual),
            edits_calls=edits_calls,
            edits_answer=edits_answer and (bool(parts) or _is_wrong(number - 1, stored_case)),
        )
        for number, (expected, actual) in enumerate(zip(conversation, actual_turns, strict=True), 1)
    ]
    turn_edits = tuple(
        change for change in changes if change.answer is not None or change.edits_calls
    )
    if not turn_edits:
        raise CaseUnchanged("its calls and answers are already the expected ones")
    for change in turn_edits:
        calls = (
            [[call.name, call.args] for call in change.turn.actual_calls or ()]
            if change.edits_calls
            else []
        )
        if REDACTED in json.dumps([calls, change.answer], default=str):
            raise CaseUnchanged(
                "a secret was removed from the agent's output, so the exact output is unknown"
            )
    return Proposal(
        stored_case=stored_case,
        path=path,
        version=version_of(case),
        changes=turn_edits,
    )


def apply(proposal: Proposal) -> str:
    """The text of the file with the changes of a case. Raises ConfigError if they are not possible,
    also if the case has changed since it was viewed; UnavailableError."""
    suite, case_id = proposal.stored_case.key
    text = rewrite.read(proposal.path, shown_as=suite).text
    _require_version(
        proposal.version, _find_in(text, proposal.stored_case.key), proposal.stored_case.key
    )
    for change in proposal.changes:
        steps = record.steps_of(change.turn.actual) if change.edits_calls else None
        text = expectations.change(
            text,
            file=suite,
            case_id=case_id,
            turn=change.turn.number - 1,
            answer=change.answer,
            steps=steps,
        ).text
    return text


def write(proposal: Proposal) -> None:
    """Make the changes in the file. Raises ConfigError, UnavailableError."""
    source = rewrite.read(proposal.path, shown_as=proposal.stored_case.key[0])
    rewrite.save(source, apply(proposal))


def _current_case(stored_case: StoredCase, root: Path) -> tuple[Path, Case]:
    """The file, and the case in its current form."""
    suite, _ = stored_case.key
    try:
        path, case = find(root, stored_case.key)
    except ConfigError as error:
        reason = ""
        if any(problem.code == "not-an-eval-set" for problem in error.problems):
            text = rewrite.read(root / suite, shown_as=suite).text
            reason = next(
                filter(None, (row.why_unchanged(text, file=suite) for row in FORMATS.values())), ""
            )
        if reason:
            raise CaseUnchanged(reason) from None
        case_errors = errors_in(error.problems)
        raise CaseUnchanged(
            f"its file cannot be changed: {case_errors[0] if case_errors else error.message}"
        ) from error
    except UnavailableError as error:
        raise CaseUnchanged(error.message) from error
    if case is None:
        raise CaseUnchanged("it is no longer in its file")
    if case.conversation is None:
        raise CaseUnchanged("a simulated user speaks, so no turn of it is written down")
    fingerprint = fingerprints.of_case(
        case, task=fingerprints.of_task(case, simulator=stored_case.suite.simulator)
    )
    if stored_case.stored.run.fingerprints.get(stored_case.key) != fingerprint:
        raise CaseUnchanged("it was changed since it ran: run it again")
    return path, case


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
            [[call.name, call.args or {}] for call in turn.tool_calls]
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
    for verdict in stored_case.failing:
        if verdict.name not in ANSWER or verdict.threshold is None:
            continue
        for trial in stored_case.trials:
            score = turn_score(trial.grades.get(verdict.name), turn)
            if score is None or score < verdict.threshold:
                return True
    return False
