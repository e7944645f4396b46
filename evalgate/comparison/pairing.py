"""Two runs, case beside case: the scores of every criterion on both sides, by stage, with what is missing."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from evalgate.comparison import threshold
from evalgate.model import CaseKey, CaseVerdict, CriterionUse, GradedTrial, Policy, Run, Score, TrialKey

Trials: TypeAlias = Mapping[CaseKey, Sequence[GradedTrial]]

Values: TypeAlias = tuple[float | None, ...]

Pattern: TypeAlias = tuple[bool | None, ...]
"""Which deciding criteria a trial passes, in the suite's order; None where one was not measured."""


def trials_by_case(run: Run) -> Trials:
    """A run's trials by case, in the order of repeats."""
    return by_case(run.trials)


def by_case(each: Iterable[GradedTrial]) -> Trials:
    """Trials by case, in the order of repeats."""
    found: defaultdict[CaseKey, list[GradedTrial]] = defaultdict(list)
    for trial in each:
        found[trial.key.suite, trial.key.case_id].append(trial)
    for trials in found.values():
        trials.sort(key=lambda trial: trial.key.repeat)
    return found


def uses_by_case(run: Run) -> dict[CaseKey, tuple[CriterionUse, ...]]:
    """The criteria of every case of a run, in its order."""
    return {(suite.key, case.case_id): suite.criteria_of(case) for suite in run.suites for case in suite.eval_set.cases}


def case_verdicts(
    run: Run, uses: Mapping[CaseKey, Sequence[CriterionUse]], *, policy: Policy
) -> dict[CaseKey, CaseVerdict]:
    """The verdict on each of the cases of `uses`, from the trials of a run."""
    known = trials_by_case(run)
    return {
        key: threshold.judge_case(
            suite=key[0],
            case_id=key[1],
            criteria=own,
            trials=known.get(key, ()),
            repeats=run.expected(*key),
            adk_compat=policy.adk_compat,
            truncated=run.truncated,
        )
        for key, own in uses.items()
    }


def deciding(uses: Sequence[CriterionUse]) -> tuple[CriterionUse, ...]:
    """The criteria that have a threshold to reach."""
    return tuple(use for use in uses if not use.informational and use.threshold is not None)


def value_of(trial: GradedTrial | None, name: str) -> float | None:
    """A trial's score by a criterion; None where there is none."""
    grade = None if trial is None else trial.grades.get(name)
    return grade.value if isinstance(grade, Score) and math.isfinite(grade.value) else None


def known(values: Iterable[float | None]) -> tuple[float, ...]:
    """The values that are known."""
    return tuple(value for value in values if value is not None)


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

    `first`: how many of them belong to the first stage. `patterns`: beside `trials`. `left_out`: how many runs
    are not among them, since they are not compared (`pair`).
    """

    trials: tuple[GradedTrial | None, ...]
    first: int
    patterns: tuple[Pattern | None, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One case on both sides."""

    key: CaseKey
    uses: tuple[CriterionUse, ...]
    head: Side
    base: Side


