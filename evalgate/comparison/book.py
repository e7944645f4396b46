"""Collect the bets of two runs: the evidence for each case, the purse, and the runs to do next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from evalgate.model import (
    Book,
    CaseKey,
    CaseStatus,
    CaseVerdict,
    Confirmation,
    CriterionUse,
    GradedTrial,
    Policy,
    Purpose,
    Run,
    ThresholdRule,
    TrialKey,
    VerdictKind,
)
from evalgate.values import grouped
from . import pairing, purse, threshold
from .pairing import Pattern, PolicyRule, Trials
from .purse import CaseRuns, Rerun, RunPair, Terms


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredSide:
    """One side of a run by case, scored by head's criteria (`uses`)."""

    run: Run
    uses: Mapping[CaseKey, Sequence[CriterionUse]]
    policy: Policy
    is_base: bool = False

    @cached_property
    def _trials(self) -> Trials:
        return pairing.by_case(self.run.all_trials)

    def trials(self, key: CaseKey, *purposes: Purpose) -> list[GradedTrial]:
        """The runs of a case for these purposes, in order."""
        return [trial for trial in self._trials.get(key, ()) if trial.key.purpose in purposes]

    @cached_property
    def verdicts(self) -> Mapping[CaseKey, CaseVerdict]:
        """The threshold gate's verdict on each of head's cases: an earlier run's, else from the
        trials."""
        run, rules = self.run, self.policy.deviations
        return {
            key: run.earlier_verdicts.get(key)
            or threshold.judge_case(
                key, uses, self.trials(key, Purpose.FIRST), run=run, deviations=rules
            )
            for key, uses in self.uses.items()
        }

    @cached_property
    def runs(self) -> Mapping[TrialKey, GradedTrial]:
        """All first runs and reruns."""
        return {trial.key: trial for trial in self.run.all_trials}

    @cached_property
    def outcomes(self) -> Mapping[TrialKey, Pattern | None]:
        """The outcome of each run, see `pairing.outcome`."""
        deciding_uses = {key: pairing.deciding(uses) for key, uses in self.uses.items()}
        return {
            key: pairing.outcome(
                trial,
                deciding_uses.get(key.case, ()),
                deviations=self.policy.deviations,
                of_base=self.is_base,
            )
            for key, trial in self.runs.items()
        }

    def passed(self, trials: Iterable[GradedTrial]) -> list[bool | None]:
        """True for each trial that passes; None if unknown."""
        return [pairing.passes(self.outcomes[trial.key]) for trial in trials]

    def known_outcomes(self, key: CaseKey, *purposes: Purpose) -> list[bool]:
        """True for each of these runs of a case that passes; without runs of unknown outcome."""
        outcomes = self.passed(self.trials(key, *purposes))
        return [is_passed for is_passed in outcomes if is_passed is not None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sides:
    """The runs and rules that a book is made from."""

    head: Run
    base: Run | None = None
    policy: Policy
    unpaired: Mapping[CaseKey, CaseStatus] = field(default_factory=dict)
    """Cases that cannot be compared with the base."""
    recorded: Collection[str] = ()
    """Suites whose agent replays recordings, so that an outcome is exact."""
    unchanged: Collection[str] = ()
    """Suites with the same agent on both sides."""
    is_together: bool = True
    """Both sides ran at the same time, so that clock times can be compared."""

    def is_paired(self, key: CaseKey) -> bool:
        """True if the case is compared with the base."""
        status = self.unpaired.get(key, CaseStatus.PAIRED)
        return self.base is not None and status is CaseStatus.PAIRED

    def group(self, key: CaseKey) -> str:
        """The key of the cases that share one pass rate with this case. Those that the base does
        not have must reach it by themselves."""
        return f"{key[0]}+" if self.unpaired.get(key) is CaseStatus.NEW else key[0]

    @cached_property
    def uses(self) -> Mapping[CaseKey, Sequence[CriterionUse]]:
        """The criteria of every case of head, in head's order."""
        return pairing.uses_by_case(self.head)

    @cached_property
    def scored_sides(self) -> Sequence[ScoredSide]:
        """Head, and the base if there is one."""
        runs = [self.head] if self.base is None else [self.head, self.base]
        return [
            ScoredSide(run=run, uses=self.uses, policy=self.policy, is_base=place > 0)
            for place, run in enumerate(runs)
        ]

    def kinds(self, key: CaseKey, name: str) -> tuple[VerdictKind | None, ...]:
        """The verdict of one criterion on a case, on each side; None if it gave none."""
        return tuple(
            next((row.kind for row in side.verdicts[key].criteria if row.name == name), None)
            for side in self.scored_sides
        )

    def common_runs(
        self, heads: Iterable[GradedTrial]
    ) -> Iterator[tuple[GradedTrial, GradedTrial]]:
        """Each run of head with the base run of the same key. Runs of head without one are left
        out."""
        for base_side in self.scored_sides[1:]:
            for head in heads:
                if base := base_side.runs.get(head.key):
                    yield head, base

    @cached_property
    def graded(self) -> Mapping[str, PolicyRule]:
        """The rules of the criteria that are compared by score, not only by pass and fail. A
        criterion is among them if the scores of both sides together take more than one value on the
        same side of its threshold."""
        if self.base is None:
            return {}
        rules: dict[str, PolicyRule] = {}
        for suite in self.head.suites:
            for use in suite.criteria:
                is_advisory = suite.key in self.policy.advisory
                rule = pairing.rule_of(use, self.policy, advisory=is_advisory)
                if rule.gating and (self.is_together or not use.scale.clocked):
                    rules[use.name] = rule
        scores = {
            (name, rule.use.threshold is not None and threshold.reaches(score, rule.use), score)
            for side in self.scored_sides
            for trial in side.run.trials
            for name, rule in rules.items()
            if (score := pairing.value_of(trial, name)) is not None
        }
        counts = Counter((name, is_reached) for name, is_reached, _ in scores)
        graded_names = {name for (name, _), count in counts.items() if count > 1}
        return {name: rule for name, rule in rules.items() if name in graded_names}

    @cached_property
    def is_lacking(self) -> bool:
        """True if a run of either side could not be measured."""
        keys = {
            key
            for key, uses in self.uses.items()
            if self.is_paired(key) and self.policy.blocks(key) and pairing.deciding(uses)
        }
        return any(
            None in side.passed(trial for trial in side.run.trials if trial.key.case in keys)
            for side in self.scored_sides
        )

    @cached_property
    def book_and_reruns(self) -> tuple[Book, tuple[Rerun, ...]]:
        """The bets so far, and the runs to do next. Each part bets its share of the money; the
        purses are added up. The same bets with swapped sides give the evidence that head is
        better."""
        parts = _parts(self)
        terms = _terms(self)
        # divided by all parts of the plan, also by those that are not here
        money = 1 / max(len(parts), self.head.part.of if self.head.part else 1)
        plays = [purse.play(cases, terms, money=money) for cases in parts]
        purses = [part_purse for part_purse, _ in plays]
        swapped_purses = [
            purse.Purse([case.swapped() for case in cases], terms, money=money) for cases in parts
        ]
        # 1 is the money at the beginning
        worse = math.fsum(part.worth for part in purses) if parts else 1.0
        failing = math.fsum(part.failing for part in purses) if parts else 1.0
        better = math.fsum(part.worth for part in swapped_purses) if parts else 1.0
        factors = {key: factor for part in purses for key, factor in part.factors.items()}
        confirmations: dict[CaseKey, Confirmation] = {}
        for part in purses:
            confirmations |= part.confirmations(
                is_worse=worse >= terms.needed,
                is_failing=failing >= terms.needed,
                largest_factor=max(factors.values(), default=1.0),
            )
        # what reruns of earlier runs showed stays true, whatever these bets began with; unless
        # reruns do not count
        earlier = self.head.earlier_verdicts
        if self.policy.threshold is not ThresholdRule.ALL:
            for verdict in earlier.values():
                if verdict.is_flaky:
                    confirmations[verdict.key] = Confirmation.FLAKY
                elif confirmations.get(verdict.key) is Confirmation.FLAKY:
                    confirmations[verdict.key] = Confirmation.FAILING
        return Book(
            needed=terms.needed,
            worse=worse,
            better=better,
            failing=failing,
            bets=tuple(bet for part in purses for bet in part.bets),
            factors=factors,
            confirmations=confirmations,
            on_both=frozenset(key for part in purses for key in part.failed_together),
        ), tuple(rerun for _, reruns in plays for rerun in reruns if rerun.key not in earlier)


def _terms(sides: Sides) -> Terms:
    """The rules of the purse; a part of a plan tolerates no failure."""
    policy = sides.policy
    counts = Counter((sides.group(key), key[0]) for key in sides.uses if policy.blocks(key))
    tolerated = Counter[str]()
    if sides.head.part is None:  # a part does not know how many cases fail in others
        for (group, suite), count in counts.items():
            pass_rate = policy.suite_pass_rate.get(suite, policy.pass_rate)
            tolerated[group] = count - threshold.needed(count, pass_rate)
    graded = {name: rule.max_drop for name, rule in sides.graded.items()}
    return Terms(
        needed=1 / policy.alpha,
        tolerated=tolerated,
        graded=graded | ({purse.MEASURED: 0.0} if sides.is_lacking else {}),
        asks_alone=policy.threshold is ThresholdRule.CONFIRMED,
    )


def _parts(sides: Sides) -> list[list[CaseRuns]]:
    """The cases that decide, by the part that measured them."""
    part = sides.head.part
    numbers = part.homes if part and not sides.head.is_part else {}
    broken_suites = {suite.key for suite in sides.head.suites if suite.problem}
    absent_suites = {
        *sides.unchanged,
        *(suite.key for suite in (sides.base or sides.head).suites if suite.agent.is_absent),
    }
    parts = grouped(
        (numbers.get(key, 0), _case(sides, key, is_absent=key[0] in absent_suites))
        for key in sides.uses
        if sides.policy.blocks(key) and key[0] not in broken_suites
    )
    return list(parts.values())


def _case(sides: Sides, key: CaseKey, *, is_absent: bool) -> CaseRuns:
    """The runs of one case on both sides. `is_absent`: its base cannot be rerun."""
    head = sides.scored_sides[0]
    is_paired = sides.is_paired(key)
    kind = head.verdicts[key].kind
    first_runs = head.trials(key, Purpose.FIRST)
    can_rerun = sides.policy.threshold is not ThresholdRule.ALL and key[0] not in sides.recorded
    is_failing = kind is VerdictKind.FAIL
    if kind is VerdictKind.NOT_MEASURED:
        outcomes = head.passed(first_runs)
        is_crash = False in outcomes and None not in outcomes
        is_failing = is_crash and len(outcomes) == sides.head.repeats
    lost: Collection[int] = ()
    if is_paired:
        # the criteria that head fails and the base passes in the first runs, if others show the
        # reverse: then neither side is better as a whole
        first_outcomes = [
            side.outcomes[trial.key] or ()
            for side in sides.scored_sides
            for trial in side.trials(key, Purpose.FIRST)[:1]
        ]
        rows = list(zip(*first_outcomes, strict=False))
        if (True, False) in rows:
            lost = [place for place, row in enumerate(rows) if row == (False, True)]
    base_outcomes = sides.scored_sides[1].known_outcomes(key, Purpose.FIRST) if is_paired else []
    return CaseRuns(
        key=key,
        group=sides.group(key),
        rounds=[*_pairs(sides, first_runs)] if is_paired and key[0] not in sides.unchanged else (),
        pairs=[*_pairs(sides, head.trials(key, Purpose.PAIR), lost)],
        alone=head.passed(head.trials(key, Purpose.SINGLE)),
        is_failing=is_failing and can_rerun,
        passes_on_base=2 * sum(base_outcomes) > len(base_outcomes) if base_outcomes else None,
        is_suspect=bool(lost),
        can_pair=is_paired and can_rerun and not is_absent,
    )


def _pairs(
    sides: Sides, heads: Iterable[GradedTrial], lost: Collection[int] = ()
) -> Iterator[RunPair]:
    """Pairs of runs with the same number on both sides, scored by the criteria at the places `lost`
    or, if there are none, by all criteria. Nothing is staked on runs of different days."""
    for head, base in sides.common_runs(heads):
        patterns = [side.outcomes[head.key] for side in sides.scored_sides]
        falls = {
            use.name: drop
            for use in sides.uses[head.key.case]
            if use.name in sides.graded
            and (drop := sides.graded[use.name].drop_of(head, base)) is not None
        }
        if sides.is_lacking:
            head_lost, base_lost = map(pairing.is_lost, (head, base), patterns)
            unknown = [pattern and [outcome is None for outcome in pattern] for pattern in patterns]
            # what neither side knows makes neither side worse
            is_alike = unknown[0] == unknown[1]
            falls[purse.MEASURED] = 0.0 if is_alike else float(head_lost) - float(base_lost)
        scored_patterns = (
            pattern
            and tuple(outcome for place, outcome in enumerate(pattern) if not lost or place in lost)
            for pattern in patterns
        )
        yield RunPair(cell=pairing.cell_of(*scored_patterns), falls=falls, is_staked=not base.apart)
