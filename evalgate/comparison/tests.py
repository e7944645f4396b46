"""Is head worse than base? Tests that permute the two labels within each case, exact or by Monte Carlo.

Under the null hypothesis a case's repeats on both sides are one bag of outcomes, and which of them are called head's is
chance. The number of head's passes is then hypergeometric within a case, and the cases are independent: the null
distribution of a sum over cases is a convolution, that of a stratified permutation test without sampling.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Any, TypeAlias

from evalgate.model import Interval

DUST = 1e-9
"""Differences of means that are no difference: 1 - 0.95 is not more than 0.05."""

SURE = NormalDist().inv_cdf(0.8)
"""How many standard errors below what was measured a drop may be, 4 times in 5."""

FEW = 64
"""Up to so many different values, a resample is drawn as counts of values instead of case by case."""

CHUNK = 4_000_000
"""Numbers held at once while sampling: 32 MB."""


def interval(differences: Sequence[float], *, draws: int, seed: int, confidence: float = 0.95) -> Interval | None:
    """The interval of the mean of the cases' differences; None for fewer than two cases.

    Percentiles of resampled means, taken further out the fewer the cases: as far as Student's t lies beyond the normal,
    without which 10 cases give intervals that are too short. Neither the order of cases nor the sign changes the draws.
    Source: Efron 1979; the expanded percentile interval: Hesterberg 2015.
    """
    if len(differences) < 2:
        return None
    forth, back = sorted(differences), sorted(-value for value in differences)
    if forth[0] == forth[-1]:
        return Interval(low=forth[0], high=forth[0])
    import numpy as np  # noqa: PLC0415 - 0.1 s of import that a run without a base does not need

    means = _bootstrap_means(min(forth, back), draws=draws, seed=seed)
    cases = len(differences)
    reach = math.sqrt(cases / (cases - 1)) * student((1 + confidence) / 2, freedom=cases - 1)
    tail = NormalDist().cdf(-reach)
    low, high = (float(end) for end in np.quantile(means, [tail, 1 - tail]))
    if forth == back:  # each side is the other's mirror image: so are the ends
        low, high = min(low, -high), max(high, -low)
    return Interval(low=low, high=high) if forth <= back else Interval(low=-high, high=-low)


def _bootstrap_means(values: Sequence[float], *, draws: int, seed: int) -> Any:
    """Means of `draws` resamples with replacement, an array."""
    import numpy as np  # noqa: PLC0415 - as above

    random = np.random.default_rng(seed)
    cases = len(values)
    counts = Counter(values)
    if len(counts) <= FEW:
        shares = np.asarray(list(counts.values())) / cases
        return random.multinomial(cases, shares, size=draws) @ np.asarray(list(counts)) / cases
    array = np.asarray(values)
    means = np.empty(draws)
    step = max(1, CHUNK // cases)
    for start in range(0, draws, step):
        size = min(step, draws - start)
        means[start : start + size] = array[random.integers(0, cases, size=(size, cases))].mean(axis=1)
    return means


@lru_cache(maxsize=64)
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


if TYPE_CHECKING:
    from numpy.random import Generator

Floats: TypeAlias = Any
"""A numpy array of floats; numpy is imported only where it is needed."""

TABLE = 1000
"""Up to so many ways to choose head's runs in a stratum, all of them are tabulated; beyond, runs are shuffled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """One case (or one case in one stage): passes and runs of head and base."""

    head_passes: int
    head_runs: int
    base_passes: int
    base_runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tails:
    """One-sided p-values: of a drop (head passes as few or fewer) and of a rise (as many or more)."""

    drop: float
    rise: float


def exact(strata: Iterable[Stratum]) -> Tails:
    """The exact one-sided p-values. Without an informative stratum both are 1: nothing can be said."""
    forth = list(strata)
    return Tails(drop=Null(forth).p_value, rise=Null([mirrored(each) for each in forth]).p_value)


def attainable(strata: Iterable[Stratum], limit: float, *, rise: bool) -> float:
    """The largest p-value below `limit` that the exact test of a drop, or of a `rise`, could give at all: how often it
    rejects where nothing changed. It depends on the pooled totals only."""
    below = [p for p in Null([mirrored(each) if rise else each for each in strata]).tails if p < limit]
    return max(below, default=0.0)


