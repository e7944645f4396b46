"""The bets of two runs: what is known of each case, what the purse makes of it, and what is to be run next."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from evalgate.comparison import pairing, purse, threshold
from evalgate.comparison.pairing import PolicyRule
from evalgate.comparison.purse import CaseRuns, Pair, Rerun, Terms
from evalgate.model import (
    Book,
    CaseKey,
    CaseStatus,
    CaseVerdict,
    CriterionUse,
    GradedTrial,
    Policy,
    Purpose,
    Reruns,
    Run,
    Scale,
    ThresholdRule,
    VerdictKind,
)

NOTHING: Final[Mapping[CaseKey, CaseStatus]] = {}
NEW_CASES: Final = "+"
"""Behind the name of a suite: its cases that the base does not have, which reach the pass rate by themselves."""


@dataclass(frozen=True, kw_only=True)
class Sides:
    """What a book is made from.

    `unpaired`: cases that the base cannot be compared in. `shown`: cases that decide nothing. `recorded`: suites whose
    agent gives what was recorded, so that an outcome is a fact. `unchanged`: suites with one agent on both sides.
    `is_together`: the sides ran side by side, so that clocks can be compared.
    """

    head: Run
    base: Run | None = None
    policy: Policy
    unpaired: Mapping[CaseKey, CaseStatus] = field(default_factory=dict)
    shown: Collection[CaseKey] = ()
    recorded: Collection[str] = ()
    unchanged: Collection[str] = ()
    is_together: bool = True

    def is_paired(self, key: CaseKey) -> bool:
        """Whether a case is compared."""
        return self.base is not None and self.unpaired.get(key, CaseStatus.PAIRED) is CaseStatus.PAIRED

    def blocks(self, key: CaseKey) -> bool:
        """Whether a case may block: it is neither quarantined nor advisory."""
        return key not in self.shown and key[0] not in self.policy.advisory

    @functools.cached_property
    def uses(self) -> Mapping[CaseKey, Sequence[CriterionUse]]:
        """The criteria of every case of head, in its order."""
        return pairing.uses_by_case(self.head)

    @functools.cached_property
    def graded(self) -> Mapping[str, PolicyRule]:
        """The criteria whose scores say more than whether their thresholds are reached. Which these are is told by all
        scores together, whichever side each is of."""
        return {} if self.base is None else _graded(self, self.base)


def of(sides: Sides, verdicts: Mapping[CaseKey, CaseVerdict]) -> tuple[Book, tuple[Rerun, ...]]:
    """The book of two runs, or of one without a base, and what is to be run next. `verdicts`: head's."""
    parts, terms = _parts(sides, verdicts), _terms(sides, verdicts)
    money = 1 / max(len(parts), sides.head.shards if sides.head.shard is None else sides.head.shard.of)
    played = [purse.play(cases, terms, money=money) for cases in parts]
    worse = math.fsum(own.worth for own, _ in played)
    failing = math.fsum(own.failing for own, _ in played) if played else 1.0
    is_worse, is_failing = worse >= terms.needed, failing >= terms.needed
    largest = max((factor for own, _ in played for factor in own.factors.values()), default=1.0)
    swapped = [purse.Purse(terms, money=money) for _ in parts]
    for own, cases in zip(swapped, parts, strict=True):
        own.begin([_swapped(case) for case in cases])
    confirmations = {
        key: confirmation
        for own, _ in played
        for key, confirmation in own.confirmations(is_worse=is_worse, is_failing=is_failing, largest=largest).items()
    }
    return Book(
        needed=terms.needed,
        worse=worse if played else 1.0,
        better=math.fsum(own.worth for own in swapped) if played else 1.0,
        failing=failing,
        bets=tuple(bet for own, _ in played for bet in own.bets),
        factors={key: factor for own, _ in played for key, factor in own.factors.items()},
        confirmations=confirmations,
        on_both=frozenset(key for own, _ in played for key in own.failed_together),
    ), tuple(rerun for _, reruns in played for rerun in reruns)


def _swapped(case: CaseRuns) -> CaseRuns:
    runs = [pair.swapped() for pair in (*case.rounds, *case.pairs)]
    return CaseRuns(key=case.key, rounds=runs, passes_on_base=None)


