"""Did the unchanged agent of the base branch begin to do otherwise? Its last runs against those before.

Every look is the exact test of a comparison, with later runs in head's place and earlier ones in base's. One look a day
at most, each at a thirty-first of alpha, divided by the windows, the directions and the graded criteria: so a false
alarm in a month has a chance of at most alpha, however many cases and runs there are
(docs/decisions/022-quarantine-and-drift.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from evalgate.comparison import tests
from evalgate.comparison.tests import ScoredStratum, Stratum, Tails
from evalgate.model import CaseKey, Drift

ALPHA: Final = 0.05
"""The chance of a false alarm in a month."""
LOOKS: Final = 31
"""Of a month."""
WINDOWS: Final = (1, 2, 3, 5, 8)
"""Numbers of last runs that are tested against those before."""
DIRECTIONS: Final = 2
SCREEN, SCREENED = 1_999, 0.01
"""Graded scores are permuted so often at first, and by `DRAWS` only where that gives so small a p: it takes rejections
away, and nearly all of the time."""
DRAWS: Final = 49_999


class PastRun(NamedTuple):
    """When a run began; of each of its cases how many runs passed and how many were measured; and the scores that each
    criterion gave their runs."""

    at: str
    outcomes: Mapping[CaseKey, tuple[int, int]]
    scores: Mapping[str, Mapping[CaseKey, Sequence[float]]] = {}


def look(runs: Sequence[PastRun]) -> Drift | None:
    """What the last runs do otherwise than those before, oldest first; None where chance explains it.

    Passes and failures are tested, and each criterion with graded scores. How many of these there are is told by all
    scores together, whichever run each is of, so alpha may be divided by it.
    """
    graded = _graded(runs)
    tests_made = DIRECTIONS * len(WINDOWS) * (1 + len(graded))
    best: tuple[float, int, str] | None = None
    for window in WINDOWS:
        if window >= len(runs):
            continue
        found = [("", tests.exact(_strata(runs, window)))]
        found += [(name, _by_scores(_scored(runs, window, name))) for name in graded]
        for name, tails in found:
            p = min(1.0, min(tails.drop, tails.rise) * tests_made)
            best = (p, window, name) if best is None or p < best[0] else best
    if best is None or best[0] > ALPHA / LOOKS:
        return None
    p, window, name = best
    if name:
        scored = _scored(runs, window, name)
        before = fmean(value for each in scored for value in each.base)
        after = fmean(value for each in scored for value in each.head)
        return Drift(since=runs[-window].at, before=before, after=after, p=p, criterion=name)
    strata = _strata(runs, window)
    before = sum(each.base_passes for each in strata) / sum(each.base_runs for each in strata)
    after = sum(each.head_passes for each in strata) / sum(each.head_runs for each in strata)
    return Drift(since=runs[-window].at, before=before, after=after, p=p)


def _graded(runs: Sequence[PastRun]) -> list[str]:
    """The criteria with more than two different scores; others say no more than passes and failures."""
    values: dict[str, set[float]] = {}
    for run in runs:
        for name, cases in run.scores.items():
            values.setdefault(name, set()).update(value for own in cases.values() for value in own)
    return sorted(name for name, found in values.items() if len(found) > 2)


def _by_scores(strata: Sequence[ScoredStratum]) -> Tails:
    tails = tests.monte_carlo(strata, draws=SCREEN, seed=0)
    return tails if min(tails.drop, tails.rise) > SCREENED else tests.monte_carlo(strata, draws=DRAWS, seed=0)


def _scored(runs: Sequence[PastRun], window: int, name: str) -> list[ScoredStratum]:
    """The scores of each case that has some in both parts."""
    parts = []
    for part in (runs[:-window], runs[-window:]):
        found: dict[CaseKey, list[float]] = {}
        for run in part:
            for case, values in run.scores.get(name, {}).items():
                found.setdefault(case, []).extend(values)
        parts.append(found)
    before, after = parts
    return [
        ScoredStratum(head=tuple(after[case]), base=tuple(before[case]))
        for case in sorted(before.keys() & after.keys())
    ]


def _strata(runs: Sequence[PastRun], window: int) -> list[Stratum]:
    """Each case that was measured in both parts; a new one has nothing to be compared with."""
    parts = []
    for part in (runs[:-window], runs[-window:]):
        found: dict[CaseKey, list[int]] = {}
        for run in part:
            for case, counts in run.outcomes.items():
                own = found.setdefault(case, [0, 0])
                own[0] += counts[0]
                own[1] += counts[1]
        parts.append(found)
    before, after = parts
    return [
        Stratum(
            head_passes=after[case][0], head_runs=after[case][1], base_passes=before[case][0], base_runs=before[case][1]
        )
        for case in sorted(before.keys() & after.keys())
        if before[case][1] and after[case][1]
    ]
