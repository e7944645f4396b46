"""Grading one trial with all criteria of its suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evalgate.criteria.base import Criterion
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
            return {name: _grade_one(name, criterion, evidence, remembered) for name, criterion in criteria.items()}


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
    return found