def _terms(sides: Sides, verdicts: Mapping[CaseKey, CaseVerdict]) -> Terms:
    policy = sides.policy
    sizes: defaultdict[str, int] = defaultdict(int)
    for key in verdicts:
        sizes[group_of(key, sides)] += sides.blocks(key)
    rates = {group: policy.suite_pass_rate.get(group.removesuffix(NEW_CASES), policy.pass_rate) for group in sizes}
    is_part = sides.head.shard is not None or sides.head.shards > 1  # which does not know how many fail elsewhere
    return Terms(
        needed=1 / policy.alpha,
        tolerated={}
        if is_part
        else {group: size - threshold.needed(size, rates[group]) for group, size in sizes.items()},
        graded={name: rule.max_drop for name, rule in sides.graded.items()},
        asks_alone=policy.threshold is ThresholdRule.CONFIRMED,
    )


def group_of(key: CaseKey, sides: Sides) -> str:
    """The cases that have a pass rate to reach together with this one."""
    return f"{key[0]}{NEW_CASES}" if sides.unpaired.get(key) is CaseStatus.NEW else key[0]


def _graded(sides: Sides, base: Run) -> Mapping[str, PolicyRule]:
    rules: dict[str, PolicyRule] = {}
    uses: dict[str, CriterionUse] = {}
    for suite in sides.head.suites:
        for use in () if suite.key in sides.policy.advisory else suite.criteria:
            rule = pairing.rule_of(use, sides.policy)
            if rule.gating and (sides.is_together or not rule.scale.clocked):
                rules[use.name], uses[use.name] = rule, use
    values: defaultdict[tuple[str, bool], set[float]] = defaultdict(set)
    for trial in (*sides.head.trials, *base.trials):
        for name, use in uses.items():
            value = pairing.value_of(trial, name)
            if value is not None:
                kept = values[name, use.threshold is not None and threshold.reaches(value, use)]
                kept |= {value} if len(kept) < len(SEVERAL) else set()
    found = {name: rule for name, rule in rules.items() if any(len(values[name, met]) > 1 for met in (True, False))}
    return found | (WHETHER_MEASURED if _is_lacking(sides) else {})


def _is_lacking(sides: Sides) -> bool:
    """Whether a run of either side could not be measured."""
    for run in (sides.head, sides.base):
        for trial in () if run is None else run.trials:
            key = trial.key.case
            needed = pairing.deciding(sides.uses.get(key, ())) if sides.is_paired(key) and sides.blocks(key) else ()
            if needed and pairing.passes(pairing.outcome(trial, needed, of_base=run is sides.base)) is None:
                return True
    return False


WHETHER_MEASURED: Final = {
    purse.MEASURED: PolicyRule(name=purse.MEASURED, gating=True, lower_is_better=False, scale=Scale(), max_drop=0.0)
}


SEVERAL = (0, 1)
"""Two values on one side of the threshold differ in more than whether it is reached."""


def _parts(sides: Sides, verdicts: Mapping[CaseKey, CaseVerdict]) -> list[list[CaseRuns]]:
    """The cases that decide, by the shard that measured them."""
    head, homes = sides.head, sides.head.homes if sides.head.shards > 1 else {}
    parts: defaultdict[int, list[CaseRuns]] = defaultdict(list)
    runs = _Runs(sides)
    broken = {suite.key for suite in head.suites if suite.problem}
    for key, uses in sides.uses.items():
        if sides.blocks(key) and key[0] not in broken:
            parts[homes.get(key, 0)].append(runs.case(key, uses, verdicts[key]))
    return list(parts.values())


