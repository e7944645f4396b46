"""What a comparison could have seen: the smallest drop that it would have told from noise."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from evalgate.gate.pairing import Sample
from evalgate.model import Power

POWER = 0.8
REPEATS = (2, 3, 5, 10)
"""Numbers of repeats that the power line offers beside the present one."""


def detectable(outcomes: Sequence[Sample], *, alpha: float, floor: float, fact: bool) -> Power | None:
    """The smallest drop of the pass rate that is seen with a probability of 80 %, now and with more repeats.

    `alpha`: of one criterion after adjusting. The largest of three bounds: the normal approximation from the observed
    variances within cases, the policy's floor (which the drop that is seen must exceed as well), and the fewest cases
    that must break altogether, among cases that never vary, for the exact test to speak. Of two stages the test sees
    every run, but the further ones of a few cases only; the drop that must exceed the floor is the first stage's. The
    repeats are those that the sides really have, the fewest where cases differ: stored results may have others.
    """
    paired = [sample for sample in outcomes if sample.paired]
    if not paired:
        return None
    stages = _stages(paired)
    (head, base), more = stages[0], min(stages[1]) if len(stages) > 1 else 0
    told = Power(drop=None, repeats=head, base_repeats=None if base == head else base, more=more)
    if fact:
        return dataclasses.replace(told, drop=_beyond_floor(1, len(paired), floor))
    first = [_first(sample) for sample in paired]
    further = [stage for sample in paired if (stage := _further(sample)) is not None]
    variances = [stage.variance for stage in first]
    noise = _Noise(
        test=_error([*first, *further]),
        spread=math.sqrt(math.fsum(2 * stage.variance / stage.runs for stage in first)) / len(paired),
    )
    would = [(k, _smallest(variances, k, alpha=alpha, floor=floor)) for k in REPEATS if k > min(head, base) + more]
    return dataclasses.replace(
        told,
        drop=_bound(noise, len(paired), stages, alpha=alpha, floor=floor),
        would=tuple((k, drop) for k, drop in would if drop is not None),
    )


def _stages(samples: Sequence[Sample]) -> tuple[tuple[int, int], ...]:
    """Head's and base's runs in each stage; of the second, those of the cases that were run again on both sides."""
    first = min(sample.head_first for sample in samples), min(sample.base_first for sample in samples)
    further = [(len(sample.head) - sample.head_first, len(sample.base) - sample.base_first) for sample in samples]
    again = [(head, base) for head, base in further if head and base]
    return (first, (min(head for head, _ in again), min(base for _, base in again))) if again else (first,)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """One stage of a case: the variance of one run, and how many runs a side it is worth."""

    variance: float
    runs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Noise:
    """Standard errors of a drop: as the test sees it, and as it is reported."""

    test: float
    spread: float


def _first(sample: Sample) -> _Stage:
    stage = _stage(sample.head[: sample.head_first], sample.base[: sample.base_first])
    # where all of it is missing on one side, the whole case has to do
    return stage or _Stage(variance=variance(sample), runs=_worth(_known(sample.head), _known(sample.base)))


def _further(sample: Sample) -> _Stage | None:
    return _stage(sample.head[sample.head_first :], sample.base[sample.base_first :])


def _stage(head: Sequence[float | None], base: Sequence[float | None]) -> _Stage | None:
    if not _known(head) or not _known(base):
        return None
    return _Stage(variance=_variance([*head, *base]), runs=_worth(_known(head), _known(base)))


def _worth(head: int, base: int) -> float:
    """The harmonic mean: as many runs on both sides tell as much."""
    return 2 * head * base / (head + base)


def _error(stages: Sequence[_Stage]) -> float:
    """The standard error of a drop that every run shows alike."""
    noise = math.fsum(2 * stage.variance * stage.runs for stage in stages)
    return math.sqrt(noise) / math.fsum(stage.runs for stage in stages)


def variance(sample: Sample) -> float:
    """The variance of one run of a case, from both sides together: unbiased where they are alike."""
    return _variance([*sample.head, *sample.base])


def _variance(outcomes: Sequence[float | None]) -> float:
    values = [value for value in outcomes if value is not None]
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _smallest(variances: Sequence[float], runs: int, *, alpha: float, floor: float) -> float | None:
    """As `detectable`, for so many runs of every case."""
    error = math.sqrt(2 * math.fsum(variances) / runs) / len(variances)
    return _bound(_Noise(test=error, spread=error), len(variances), ((runs, runs),), alpha=alpha, floor=floor)


def _bound(noise: _Noise, cases: int, stages: Sequence[tuple[int, int]], *, alpha: float, floor: float) -> float | None:
    """None where not even breaking every case would be seen."""
    discrete = _beyond_floor(fewest_broken(stages, alpha=alpha), cases, floor)
    if discrete is None:
        return None
    normal = NormalDist()
    sure = normal.inv_cdf(POWER)
    drop = max(discrete, (normal.inv_cdf(1 - alpha) + sure) * noise.test, floor + sure * noise.spread)
    return drop if drop <= 1 else None


def _beyond_floor(broken: int, cases: int, floor: float) -> float | None:
    """The smallest share of whole cases that is at least `broken` of them and more than the floor."""
    enough = max(broken, math.floor(floor * cases + 1e-9) + 1)
    return enough / cases if enough <= cases else None


def fewest_broken(stages: Sequence[tuple[int, int]], *, alpha: float) -> int:
    """How many cases must fall from always passing to always failing for p < alpha, if no other varies. `stages`: a
    case's runs on head and on base.

    Each of them divides p by the ways to deal its runs to the two sides, in each stage.
    """
    ways = math.prod(math.comb(head + base, head) for head, base in stages)
    broken, p = 0, 1.0
    while p >= alpha:
        p /= ways
        broken += 1
    return broken


def _known(values: Sequence[float | None]) -> int:
    return sum(value is not None for value in values)
