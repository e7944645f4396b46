"""The failures that a passing gate could have missed: simulated pull requests of the same size, in
which cases break.

For few cases only the verdict's own rules show this. The simulated cases pass as often as their
runs suggest, one, two or three of them break, and the purse decides."""

from __future__ import annotations

import functools
import itertools
import random
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from evalgate.model import CaseKey, Cell, Power, ThresholdRule
from evalgate.values import grouped
from . import threshold
from .book import Sides
from .purse import CaseRuns, RunPair, Terms, play

TRIES = 200
"""Simulated pull requests."""
MOST_PAIRS = 20_000
"""First runs in all of them; larger runs simulate fewer pull requests."""
FEWEST_TRIES = 10
BROKEN_COUNTS = (1, 2, 3)
BROKEN_RATE = 0.02
"""The pass rate of a broken case."""
PRIOR = 2.0
"""The pass rate of all cases counts as this many runs of each case."""
OFTEN_MISSED = 0.5
"""A case is named if its failure is missed more often."""
PAIRS = {
    (True, True): RunPair(cell=Cell.PASSED),
    (True, False): RunPair(cell=Cell.ROSE),
    (False, True): RunPair(cell=Cell.FELL),
    (False, False): RunPair(cell=Cell.FAILED),
}
"""Pairs of runs, by whether head and the base pass."""


def power_of(sides: Sides, outcomes: Mapping[CaseKey, Sequence[Sequence[bool]]]) -> Power | None:
    """The power of a comparison. `outcomes`: for each case that decides, the runs of each side,
    True for a pass. None if no outcome is known, or there are too many cases to simulate."""
    known_runs = {
        key: [*itertools.chain.from_iterable(runs_of_sides)]
        for key, runs_of_sides in outcomes.items()
        if any(runs_of_sides)
    }
    tries = min(TRIES, MOST_PAIRS // max(len(known_runs), 1))
    if not known_runs or tries < FEWEST_TRIES:
        return None
    all_runs = [*itertools.chain.from_iterable(known_runs.values())]
    mean = (sum(all_runs) + PRIOR) / (len(all_runs) + PRIOR)
    rates = tuple(
        min(0.98, (sum(runs) + PRIOR * mean) / (len(runs) + PRIOR)) for runs in known_runs.values()
    )
    policy = sides.policy
    needs = (policy.alpha, policy.pass_rate, policy.threshold)
    caught, unseen = _simulate(rates, needs, rounds=sides.head.repeats, tries=tries)
    known_keys = [*known_runs]
    return Power(
        cases=len(rates), caught=caught, unseen=tuple(known_keys[place] for place in unseen)
    )


@functools.lru_cache(maxsize=64)
def _simulate(
    rates: tuple[float, ...], needs: tuple[float, float, ThresholdRule], *, rounds: int, tries: int
) -> tuple[tuple[tuple[int, float], ...], tuple[int, ...]]:
    """For each number of broken cases, the share of pull requests that is blocked; and the places
    of cases whose failure is mostly missed. `needs`: alpha, the pass rate, and which failures
    count."""
    alpha, pass_rate, rule = needs
    terms = Terms(
        needed=1 / alpha,
        tolerated=Counter({"": len(rates) - threshold.needed(len(rates), pass_rate)}),
        asks_alone=rule is ThresholdRule.CONFIRMED,
    )
    draw = random.Random(zlib.crc32(repr((rates, rounds)).encode())).random  # noqa: S311 - no secret
    simulated_case = functools.partial(
        _case, draw=draw, rounds=rounds, can_rerun=rule is not ThresholdRule.ALL
    )
    results: defaultdict[int, list[tuple[int, bool]]] = defaultdict(list)
    for count in BROKEN_COUNTS[: len(rates)]:
        for _ in range(tries):
            places = sorted(range(len(rates)), key=lambda _: draw())[:count]
            cases = [
                simulated_case(place, (BROKEN_RATE if place in places else rate, rate))
                for place, rate in enumerate(rates)
            ]
            purse, _ = play(cases, terms)
            results[count].append((places[0], purse.is_worse or purse.is_failing))
    caught = tuple(
        (count, sum(is_blocked for _, is_blocked in pull_requests) / tries)
        for count, pull_requests in results.items()
    )
    return caught, tuple(
        place
        for place, flags in sorted(grouped(results[1]).items())
        if flags.count(False) > OFTEN_MISSED * len(flags)
    )


def _case(
    place: int,
    rates: tuple[float, float],
    *,
    draw: Callable[[], float],
    rounds: int,
    can_rerun: bool,
) -> CaseRuns:
    """A case with as many runs as the purse requests. `rates`: its pass rates, head's first."""
    head_rate, base_rate = rates
    # head runs first
    pairs = (PAIRS[draw() < head_rate, draw() < base_rate] for _ in itertools.count())
    first_pairs = [*itertools.islice(pairs, rounds)]
    cells = [pair.cell for pair in first_pairs]
    return CaseRuns(
        key=("", str(place)),
        rounds=first_pairs,
        pairs=pairs,
        alone=(draw() < head_rate for _ in itertools.count()),
        is_failing=can_rerun and (Cell.FELL in cells or Cell.FAILED in cells),
        passes_on_base=2 * (cells.count(Cell.FELL) + cells.count(Cell.PASSED)) > len(cells),
    )