def mirrored(stratum: Stratum) -> Stratum:
    """Head and base in each other's place: a rise is a drop of the other side."""
    return Stratum(
        head_passes=stratum.base_passes,
        head_runs=stratum.base_runs,
        base_passes=stratum.head_passes,
        base_runs=stratum.head_runs,
    )


FINEST, LONGEST = 64, 32_768
"""How finely a case's statistic is rounded: to 1/64, and coarser where their sum would take more than so many values.
"""
NEGLIGIBLE = 1e-30
"""Probabilities at the near end of the null distribution that are not carried on."""


class Null:
    """The statistic of a drop, and its distribution where the labels are chance.

    A case's part is -log of the mid-p of its passes on head, so that one case that broke altogether says more than
    several that lost a run each (Fisher 1932; mid-p: Lancaster 1961). It is rounded to whole numbers, which makes the
    sum's distribution a convolution; being that of the rounded statistic, it is exact. `tails`: the p-value of each
    value of the statistic, from its lowest.
    """

    def __init__(self, strata: Iterable[Stratum]) -> None:
        # the labels matter where both sides ran and the outcomes are not all the same
        usable = [
            each
            for each in strata
            if each.head_runs and each.base_runs and 0 < each.head_passes + each.base_passes < _runs(each)
        ]
        shapes = Counter((each.head_runs, each.base_runs, each.head_passes + each.base_passes) for each in usable)
        reach = math.fsum(count * part_of(*shape)[1][0] for shape, count in shapes.items())
        self.unit = 1 / min(FINEST, LONGEST / max(reach, 1.0))
        self.observed = sum(self._part(each) for each in usable)
        self.tails = _tails(tuple(sorted(shapes.items())), self.unit)

    def _part(self, each: Stratum) -> int:
        lowest, parts = self.parts(each.head_runs, each.base_runs, each.head_passes + each.base_passes)
        return parts[each.head_passes - lowest]

    def parts(self, head: int, base: int, passes: int) -> tuple[int, Sequence[int]]:
        """The fewest of `passes` that head can have, and from there on what the case's part of the statistic is."""
        lowest, parts = part_of(head, base, passes)
        return lowest, [round(part / self.unit) for part in parts]

    @property
    def p_value(self) -> float:
        """The probability of a statistic as large as the one that was observed."""
        return self.tails[self.observed] if self.observed < len(self.tails) else 0.0


@lru_cache(maxsize=64)
def _tails(shapes: tuple[tuple[tuple[int, int, int], int], ...], unit: float) -> Sequence[float]:
    """The p-value of each value of the statistic; `shapes`: how many cases there are of each."""
    import numpy as np  # noqa: PLC0415 - 0.1 s of import that a run without a base does not need

    weights, lowest = np.ones(1), 0
    for shape, count in shapes:
        values = [round(part / unit) for part in part_of(*shape)[1]]
        chances = hypergeometric(*shape)[1]
        for _ in range(count):
            longer = np.zeros(len(weights) + max(values) - min(values))
            for value, chance in zip(values, chances, strict=True):
                at = value - min(values)
                longer[at : at + len(weights)] += chance * weights
            cut = int(np.searchsorted(np.cumsum(longer), NEGLIGIBLE)) if len(longer) > 1024 else 0
            weights, lowest = longer[cut:], lowest + min(values) + cut
    tails = np.minimum(np.cumsum(weights[::-1])[::-1], 1.0)
    return (*itertools.repeat(1.0, lowest), *tails.tolist())


def _runs(stratum: Stratum) -> int:
    return stratum.head_runs + stratum.base_runs


def is_worse(stratum: Stratum, *, alpha: float) -> bool:
    """Whether the exact test says of one case that head is worse."""
    # 1 of 20 ways is a p of 0.05 exactly, and counts
    return exact([stratum]).drop <= alpha + 1e-12


@lru_cache(maxsize=4096)
def part_of(head: int, base: int, passes: int) -> tuple[int, Sequence[float]]:
    """-log of the mid-p of each number of passes that head can have of `passes` of both sides: the fewest, and from
    there on."""
    lowest, chances = hypergeometric(head, base, passes)
    below = itertools.accumulate(chances, initial=0.0)
    return lowest, tuple(-math.log(less + chance / 2) for less, chance in zip(below, chances, strict=False))


