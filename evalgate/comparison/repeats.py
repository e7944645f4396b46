"""Adaptive repeats: which cases are run again, and when the first runs say enough."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping

from evalgate.comparison import pairing
from evalgate.model import CaseKey, Change, Comparison, GradedTrial, Policy, Run, Score, VerdictKind


class Stage(enum.StrEnum):
    """Which look at the data a comparison is."""

    ONLY = "only"  # fixed repeats
    FIRST = "first"  # before the further runs of adaptive repeats
    LAST = "last"  # after them


SHARES: Mapping[Stage, float] = {Stage.ONLY: 1.0, Stage.FIRST: 0.2, Stage.LAST: 0.8}
"""How much of alpha each look may spend: 0.01 and 0.04 of 0.05 (Bonferroni over the two looks)."""


def undecided(
    head: Run,
    base: Run | None,
    *,
    policy: Policy,
) -> tuple[CaseKey, ...]:
    """Cases whose first runs, of both sides together, do not all agree on every criterion that decides.

    A case whose pooled outcomes are unanimous carries no information for the permutation test. The choice sees only
    the pool, which permuting the labels keeps: so the test on all runs, with (case, stage) as strata, stays exact.
    Runs without a score are passed over, and so are advisory suites, which decide nothing.
    """
    head_trials = pairing.trials_by_case(head)
    base_trials = {} if base is None else pairing.trials_by_case(base)
    found = []
    for key, uses in pairing.uses_by_case(head).items():
        if key[0] in policy.advisory:
            continue
        deciding = pairing.deciding(uses)
        trials = (*head_trials.get(key, ()), *base_trials.get(key, ()))
        patterns = [pairing.pattern_of(trial, deciding) for trial in trials if trial.key.repeat < head.repeats]
        if any(len({each for each in column if each is not None}) > 1 for column in zip(*patterns, strict=True)):
            found.append(key)
    return tuple(found)


def fallen(head: Run, base: Run, comparison: Comparison) -> frozenset[CaseKey]:
    """The cases that are worse than on the base: that head fails and the base does not, and of criteria that regressed
    those with a worse mean."""
    names = {row.name for row in comparison.criteria if row.rule.gating and row.change is Change.REGRESSED}
    uses, sides = pairing.uses_by_case(head), (pairing.trials_by_case(head), pairing.trials_by_case(base))
    found = set(failing(comparison))
    for case in comparison.cases:
        if case.head is None or case.base is None:
            continue
        for use in uses[case.key]:
            ours, theirs = (_mean(side.get(case.key, ()), use.name) for side in sides)
            if use.name in names and ours is not None and theirs is not None and ours != theirs:
                found |= {case.key} if (ours > theirs) is use.lower_is_better else set()
    return frozenset(found)


def failing(comparison: Comparison) -> frozenset[CaseKey]:
    """The cases that head fails and the base does not."""
    return frozenset(
        case.key
        for case in comparison.cases
        if case.head is not None and case.base is not None
        if case.head.kind is VerdictKind.FAIL and case.base.kind is not VerdictKind.FAIL
    )


def _mean(trials: Iterable[GradedTrial], name: str) -> float | None:
    values = [grade.value for trial in trials if isinstance(grade := trial.grades.get(name), Score)]
    return math.fsum(values) / len(values) if values else None


def early(comparison: Comparison, *, policy: Policy) -> bool:
    """Whether a comparison made at `Stage.FIRST` is decided: a criterion regressed by a fifth of alpha."""
    return any(
        row.rule.gating
        and row.change is Change.REGRESSED
        and row.difference is not None
        and row.difference.p_adjusted is not None
        and row.difference.p_adjusted.worse < policy.alpha
        for row in comparison.criteria
    )
