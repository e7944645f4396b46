"""The cases that made a criterion fall, by how much and in which turn, even if all of them reach
their thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import fmean
from typing import TypeAlias

from evalgate.model import (
    CaseStatus,
    Change,
    CriterionComparison,
    GradedTrial,
    Invocation,
    Score,
    VerdictKind,
    turn_score,
)
from evalgate.text import plain, words
from .cases import CaseSide, CaseView
from .phrases import phrase
from .turns import Turn
from .view import View

DUST = 1e-9
NAME_WIDTH = 60
NOTABLE = 0.1
"""The fall of one case that is worth a sentence above all, as a share of the criterion's scale;
never less than what the policy tolerates of the mean. On an open scale (tokens, seconds), the
tolerated drop decides alone: it is a share of the base's mean already."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CaseFall:
    """The means of one case by one criterion, over the runs of each side. `turn` is None if a
    conversation is missing, or a simulated user led it."""

    case: CaseView
    row: CriterionComparison
    base: float
    head: float

    @property
    def drop(self) -> float:
        """How much worse head is."""
        return self.head - self.base if self.row.rule.lower_is_better else self.base - self.head

    @property
    def text(self) -> str:
        """`1.00 → 0.00`, and in which turn."""
        base, head, _ = words.compared(self.base, self.head)
        return phrase("moved", base, head, self.turn)

    @cached_property
    def turn(self) -> Turn | None:
        """The turn that fell furthest, in the runs that show it best: base's as expected, head's as
        actual."""
        if self.case.is_simulated or self.case.base is None:
            return None
        sign = -1.0 if self.row.rule.lower_is_better else 1.0
        head, base = (_runs(side, self.row.name) for side in (self.case.head, self.case.base))
        if not head or not base:
            return None
        index = _largest_drop_turn(head, base, sign)

        def score(scored_run: ScoredRun) -> float:
            whole_score = scored_run[0]
            part = None if index is None else turn_score(whole_score, index)
            return sign * (whole_score.value if part is None else part)

        _, repeat, head_turns = min(head, key=score)
        # the base's run with the number of head's, if none of its others did better
        _, _, base_turns = max(
            base, key=lambda scored_run: (score(scored_run), scored_run[1] == repeat)
        )
        shared_turns = [
            Turn(number=number, of=len(head_turns), expected=base_turn, actual=head_turn)
            for number, (head_turn, base_turn) in enumerate(
                zip(head_turns, base_turns, strict=False), start=1
            )
        ]
        if index is not None:
            return shared_turns[index] if index < len(shared_turns) else None
        differing_turns = (
            turn
            for turn in shared_turns
            if turn.calls_differ or turn.expected_answer != turn.actual_answer
        )
        return next(differing_turns, shared_turns[0] if shared_turns else None)


ScoredRun: TypeAlias = tuple[Score, int, Sequence[Invocation]]
"""The score, number and turns of a run."""


def _runs(side: CaseSide, name: str) -> Sequence[ScoredRun]:
    """The runs of a case that have a score and turns."""
    runs = []
    for trial in side.trials:
        score = _score(trial, name)
        turns = side.turns(trial.key)
        if score is not None and turns is not None:
            runs.append((score, trial.key.number, turns))
    return runs


def _largest_drop_turn(
    head: Sequence[ScoredRun], base: Sequence[ScoredRun], sign: float
) -> int | None:
    """The turn whose mean fell furthest; None if the criterion has no scores by turn."""
    drops = []
    for index in range(max(len(score.turns) for score, _, _ in head)):
        head_scores, base_scores = (
            [number for score, _, _ in runs if (number := turn_score(score, index)) is not None]
            for runs in (head, base)
        )
        if head_scores and base_scores:
            drops.append((sign * (fmean(base_scores) - fmean(head_scores)), -index))
    return -max(drops)[1] if drops else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fall:
    """A deciding criterion that fell. `case_falls`: the cases that fell, largest drop first;
    `higher`: the number of cases that rose."""

    row: CriterionComparison
    case_falls: tuple[CaseFall, ...]
    higher: int

    @property
    def text(self) -> str:
        """`fell from 1.00 to 0.92: 2 cases worse, 1 better`."""
        base, head, _ = words.compared(self.row.base, self.row.head)
        return phrase(
            "fall", self.row.rule.lower_is_better, base, head, len(self.case_falls), self.higher
        )


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
    return tuple(sorted(all_falls, key=lambda fall: -_relative_drop(fall.row, fall.row.drop)))


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
        key=lambda moved_case: _relative_drop(moved_case.row, moved_case.drop),
        default=None,
    )


def sentence(moved_case: CaseFall) -> str:
    """`` `x` of `case_7` fell: 1.00 → 0.00 in turn 2 of 3, which still passes. ``"""
    row = moved_case.row
    return phrase(
        "still_passing",
        plain.quoted(row.name, NAME_WIDTH),
        plain.quoted(moved_case.case.case_id, NAME_WIDTH),
        row.rule.lower_is_better,
        moved_case.text,
        row.change is Change.REGRESSED,
    )


def _relative_drop(row: CriterionComparison, drop: float | None) -> float:
    """A drop in units of what is tolerated."""
    return (drop or 0.0) / max(row.rule.floor, DUST)


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
    grade = trial.grades.get(name)
    return grade if isinstance(grade, Score) else None
