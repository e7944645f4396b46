"""How often one side passes (the rate of its runs, pass^k, pass@k), and which drop would have been found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from evalgate.comparison import pairing, tests
from evalgate.comparison.pairing import Sample
from evalgate.model import MOST_REPEATS, Interval, PassRates

POWER = 0.8


def detectable(outcomes: Sequence[Sample], *, alpha: float) -> float | None:
    """The smallest drop of the mean that the test sees with a probability of 80%, where scores lie between 0 and 1;
    None where there is none.

    The larger of two bounds: the normal approximation from the observed variances within cases, and the fewest cases
    that must break altogether, among cases that never vary, for the exact test to speak. Of two stages the test sees
    every run, but the further ones of a few cases only. The repeats are those that the sides really have, the fewest
    where cases differ: stored results may have others.
    """
    paired = [sample for sample in outcomes if sample.paired]
    if not paired:
        return None
    second = [sample.stages[1] for sample in paired]
    # where all of the first stage is missing on one side, the whole case has to do
    firsts = [_stage(*sample.stages[0]) or _stage(sample.head, sample.base) for sample in paired]
    stages = [*firsts, *(_stage(*runs) for runs in second)]
    known = [stage for stage in stages if stage is not None]
    error = math.sqrt(math.fsum(2 * stage.variance * stage.runs for stage in known)) / math.fsum(
        stage.runs for stage in known
    )
    normal = NormalDist()
    fewest = fewest_broken(stages_of(paired), alpha=alpha) / len(paired)
    drop = max(fewest, (normal.inv_cdf(1 - alpha) + normal.inv_cdf(POWER)) * error)
    return drop if drop <= 1 else None


def stages_of(paired: Sequence[Sample]) -> list[tuple[int, int]]:
    """The fewest runs of head and of base in each stage; of the second, among the cases run again on both sides."""
    stages = [(min(sample.head_first for sample in paired), min(sample.base_first for sample in paired))]
    again = [(len(head), len(base)) for head, base in (sample.stages[1] for sample in paired) if head and base]
    if again:
        stages.append((min(head for head, _ in again), min(base for _, base in again)))
    return stages


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """One stage of a case: the variance of one run, and how many runs a side it is worth."""

    variance: float
    runs: float


def _stage(head: Sequence[float | None], base: Sequence[float | None]) -> _Stage | None:
    """None where a side has no run. The variance is that of both sides together: unbiased where they are alike. The
    runs are the harmonic mean: as many runs on both sides tell as much."""
    heads, bases = pairing.known(head), pairing.known(base)
    if not heads or not bases:
        return None
    values = (*heads, *bases)
    mean = math.fsum(values) / len(values)
    return _Stage(
        variance=math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1),
        runs=2 * len(heads) * len(bases) / len(values),
    )


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


def wilson(successes: float, total: float, *, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a share: sound for small counts, and never of width 0.

    Counts need not be whole: `effective` counts are not. Without any observation the share may be anything.
    Source: Wilson 1927; Brown, Cai and DasGupta 2001.
    """
    if total <= 0:
        return Interval(low=0.0, high=1.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)  # 1.96 for 0.95
    share = min(max(successes / total, 0.0), 1.0)
    centre = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    low = 0.0 if share == 0 else max(0.0, (centre - spread) / scale)
    high = 1.0 if share == 1 else min(1.0, (centre + spread) / scale)
    return Interval(low=low, high=high)


def design_effect(clusters: Iterable[tuple[int, int]]) -> float:
    """How many times more observations are needed because they come in clusters; at least 1. `clusters`: hits, total.

    The variance of the share by clusters (with C / (C - 1)) over that of independent observations, at most what
    clusters whose members are all alike would give. A share of 0 or 1 says nothing about it: 1.
    Source: Kish 1965; the use with Wilson's interval: Korn and Graubard 1998.
    """
    groups = [(hits, total) for hits, total in clusters if total]
    hits, total = sum(each[0] for each in groups), sum(each[1] for each in groups)
    if len(groups) < 2 or len(groups) == total or not 0 < hits < total:
        return 1.0
    share = hits / total
    residuals = math.fsum((own - count * share) ** 2 for own, count in groups)
    clustered = len(groups) / (len(groups) - 1) * residuals / total**2
    worst = math.fsum(count * count for _, count in groups) / total
    return min(max(clustered / (share * (1 - share) / total), 1.0), worst)


def rates(outcomes: Sequence[Sequence[float | None]], *, most: int = MOST_REPEATS) -> PassRates | None:
    """From the outcomes (1 passed, 0 failed, None unknown) of every case; cases without a known one are left out.

    k is the fewest known runs of a case, and no more than `most`. pass^k: all of k runs pass, the mean over cases of
    C(passes, k) / C(runs, k); pass@k: at least one of k does. Source: Yao et al. 2024 (arXiv 2406.12045); Chen et al.
    2021 (arXiv 2107.03374). The intervals are those of other cases of this kind: the runs of a case are no cases of
    their own.
    """
    counts = [(sum(value == 1 for value in known), len(known)) for known in map(pairing.known, outcomes) if known]
    if not counts:
        return None
    k = min(most, *(runs for _, runs in counts))
    passes, total = sum(hits for hits, _ in counts), sum(runs for _, runs in counts)
    all_of_k = [math.comb(hits, k) / math.comb(runs, k) for hits, runs in counts]
    return PassRates(
        k=k,
        rate=passes / total,
        interval=_of_cases(passes / total, total / design_effect(counts), cases=len(counts)),
        all_of_k=math.fsum(all_of_k) / len(counts),
        all_of_k_interval=interval_of_means(all_of_k),
        any_of_k=math.fsum(1 - math.comb(runs - hits, k) / math.comb(runs, k) for hits, runs in counts) / len(counts),
    )


def interval_of_means(values: Sequence[float]) -> Interval:
    """The interval of the mean of values from 0 to 1, one a case: that of a share of as many observations as would have
    its variance."""
    cases, mean = len(values), math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    enough = squares > 0 and cases > 1
    return _of_cases(mean, mean * (1 - mean) * cases * (cases - 1) / squares if enough else cases, cases=cases)


def _of_cases(share: float, effective: float, *, cases: int) -> Interval:
    """Wilson's interval, with fewer observations still where the variance between few cases is not well known.

    Source: Korn and Graubard 1998.
    """
    if cases > 1:
        effective *= (NormalDist().inv_cdf(0.975) / tests.student(0.975, freedom=cases - 1)) ** 2
    return wilson(share * effective, effective)
