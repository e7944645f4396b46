"""Intervals of a share: Wilson's, for the equivalent number of independent observations."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist


def wilson(successes: float, total: float) -> tuple[float, float]:
    """Both ends of Wilson's score interval of a share, at 95 % confidence. It is sound for small
    counts, and never has width 0.

    Counts may be fractions, because effective counts are. Without observations the share may be
    anything. Source: Wilson 1927; Brown, Cai and DasGupta 2001."""
    if total <= 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.975)  # 1.96
    share = min(max(successes / total, 0.0), 1.0)
    center = share + z * z / (2 * total)
    half_width = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    low = 0.0 if share == 0 else max(0.0, (center - half_width) / scale)
    high = 1.0 if share == 1 else min(1.0, (center + half_width) / scale)
    return low, high


def design_effect(clusters: Iterable[tuple[int, int]]) -> float:
    """The factor by which clusters raise the number of observations that are needed; at least 1.

    `clusters`: hits and total of each. It is the variance of the share by clusters (with C / (C -
    1)) over that of independent observations, at most its value for clusters with equal members. A
    share of 0 or 1 gives 1. Source: Kish 1965; the use with Wilson's interval: Korn and Graubard
    1998."""
    groups = [(total_hits, total) for total_hits, total in clusters if total]
    total_hits = sum(group[0] for group in groups)
    total = sum(group[1] for group in groups)
    if len(groups) < 2 or len(groups) == total or not 0 < total_hits < total:
        return 1.0
    share = total_hits / total
    residuals = math.fsum((group_hits - count * share) ** 2 for group_hits, count in groups)
    clustered_variance = len(groups) / (len(groups) - 1) * residuals / total**2
    max_effect = math.fsum(count * count for _, count in groups) / total
    return min(max(clustered_variance / (share * (1 - share) / total), 1.0), max_effect)
