"""What may be claimed of a criterion: regressed, improved, unchanged, or that the data cannot tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evalgate.gate import estimating, permutation
from evalgate.gate.estimating import Estimate
from evalgate.gate.pairing import Sample
from evalgate.gate.threshold import OPEN, Scale
from evalgate.model import Change, CriterionRule, CriterionUse, Policy

DUST = 1e-9
"""Differences of means that are no difference: 1 - 0.95 is not more than 0.05."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How one criterion is compared. `max_drop`: a share of the scale, or of base's mean where the scale is open."""

    name: str
    gating: bool
    lower_is_better: bool
    scale: Scale
    max_drop: float

    def floor(self, base: float) -> float:
        """The drop that is let pass, on the criterion's own scale."""
        low, high = self.scale.lowest, self.scale.highest
        reach = abs(base) if low is None or high is None else high - low
        return max(self.max_drop * reach, self.scale.resolution)


def measure_of(use: CriterionUse, policy: Policy, scales: Mapping[str, Scale], *, advisory: bool) -> Measure:
    """How the policy compares a criterion. Informational ones decide only where the policy says so."""
    rule = policy.criteria.get(use.name, CriterionRule())
    informational = use.informational or use.threshold is None
    return Measure(
        name=use.name,
        gating=not advisory and (not informational if rule.gating is None else rule.gating),
        lower_is_better=use.lower_is_better if rule.lower_is_better is None else rule.lower_is_better,
        scale=scales.get(use.name, OPEN),
        max_drop=policy.max_drop if rule.max_drop is None else rule.max_drop,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """P-values of head being worse and of head being better; 0 or 1 where the difference is a fact."""

    worse: float
    better: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A criterion's numbers: as measured, and with what is missing put in at its ends.

    `generous`: head's missing scores at their best and base's at their worst; `harsh` the other way round. `total`
    cases were to be compared; `paired` have a score on both sides, `full` have every score; `unrun` lack only trials
    that never ran. `apart`: the two sides were measured apart, so that nothing may be claimed.
    """

    measure: Measure
    total: int
    paired: int
    full: int
    unrun: int
    fact: bool
    measured: Estimate | None
    generous: Estimate | None
    harsh: Estimate | None
    apart: bool = False

    @property
    def floor(self) -> float:
        """The drop that is let pass."""
        return 0.0 if self.measured is None else self.measure.floor(self.measured.base)

    def drop(self, estimate: Estimate) -> float:
        """By how much head is worse."""
        return estimate.delta if self.measure.lower_is_better else -estimate.delta

    def odds(self, estimate: Estimate | None) -> Odds:
        """The p-values of an estimate; those of nothing are 1."""
        if estimate is None:
            return Odds(worse=1.0, better=1.0)
        if estimate.tails is None:
            drop = self.drop(estimate)
            return Odds(worse=0.0 if drop > DUST else 1.0, better=0.0 if drop < -DUST else 1.0)
        if self.measure.lower_is_better:
            return Odds(worse=estimate.tails.rise, better=estimate.tails.drop)
        return Odds(worse=estimate.tails.drop, better=estimate.tails.rise)


def read(measure: Measure, samples: Sequence[Sample], *, draws: int, seed: int, fact: bool, alpha: float) -> Reading:
    """A criterion's numbers over the cases that are to be compared.

    `fact`: the agent repeated itself in every case. A difference is a fact only where so many coin tosses would look
    like it with a chance below `alpha`.
    """
    fact = fact and all(_constant(sample.head) and _constant(sample.base) for sample in samples)
    fact = fact and _chance(samples) < alpha
    complete = all(sample.full for sample in samples)
    low, high = _ends(measure.scale, samples)
    best, worst = (low, high) if measure.lower_is_better else (high, low)

    def estimate(given: Sequence[Sample]) -> Estimate | None:
        return estimating.estimate(given, draws=draws, seed=seed, fact=fact)

    measured = estimate(samples)
    known = complete or measured is None
    return Reading(
        measure=measure,
        total=len(samples),
        paired=sum(sample.paired for sample in samples),
        full=sum(sample.full for sample in samples),
        unrun=sum(sample.unrun and not sample.failed for sample in samples),
        fact=fact and measured is not None,
        measured=measured,
        generous=measured if known else estimate([sample.filled(head=best, base=worst) for sample in samples]),
        harsh=measured if known else estimate([sample.filled(head=worst, base=best) for sample in samples]),
    )


def _chance(samples: Sequence[Sample]) -> float:
    """The chance that every case whose sides differ is a coin toss, each at its worst: all of h runs of head one way,
    all of b of base the other. 0 where no case differs."""
    chances = []
    for sample in samples:
        head, base = ([value for value in side if value is not None] for side in (sample.head, sample.base))
        if head and base and head[0] != base[0]:
            share = len(head) / (len(head) + len(base))
            chances.append(share ** len(head) * (1 - share) ** len(base))
    return math.prod(chances) if chances else 0.0


def _constant(values: Sequence[float | None]) -> bool:
    return len({value for value in values if value is not None}) <= 1


def _ends(scale: Scale, samples: Sequence[Sample]) -> tuple[float, float]:
    """The worst and the best that a missing score could be; the most extreme seen where the scale is open."""
    seen = [value for sample in samples for value in (*sample.head, *sample.base) if value is not None]
    low = min(seen, default=0.0) if scale.lowest is None else scale.lowest
    high = max(seen, default=0.0) if scale.highest is None else scale.highest
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What is said of a criterion, with the p-values that it rests on, adjusted for the criteria beside it. `short`:
    too little of it was measured, also where it fell for certain."""

    change: Change
    adjusted: Odds | None
    short: bool = False


def claim(
    readings: Mapping[str, Reading], *, alpha: float, share: float, min_measured: float, truncated: bool
) -> dict[str, Claim]:
    """What is said of each criterion of one family. `share`: of alpha that this stage may spend.

    Adjusted p-values are Holm's, divided by `share`, so that all of them are compared with `alpha`.
    """
    measured = {name: reading.odds(reading.measured) for name, reading in readings.items()}
    generous = {name: reading.odds(reading.generous) for name, reading in readings.items()}
    harsh = {name: reading.odds(reading.harsh) for name, reading in readings.items()}
    sampled = [name for name, reading in readings.items() if not reading.fact and not reading.apart]

    def adjusted(odds: Mapping[str, float]) -> dict[str, float]:
        found = permutation.holm({name: odds[name] for name in sampled})
        return {name: min(1.0, found[name] / share) if name in found else odds[name] for name in odds}

    worse = adjusted({name: odds.worse for name, odds in measured.items()})
    better = adjusted({name: odds.better for name, odds in measured.items()})
    worse_at_best = adjusted({name: odds.worse for name, odds in generous.items()})
    better_at_worst = adjusted({name: odds.better for name, odds in harsh.items()})
    claims = {}
    for name, reading in readings.items():
        regressed = max(worse[name], worse_at_best[name]) < alpha and _beyond(reading, worse=True)
        improved = max(better[name], better_at_worst[name]) < alpha and _beyond(reading, worse=False)
        lacking = _lacking(reading, min_measured=min_measured, truncated=truncated)
        claims[name] = Claim(
            change=_change(reading, regressed=regressed, improved=improved, lacking=lacking),
            adjusted=None
            if name not in sampled or reading.measured is None
            else Odds(worse=worse[name], better=better[name]),
            short=lacking is Change.NOT_MEASURED,
        )
    return claims


def _beyond(reading: Reading, *, worse: bool) -> bool:
    """Whether the difference exceeds the floor, as measured and with the missing put in against the claim."""
    against = reading.generous if worse else reading.harsh
    if reading.measured is None or against is None:
        return False
    drops = [reading.drop(each) if worse else -reading.drop(each) for each in (reading.measured, against)]
    return min(drops) > reading.floor + DUST


def _lacking(reading: Reading, *, min_measured: float, truncated: bool) -> Change | None:
    """What is said where too little was measured; None where it is enough."""
    if reading.measured is not None and _enough(reading, reading.full, min_measured):
        return None
    cut_short = truncated and _enough(reading, reading.full + reading.unrun, min_measured)
    return Change.INCONCLUSIVE if cut_short else Change.NOT_MEASURED


def _change(reading: Reading, *, regressed: bool, improved: bool, lacking: Change | None) -> Change:
    if reading.apart:
        return Change.NOT_MEASURED
    if regressed:
        return Change.REGRESSED
    if lacking is not None:
        return lacking
    if improved:
        return Change.IMPROVED
    within = all(_within(reading, each) for each in (reading.measured, reading.generous, reading.harsh))
    return Change.UNCHANGED if within else Change.INCONCLUSIVE


def _enough(reading: Reading, cases: int, min_measured: float) -> bool:
    return reading.total > 0 and cases > 0 and cases >= reading.total * min_measured - DUST


def _within(reading: Reading, estimate: Estimate | None) -> bool:
    if estimate is None:
        return False
    floor = reading.floor + DUST
    if estimate.tails is None:
        return abs(estimate.delta) <= floor
    return estimate.interval is not None and -floor <= estimate.interval.low and estimate.interval.high <= floor
