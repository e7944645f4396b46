"""What a green could not have seen: pull requests like this one are simulated, in which cases
break.

Nothing but the verdict's own rules says that well for few cases: the cases pass as often as their
runs make probable, one, two or three of them break, and the purse is asked."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from evalgate.comparison import threshold
from evalgate.comparison.book import Sides
from evalgate.comparison.purse import CaseRuns, Purse, Rerun, RunPair, Terms
from evalgate.model import CaseKey, Cell, Power, ThresholdRule

TRIES = 200
MOST_PAIRS = 20_000
"""Simulated pull requests, and how many pairs of first runs they may have together; fewer are
simulated beyond."""
FEWEST_TRIES: Final = 10
BROKEN: Final = (1, 2, 3)
RATE_OF_BROKEN: Final = 0.02
PRIOR: Final = 2.0
"""For how many runs what all cases together say of a case counts beside its own."""
OFTEN: Final = 0.5
BLOCK: Final = 4096


def of(sides: Sides, keys: Sequence[CaseKey], outcomes: Sequence[Sequence[float]]) -> Power | None:
    """The power of a comparison. `keys`: the cases that decide. `outcomes`: for each, its runs on
    both sides, 1 for a pass and 0 for a failure. None if nothing is known, or there are too many
    cases to simulate."""
    known_cases = [(key, values) for key, values in zip(keys, outcomes, strict=True) if values]
    tries = min(TRIES, MOST_PAIRS // max(len(known_cases), 1))
    if not known_cases or tries < FEWEST_TRIES:
        return None
    every = [value for _, values in known_cases for value in values]
    mean = (sum(every) + PRIOR) / (len(every) + PRIOR)
    rates = [
        min(0.98, (sum(values) + PRIOR * mean) / (len(values) + PRIOR)) for _, values in known_cases
    ]
    policy = sides.policy
    needs = (policy.alpha, policy.pass_rate, policy.threshold)
    caught, unseen = _simulate(tuple(rates), needs, rounds=sides.head.repeats, tries=tries)
    return Power(
        cases=len(rates), caught=caught, unseen=tuple(known_cases[place][0] for place in unseen)
    )


@lru_cache(maxsize=64)
def _simulate(
    rates: tuple[float, ...], needs: tuple[float, float, ThresholdRule], *, rounds: int, tries: int
) -> tuple[tuple[tuple[int, float], ...], tuple[int, ...]]:
    """For each number of broken cases the share that is blocked, and the places of those that break
    unseen. `needs`: alpha, the pass rate, and which failures count."""
    alpha, pass_rate, rule = needs
    terms = Terms(
        needed=1 / alpha,
        tolerated={"": len(rates) - threshold.needed(len(rates), pass_rate)},
        asks_alone=rule is ThresholdRule.CONFIRMED,
    )
    draw = _draws(zlib.crc32(repr((rates, rounds)).encode())).__next__
    caught = []
    missed = Counter[int]()
    broken = Counter[int]()
    for count in BROKEN[: len(rates)]:
        blocked = 0
        for _ in range(tries):
            places = sorted(range(len(rates)), key=lambda _: draw())[:count]
            head_rates = [
                RATE_OF_BROKEN if place in places else rate for place, rate in enumerate(rates)
            ]
            is_blocked = _is_blocked(
                head_rates, rates, draw, terms, rounds=rounds, reruns=rule is not ThresholdRule.ALL
            )
            blocked += is_blocked
            if count == 1:
                broken[places[0]] += 1
                missed[places[0]] += not is_blocked
        caught.append((count, blocked / tries))
    return tuple(caught), tuple(
        place for place in sorted(broken) if missed[place] > OFTEN * broken[place]
    )


def _draws(seed: int) -> Iterator[float]:
    import numpy as np  # noqa: PLC0415 - 0.1 s of import that a run without a base does not need

    random = np.random.default_rng(seed)
    while True:
        yield from random.random(BLOCK).tolist()


def _is_blocked(
    heads: Sequence[float],
    bases: Sequence[float],
    draw: Callable[[], float],
    terms: Terms,
    *,
    rounds: int,
    reruns: bool,
) -> bool:
    """True if the purse blocks one pull request. `heads`, `bases`: how often each case passes."""

    def pair(place: int) -> RunPair:
        head = draw() < heads[place]
        base = draw() < bases[place]
        return RunPair(
            cell=(Cell.PASSED if head else Cell.FELL)
            if base
            else Cell.ROSE
            if head
            else Cell.FAILED
        )

    def rerun(request: Rerun) -> RunPair | bool:
        place = int(request.key[1])
        return pair(place) if request.is_pair else draw() < heads[place]

    cases = []
    for place in range(len(heads)):
        pairs = [pair(place) for _ in range(rounds)]
        cells = [run_pair.cell for run_pair in pairs]
        cases.append(
            CaseRuns(
                key=("", str(place)),
                rounds=pairs,
                is_failing=Cell.FELL in cells or Cell.FAILED in cells,
                passes_on_base=2 * (cells.count(Cell.FELL) + cells.count(Cell.PASSED)) > len(cells),
            )
        )
    purse = Purse(terms)
    purse.begin(cases)
    while reruns and (requests := purse.reruns()):
        purse.see(requests, [rerun(request) for request in requests])
    return purse.is_worse or purse.is_failing
