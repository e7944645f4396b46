"""Scores corrected for the judge's errors, in words: a cell beside the raw mean, and what it means below."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate.exhibits.totals import CriterionTotals
from evalgate.model import Corrected

TITLE = "Corrected"
LEGEND = (
    "Corrected: the mean that people would give, by their labels of the judge (Rogan and Gladen, 95 % interval); the "
    "gate goes by the raw mean."
)


def any_of(rows: Sequence[CriterionTotals]) -> bool:
    """Whether there is anything to show beside the raw means."""
    return any(row.corrected is not None for row in rows)


def cell(corrected: Corrected | None) -> str:
    """`0.86 (0.71 to 0.95)`; `refused` where labels do not bear it out; empty where there are none."""
    if corrected is None:
        return ""
    if corrected.value is None or corrected.interval is None:
        return "refused"
    return f"{corrected.value:.2f} ({corrected.interval.low:.2f} to {corrected.interval.high:.2f})"


def remarks(rows: Sequence[CriterionTotals]) -> list[tuple[str, str]]:
    """Criterion and reason of each score that could not be corrected, once each."""
    found = [(row.name, row.corrected.refused) for row in rows if row.corrected is not None and row.corrected.refused]
    return list(dict.fromkeys(found))
