"""Two runs, case beside case: the scores of every criterion on both sides, by stage, with what is missing."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from evalgate.comparison import threshold
from evalgate.model import CaseKey, CriterionUse, GradedTrial, Run, Score

Trials: TypeAlias = Mapping[CaseKey, Sequence[GradedTrial]]

Pattern: TypeAlias = tuple[bool | None, ...]
"""Which deciding criteria a trial passes, in the suite's order; None where one was not measured."""


def trials_by_case(run: Run) -> Trials:
    """A run's trials by case, in the order of repeats."""
    found: defaultdict[CaseKey, list[GradedTrial]] = defaultdict(list)
    for trial in run.trials:
        found[trial.key.suite, trial.key.case_id].append(trial)
    for trials in found.values():
        trials.sort(key=lambda trial: trial.key.repeat)
    return found


def uses_by_case(run: Run) -> dict[CaseKey, tuple[CriterionUse, ...]]:
    """The criteria of every case of a run, in its order."""
    return {(suite.key, case.case_id): suite.criteria for suite in run.suites for case in suite.eval_set.cases}


def deciding(uses: Sequence[CriterionUse]) -> tuple[CriterionUse, ...]:
    """The criteria that have a threshold to reach."""
    return tuple(use for use in uses if not use.informational and use.threshold is not None)


def value_of(trial: GradedTrial | None, name: str) -> float | None:
    """A trial's score by a criterion; None where there is none."""
    grade = None if trial is None else trial.grades.get(name)
    return grade.value if isinstance(grade, Score) and math.isfinite(grade.value) else None


def pattern_of(trial: GradedTrial, uses: Sequence[CriterionUse]) -> Pattern:
    """Which of the deciding criteria the trial passes."""
    values = [(use, value_of(trial, use.name)) for use in uses]
    return tuple(None if value is None else threshold.reaches(value, use) for use, value in values)


def passes(pattern: Pattern) -> bool | None:
    """Whether a trial passes all that decides; None where a part is unknown, or nothing decides."""
    return None if not pattern or None in pattern else all(pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One case on one side: a trial for each repeat that was to be, None where it never ran.

    `first`: how many of them belong to the first stage. `patterns`: beside `trials`.
    """

    trials: tuple[GradedTrial | None, ...]
    first: int
    patterns: tuple[Pattern | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One case on both sides."""

    key: CaseKey
    uses: tuple[CriterionUse, ...]
    head: Side
    base: Side


def pair(
    key: CaseKey, *, head: Run, base: Run, head_trials: Trials, base_trials: Trials, uses: Sequence[CriterionUse]
) -> Pair:
    """A case on both sides, in one stage or two.

    With adaptive repeats (`Run.more` of head) the first `Run.repeats` of head are the first stage, on both sides, and
    later runs count only where both sides have them: a stored base may have more. Without, there is one stage, and
    the sides may have different numbers of runs.
    """
    head_slots = _by_repeat(head_trials.get(key, ()), head.expected(*key))
    base_slots = _by_repeat(base_trials.get(key, ()), base.expected(*key))
    first = head.repeats if head.more else max(len(head_slots), len(base_slots))
    if len(head_slots) <= first or len(base_slots) <= first:
        head_slots, base_slots = head_slots[:first], base_slots[:first]
    needed = deciding(uses)
    return Pair(
        key=key,
        uses=tuple(uses),
        head=_side(head_slots, first=first, uses=needed),
        base=_side(base_slots, first=first, uses=needed),
    )


def _by_repeat(trials: Sequence[GradedTrial], expected: int) -> tuple[GradedTrial | None, ...]:
    by_repeat = {trial.key.repeat: trial for trial in trials}
    return tuple(by_repeat.get(repeat) for repeat in range(max([expected, *(repeat + 1 for repeat in by_repeat)])))


def _side(slots: tuple[GradedTrial | None, ...], *, first: int, uses: Sequence[CriterionUse]) -> Side:
    return Side(
        trials=slots,
        first=min(first, len(slots)),
        patterns=tuple(None if trial is None else pattern_of(trial, uses) for trial in slots),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One number a trial, of one case on both sides: None where it is not known.

    `head_first`, `base_first`: how many belong to the first stage. `unrun`: a trial never ran; `failed`: one ran and
    gave no number. `patterns`: head's and base's, where the case was run again because they differed; else None.
    """

    key: CaseKey
    head: tuple[float | None, ...]
    base: tuple[float | None, ...]
    head_first: int
    base_first: int
    unrun: bool = False
    failed: bool = False
    patterns: tuple[tuple[Pattern | None, ...], tuple[Pattern | None, ...]] | None = None

    @property
    def paired(self) -> bool:
        """Whether both sides have a score."""
        return any(value is not None for value in self.head) and any(value is not None for value in self.base)

    @property
    def full(self) -> bool:
        """Whether no score is missing."""
        return self.paired and None not in self.head and None not in self.base

    def filled(self, *, head: float, base: float) -> Sample:
        """The same with numbers in the place of those that are not known."""
        return Sample(
            key=self.key,
            head=tuple(head if value is None else value for value in self.head),
            base=tuple(base if value is None else value for value in self.base),
            head_first=self.head_first,
            base_first=self.base_first,
            patterns=self.patterns,
        )


def scores(pair: Pair, name: str) -> Sample:
    """A criterion's scores of a case."""
    return _sample(
        pair,
        head=tuple(value_of(trial, name) for trial in pair.head.trials),
        base=tuple(value_of(trial, name) for trial in pair.base.trials),
    )


def outcomes(pair: Pair) -> Sample:
    """1 for a trial that passes all that decides, 0 for one that does not."""
    return _sample(pair, head=_outcomes(pair.head), base=_outcomes(pair.base))


def _outcomes(side: Side) -> tuple[float | None, ...]:
    known = (None if pattern is None else passes(pattern) for pattern in side.patterns)
    return tuple(None if each is None else float(each) for each in known)


def _sample(pair: Pair, *, head: tuple[float | None, ...], base: tuple[float | None, ...]) -> Sample:
    again = len(head) > pair.head.first and len(base) > pair.base.first
    return Sample(
        key=pair.key,
        head=head,
        base=base,
        head_first=pair.head.first,
        base_first=pair.base.first,
        unrun=None in (*pair.head.trials, *pair.base.trials),
        failed=_failed(pair.head, head) or _failed(pair.base, base),
        patterns=(pair.head.patterns, pair.base.patterns) if again else None,
    )


def _failed(side: Side, values: Sequence[float | None]) -> bool:
    return any(value is None and trial is not None for trial, value in zip(side.trials, values, strict=True))
