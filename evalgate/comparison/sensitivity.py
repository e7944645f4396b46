"""The failures that a passing gate could have missed: simulated pull requests of the same size, in
which cases break.

For few cases only the verdict's own rules show this. The simulated cases pass as often as their
runs suggest, one, two or three of them break, and the purse decides."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

from evalgate.comparison import threshold
from evalgate.comparison.book import Sides
from evalgate.comparison.purse import CaseRuns, Purse, Rerun, RunPair, Terms
from evalgate.model import CaseKey, Cell, Power, ThresholdRule

TRIES = 200
MOST_PAIRS = 20_000
"""The number of simulated pull requests, and the most pairs of first runs in all of them. Larger
runs simulate fewer pull requests."""
FEWEST_TRIES = 10
BROKEN_COUNTS = (1, 2, 3)
BROKEN_RATE = 0.02
PRIOR = 2.0
"""The pass rate of all cases counts as this many runs of each case."""
OFTEN_MISSED = 0.5


def power_of(
    sides: Sides, keys: Sequence[CaseKey], outcomes: Sequence[Sequence[float]]
) -> Power | None:
    """The power of a comparison. `keys`: the cases that decide. `outcomes`: for each case, its runs
    on both sides, 1 for a pass and 0 for a failure. None if no outcome is known, or there are too
    many cases to simulate."""
    known_cases = [
        (key, case_outcomes)
        for key, case_outcomes in zip(keys, outcomes, strict=True)
        if case_outcomes
    ]
    tries = min(TRIES, MOST_PAIRS // max(len(known_cases), 1))
    if not known_cases or tries < FEWEST_TRIES:
        return None
    all_outcomes = [
        case_outcome for _, case_outcomes in known_cases for case_outcome in case_outcomes
    ]
    mean = (sum(all_outcomes) + PRIOR) / (len(all_outcomes) + PRIOR)
    rates = [
        min(0.98, (sum(case_outcomes) + PRIOR * mean) / (len(case_outcomes) + PRIOR))
        for _, case_outcomes in known_cases
    ]
    policy = sides.policy
    needs = (policy.alpha, policy.pass_rate, policy.threshold)
    caught_share, unseen_share = _simulate(
        tuple(rates), needs, rounds=sides.head.repeats, tries=tries
    )
    return Power(
        cases=len(rates),
        caught=caught_share,
        unseen=tuple(known_cases[place][0] for place in unseen_share),
    )


@lru_cache(maxsize=64)
def _simulate(
    rates: tuple[float, ...], needs: tuple[float, float, ThresholdRule], *, rounds: int, tries: int
) -> tuple[tuple[tuple[int, float], ...], tuple[int, ...]]:
    """For each number of broken cases, the share of pull requests that is blocked; and the places
    of cases whose failure is mostly missed. `needs`: alpha, the pass rate, and which failures
    count."""
    alpha, pass_rate, rule = needs
    terms = Terms(
        needed=1 / alpha,
        tolerated={"": len(rates) - threshold.needed(len(rates), pass_rate)},
        asks_alone=rule is ThresholdRule.CONFIRMED,
    )
    draw = random.Random(zlib.crc32(repr((rates, rounds)).encode())).random  # noqa: S311 - no secret
    caught = []
    missed_counts = Counter[int]()
    broken_counts = Counter[int]()
    for count in BROKEN_COUNTS[: len(rates)]:
        blocked = 0
        for _ in range(tries):
            places = sorted(range(len(rates)), key=lambda _: draw())[:count]
            head_rates = [
                BROKEN_RATE if place in places else rate for place, rate in enumerate(rates)
            ]
            is_blocked = _blocks(
                head_rates, rates, draw, terms, rounds=rounds, reruns=rule is not ThresholdRule.ALL
            )
            blocked += is_blocked
            if count == 1:
                broken_counts[places[0]] += 1
                missed_counts[places[0]] += not is_blocked
        caught.append((count, blocked / tries))
    return tuple(caught), tuple(
        place
        for place in sorted(broken_counts)
        if missed_counts[place] > OFTEN_MISSED * broken_counts[place]
    )


def _blocks(
    head_pass_rates: Sequence[float],
    base_pass_rates: Sequence[float],
    draw: Callable[[], float],
    terms: Terms,
    *,
    rounds: int,
    reruns: bool,
) -> bool:
    """True if the purse blocks one pull request. `head_pass_rates`, `base_pass_rates`: the pass
    rate of each case on each side."""

    def pair(place: int) -> RunPair:
        head_passes = draw() < head_pass_rates[place]
        base_passes = draw() < base_pass_rates[place]
        return RunPair(
            cell=(Cell.PASSED if head_passes else Cell.FELL)
            if base_passes
            else Cell.ROSE
            if head_passes
            else Cell.FAILED
        )

    def rerun(request: Rerun) -> RunPair | bool:
        place = int(request.key[1])
        return pair(place) if request.is_pair else draw() < head_pass_rates[place]

    cases = []
    for place in range(len(head_pass_rates)):
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
