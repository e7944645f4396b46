"""Did the unchanged agent of the base branch begin to do otherwise? Its last runs against those before.

Every look is the exact test of a comparison, with later runs in head's place and earlier ones in base's. One look a day
at most, each at a thirty-first of alpha, divided by the windows and the directions: so a false alarm in a month has a
chance of at most alpha, however many cases and runs there are (docs/decisions/022-quarantine-and-drift.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from evalgate.comparison import tests
from evalgate.comparison.tests import Stratum
from evalgate.model import CaseKey, Drift

ALPHA: Final = 0.05
"""The chance of a false alarm in a month."""
LOOKS: Final = 31
"""Of a month."""
WINDOWS: Final = (1, 2, 3, 5, 8)
"""Numbers of last runs that are tested against those before."""
DIRECTIONS: Final = 2

PastRun: TypeAlias = tuple[str, Mapping[CaseKey, tuple[int, int]]]
"""When a run began, and of each of its cases how many runs passed and how many were measured."""


def look(runs: Sequence[PastRun]) -> Drift | None:
    """What the last runs do otherwise than those before, oldest first; None where chance explains it."""
    best: tuple[float, int] | None = None
    for window in WINDOWS:
        if window < len(runs):
            tails = tests.exact(_strata(runs, window))
            p = min(1.0, min(tails.drop, tails.rise) * DIRECTIONS * len(WINDOWS))
            best = (p, window) if best is None or p < best[0] else best
    if best is None or best[0] > ALPHA / LOOKS:
        return None
    p, window = best
    strata = _strata(runs, window)
    before = sum(each.base_passes for each in strata) / sum(each.base_runs for each in strata)
    after = sum(each.head_passes for each in strata) / sum(each.head_runs for each in strata)
    return Drift(since=runs[-window][0], before=before, after=after, p=p)


def _strata(runs: Sequence[PastRun], window: int) -> list[Stratum]:
    """Each case that was measured in both parts; a new one has nothing to be compared with."""
    parts = []
    for part in (runs[:-window], runs[-window:]):
        found: dict[CaseKey, list[int]] = {}
        for _, outcomes in part:
            for case, counts in outcomes.items():
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
