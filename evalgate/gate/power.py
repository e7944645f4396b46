"""What a comparison could have seen: the smallest drop that it would have told from noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from evalgate.gate.pairing import Sample
from evalgate.model import Power

POWER = 0.8
REPEATS = (2, 3, 5, 10)
"""Numbers of repeats that the power line offers beside the present one."""


def detectable(
    outcomes: Sequence[Sample], *, alpha: float, floor: float, repeats: int, more: int, fact: bool
) -> Power | None:
    """The smallest drop of the pass rate that is seen with a probability of 80 %, now and with more repeats.

    `alpha`: of one criterion after adjusting. The largest of three bounds: the normal approximation from the observed
    variances within cases, the policy's floor (which the drop that is seen must exceed as well), and the fewest cases
    that must break altogether, among cases that never vary, for the exact test to speak.
    """
    paired = [sample for sample in outcomes if sample.paired]
    if not paired:
        return None
    if fact:
        return Power(drop=_beyond_floor(1, len(paired), floor), repeats=repeats)
    variances = [variance(sample) for sample in paired]
    error = math.sqrt(
        math.fsum(
            own * (1 / _known(sample.head) + 1 / _known(sample.base))
            for own, sample in zip(variances, paired, strict=True)
        )
    )
    stages = (repeats, more) if more else (repeats,)
    would = [(k, _smallest(variances, (k,), alpha=alpha, floor=floor)) for k in REPEATS if k > repeats + more]
    return Power(
        drop=_bound(error, len(paired), stages, alpha=alpha, floor=floor),
        repeats=repeats,
        would=tuple((k, drop) for k, drop in would if drop is not None),
    )


def variance(sample: Sample) -> float:
    """The variance of one run of a case, from both sides together: unbiased where they are alike."""
    values = [value for value in (*sample.head, *sample.base) if value is not None]
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _smallest(variances: Sequence[float], stages: Sequence[int], *, alpha: float, floor: float) -> float | None:
    error = math.sqrt(2 * math.fsum(variances) / sum(stages))
    return _bound(error, len(variances), stages, alpha=alpha, floor=floor)


def _bound(error: float, cases: int, stages: Sequence[int], *, alpha: float, floor: float) -> float | None:
    """`error`: standard error of the sum over cases. None where not even breaking every case would be seen."""
    broken = fewest_broken(stages, alpha=alpha)
    discrete = _beyond_floor(broken, cases, floor)
    if discrete is None:
        return None
    normal = NormalDist()
    sure = normal.inv_cdf(POWER)
    spread = error / cases
    drop = max(discrete, (normal.inv_cdf(1 - alpha) + sure) * spread, floor + sure * spread)
    return drop if drop <= 1 else None


def _beyond_floor(broken: int, cases: int, floor: float) -> float | None:
    """The smallest share of whole cases that is at least `broken` of them and more than the floor."""
    enough = max(broken, math.floor(floor * cases + 1e-9) + 1)
    return enough / cases if enough <= cases else None


def fewest_broken(stages: Sequence[int], *, alpha: float) -> int:
    """How many cases must fall from always passing to always failing for p < alpha, if no other varies.

    Each of them divides p by the ways to deal its runs to the two sides, in each stage.
    """
    ways = math.prod(math.comb(2 * runs, runs) for runs in stages)
    broken, p = 0, 1.0
    while p >= alpha:
        p /= ways
        broken += 1
    return broken


def _known(values: Sequence[float | None]) -> int:
    return sum(value is not None for value in values)
