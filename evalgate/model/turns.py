"""The turns of a trial: pairs of expected and actual turns, answers, and the mean of turn
scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TypeAlias

from evalgate.model import Grade, Invocation, NotEvaluated, Reason, Score, Text, TrialView
from evalgate.text import words

Pairs: TypeAlias = tuple[tuple[Invocation, Invocation], ...]


def pair(view: TrialView) -> Pairs | NotEvaluated:
    """Each turn as (actual, expected), or why they cannot be paired."""
    actual = view.actual
    expected = view.expected
    if expected is None:
        message = "a conversation scenario has no expected turns to compare with"
        return NotEvaluated(reason=Reason.REFERENCE_MISSING, message=message)
    if len(actual) != len(expected):
        message = (
            f"the case has {words.counted(len(expected), 'turn')}, the agent answered {len(actual)}"
        )
        return NotEvaluated(reason=Reason.TURNS_MISSING, message=message)
    if not expected:
        return NotEvaluated(reason=Reason.REFERENCE_MISSING, message="the case has no turns")
    return tuple(zip(actual, expected, strict=True))


def answer(invocation: Invocation, *, with_thoughts: bool = False) -> str:
    """The text of the final response: its non-empty texts, one per line. Thoughts are not part of
    it without `with_thoughts`."""
    if invocation.final_response is None:
        return ""
    return "\n".join(
        part.text
        for part in invocation.final_response.parts
        if isinstance(part, Text) and part.text and (with_thoughts or not part.thought)
    )


def mean(values: Sequence[Fraction | float]) -> float:
    """The mean, computed exactly and rounded once, so that a mean that equals its threshold on
    paper reaches it."""
    if len(values) == 1:
        return float(values[0])
    return float(sum((Fraction(value) for value in values), start=Fraction()) / len(values))


def running_mean(values: Sequence[float]) -> float:
    """The mean as ADK computes it: summed from left to right with rounding at every step, then
    divided."""
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


def inform(values: Iterable[float | None], *, absence_text: str) -> Grade:
    """The grade of an informational criterion: the mean over the turns that have a value.
    `absence_text`: the message if no turn has one."""
    turns = tuple(values)
    known_values = [value for value in turns if value is not None]
    if not known_values:
        return NotEvaluated(reason=Reason.NOTHING_RECORDED, message=absence_text, turns=turns)
    return Score(value=mean(known_values), turns=turns)