@lru_cache(maxsize=4096)
def hypergeometric(head: int, base: int, passes: int) -> tuple[int, Sequence[float]]:
    """Of `passes` among head + base outcomes, how many fall to head: lowest value and probabilities."""
    lowest, highest = max(0, passes - base), min(head, passes)
    total = math.comb(head + base, passes)
    return lowest, tuple(math.comb(head, k) * math.comb(base, passes - k) / total for k in range(lowest, highest + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredStratum:
    """Graded scores of one case's repeats on each side, or of those of one stage."""

    head: tuple[float, ...]
    base: tuple[float, ...]


def monte_carlo(strata: Iterable[ScoredStratum], *, draws: int, seed: int) -> Tails:
    """One-sided p-values for graded scores: (1 + hits) / (1 + draws), labels permuted within each stratum.

    The statistic is the sum of head's scores, as in `exact`; with equal runs a side in every stratum it orders as the
    difference of means does. Never 0, so never anti-conservative (Phipson and Smyth 2010). Neither the order of strata
    and runs nor which side is called head changes what is drawn.
    """
    # where a side did not run, or all scores are the same, the labels do not matter
    usable = [each for each in strata if each.head and each.base and len({*each.head, *each.base}) > 1]
    if not usable:
        return Tails(drop=1.0, rise=1.0)
    forth = sorted((tuple(sorted(each.head)), tuple(sorted(each.base))) for each in usable)
    back = sorted((base, head) for head, base in forth)
    if forth <= back:
        tails = _sampled(forth, draws=draws, seed=seed)
        # the sides are each other's mirror image: so are their tails
        return Tails(drop=max(tails.drop, tails.rise), rise=max(tails.drop, tails.rise)) if forth == back else tails
    tails = _sampled(back, draws=draws, seed=seed)
    return Tails(drop=tails.rise, rise=tails.drop)


def _sampled(strata: Sequence[tuple[tuple[float, ...], tuple[float, ...]]], *, draws: int, seed: int) -> Tails:
    import numpy as np  # noqa: PLC0415 - as above

    random = np.random.default_rng(seed)
    groups: defaultdict[tuple[int, int], list[tuple[float, ...]]] = defaultdict(list)
    for head, base in strata:
        groups[len(head), len(base)].append((*head, *base))
    totals = np.zeros(draws)
    for (head_runs, base_runs), pools in sorted(groups.items()):
        # sorted, so that which runs were head's does not even change what is drawn
        pool = np.sort(np.asarray(pools), axis=1)
        ways = math.comb(head_runs + base_runs, head_runs)
        totals += (_sums_from_table if ways <= TABLE else _sums_of_shuffles)(pool, head_runs, draws, random)
    observed = math.fsum(value for head, _ in strata for value in head)
    dust = 1e-11 * (1 + math.fsum(abs(value) for pair in strata for side in pair for value in side))
    drops, rises = int((totals <= observed + dust).sum()), int((totals >= observed - dust).sum())
    return Tails(drop=(1 + drops) / (1 + draws), rise=(1 + rises) / (1 + draws))


def _sums_from_table(pool: Floats, head_runs: int, draws: int, random: Generator) -> Floats:
    """Sums of head's scores: every stratum's possible sums are listed once, and drawn from."""
    import numpy as np  # noqa: PLC0415 - as above

    strata, runs = pool.shape
    chosen = np.asarray(list(itertools.combinations(range(runs), head_runs)))
    sums = np.zeros((strata, len(chosen)))
    for place in range(head_runs):
        sums += pool[:, chosen[:, place]]
    totals = np.empty(draws)
    rows, step = np.arange(strata), max(1, CHUNK // strata)
    for start in range(0, draws, step):
        size = min(step, draws - start)
        picks = random.integers(0, len(chosen), size=(size, strata))
        totals[start : start + size] = sums[rows, picks].sum(axis=1)
    return totals


def _sums_of_shuffles(pool: Floats, head_runs: int, draws: int, random: Generator) -> Floats:
    """Sums of head's scores: random keys choose which runs of a stratum are head's."""
    import numpy as np  # noqa: PLC0415 - as above

    strata, runs = pool.shape
    totals = np.empty(draws)
    step = max(1, CHUNK // (strata * runs))
    for start in range(0, draws, step):
        size = min(step, draws - start)
        keys = random.random((size, strata, runs))
        picks = np.argpartition(keys, head_runs - 1, axis=2)[:, :, :head_runs]
        values = np.take_along_axis(np.broadcast_to(pool, keys.shape), picks, axis=2)
        totals[start : start + size] = values.sum(axis=(1, 2))
    return totals
