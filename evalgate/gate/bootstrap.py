"""How sure a mean over cases is: the paired bootstrap, whose unit is the case."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist, fmean
from typing import Any

from evalgate.model import Interval

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
    low, high = _bounds(min(forth, back), draws=draws, seed=seed, confidence=confidence)
    return Interval(low=low, high=high) if forth <= back else Interval(low=-high, high=-low)


def _bounds(values: Sequence[float], *, draws: int, seed: int, confidence: float) -> tuple[float, float]:
    import numpy as np  # noqa: PLC0415 - 0.1 s of import that a run without a base does not need

    means = resampled_means(values, draws=draws, seed=seed)
    cases = len(values)
    outer = (1 - confidence) / 2
    reach = math.sqrt(cases / (cases - 1)) * student(1 - outer, freedom=cases - 1)
    tail = NormalDist().cdf(-reach)
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def resampled_means(values: Sequence[float], *, draws: int, seed: int) -> Any:
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
