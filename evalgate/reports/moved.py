"""The cases that made a criterion fall, by how much and in which turn, even if all of them reach
their thresholds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import fmean

from evalgate.model import (
    CaseStatus,
    CriterionComparison,
    GradedTrial,
    Score,
    VerdictKind,
    turn_score,
)
from . import cases
from .cases import CaseView
from .turns import Turn
from .view import View

DUST = 1e-9
"""Smaller drops are rounding errors."""
NOTABLE = 0.1
"""The fall of one case that is worth a sentence above all, as a share of the criterion's scale;
never less than what the policy tolerates of the mean. On an open scale (tokens, seconds), the
tolerated drop decides alone: it is a share of the base's mean already."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CaseFall:
    """The scores of one case by one criterion on both sides."""

    case: CaseView
    """With trials on both sides."""
    row: CriterionComparison
    """The criterion over all cases."""
    base: float
    """The mean over the runs of the base."""
    head: float
    """The mean over the runs of head."""

    @property
    def drop(self) -> float:
        """How much worse head is."""
        return self.head - self.base if self.row.rule.lower_is_better else self.base - self.head

    @cached_property
    def turn(self) -> Turn | None:
        """The turn that fell furthest, else the first that differs, in the two runs of one number
        that differ most: base's as expected, head's as actual. None if a conversation is missing,
        or a simulated user led it."""
        case = self.case
        if case.eval_case.scenario or case.base is None:
            return None
        sign = -1.0 if self.row.rule.lower_is_better else 1.0
        base_scores = {trial.key: _score(trial, self.row.name) for trial in case.base.trials}
        pairs = [
            (head_score, base_score, trial.key)
            for trial in case.trials
            if (head_score := _score(trial, self.row.name))
            and (base_score := base_scores.get(trial.key))
        ]
        if not pairs:
            return None
        head, base, key = min(pairs, key=lambda pair: sign * (pair[0].value - pair[1].value))
        head_turns, base_turns = (side.turns(key) or () for side in (case.head, case.base))

        shown_turn = None
        largest: tuple[float, bool] | None = None
        for index, pair in enumerate(zip(head_turns, base_turns, strict=False)):
            turn = Turn(number=index + 1, of=len(head_turns), expected=pair[1], actual=pair[0])
            head_part, base_part = (turn_score(score, index) for score in (head, base))
            if head_part is None or base_part is None:
                head_part = base_part = 0.0
            is_different = turn.calls_differ or turn.expected_answer != turn.actual_answer
            difference = sign * (base_part - head_part), is_different
            if largest is None or difference > largest:
                shown_turn, largest = turn, difference
        return shown_turn


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fall:
    """A deciding criterion that fell."""

    row: CriterionComparison
    """Its comparison over all cases."""
    case_falls: tuple[CaseFall, ...]
    """The cases that fell, largest drop first."""
    higher: int
    """The number of cases that rose."""


@lru_cache(maxsize=8)
def falls(v: View) -> tuple[Fall, ...]:
    """The deciding criteria that fell, worst first, each with the cases that moved."""
    comparison = v.comparison
    if comparison is None or comparison.base is None:
        return ()
    all_falls = []
    for row in comparison.criteria:
        if row.rule.gating and (row.drop or 0.0) > DUST:
            moved_cases = sorted(_pairs(row, v), key=lambda moved_case: -moved_case.drop)
            lower = tuple(moved_case for moved_case in moved_cases if moved_case.drop > DUST)
            higher = sum(moved_case.drop < -DUST for moved_case in moved_cases)
            if lower:
                all_falls.append(Fall(row=row, case_falls=lower, higher=higher))
    return tuple(sorted(all_falls, key=lambda fall: -cases.relative_drop(fall.row, fall.row.drop)))


def notable(v: View) -> CaseFall | None:
    """The passing case that fell furthest, among those whose drop is large enough to report at the
    top; failing cases are reported anyway."""
    candidates = [
        moved_case
        for fall in falls(v)
        for moved_case in fall.case_falls
        if moved_case.case.kind is VerdictKind.PASS
        and moved_case.drop
        > max(
            fall.row.rule.floor,
            NOTABLE if max(moved_case.base, moved_case.head) <= 1 else 0.0,
        )
    ]
    return max(
        candidates,
        key=lambda moved_case: cases.relative_drop(moved_case.row, moved_case.drop),
        default=None,
    )


def _pairs(row: CriterionComparison, v: View) -> Iterator[CaseFall]:
    """The cases that decide and have a score on both sides."""
    for case in v.cases:
        is_paired = case.compared is not None and case.compared.status is CaseStatus.PAIRED
        if not (is_paired and case.base) or not v.report.policy.blocks(case.key):
            continue
        if all(use.name != row.name or use.informational for use in case.suite.criteria):
            continue
        head_values, base_values = (
            [score.value for trial in trials if (score := _score(trial, row.name)) is not None]
            for trials in (case.trials, case.base.trials)
        )
        if head_values and base_values:
            yield CaseFall(case=case, row=row, base=fmean(base_values), head=fmean(head_values))


def _score(trial: GradedTrial, name: str) -> Score | None:
    """The score of a trial by a criterion; None if it has none."""
    grade = trial.grades.get(name)
    return grade if isinstance(grade, Score) else None
