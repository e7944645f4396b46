"""The differences of criteria as a chart of characters: each with its interval, beside the drop that is let pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evalgate.exhibits import compared
from evalgate.markup import github, plain
from evalgate.model import CriterionComparison, Interval

HALF = 24
NAME = 32
AXIS, LET_PASS = "\N{BOX DRAWINGS LIGHT VERTICAL}", "\N{BOX DRAWINGS LIGHT QUADRUPLE DASH VERTICAL}"
LEFT, RIGHT = "\N{BOX DRAWINGS LIGHT VERTICAL AND RIGHT}", "\N{BOX DRAWINGS LIGHT VERTICAL AND LEFT}"
LINE, POINT = "\N{BOX DRAWINGS LIGHT HORIZONTAL}", "\N{BLACK CIRCLE}"


def render_chart(rows: Sequence[CriterionComparison], *, limit: int) -> str:
    """Criteria on the scale 0 to 1 that decide: worse to the left, better to the right; "" where nothing moved."""
    shown = [row for row in rows if row.gating and row.delta is not None and _fits(row)][:limit]
    reach = max((abs(end) for row in shown for end in _ends(row)), default=0.0)
    if not reach:
        return ""
    reach = max(reach, *(row.floor for row in shown))
    width = max(plain.columns(plain.label(row.name, NAME)) for row in shown)
    half = f"{'worse':<{HALF}}0{'better':>{HALF}}"
    lines = [f"{'':{width}}  {half}", *(_line(row, reach=reach, width=width) for row in shown)]
    legend = f"{POINT} change, {LEFT}{LINE}{RIGHT} its 95 % interval, {LET_PASS} the drop that is let pass"
    return github.fence("\n".join([*lines, "", legend]), language="text")


def _fits(row: CriterionComparison) -> bool:
    return all(abs(end) <= 1 for end in _ends(row))


def _ends(row: CriterionComparison) -> Iterable[float]:
    yield row.delta or 0.0
    if row.interval is not None:
        yield from (row.interval.low, row.interval.high)


def _line(row: CriterionComparison, *, reach: float, width: int) -> str:
    better = -1.0 if row.lower_is_better else 1.0
    cells = [" "] * (2 * HALF + 1)
    if row.interval is not None and not row.fact:
        _draw(cells, row.interval, better=better, reach=reach)
    for at, mark in ((_at(-row.floor, reach), LET_PASS), (HALF, AXIS)):
        cells[at] = mark if cells[at] in (" ", LINE) else cells[at]
    cells[_at(better * (row.delta or 0.0), reach)] = POINT
    name = plain.label(row.name, NAME)
    blanks = " " * (width - plain.columns(name))
    return f"{name}{blanks}  {''.join(cells)}  {compared.moved(row)}"


def _draw(cells: list[str], interval: Interval, *, better: float, reach: float) -> None:
    start, end = sorted(_at(better * value, reach) for value in (interval.low, interval.high))
    cells[start : end + 1] = [LINE] * (end - start + 1)
    cells[start], cells[end] = LEFT, RIGHT


def _at(value: float, reach: float) -> int:
    return HALF + round(value / reach * HALF)
