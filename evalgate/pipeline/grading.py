"""Grading one trial with all criteria of its suite."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from evalgate.model import (
    AgentFailure,
    Evidence,
    FailureKind,
    Grade,
    GradedTrial,
    NotEvaluated,
    Outcome,
    Reason,
    Score,
    Transcript,
    Trial,
    Usage,
)
from evalgate.pipeline.trials import Task
from evalgate.plugins import Criterion

SETS_KEPT = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """Grades that are known already: `find(name)` looks one up, `keep(name, grade)` remembers one."""

    find: Callable[[str], Grade | None]
    keep: Callable[[str, Grade], None]


def grade(trial: Trial, task: Task, *, criteria: Mapping[str, Criterion], remembered: Remembered) -> GradedTrial:
    """The grades of a trial. An agent that failed leaves every criterion not evaluated."""
    failure = trial.outcome if isinstance(trial.outcome, AgentFailure) else None
    return GradedTrial(
        key=trial.key,
        failure=failure,
        grades=_grades(trial.outcome, task, criteria=criteria, remembered=remembered),
        seconds=trial.seconds,
        attempts=trial.attempts,
        tokens=tokens_of(trial.outcome),
    )


def tokens_of(outcome: Outcome) -> int | None:
    """All tokens that the model calls of a trial reported, those before a failure included; None where none did."""
    invocations = outcome.partial if isinstance(outcome, AgentFailure) else outcome.invocations
    usages = [event.usage for each in invocations for event in each.events or () if event.usage is not None]
    said = [tokens for usage in usages if (tokens := _tokens(usage)) is not None]
    return sum(said) if said else None


def _tokens(usage: Usage) -> int | None:
    parts = (usage.prompt_tokens, usage.tool_use_prompt_tokens, usage.candidates_tokens, usage.thoughts_tokens)
    known = [part for part in parts if part is not None]
    return sum(known) or usage.total_tokens or 0 if known else usage.total_tokens


def _grades(
    outcome: Outcome, task: Task, *, criteria: Mapping[str, Criterion], remembered: Remembered
) -> dict[str, Grade]:
    match outcome:
        case AgentFailure():
            return dict.fromkeys(criteria, _unmeasured(outcome))
        case Transcript():
            evidence = Evidence(
                case=task.case,
                actual=outcome.invocations,
                expected=task.case.conversation,
                final_state=outcome.final_state,
                ended_by=outcome.ended_by,
            )
            grades = {name: _grade_one(name, criterion, evidence, remembered) for name, criterion in criteria.items()}
            return _shared_set(grades)


_SETS: Final[dict[tuple[object, ...], dict[str, Grade]]] = {}


def _shared_set(grades: dict[str, Grade]) -> dict[str, Grade]:
    """One mapping for equal sets of shared grades. They are known by their ids, since a score cannot be hashed; what
    stands in the table stays alive, so that no id is given twice."""
    key = (*grades, *map(id, grades.values()))
    known = _SETS.get(key)
    if known is not None:
        return known
    if len(_SETS) >= SETS_KEPT:
        _SETS.clear()
    _SETS[key] = grades
    return grades


def _unmeasured(failure: AgentFailure) -> NotEvaluated:
    if failure.kind is FailureKind.SIMULATOR:
        return NotEvaluated(reason=Reason.SIMULATOR_FAILED, message=failure.message)
    return NotEvaluated(reason=Reason.AGENT_FAILED, message=f"the agent failed: {failure.message}")


def _grade_one(name: str, criterion: Criterion, evidence: Evidence, remembered: Remembered) -> Grade:
    known = remembered.find(name)
    if known is not None:
        return known
    try:
        found = criterion(evidence)
    except Exception as error:  # noqa: BLE001 - the wall of one grade: a broken criterion is not a broken agent
        found = NotEvaluated(reason=Reason.CRITERION_FAILED, message=f"{name} raised {type(error).__name__}: {error}")
    if isinstance(found, Score) and not found.is_number:
        found = NotEvaluated(reason=Reason.CRITERION_FAILED, message=f"{name} gave {found.value}, not a valid score")
    if isinstance(found, Score):  # why there was none may be cured when the run is resumed
        remembered.keep(name, found)
    return _shared(found)


def _shared(grade: Grade) -> Grade:
    """One value for equal plain grades: most of 100,000 cases have the same few."""
    match grade:
        case Score() if not grade.breakdown and not grade.findings and grade.passed is None:
            return _plain_score(grade.value, grade.turns)
        case NotEvaluated() if not grade.findings:
            return _plain_gap(grade.reason, grade.message, grade.turns)
        case _:
            return grade


@functools.lru_cache(maxsize=4096, typed=True)
def _plain_score(value: float, turns: tuple[float | None, ...]) -> Score:
    return Score(value=value, turns=turns)


@functools.lru_cache(maxsize=4096)
def _plain_gap(reason: Reason, message: str, turns: tuple[float | None, ...]) -> NotEvaluated:
    return NotEvaluated(reason=reason, message=message, turns=turns)
