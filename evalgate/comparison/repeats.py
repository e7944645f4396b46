"""New failures, confirmed by fresh runs: by how many, and what these say; the same here, of parts and of files."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from evalgate.comparison import pairing, tests
from evalgate.comparison.tests import Stratum
from evalgate.errors import Problem, Severity
from evalgate.model import (
    CaseComparison,
    CaseKey,
    CaseStatus,
    Change,
    Comparison,
    CriterionUse,
    FailureOrigin,
    GradedTrial,
    Policy,
    Run,
    Suite,
    ThresholdRule,
    VerdictKind,
)
from evalgate.text import words as text_words


def new_failures(comparison: Comparison, *, policy: Policy, unreliable: frozenset[CaseKey]) -> tuple[CaseKey, ...]:
    """Failures that would block under `threshold: new` and that the base can speak for: it passes the case, or a
    criterion that head fails.

    A case that the base's files do not have must pass by itself; there is nothing to confirm. Advisory suites and
    `unreliable` cases do not block at all.
    """
    keys = (
        case.key
        for case in comparison.cases
        if case.origin is FailureOrigin.NEW and case.status is CaseStatus.PAIRED and case.base is not None
    )
    return tuple(key for key in keys if key[0] not in policy.advisory and key not in unreliable)


def ways(suites: Iterable[Suite]) -> int:
    """In how many ways an unchanged case may look newly failed, over all cases: as a whole, and by each of its criteria
    where there are several."""
    total = 0
    for suite in suites:
        criteria = len(pairing.deciding(suite.criteria))
        total += len(suite.eval_set.cases) * (1 + criteria if criteria > 1 else 1)
    return total


def needed(candidates: int, *, ways: int, repeats: int, minimum: int, alpha: float) -> int:
    """How many fresh pairs must agree before a failure counts as new, so that chance blocks at most alpha of all runs.

    A pair agrees when head fails and base passes. For a case that did not change and passes with probability p that
    happens with p (1 - p) <= 1/4, whatever p is. So c pairs keep the chance of a false block under
    `candidates` * 4^-c. Over all `ways` in which a case may become a candidate, before looking, it is under
    ways * L * 4^-c, where L bounds the chance of one of them after `repeats` runs a side. Of the two c the one that is
    smaller at one candidate is taken: a choice that the data have no part in. 0 without candidates.
    """
    if candidates <= 0:
        return 0
    before = _pairs(ways * new_failure_chance(repeats, alpha=alpha), alpha)
    after = _pairs(candidates, alpha)
    return max(minimum, before if before <= _pairs(1, alpha) else after)


def _pairs(expected: float, alpha: float) -> int:
    # the dust: log4(64) must not be 3.0000000000000004
    return max(0, math.ceil(math.log(expected / alpha, 4) - 1e-9))


@lru_cache(maxsize=256)
def new_failure_chance(repeats: int, *, alpha: float) -> float:
    """The most that chance can do to make a new failure of an unchanged case, over all pass probabilities.

    A new failure: head never passes and base always, or the case's own exact test says that head is worse.
    """
    worse = [
        (head, base)
        for head in range(repeats + 1)
        for base in range(repeats + 1)
        if (head, base) == (0, repeats)
        or tests.is_worse(
            Stratum(head_passes=head, head_runs=repeats, base_passes=base, base_runs=repeats), alpha=alpha
        )
    ]
    grid = [step / 200 for step in range(1, 200)]
    return max(
        math.fsum(_binomial(head, repeats, p) * _binomial(base, repeats, p) for head, base in worse) for p in grid
    )


def _binomial(hits: int, total: int, p: float) -> float:
    return math.comb(total, hits) * p**hits * (1 - p) ** (total - hits)


def disagrees(
    head: GradedTrial | None, base: GradedTrial | None, uses: Sequence[CriterionUse], *, alone: bool = False
) -> bool | None:
    """Whether fresh runs speak against a new failure; None where that cannot be told. `alone`: there is none of base.

    One run that does is enough to stop: further runs cannot bring the failure back.
    """
    if alone:
        return _outcome(head, uses)
    outcomes = _outcome(head, uses), _outcome(base, uses)
    if outcomes[0] is True or outcomes[1] is False:
        return True
    return None if None in outcomes else False


def _outcome(trial: GradedTrial | None, uses: Sequence[CriterionUse]) -> bool | None:
    return None if trial is None else pairing.passes(pairing.pattern_of(trial, pairing.deciding(uses)))


def _looks(case: CaseComparison, uses: Sequence[CriterionUse]) -> list[Sequence[CriterionUse]]:
    """The criteria by which a case is looked at: all of them where the base passes it as a whole, and those that head
    fails and the base passes, where they are not all."""
    whole = case.base is not None and case.base.kind is VerdictKind.PASS
    newly = [use for use in uses if use.name in case.newly]
    looks: list[Sequence[CriterionUse]] = [uses] if whole or not newly else []
    if newly and len(newly) < len(pairing.deciding(uses)):
        looks.append(newly)
    return looks or [uses]


def _by_repeat(trials: Iterable[GradedTrial]) -> Mapping[CaseKey, Mapping[int, GradedTrial]]:
    found: defaultdict[CaseKey, dict[int, GradedTrial]] = defaultdict(dict)
    for trial in trials:
        found[trial.key.suite, trial.key.case_id][trial.key.repeat] = trial
    return found


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


SPARE = 2
"""How many rounds of fresh runs are made beyond those asked for, where an agent or a judge failed in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be confirmed: `cases`, each by `pairs` fresh runs of both sides, or of head where the base cannot be
    run (`alone`): head must fail each of as many runs."""

    cases: frozenset[CaseKey]
    pairs: int
    alone: frozenset[CaseKey]

    def settle(self, comparison: Comparison, *, head: Run, base: Run) -> Comparison:
        """The comparison after the fresh runs that there are (`Run.confirmations` of both sides, paired by repeat).

        A case stays new when `pairs` of them agree and none disagrees; it is flaky when any disagrees, and unconfirmed
        when too few could be measured. A case that is new as a whole and by some of its criteria is looked at both
        ways, and stays new by either: an agent that fails every run may fail each by another criterion.
        """
        if self.pairs <= 0 or not self.cases:
            return comparison
        uses = pairing.uses_by_case(head)
        fresh_head, fresh_base = _by_repeat(head.confirmations), _by_repeat(base.confirmations)
        settled = []
        for case in comparison.cases:
            if (key := case.key) not in self.cases:
                settled.append(case)
                continue
            heads, bases, alone = fresh_head.get(key, {}), fresh_base.get(key, {}), key in self.alone
            runs = [(heads.get(each), bases.get(each)) for each in sorted({*heads, *bases})]
            looks = [
                [disagrees(ours, theirs, own, alone=alone) for ours, theirs in runs] for own in _looks(case, uses[key])
            ]
            kept = [words.count(False) for words in looks if True not in words]
            agreed = max(kept or [words.count(False) for words in looks])
            origin = FailureOrigin.NEW if agreed >= self.pairs else FailureOrigin.UNCONFIRMED
            origin = origin if kept else FailureOrigin.FLAKY
            settled.append(dataclasses.replace(case, origin=origin, confirmations=agreed))
        return dataclasses.replace(comparison, cases=tuple(settled))


def ask(
    cases: Iterable[CaseKey],
    suites: Iterable[Suite],
    *,
    alone: frozenset[CaseKey],
    repeats: int,
    policy: Policy,
    parts: int = 1,
) -> Asked:
    """How these new failures are confirmed. `suites`: of the whole plan. `alone`: cases that cannot be run on the base.
    `repeats`: the runs that every case had. `parts`: on how many machines, of which none knows what the others find:
    each makes enough runs for as many new failures everywhere."""
    found, planned = frozenset(cases), tuple(suites)
    # as a whole, and by what it newly fails
    looks = 2 if any(len(pairing.deciding(suite.criteria)) > 1 for suite in planned) else 1
    pairs = needed(
        len(found) * parts * looks,
        ways=ways(planned),
        repeats=repeats,
        minimum=policy.confirm,
        alpha=policy.alpha,
    )
    return Asked(cases=found, pairs=pairs, alone=alone)


def settle_files(comparison: Comparison, *, head: Run, base: Run, policy: Policy) -> Comparison:
    """New failures by the fresh runs that stand in files; by head's alone where the base's has none of a case."""
    if policy.threshold is not ThresholdRule.NEW or comparison.problem:
        return comparison
    candidates = new_failures(comparison, policy=policy, unreliable=frozenset())
    lacking = frozenset(candidates) - {(trial.key.suite, trial.key.case_id) for trial in base.confirmations}
    asked = ask(candidates, head.suites, alone=lacking, repeats=head.repeats, policy=policy)
    return asked.settle(comparison, head=head, base=base)


def alone(base: Run) -> frozenset[CaseKey]:
    """The cases that cannot be run on the base: only results of it are at hand."""
    return frozenset(
        (suite.key, case.case_id) for suite in base.suites if suite.agent.is_absent for case in suite.eval_set.cases
    )


def unconfirmed(comparison: Comparison) -> frozenset[CaseKey]:
    """New failures of which too few fresh runs could be measured."""
    return frozenset(case.key for case in comparison.cases if case.origin is FailureOrigin.UNCONFIRMED)


def without_base(policy: Policy, suites: Collection[str], *, is_at_hand: bool) -> tuple[Problem, ...]:
    """A warning where `threshold: new` decides and the base cannot be run for `suites` that are compared; `is_at_hand`:
    its code is, and it is its agents that cannot be run, as one behind a URL."""
    if policy.threshold is not ThresholdRule.NEW or not suites:
        return ()
    where = f" for {text_words.listed(sorted(suites), limit=3)}" if is_at_hand else ""
    message = (
        f"`threshold: new`: the base cannot be run here{where}, so new failures are confirmed on head only, and a "
        f"flaky case may block"
    )
    hint = "" if is_at_hand else "`baseline: auto` runs the base when needed."
    return (Problem(severity=Severity.WARNING, code="confirmed-by-head-alone", message=message, hint=hint),)


def not_run(comparison: Comparison) -> tuple[Problem, ...]:
    """A warning where files lack the fresh runs that new failures ask for."""
    cases = unconfirmed(comparison)
    if not cases:
        return ()
    failures = text_words.counted(len(cases), "new failure")
    message = f"`threshold: new`: the files lack reruns of {failures}; a flaky case may block"
    hint = "Use `evalgate run --base` to make them."
    return (Problem(severity=Severity.WARNING, code="fresh-runs-missing", message=message, hint=hint),)
