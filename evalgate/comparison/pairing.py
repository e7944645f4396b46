"""Pair the trials of two runs by case: the outcome of each pair, by deciding criteria and by graded
scores."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from evalgate.model import (
    INFRASTRUCTURE,
    UNANSWERED,
    CaseKey,
    CaseVerdict,
    Cell,
    CriterionRule,
    CriterionUse,
    FailureKind,
    GradedTrial,
    Policy,
    Run,
    Scale,
    Score,
    VerdictKind,
)
from evalgate.model.deviations import Deviations
from evalgate.values import frozen_dataclass
from . import threshold

Value = TypeVar("Value")
Trials: TypeAlias = Mapping[CaseKey, Sequence[GradedTrial]]

Pattern: TypeAlias = tuple[bool | None, ...]
"""For each deciding criterion, in the suite's order, True if a trial passes; None: not measured."""


def by_case(graded_trials: Iterable[GradedTrial]) -> Trials:
    """Trials by case, ordered by purpose and number."""
    trials_by_case: defaultdict[CaseKey, list[GradedTrial]] = defaultdict(list)
    for trial in graded_trials:
        trials_by_case[trial.key.case].append(trial)
    for trials in trials_by_case.values():
        trials.sort(key=lambda trial: (trial.key.purpose, trial.key.number))
    return trials_by_case


def uses_by_case(run: Run) -> dict[CaseKey, tuple[CriterionUse, ...]]:
    """The criteria of every case of a run, in the run's order."""
    return {
        (suite.key, case.case_id): suite.criteria_of(case)
        for suite in run.suites
        for case in suite.cases
    }


def case_verdicts(
    run: Run, uses: Mapping[CaseKey, Sequence[CriterionUse]], *, policy: Policy
) -> dict[CaseKey, CaseVerdict]:
    """The verdict on each of the cases of `uses`: an earlier run's, else from the trials."""
    trials_by_case = by_case(run.trials)
    return {
        key: run.earlier_verdicts.get(key)
        or threshold.judge_case(
            key=key,
            criteria=criteria,
            trials=trials_by_case.get(key, ()),
            repeats=run.repeats,
            deviations=policy.deviations,
            truncated=run.truncated,
        )
        for key, criteria in uses.items()
    }


def deciding(uses: Sequence[CriterionUse]) -> tuple[CriterionUse, ...]:
    """The criteria that decide. A criterion without a threshold passes if it has a score."""
    return tuple(use for use in uses if not use.informational)


def value_of(trial: GradedTrial, name: str) -> float | None:
    """A trial's score by a criterion; None if it has none."""
    grade = trial.grades.get(name)
    return grade.value if isinstance(grade, Score) and math.isfinite(grade.value) else None


def known_values(values: Iterable[Value | None]) -> tuple[Value, ...]:
    """The values that are not None."""
    return tuple(value for value in values if value is not None)


def pattern_of(trial: GradedTrial, uses: Sequence[CriterionUse]) -> Pattern:
    """Which of the deciding criteria the trial passes. A criterion that abstained passes if another
    criterion passes."""
    scores = [(use, value_of(trial, use.name)) for use in uses]
    pattern = tuple(
        None if score is None else threshold.reaches(score, use) for use, score in scores
    )
    if True not in pattern:
        return pattern
    return tuple(
        is_passed
        if is_passed is not None or not threshold.abstains(trial.grades.get(use.name))
        else True
        for is_passed, use in zip(pattern, uses, strict=True)
    )


UNRECORDED = frozenset({FailureKind.NO_RECORDING, FailureKind.TOOL_UNMATCHED})
NOT_RUN = (
    INFRASTRUCTURE
    | UNANSWERED
    | UNRECORDED
    | {FailureKind.SIMULATOR, FailureKind.INSTALL, FailureKind.START}
)
"""Failures that reveal nothing about the agent's behavior: it was not reached, never began, or
nothing was recorded. Any other failure is a crash, and the run does not pass."""


