"""How criteria went in the last runs of the base branch: figures, and a line of characters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from evalgate.model import Trend
from evalgate.text import words
from evalgate.text.phrases import phrase

STEPS: Final = "".join(chr(0x2581 + step) for step in range(8))
"""Blocks from an eighth to a whole."""
LOWEST: Final = math.nextafter(-math.inf, 0)
GAP: Final = "\N{MIDDLE DOT}"
LEAST_REACH: Final = 0.1
"""A line is drawn from its lowest to its highest value, and over at least this share of the larger
of 1 and its highest, so that noise does not look like a fall."""


def height(trend: Trend, value: float) -> float:
    """0 at the lower end of what is drawn, of base runs and this run together; 1 at the upper, and
    without a reach."""
    values = [value for value in (*trend.means, trend.current) if value is not None]
    low = min(values)
    high = max(values)
    lacking = LEAST_REACH * max(1.0, abs(high)) - (high - low)
    if lacking > 0:  # what never left its upper end stays there
        low = max(low - lacking, LOWEST)
    reach = high / 2 - low / 2  # halves, for the difference of two large numbers may be infinite
    return (value / 2 - low / 2) / reach if reach else 1.0


def line(trend: Trend) -> str:
    """A block per base run, oldest first; a dot if a run has no score."""
    top = len(STEPS) - 1
    return "".join(
        GAP if value is None else STEPS[min(int(height(trend, value) * len(STEPS)), top)]
        for value in trend.means
    )


def figures(trend: Trend) -> tuple[str, str, str, str]:
    """The lowest, the highest and the last mean of the base runs, and this run's."""
    means = [value for value in trend.means if value is not None]
    formatter = words.score if max(map(abs, (*means, trend.current or 0.0))) <= 1 else words.amount
    low, high, last = (formatter(value) for value in (min(means), max(means), means[-1]))
    return low, high, last, formatter(trend.current)


def title(trends: Sequence[Trend]) -> str:
    """`Criteria in the last 12 runs of the base branch, 2026-01-02 to 2026-01-20`."""
    first = trends[0]
    days = " to ".join(
        dict.fromkeys(moment[:10] for moment in (first.since, first.until) if moment)
    )
    return phrase("trend", len(first.means), days)
