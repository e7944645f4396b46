"""Intervals of a share: Wilson's, for as many independent observations as clustered ones are
worth."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist

from evalgate.model import Interval


def wilson(successes: float, total: float) -> Interval:
    """Wilson's score interval of a share, at 95 % confidence: sound for small counts, and never of
    width 0.

    Counts need not be whole: `effective` counts are not. Without any observation the share may be
    anything. Source: Wilson 1927; Brown, Cai and DasGupta 2001."""
    if total <= 0:
        return Interval(low=0.0, high=1.0)
    z = NormalDist().inv_cdf(0.975)  # 1.96
    share = min(max(successes / total, 0.0), 1.0)
    centre = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    low = 0.0 if share == 0 else max(0.0, (centre - spread) / scale)
    high = 1.0 if share == 1 else min(1.0, (centre + spread) / scale)
    return Interval(low=low, high=high)


def design_effect(clusters: Iterable[tuple[int, int]]) -> float:
    """How many times more observations are needed because they come in clusters; at least 1.
    `clusters`: hits, total.

    The variance of the share by clusters (with C / (C - 1)) over that of independent observations,
    at most what clusters whose members are all alike would give. A share of 0 or 1 says nothing
    about it: 1. Source: Kish 1965; the use with Wilson's interval: Korn and Graubard 1998."""
    groups = [(hits, total) for hits, total in clusters if total]
    hits = sum(group[0] for group in groups)
    total = sum(group[1] for group in groups)
    if len(groups) < 2 or len(groups) == total or not 0 < hits < total:
        return 1.0
    share = hits / total
    residuals = math.fsum((group_hits - count * share) ** 2 for group_hits, count in groups)
    clustered = len(groups) / (len(groups) - 1) * residuals / total**2
    worst = math.fsum(count * count for _, count in groups) / total
    return min(max(clustered / (share * (1 - share) / total), 1.0), worst)