class _Runs:
    """The trials of both sides by case."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        head, base = sides.head, sides.base
        self._firsts = pairing.trials_by_case(head), pairing.trials_by_case(base) if base else {}
        self._fresh = pairing.by_case(head.confirmations), pairing.by_case(base.confirmations if base else ())
        self._absent = frozenset(sides.unchanged)
        if base is not None:
            self._absent |= {suite.key for suite in base.suites if suite.agent.is_absent}

    def case(self, key: CaseKey, uses: Sequence[CriterionUse], verdict: CaseVerdict) -> CaseRuns:
        """What is known of one case."""
        sides, needed = self._sides, pairing.deciding(uses)
        is_paired = sides.is_paired(key)
        firsts = [side.get(key, ()) for side in self._firsts]
        outcomes = [self._passed(trial, needed) for trial in firsts[0]]
        fresh = [
            {purpose: [trial for trial in side.get(key, ()) if trial.key.purpose is purpose] for purpose in Purpose}
            for side in self._fresh
        ]
        is_crash = verdict.kind is VerdictKind.NOT_MEASURED and False in outcomes and None not in outcomes
        is_whole = len(outcomes) == sides.head.repeats
        lost = self._lost(firsts, needed) if is_paired else ()
        return CaseRuns(
            key=key,
            group=group_of(key, sides),
            rounds=self._pairs(firsts, uses) if is_paired and key[0] not in sides.unchanged else (),
            pairs=self._pairs([side[Purpose.PAIR] for side in fresh], lost or uses),
            alone=[self._passed(trial, needed) for trial in fresh[0][Purpose.SINGLE]],
            is_failing=verdict.kind is VerdictKind.FAIL or (is_crash and is_whole),
            passes_on_base=self._on_base(key, needed) if is_paired else None,
            is_suspect=bool(lost),
            can_pair=is_paired and key[0] not in self._absent,
            can_rerun=sides.policy.threshold is not ThresholdRule.ALL and key[0] not in sides.recorded,
        )

    def _lost(
        self, firsts: Sequence[Sequence[GradedTrial]], needed: Sequence[CriterionUse]
    ) -> tuple[CriterionUse, ...]:
        """The criteria that head fails and the base passes in their first runs, where it is the other way round by
        others: so that neither run is the better one as a whole."""
        if not all(firsts):
            return ()
        head, base = (pairing.outcome(runs[0], needed, of_base=runs is firsts[1]) for runs in firsts)
        both = list(zip(needed, head or (), base or (), strict=False))
        lost = tuple(use for use, ours, theirs in both if ours is False and theirs is True)
        won = [use for use, ours, theirs in both if ours is True and theirs is False]
        return lost if won else ()

    def _passed(self, trial: GradedTrial, needed: Sequence[CriterionUse], *, of_base: bool = False) -> bool | None:
        adk_compat = self._sides.policy.adk_compat
        return pairing.passes(pairing.outcome(trial, needed, adk_compat=adk_compat, of_base=of_base))

    def _on_base(self, key: CaseKey, needed: Sequence[CriterionUse]) -> bool | None:
        known = [self._passed(trial, needed, of_base=True) for trial in self._firsts[1].get(key, ())]
        passed, failed = known.count(True), known.count(False)
        return None if not passed + failed else passed > failed

    def _pairs(self, runs: Sequence[Sequence[GradedTrial]], uses: Sequence[CriterionUse]) -> list[Pair]:
        """Runs of the same number on both sides."""
        heads, bases = runs
        others = {trial.key.number: trial for trial in bases}
        return [
            pairing.pair(
                head,
                base,
                uses,
                graded=self._sides.graded,
                adk_compat=self._sides.policy.adk_compat,
                is_staked=not base.apart,
            )
            for head in heads
            if (base := others.get(head.key.number)) is not None
        ]


def reruns_of(sides: Sides) -> dict[CaseKey, Reruns]:
    """The fresh runs of each case that has some."""
    found: dict[CaseKey, Reruns] = {}
    bases = pairing.by_case(sides.base.confirmations if sides.base else ())
    for key, trials in pairing.by_case(sides.head.confirmations).items():
        needed = pairing.deciding(sides.uses.get(key, ()))
        outcomes = [
            [
                pairing.passes(
                    pairing.outcome(trial, needed, adk_compat=sides.policy.adk_compat, of_base=side is not trials)
                )
                for trial in side
            ]
            for side in (trials, bases.get(key, ()))
        ]
        counts = [(side.count(True), len(side) - side.count(None)) for side in outcomes]
        found[key] = Reruns(passed=counts[0][0], runs=counts[0][1], base_passed=counts[1][0], base_runs=counts[1][1])
    return found


def evidence(drops: Iterable[float], *, tolerated: float) -> float:
    """What bets on one criterion alone make of 1. `drops`: by how much head was worse in each pair, from -1 to 1."""
    parts = [1.0] * len(purse.SHARES)
    for drop in drops:
        fall = (drop - tolerated) / (1 + tolerated)
        parts = [part * (1 + share * fall) for part, share in zip(parts, purse.SHARES, strict=True)]
    return math.fsum(parts) / len(parts)