def pair(
    key: CaseKey,
    *,
    head: Run,
    base: Run,
    head_trials: Trials,
    base_trials: Trials,
    uses: Sequence[CriterionUse],
    pooled: Sequence[GradedTrial] = (),
    left_out: Collection[TrialKey] = (),
    base_left_out: Collection[TrialKey] = (),
) -> Pair:
    """A case on both sides, in one stage or two.

    With adaptive repeats (`Run.more` of head) the first `Run.repeats` of head are the first stage, on both sides, and
    later runs count only where both sides have them: a stored base may have more. Without, there is one stage, and
    the sides may have different numbers of runs, `pooled` ones of the base among them: which cases are run again must
    not depend on runs of another day, so adaptive repeats have none. `left_out`, `base_left_out`: crashes that may be
    accidents, which the threshold gate and the count of cases that head lost look at. Left out, not filled in: given
    how often each side crashed, the other runs are dealt to the sides as before.
    """
    slots = []
    for run, trials in ((head, head_trials), (base, base_trials)):
        by_repeat = {trial.key.repeat: trial for trial in trials.get(key, ())}
        count = max([run.expected(*key), *(repeat + 1 for repeat in by_repeat)])
        slots.append([by_repeat.get(repeat) for repeat in range(count)])
    if not head.more:
        slots[1] += pooled
    first = head.repeats if head.more else max(map(len, slots))
    if any(len(trials) <= first for trials in slots):
        slots = [trials[:first] for trials in slots]
    needed, found = deciding(uses), []
    for slot, out in zip(slots, (left_out, base_left_out), strict=True):
        kept = [trial for trial in slot if trial is None or trial.key not in out] if out else slot
        side = Side(
            trials=tuple(kept),
            first=min(first, len(slot)) - sum(trial is not None and trial.key in out for trial in slot[:first]),
            patterns=tuple(None if trial is None else pattern_of(trial, needed) for trial in kept),
            left_out=len(slot) - len(kept),
        )
        found.append(side)
    return Pair(key=key, uses=tuple(uses), head=found[0], base=found[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One number a trial, of one case on both sides: None where it is not known.

    `head_first`, `base_first`: how many belong to the first stage. `unrun`: a trial never ran; `failed`: one ran and
    gave no number; `base_failed`: all that is missing is missing on the base, whose agent failed there by itself.
    `patterns`: head's and base's, where the case was run again because they differed; else None.
    """

    key: CaseKey
    head: Values
    base: Values
    head_first: int
    base_first: int
    unrun: bool = False
    failed: bool = False
    base_failed: bool = False
    patterns: tuple[tuple[Pattern | None, ...], tuple[Pattern | None, ...]] | None = None

    @property
    def stages(self) -> tuple[tuple[Values, Values], tuple[Values, Values]]:
        """Head's and base's numbers of the first stage, then of the second."""
        head, base = self.head_first, self.base_first
        return (self.head[:head], self.base[:base]), (self.head[head:], self.base[base:])

    @property
    def is_left_out(self) -> bool:
        """Whether all runs of a side are crashes that are not compared."""
        return not (self.head and self.base)

    @property
    def paired(self) -> bool:
        """Whether both sides have a score."""
        return bool(known(self.head) and known(self.base))

    @property
    def full(self) -> bool:
        """Whether no score is missing."""
        return self.paired and None not in self.head and None not in self.base

    @property
    def measured_share(self) -> float:
        """The share of runs with a score, of the side that has fewer; 0 where a side has none."""
        return min(len(known(side)) / len(side) if side else 0.0 for side in (self.head, self.base))

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
    head, base = (tuple(value_of(trial, name) for trial in side.trials) for side in (pair.head, pair.base))
    return _sample(pair, head=head, base=base)


def outcomes(pair: Pair) -> Sample:
    """1 for a trial that passes all that decides, 0 for one that does not."""
    known = [[None if each is None else passes(each) for each in side.patterns] for side in (pair.head, pair.base)]
    head, base = (tuple(None if each is None else float(each) for each in side) for side in known)
    return _sample(pair, head=head, base=base)


def _sample(pair: Pair, *, head: Values, base: Values) -> Sample:
    # where a run is left out, the plain means have to do, as where a score is missing
    is_whole = not (pair.head.left_out or pair.base.left_out)
    again = is_whole and len(head) > pair.head.first and len(base) > pair.base.first
    trials, values = (*pair.head.trials, *pair.base.trials), (*head, *base)
    lacking = [trial for trial, value in zip(trials, values, strict=True) if value is None]
    return Sample(
        key=pair.key,
        head=head,
        base=base,
        head_first=pair.head.first,
        base_first=pair.base.first,
        unrun=None in trials,
        failed=any(trial is not None for trial in lacking),
        base_failed=bool(lacking) and all(trial is not None and trial.own_failure for trial in lacking),
        patterns=(pair.head.patterns, pair.base.patterns) if again else None,
    )
