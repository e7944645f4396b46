"""What a comparison found, in sentences that a reviewer understands in ten seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from evalgate.model import CaseComparison, Change, CriterionComparison, Standing
from evalgate.text import words


def regressed(rows: Sequence[CriterionComparison]) -> str:
    """The criterion that fell furthest for its floor in full, the others by name."""
    worst = max(rows, key=lambda row: (row.drop or 0.0) / max(row.floor, 1e-9))
    others = [f"`{row.name}`" for row in rows if row is not worst]
    rest = f" {words.listed(others)} regressed as well." if others else ""
    turned = _turned(worst)
    return f"{moved(worst)}{f': {turned}' if turned else ''}.{rest}"


def moved(row: CriterionComparison) -> str:
    """`` `x` dropped from 0.95 to 0.71 (-0.24, 95 % CI -0.38 to -0.10) ``."""
    delta = row.delta or 0.0
    if delta == 0:
        return f"`{row.name}` stayed at {_value(row.head)}"
    verb = _verb(row, delta)
    base, head, _ = words.compared(row.base, row.head)
    return f"`{row.name}` {verb} from {base} to {head} ({difference(row)})"


def _verb(row: CriterionComparison, delta: float) -> str:
    return "rose" if delta > 0 else "dropped" if not row.lower_is_better else "fell"


def difference(row: CriterionComparison) -> str:
    """`-0.24, 95 % CI -0.38 to -0.10`, or that it is no sample."""
    if row.delta is None:
        return "unknown"
    told = words.compared(row.base, row.head)[2]
    if row.fact:
        return f"{told}, exact"
    if row.interval is None:
        return told
    return f"{told}, 95 % CI {words.between(row.interval.low, row.interval.high, like=told)}"


def _turned(row: CriterionComparison) -> str:
    if not (row.broken or row.fixed):
        return ""
    broke = f"{words.counted(row.broken, 'case')} broke" if row.broken else "no case broke"
    return f"{broke}, {row.fixed} {'was' if row.fixed == 1 else 'were'} fixed" if row.fixed else broke


def not_measured(rows: Sequence[CriterionComparison]) -> str:
    """How much of the worst-measured criterion is missing."""
    if apart := next((row for row in rows if row.apart), None):
        return (
            f"`{apart.name}` measures time and the base was measured at another time: "
            "set `baseline: rerun` to run the base alongside."
        )
    worst = max(rows, key=lambda row: row.unpaired)
    others = f" ({words.counted(len(rows), 'criterion', 'criteria')} in all)" if len(rows) > 1 else ""
    lack = f"{words.counted(worst.unpaired, 'case')} {'lacks' if worst.unpaired == 1 else 'lack'} a score"
    return f"Too few scores to compare `{worst.name}` with the base: {lack}{others}."


def cut_short(truncated: str) -> str:
    """That a budget ended the run before the sides could be compared."""
    return f"The comparison with the base was cut short ({truncated}): no result."


def inconclusive(rows: Sequence[CriterionComparison]) -> str:
    """The criterion that could have fallen furthest."""
    worst = max(rows, key=_possible)
    return f"{moved(worst)}, not statistically significant with {words.counted(worst.cases, 'case')}."


def _possible(row: CriterionComparison) -> float:
    if row.interval is None:
        return row.drop or 0.0
    far = row.interval.high if row.lower_is_better else -row.interval.low
    return far / max(row.floor, 1e-9)


def passed(rows: Sequence[CriterionComparison]) -> str:
    """That nothing fell by more than is tolerated."""
    cases = words.counted(max(row.cases for row in rows), "compared case")
    better = [f"`{row.name}`" for row in rows if row.change is Change.IMPROVED]
    broken = max((row.broken for row in rows), default=0)
    beyond = f" beyond the tolerated drop ({words.counted(broken, 'case')} broke)" if broken else ""
    rose = f"; {words.listed(better)} improved" if better else ""
    return f"No regression in {cases}{beyond}{rose}."


def nothing_paired(cases: Sequence[CaseComparison]) -> str:
    """Why no case could be compared, and what would help."""
    counts = Counter(case.standing for case in cases)
    told = words.listed(f"{counts[each]} {each.value}" for each in Standing if counts[each])
    return f"No case can be compared with the base: {told}.{_way_out(counts)}"


def _way_out(counts: Mapping[Standing, int]) -> str:
    if counts[Standing.CHANGED]:
        return " Use `baseline: auto` to rerun the base on the same cases."
    if counts[Standing.NEW] and counts[Standing.REMOVED]:
        return " Keep the old cases in this pull request and delete them in the next."
    return " Select cases that the base has, too." if counts[Standing.NEW] else ""


def _value(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:,.0f}"
