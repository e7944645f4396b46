"""Pair the trials of two runs by case: the outcome of each pair, by deciding criteria and by graded
scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import TypeAlias

from evalgate.model import (
    INFRASTRUCTURE,
    UNANSWERED,
    CaseKey,
    Cell,
    CriterionRule,
    CriterionUse,
    FailureKind,
    GradedTrial,
    Policy,
    Run,
    Score,
    VerdictKind,
)
from evalgate.model.deviations import Deviations
from evalgate.values import frozen_dataclass, grouped
from . import threshold

Trials: TypeAlias = Mapping[CaseKey, Sequence[GradedTrial]]

Pattern: TypeAlias = tuple[bool | None, ...]
"""For each deciding criterion, in the suite's order, True if a trial passes; None: not measured."""


def by_case(graded_trials: Iterable[GradedTrial]) -> Trials:
    """Trials by case, ordered by purpose and number."""
    trials = sorted(graded_trials, key=lambda trial: (trial.key.purpose, trial.key.number))
    return grouped((trial.key.case, trial) for trial in trials)


def uses_by_case(run: Run) -> dict[CaseKey, tuple[CriterionUse, ...]]:
    """The criteria of every case of a run, in the run's order."""
    return {
        (suite.key, case.case_id): suite.criteria_of(case)
        for suite in run.suites
        for case in suite.cases
    }


def deciding(uses: Sequence[CriterionUse]) -> tuple[CriterionUse, ...]:
    """The criteria that decide. A criterion without a threshold passes if it has a score."""
    return tuple(use for use in uses if not use.informational)


def value_of(trial: GradedTrial, name: str) -> float | None:
    """A trial's score by a criterion; None if it has none."""
    grade = trial.grades.get(name)
    return grade.value if isinstance(grade, Score) and math.isfinite(grade.value) else None


def means(trials: Iterable[GradedTrial]) -> dict[str, float]:
    """Each criterion's mean over all trials that have a score."""
    scores_by_name = grouped(
        (name, score)
        for trial in trials
        for name in trial.grades
        if (score := value_of(trial, name)) is not None
    )
    return {name: fmean(scores) for name, scores in scores_by_name.items()}


def pattern_of(
    trial: GradedTrial, uses: Sequence[CriterionUse], *, skips_unscored: bool = False
) -> Pattern:
    """Which of the deciding criteria the trial passes. A criterion that abstained passes if another
    criterion passes; `skips_unscored`: so does any criterion without a score."""
    scores = [(use, value_of(trial, use.name)) for use in uses]
    pattern = [None if score is None else threshold.reaches(score, use) for use, score in scores]
    if True in pattern:
        for place, (use, score) in enumerate(scores):
            if score is None:
                is_skipped = skips_unscored or threshold.abstains(trial.grades.get(use.name))
                pattern[place] = is_skipped or None
    return tuple(pattern)


UNRECORDED = frozenset({FailureKind.NO_RECORDING, FailureKind.TOOL_UNMATCHED})
NOT_RUN = (
    INFRASTRUCTURE
    | UNANSWERED
    | UNRECORDED
    | {FailureKind.SIMULATOR, FailureKind.INSTALL, FailureKind.START}
)
"""Failures that reveal nothing about the agent's behavior: it was not reached, never began, or
nothing was recorded. Any other failure is a crash, and the run does not pass."""


def is_crash(trial: GradedTrial, *, of_base: bool) -> bool:
    """True if the agent crashed. A crash of the base counts only if the agent itself caused it."""
    if trial.failure is None or trial.failure.kind in NOT_RUN:
        return False
    return trial.own_failure or not of_base


def outcome(
    trial: GradedTrial, uses: Sequence[CriterionUse], *, deviations: Deviations, of_base: bool
) -> Pattern | None:
    """For each deciding criterion, True if a trial passes it: all False if the agent crashed; None
    if nothing is known. Without `deviations.criterion_unscored`, criteria without a score are
    skipped if another one passes, as in ADK."""
    if is_crash(trial, of_base=of_base):
        return (False,) * len(uses)
    pattern = pattern_of(trial, uses, skips_unscored=not deviations.criterion_unscored)
    # None: the test was broken, not the agent
    is_broken = any(
        is_passed is False and use.on_the_test for is_passed, use in zip(pattern, uses, strict=True)
    )
    return None if is_broken else pattern