def is_crash(trial: GradedTrial, *, of_base: bool = False) -> bool:
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
    if not uses:
        return None
    if is_crash(trial, of_base=of_base):
        return (False,) * len(uses)
    pattern = pattern_of(trial, uses)
    if any(
        is_passed is False and use.on_the_test for is_passed, use in zip(pattern, uses, strict=True)
    ):
        return None  # the test was broken, not the agent
    if True in pattern and not deviations.criterion_unscored:
        pattern = tuple(True if is_passed is None else is_passed for is_passed in pattern)
    return pattern


def passes(pattern: Pattern | None) -> bool | None:
    """True if a trial passes all deciding criteria; None if unknown."""
    if not pattern:
        return None
    return False if False in pattern else None if None in pattern else True


def kind_of(
    trial: GradedTrial, uses: Sequence[CriterionUse], deviations: Deviations
) -> VerdictKind:
    """The verdict kind of a single trial, for progress reports."""
    if trial.failure is not None:
        return VerdictKind.NOT_MEASURED
    uses = deciding(uses)
    rules = threshold.rules_of(uses, deviations)
    is_passed = passes(outcome(trial, uses, deviations=rules, of_base=False))
    if is_passed is None:
        return VerdictKind.NOT_MEASURED
    return VerdictKind.PASS if is_passed else VerdictKind.FAIL


def cell_of(head: Pattern | None, base: Pattern | None) -> Cell | None:
    """The result of a pair, by the criteria that are known on both sides. The side that passes all
    criteria of the other side and more is better. None if too little is known."""
    if head is None or base is None:
        return None
    pairs = [
        (head_outcome, base_outcome)
        for head_outcome, base_outcome in zip(head, base, strict=True)
        if head_outcome is not None and base_outcome is not None
    ]
    fell = (False, True) in pairs
    rose = (True, False) in pairs
    if fell is not rose:
        return Cell.FELL if fell else Cell.ROSE
    if fell or (False, False) in pairs:
        return Cell.FAILED
    return Cell.PASSED if len(pairs) == len(head) else None


@frozen_dataclass
class PolicyRule:
    """The policy's rule for one criterion. `max_drop`: the tolerated drop, as a share of the scale
    or, if the scale is open, of the base's mean."""

    name: str
    gating: bool
    lower_is_better: bool
    scale: Scale
    max_drop: float

    def drop_of(self, head: GradedTrial, base: GradedTrial) -> float | None:
        """By how much head's run is worse, from -1 to 1, as a share of the scale or, if the scale
        is open, of the larger score. None if a run has no score."""
        scores = value_of(head, self.name), value_of(base, self.name)
        if scores[0] is None or scores[1] is None:
            return None
        reach = self._reach(scores[0], scores[1])
        if not reach:
            return 0.0
        rise = scores[0] / reach - scores[1] / reach
        drop = rise if self.lower_is_better else -rise
        # differences up to the scale's resolution come from measuring itself
        drop = math.copysign(max(0.0, abs(drop) - self.scale.resolution / reach), drop)
        return min(1.0, max(-1.0, drop))

    def floor(self, base: float | None) -> float:
        """The tolerated drop on the criterion's own scale."""
        return (
            0.0 if base is None else max(self.max_drop * self._reach(base), self.scale.resolution)
        )

    def _reach(self, *scores: float) -> float:
        if self.scale.lowest is None or self.scale.highest is None:
            return max(map(abs, scores))
        return self.scale.highest - self.scale.lowest


def rule_of(use: CriterionUse, policy: Policy, *, advisory: bool = False) -> PolicyRule:
    """The policy's rule for a criterion. An informational criterion decides only if the policy
    makes it gating."""
    rule = policy.criteria.get(use.name, CriterionRule())
    return PolicyRule(
        name=use.name,
        gating=not advisory and (not use.informational if rule.gating is None else rule.gating),
        lower_is_better=use.lower_is_better
        if rule.lower_is_better is None
        else rule.lower_is_better,
        scale=use.scale,
        max_drop=policy.max_drop if rule.max_drop is None else rule.max_drop,
    )


def is_lost(trial: GradedTrial, pattern: Pattern | None) -> bool:
    """True if the trial was not measured, unless its recording is missing."""
    is_unrecorded = trial.failure is not None and trial.failure.kind in UNRECORDED
    return passes(pattern) is None and not is_unrecorded
