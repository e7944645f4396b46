"""Did the unchanged agent of the base branch begin to do otherwise? The purse over pairs of its runs, then and now.

Each of the last runs is paired with one before them, case by case, each run once. One look a day at most asks for 31
times the evidence of one pull request, so that a false alarm in a month has a chance of at most 1 in 20.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from evalgate.comparison.purse import SHARES
from evalgate.model import CaseKey, Drift

NEEDED: Final = 20.0 * 31
"""For the looks of a month."""
WINDOWS: Final = (1, 2, 3, 5, 8)
"""Numbers of last runs that are each compared with as many before them; the purse is split over them."""


class PastRun(NamedTuple):
    """When a run began; of each of its cases how many runs passed and how many were measured; and the scores that each
    criterion gave their runs."""

    at: str
    outcomes: Mapping[CaseKey, tuple[int, int]]
    scores: Mapping[str, Mapping[CaseKey, Sequence[float]]] = {}


def look(runs: Sequence[PastRun]) -> Drift | None:
    """What the last runs do otherwise than those before, oldest first; None where chance explains it."""
    names = ["", *_graded(runs)]
    windows = [window for window in WINDOWS if 2 * window <= len(runs)]
    best: tuple[float, int, str] | None = None
    total = 0.0
    for window in windows:
        for name in names:
            evidence = _evidence(list(_falls(runs, window, name)))
            total += evidence / (len(windows) * len(names))
            best = (evidence, window, name) if best is None or evidence > best[0] else best
    if best is None or total < NEEDED:
        return None
    _, window, name = best
    before, after = zip(*_pairs(runs, window, name), strict=True)
    return Drift(since=runs[-window].at, before=fmean(before), after=fmean(after), evidence=total, criterion=name)


def _evidence(falls: Sequence[float]) -> float:
    """Of both directions, half of the purse each."""
    signs = (1.0, -1.0)
    return fmean(math.prod(1 + share * sign * fall for fall in falls) for share in SHARES for sign in signs)


def _falls(runs: Sequence[PastRun], window: int, name: str) -> Iterator[float]:
    """Of each case in each pair of runs: the earlier value less the later one, as a share of the values' reach."""
    pairs = list(_pairs(runs, window, name))
    reach = 1.0
    if name:  # what no scale tells, all scores together do, whichever run each is of
        values = [value for run in runs for case in run.scores.get(name, {}).values() for value in case]
        reach = max(values) - min(values)
    for before, after in pairs:
        yield (before - after) / reach


def _pairs(runs: Sequence[PastRun], window: int, name: str) -> Iterator[tuple[float, float]]:
    for now, then in zip(runs[-window:], runs[-2 * window : -window], strict=True):
        ours, theirs = _values(now, name), _values(then, name)
        for case in sorted(ours.keys() & theirs.keys()):
            yield theirs[case], ours[case]


def _values(run: PastRun, name: str) -> dict[CaseKey, float]:
    if name:
        return {case: fmean(values) for case, values in run.scores.get(name, {}).items() if values}
    return {case: passed / count for case, (passed, count) in run.outcomes.items() if count}


def _graded(runs: Sequence[PastRun]) -> list[str]:
    """The criteria with more than two different scores; others say no more than passes and failures."""
    values: dict[str, set[float]] = {}
    for run in runs:
        for name, cases in run.scores.items():
            values.setdefault(name, set()).update(value for own in cases.values() for value in own)
    return sorted(name for name, found in values.items() if len(found) > 2)
