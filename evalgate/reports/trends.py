"""The means of criteria in the last runs of the base branch: figures, and a line of characters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from evalgate.model import Trend
from evalgate.reports.phrases import phrase
from evalgate.text import words

STEPS: Final = "".join(chr(0x2581 + step) for step in range(8))
"""Blocks from an eighth to a whole."""
LOWEST: Final = math.nextafter(-math.inf, 0)
GAP: Final = "\N{MIDDLE DOT}"
LEAST_REACH: Final = 0.1
"""A line is drawn from its lowest to its highest value, and over at least this share of the larger
of 1 and its highest, so that noise does not look like a fall."""


def height(trend: Trend, mean: float) -> float:
    """The height of a value, from 0 (lowest of base runs and this run) to 1 (highest, or all are
    equal)."""
    means = [mean for mean in (*trend.means, trend.current) if mean is not None]
    lowest = min(means)
    highest = max(means)
    missing_reach = LEAST_REACH * max(1.0, abs(highest)) - (highest - lowest)
    if missing_reach > 0:  # means that never fell stay at the top
        lowest = max(lowest - missing_reach, LOWEST)
    reach = (
        highest / 2 - lowest / 2
    )  # halves, for the difference of two large numbers may be infinite
    return (mean / 2 - lowest / 2) / reach if reach else 1.0


def line(trend: Trend) -> str:
    """A block per base run, oldest first; a dot if a run has no score."""
    top = len(STEPS) - 1
    return "".join(
        GAP if mean is None else STEPS[min(int(height(trend, mean) * len(STEPS)), top)]
        for mean in trend.means
    )


def figures(trend: Trend) -> tuple[str, str, str, str]:
    """The lowest, the highest and the last mean of the base runs, and this run's."""
    means = [mean for mean in trend.means if mean is not None]
    formatter = words.score if max(map(abs, (*means, trend.current or 0.0))) <= 1 else words.amount
    lowest_text, highest_text, last_text = (
        formatter(mean) for mean in (min(means), max(means), means[-1])
    )
    return lowest_text, highest_text, last_text, formatter(trend.current)


def title(trends: Sequence[Trend]) -> str:
    """`Criteria in the last 12 runs of the base branch, 2026-01-02 to 2026-01-20`."""
    first_trend = trends[0]
    days = " to ".join(
        dict.fromkeys(moment[:10] for moment in (first_trend.since, first_trend.until) if moment)
    )
    return phrase("trend", len(first_trend.means), days)
