"""Criteria as a forest plot: where the marks of report.html's picture stand, and the same in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from evalgate.model import OPEN, Comparison, CriterionComparison, Interval, Scale, Suite
from evalgate.reports import cases
from evalgate.text import plain, words

MOST, NAME = 50, 100
MARGIN: Final = 2.0
"""Of the width, on either side, in percent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A value and the ends of its interval, from the left; "" where there is no interval."""

    at: str
    low: str = ""
    high: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plotted:
    """One criterion. `levels`, `change`: what is drawn, in words. `kind`: the verdict whose color it has; "" where it
    does not decide."""

    name: str
    base: Mark
    head: Mark
    delta: Mark
    floor: str
    kind: str
    levels: str
    change: str
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """`low`, `high`: what both sides' means are drawn between; `reach`: the change, from its middle to either end."""

    rows: tuple[Plotted, ...]
    low: str
    high: str
    reach: str


def of(comparison: Comparison, suites: Iterable[Suite]) -> Forest:
    """The criteria on a scale of 0 to 1: those that decide, worst first, then the others, then all trials that pass.

    Seconds that are few are on no such scale; a custom metric, which says nothing of its scale, is by its values.
    """
    scales = {use.name: use.scale for suite in suites for use in suite.criteria}
    deciding, informational, aside = cases.rows(comparison)
    every = [*deciding, *informational, *aside, *([comparison.overall] if comparison.overall is not None else [])]
    rows = [row for row in every if _fits(row, scales.get(row.name, Scale()))][:MOST]
    reach = max((abs(end) for row in rows for end in (*_ends(row), row.rule.floor)), default=0.0) or 1.0
    levels = [level for row in rows for level in _levels(row)] or [0.0, 1.0]
    low, high = math.floor(min(levels) * 10) / 10, math.ceil(max(levels) * 10) / 10
    low, high = (low, high) if low < high else (max(low - 0.1, 0.0), min(high + 0.1, 1.0))
    return Forest(
        rows=tuple(_plotted(row, low=low, high=high, reach=reach) for row in rows),
        low=words.score(low),
        high=words.score(high),
        reach=words.score(reach),
    )


def _levels(row: CriterionComparison) -> Iterator[float]:
    assert row.difference is not None
    yield from (row.difference.base, row.difference.head)
    for interval in (row.difference.base_interval, row.difference.head_interval):
        yield from () if interval is None else (interval.low, interval.high)


def _fits(row: CriterionComparison, scale: Scale) -> bool:
    sides = (row.base, row.head)
    is_share = scale.highest == 1 or scale == OPEN
    return is_share and all(value is not None and 0 <= value <= 1 for value in sides) and max(map(abs, _ends(row))) <= 1


def _ends(row: CriterionComparison) -> tuple[float, ...]:
    interval = row.interval
    return (row.delta or 0.0, *(() if interval is None else (interval.low, interval.high)))


def _plotted(row: CriterionComparison, *, low: float, high: float, reach: float) -> Plotted:
    difference = row.difference
    assert difference is not None
    base, head, delta = words.compared(row.base, row.head)
    name = plain.label(row.name, NAME)
    sides = (("base", base, difference.base_interval), ("head", head, difference.head_interval))
    levels = ", ".join(f"{side} {shown}{_between(interval)}" for side, shown, interval in sides)
    interval = {"-": "", "exact": ", exact"}.get(cases.between(row), f", 95% interval {cases.between(row)}")
    better = -1.0 if row.rule.lower_is_better else 1.0
    return Plotted(
        name=name,
        base=_mark(difference.base, difference.base_interval, start=low, reach=high - low),
        head=_mark(difference.head, difference.head_interval, start=low, reach=high - low),
        delta=_mark(row.delta or 0.0, row.interval, start=-better * reach, reach=2 * better * reach),
        floor=_across(-row.rule.floor, start=-reach, reach=2 * reach),
        kind=cases.KINDS[row.change].value if row.rule.gating else "",
        levels=f"{name}: {levels}",
        change=f"{name}: change {delta}{interval}, tolerated drop {words.amount(row.rule.floor)}",
        told=delta,
    )


def _between(interval: Interval | None) -> str:
    return "" if interval is None else f" ({words.score(interval.low)} to {words.score(interval.high)})"


def _mark(value: float, interval: Interval | None, *, start: float, reach: float) -> Mark:
    at = _across(value, start=start, reach=reach)
    if interval is None:
        return Mark(at=at)
    low, high = (_across(end, start=start, reach=reach) for end in (interval.low, interval.high))
    return Mark(at=at, low=low, high=high)


def _across(value: float, *, start: float, reach: float) -> str:
    return f"{MARGIN + (value - start) / reach * (100 - 2 * MARGIN):.1f}%"