def passes(pattern: Pattern | None) -> bool | None:
    """True if a trial passes all deciding criteria; None if unknown."""
    if not pattern:
        return None
    return False if False in pattern else None if None in pattern else True


def kind_of(
    trial: GradedTrial, uses: Sequence[CriterionUse], deviations: Deviations
) -> VerdictKind:
    """The verdict kind of a single trial, for progress reports."""
    uses = deciding(uses)
    rules = threshold.rules_of(uses, deviations)
    is_passed = passes(outcome(trial, uses, deviations=rules, of_base=False))
    if trial.failure is not None or is_passed is None:
        return VerdictKind.NOT_MEASURED
    return VerdictKind.PASS if is_passed else VerdictKind.FAIL


def cell_of(head: Pattern | None, base: Pattern | None) -> Cell | None:
    """The result of a pair, by the criteria that are known on both sides. The side that passes all
    criteria of the other side and more is better. None if too little is known."""
    if not head or not base:
        return None
    pairs = {*zip(head, base, strict=True)}
    fell = (False, True) in pairs
    rose = (True, False) in pairs
    if fell is not rose:
        return Cell.FELL if fell else Cell.ROSE
    if fell or (False, False) in pairs:
        return Cell.FAILED
    return Cell.PASSED if pairs <= {(True, True)} else None


@frozen_dataclass
class PolicyRule:
    """The policy's rule for one criterion."""

    use: CriterionUse
    gating: bool
    advisory: bool
    """Of suites and cases that never decide."""
    lower_is_better: bool
    max_drop: float
    """A share of the scale or, if the scale is open, of the base's mean."""

    def drop_of(self, head: GradedTrial, base: GradedTrial) -> float | None:
        """By how much head's run is worse, from -1 to 1, as a share of the scale or, if the scale
        is open, of the larger score. None if a run has no score."""
        head_score, base_score = (value_of(trial, self.use.name) for trial in (head, base))
        if head_score is None or base_score is None:
            return None
        reach = self._reach(head_score, base_score)
        if not reach:
            return 0.0
        rise = head_score / reach - base_score / reach
        drop = rise if self.lower_is_better else -rise
        # differences up to the scale's resolution come from measuring itself
        drop = math.copysign(max(0.0, abs(drop) - self.use.scale.resolution / reach), drop)
        return min(1.0, max(-1.0, drop))

    def floor(self, base: float | None) -> float:
        """The tolerated drop on the criterion's own scale."""
        if base is None:
            return 0.0
        return max(self.max_drop * self._reach(base), self.use.scale.resolution)

    def _reach(self, *scores: float) -> float:
        """The length of the scale; of an open one, the largest of the scores."""
        scale = self.use.scale
        if scale.lowest is None or scale.highest is None:
            return max(map(abs, scores))
        return scale.highest - scale.lowest


def rule_of(use: CriterionUse, policy: Policy, *, advisory: bool = False) -> PolicyRule:
    """The policy's rule for a criterion. An informational criterion decides only if the policy
    makes it gating."""
    rule = policy.criteria.get(use.name, CriterionRule())
    return PolicyRule(
        use=use,
        gating=not advisory and (not use.informational if rule.gating is None else rule.gating),
        advisory=advisory,
        lower_is_better=use.lower_is_better
        if rule.lower_is_better is None
        else rule.lower_is_better,
        max_drop=policy.max_drop if rule.max_drop is None else rule.max_drop,
    )


def is_lost(trial: GradedTrial, pattern: Pattern | None) -> bool:
    """True if the trial was not measured, unless its recording is missing."""
    is_unrecorded = trial.failure is not None and trial.failure.kind in UNRECORDED
    return passes(pattern) is None and not is_unrecorded
