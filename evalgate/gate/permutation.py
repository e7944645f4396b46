"""Is head worse than base? Exact tests that permute the two labels within each case.

Under the null hypothesis a case's repeats on both sides are one bag of outcomes, and which of them are called head's is
chance. The number of head's passes is then hypergeometric within a case, and the cases are independent.
Source: Fisher's exact test, stratified (Birch 1965; Mantel and Haenszel 1959); the same null distribution as a
stratified permutation test, without sampling.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """One case (or one case in one stage): passes and runs of head and base."""

    head_passes: int
    head_runs: int
    base_passes: int
    base_runs: int

    @property
    def informative(self) -> bool:
        """Whether the labels matter: both sides ran, and the outcomes are not all the same."""
        passes = self.head_passes + self.base_passes
        return self.head_runs > 0 and self.base_runs > 0 and 0 < passes < self.head_runs + self.base_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Tails:
    """One-sided p-values: of a drop (head passes as few or fewer) and of a rise (as many or more)."""

    drop: float
    rise: float


def exact(strata: Iterable[Stratum]) -> Tails:
    """The exact one-sided p-values. Without an informative stratum both are 1: nothing can be said."""
    informative = [stratum for stratum in strata if stratum.informative]
    observed = sum(stratum.head_passes for stratum in informative)
    shapes = Counter(
        (stratum.head_runs, stratum.base_runs, stratum.head_passes + stratum.base_passes) for stratum in informative
    )
    lowest, weights = _null(shapes)
    below = observed - lowest
    return Tails(
        drop=min(1.0, math.fsum(weights[: below + 1])),
        rise=min(1.0, math.fsum(weights[max(below, 0) :])),
    )


def _null(shapes: Mapping[tuple[int, int, int], int]) -> tuple[int, Sequence[float]]:
    """The distribution of head's passes: its lowest value, and the probability of each value from there on."""
    parts = [_power(_hypergeometric(*shape), count) for shape, count in shapes.items()]
    lowest = sum(low for low, _ in parts)
    weights = sorted((weights for _, weights in parts), key=len)
    return lowest, reduce(_convolve, weights, [1.0])


def _hypergeometric(head: int, base: int, passes: int) -> tuple[int, Sequence[float]]:
    """Of `passes` among head + base outcomes, how many fall to head: lowest value and probabilities."""
    lowest, highest = max(0, passes - base), min(head, passes)
    total = math.comb(head + base, passes)
    return lowest, [math.comb(head, k) * math.comb(base, passes - k) / total for k in range(lowest, highest + 1)]


def _power(distribution: tuple[int, Sequence[float]], count: int) -> tuple[int, Sequence[float]]:
    """The sum of `count` independent copies, by repeated squaring."""
    lowest, weights = distribution
    result: Sequence[float] = [1.0]
    square, left = weights, count
    while left:
        if left & 1:
            result = _convolve(result, square)
        left >>= 1
        if left:
            square = _convolve(square, square)
    return lowest * count, result


def _convolve(first: Sequence[float], second: Sequence[float]) -> Sequence[float]:
    if len(first) * len(second) < 4096:
        result = [0.0] * (len(first) + len(second) - 1)
        for i, a in enumerate(first):
            for j, b in enumerate(second):
                result[i + j] += a * b
        return result
    import numpy as np  # noqa: PLC0415 - 0.1 s of import that small comparisons do not need

    product: list[float] = np.convolve(np.asarray(first), np.asarray(second)).tolist()
    return product


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredCase:
    """Graded scores of one case's repeats on each side."""

    head: tuple[float, ...]
    base: tuple[float, ...]


def monte_carlo(cases: Sequence[ScoredCase], *, draws: int, seed: int) -> Tails:
    """One-sided p-values of the difference of means for graded scores: (1 + hits) / (1 + draws).

    The statistic is the mean over cases of (head's mean - base's mean); labels are permuted within each case. Never
    0, so never anti-conservative (Phipson and Smyth 2010).
    """
    usable = [case for case in cases if case.head and case.base and len({*case.head, *case.base}) > 1]
    if not usable:
        return Tails(drop=1.0, rise=1.0)
    random = Random(seed)  # noqa: S311 - a permutation test, no secret
    observed = math.fsum(_difference(case.head, case.base) for case in usable)
    tolerance = 1e-12 * max(1.0, abs(observed))
    drops = rises = 1
    pools = [([*case.head, *case.base], len(case.head)) for case in usable]
    for _ in range(draws):
        permuted = 0.0
        for pool, head_runs in pools:
            random.shuffle(pool)
            permuted += _difference(pool[:head_runs], pool[head_runs:])
        drops += permuted <= observed + tolerance
        rises += permuted >= observed - tolerance
    return Tails(drop=drops / (draws + 1), rise=rises / (draws + 1))


def _difference(head: Sequence[float], base: Sequence[float]) -> float:
    return sum(head) / len(head) - sum(base) / len(base)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjusted p-values of several tests of one verdict (Holm 1979): compare each with alpha."""
    ordered = sorted(p_values.items(), key=lambda pair: pair[1])
    adjusted: dict[str, float] = {}
    highest = 0.0
    for position, (name, p) in enumerate(ordered):
        highest = max(highest, min(1.0, p * (len(ordered) - position)))
        adjusted[name] = highest
    return {name: adjusted[name] for name in p_values}
