"""The turns of a trial: pairs of expected and actual turns, answers, and the mean of turn
scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TypeAlias

from . import (
    Grade,
    Invocation,
    NotEvaluated,
    Reason,
    Score,
    TrialView,
    not_evaluated,
)

Pairs: TypeAlias = tuple[tuple[Invocation, Invocation], ...]
"""Actual and expected turn, in this order."""


def pair(view: TrialView) -> Pairs | NotEvaluated:
    """Each turn as (actual, expected), or why they cannot be paired."""
    actual = view.actual
    expected = view.expected
    if expected is None:
        return not_evaluated(Reason.REFERENCE_MISSING, "scenario_without_turns")
    if len(actual) != len(expected):
        return not_evaluated(Reason.TURNS_MISSING, "turns_missing", len(expected), len(actual))
    if not expected:
        return not_evaluated(Reason.REFERENCE_MISSING, "case_without_turns")
    return tuple(zip(actual, expected, strict=True))


def answer(invocation: Invocation, *, with_thoughts: bool = False) -> str:
    """The text of the final response: its non-empty texts, one per line. Thoughts are not part of
    it without `with_thoughts`."""
    content = invocation.final_response
    return content.text(with_thoughts=with_thoughts) if content is not None else ""


def mean(values: Sequence[Fraction | float]) -> float:
    """The mean, computed exactly and rounded once, so that a mean that equals its threshold on
    paper reaches it."""
    if len(values) == 1:
        return float(values[0])
    return float(sum((Fraction(value) for value in values), start=Fraction()) / len(values))


def mean_of_runs(scores: Sequence[float]) -> float:
    """The mean of a case's scores, rounded once: the same result as `statistics.mean`, 25 times as
    fast. A running sum, and fmean too, can miss a threshold by a rounding error (0.7, 0.8, 0.9
    against 0.8)."""
    if len(scores) == 1:
        return scores[0]
    rough_mean = math.fsum(scores) / len(scores)
    if not math.isfinite(rough_mean):
        return rough_mean
    # add the remainder of the division: sums of differences are exact, and so small that adding
    # them rounds correctly
    return rough_mean + math.fsum((*scores, *(-rough_mean,) * len(scores))) / len(scores)


def running_mean(values: Sequence[float]) -> float:
    """The mean as ADK computes it: summed from left to right with rounding at every step, then
    divided."""
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


def inform(values: Iterable[float | None], *, absence: str) -> Grade:
    """The grade of an informational criterion: the mean over the turns that have a value.
    `absence`: the name of the sentence if no turn has one."""
    turns = tuple(values)
    known_values = [value for value in turns if value is not None]
    if not known_values:
        return not_evaluated(Reason.NOTHING_RECORDED, absence, turns=turns)
    return Score(value=mean(known_values), turns=turns)
