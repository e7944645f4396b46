"""Two runs, case beside case: how each pair of runs came out, by the criteria that decide and by
graded scores."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from evalgate.comparison import threshold
from evalgate.comparison.purse import MEASURED, RunPair
from evalgate.model import (
    INFRASTRUCTURE,
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
)
from evalgate.model.deviations import OURS, Deviations
from evalgate.values import frozen_dataclass

Trials: TypeAlias = Mapping[CaseKey, Sequence[GradedTrial]]

Pattern: TypeAlias = tuple[bool | None, ...]
"""For each deciding criterion, in the suite's order, True if a trial passes; None: not measured."""


def by_case(graded_trials: Iterable[GradedTrial]) -> Trials:
    """Trials by case, in the order of repeats."""
    trials_by_case: defaultdict[CaseKey, list[GradedTrial]] = defaultdict(list)
    for trial in graded_trials:
        trials_by_case[trial.key.case].append(trial)
    for trials in trials_by_case.values():
        trials.sort(key=lambda trial: (trial.key.purpose, trial.key.number))
    return trials_by_case


def uses_by_case(run: Run) -> dict[CaseKey, tuple[CriterionUse, ...]]:
    """The criteria of every case of a run, in its order."""
    return {
        (suite.key, case.case_id): suite.criteria_of(case)
        for suite in run.suites
        for case in suite.eval_set.cases
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
    """The criteria that decide; one without a threshold passes wherever it has a score."""
    return tuple(use for use in uses if not use.informational)


def value_of(trial: GradedTrial | None, name: str) -> float | None:
    """A trial's score by a criterion; None if it has none."""
    grade = None if trial is None else trial.grades.get(name)
    return grade.value if isinstance(grade, Score) and math.isfinite(grade.value) else None


def measured_values(values: Iterable[float | None]) -> tuple[float, ...]:
    """The values that are known."""
    return tuple(value for value in values if value is not None)


def pattern_of(trial: GradedTrial, uses: Sequence[CriterionUse]) -> Pattern:
    """Which of the deciding criteria the trial passes. One that abstained passes if another
    does."""
    values = [(use, value_of(trial, use.name)) for use in uses]
    pattern = tuple(
        None if value is None else threshold.reaches(value, use) for use, value in values
    )
    if True not in pattern:
        return pattern
    return tuple(
        part if part is not None or not threshold.abstains(trial.grades.get(use.name)) else True
        for part, use in zip(pattern, uses, strict=True)
    )


UNRECORDED = frozenset({FailureKind.NO_RECORDING, FailureKind.TOOL_UNMATCHED})
NOT_RUN = (
    INFRASTRUCTURE | UNRECORDED | {FailureKind.SIMULATOR, FailureKind.INSTALL, FailureKind.START}
)
"""Failures that say nothing of what the agent does: it was not reached, never began, or nothing was
recorded. Any other is a crash, and a run that did not pass."""


def is_crash(trial: GradedTrial, *, of_base: bool = False) -> bool:
    """True if the agent crashed by itself; the base's only through its own fault, not the
    change's."""
    if trial.failure is None or trial.failure.kind in NOT_RUN:
        return False
    return trial.own_failure or not of_base


def outcome(
    trial: GradedTrial | None,
    uses: Sequence[CriterionUse],
    *,
    deviations: Deviations = OURS,
    of_base: bool = False,
) -> Pattern | None:
    """The deciding criteria that a trial passes: all False if the agent crashed; None if nothing is
    known. ADK skips criteria without a score."""
    if trial is None or not uses:
        return None
    if is_crash(trial, of_base=of_base):
        return (False,) * len(uses)
    pattern = pattern_of(trial, uses)
    if any(part is False and use.on_the_test for part, use in zip(pattern, uses, strict=True)):
        return None  # the test was broken
    if True in pattern and not deviations.criterion_unscored:
        pattern = tuple(True if part is None else part for part in pattern)
    return pattern


def passes(pattern: Pattern | None) -> bool | None:
    """True if a trial passes all deciding criteria; None if unknown."""
    if not pattern:
        return None
    return False if False in pattern else None if None in pattern else True


def cell_of(head: Pattern | None, base: Pattern | None) -> Cell | None:
    """How a pair came out, by the criteria that are known on both sides: the side that passes all
    that the other does and more is the better one. None where too little is known to tell."""
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
    """The policy's rule for one criterion. `max_drop`: a share of the scale, or of base's mean if
    it is open."""

    name: str
    gating: bool
    lower_is_better: bool
    scale: Scale
    max_drop: float

    def drop(self, head: float, base: float) -> float:
        """By how much head is worse, as a share of the scale, from -1 to 1; of an open one, of the
        larger score."""
        reach = self._reach(head, base)
        if not reach:
            return 0.0
        drop = (
            (head / reach - base / reach) if self.lower_is_better else (base / reach - head / reach)
        )
        # what measuring itself makes
        drop = math.copysign(max(0.0, abs(drop) - self.scale.resolution / reach), drop)
        return min(1.0, max(-1.0, drop))

    def floor(self, base: float | None) -> float:
        """The drop that is tolerated, on the criterion's own scale."""
        return (
            0.0 if base is None else max(self.max_drop * self._reach(base), self.scale.resolution)
        )

    def _reach(self, *scores: float) -> float:
        if self.scale.lowest is None or self.scale.highest is None:
            return max(map(abs, scores))
        return self.scale.highest - self.scale.lowest


def rule_of(use: CriterionUse, policy: Policy, *, advisory: bool = False) -> PolicyRule:
    """The policy's rule for a criterion. Informational ones decide only if the policy says so."""
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


def _is_lost(trial: GradedTrial, pattern: Pattern | None) -> bool:
    """True if it was not measured, except if nothing was recorded."""
    is_unrecorded = trial.failure is not None and trial.failure.kind in UNRECORDED
    return passes(pattern) is None and not is_unrecorded


def pair(
    head: GradedTrial | None,
    base: GradedTrial | None,
    uses: Sequence[CriterionUse],
    *,
    graded: Mapping[str, PolicyRule],
    deviations: Deviations = OURS,
    is_staked: bool = True,
) -> RunPair:
    """One run of a case on each side. `graded`: the criteria whose scores are compared as
    numbers."""
    needed = deciding(uses)
    head_pattern = outcome(head, needed, deviations=deviations)
    base_pattern = outcome(base, needed, deviations=deviations, of_base=True)
    falls = {}
    for use in uses:
        rule = graded.get(use.name)
        head_score = value_of(head, use.name)
        other = value_of(base, use.name)
        if rule is not None and head_score is not None and other is not None:
            falls[use.name] = rule.drop(head_score, other)
    if MEASURED in graded and head is not None and base is not None:
        falls[MEASURED] = float(_is_lost(head, head_pattern)) - float(_is_lost(base, base_pattern))
    return RunPair(cell=cell_of(head_pattern, base_pattern), falls=falls, is_staked=is_staked)
