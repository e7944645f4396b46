"""How often one side passes: the rate of its runs, pass^k and pass@k, each with an interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist, fmean

from evalgate.comparison import pairing
from evalgate.model import MOST_REPEATS, Interval, PassRates


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
        effective *= (NormalDist().inv_cdf(0.975) / student(0.975, freedom=cases - 1)) ** 2
    return wilson(share * effective, effective)


def student(probability: float, *, freedom: int) -> float:
    """The quantile of Student's t above its middle, by bisection on the finite sum for whole degrees of freedom.

    Source: Abramowitz and Stegun 26.7.3 and 26.7.4.
    """
    if freedom > 500:
        return NormalDist().inv_cdf(probability)
    low, high = 0.0, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        if _student_within(middle, freedom) < 2 * probability - 1:
            low = middle
        else:
            high = middle
    return fmean((low, high))


def _student_within(t: float, freedom: int) -> float:
    """The probability of lying between -t and t."""
    angle = math.atan(t / math.sqrt(freedom))
    square = math.cos(angle) ** 2
    term = total = 1.0 if freedom % 2 == 0 else math.cos(angle)
    for step in range(2 if freedom % 2 else 1, freedom - 1, 2):
        term *= square * step / (step + 1)
        total += term
    if freedom % 2 == 0:
        return math.sin(angle) * total
    return 2 / math.pi * (angle + (math.sin(angle) * total if freedom > 1 else 0.0))
