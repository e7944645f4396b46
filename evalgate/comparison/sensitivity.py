"""Which drop of the pass rate these runs would have shown, four times in five.

Nothing but the verdict's own rules says that well for few cases. So pull requests like this one are simulated: the
cases pass as often as their runs make probable, then case after case breaks until the pass rate has fallen by so much,
and the regression gate and, where reruns confirm failures, the threshold gate are asked.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeAlias

from evalgate.comparison import confirm, pairing, power, tests
from evalgate.comparison import repeats as comparison_repeats
from evalgate.comparison.pairing import Sample
from evalgate.comparison.power import POWER
from evalgate.comparison.repeats import Stage
from evalgate.model import Power

TRIES, FEWER_TRIES, FEWEST_TRIES, MOST_CASES = 400, 64, 16, 8_000
"""Simulated pull requests: all of them near the drop that is named, fewer on the way there and for other numbers of
runs, and fewer where there are many cases: less depends on chance there."""
FINEST_DROP = 0.01
"""Less than a point is not told, though one case of hundreds is less."""
STEPS, NEAR = 8, 0.08
"""How often the range of drops is halved; how far beside what is found then all pull requests are asked."""
FEW_CASES = 60
"""Beyond so many cases that vary, the statistic is taken for normal but for its skewness."""
GRID = 100
"""Steps between the means that pass rates may have, finer near 0 and 1."""
ALIKE, OFTEN = 1 / 3, 2
"""Before the first run is seen: the chance that all cases pass equally often, and how much more likely high means are
than low ones (by this power of the mean). Chosen in bench/statistics.py."""
SPREADS = (0.05, 0.077, 0.12, 0.2, 0.29, 0.4, 0.51, 0.63)
"""How far else the rates of the cases lie apart: the correlation of two runs of a case."""

Array: TypeAlias = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """What is asked: the regression gate by `limit` (of alpha, for one criterion) and the drop that is let pass, and
    the threshold gate where `alpha` is not 0, which reruns confirm: a case fails with a smaller share of passes than
    `required`. `alone`: also by head's reruns alone."""

    limit: float
    floor: float
    alpha: float = 0.0
    required: float = 1.0
    alone: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """How often each case is run: on head and on base, and on both again where the first runs differ."""

    head: int
    base: int
    more: int = 0


REPEATS = (2, 3, 5, 10)
"""Numbers of repeats that the power line offers beside the present one."""


def line(outcomes: Sequence[Sample], gates: Gates, *, fact: bool) -> Power | None:
    """The power line: the smallest drop that is seen with these runs, and with other numbers of them. The runs are
    those that the sides really have, the fewest where cases differ: stored results may have others."""
    paired = [sample for sample in outcomes if sample.paired]
    if not paired:
        return None
    (head, base), *again = power.stages_of(paired)
    more = min(again[0]) if again else 0
    told = Power(repeats=head, base_repeats=None if base == head else base, more=more)
    if fact:
        cases = math.floor(gates.floor * len(paired) + tests.DUST) + 1
        return dataclasses.replace(told, drop=cases / len(paired) if cases <= len(paired) else None)
    known = [pairing.known((*sample.head, *sample.base)) for sample in paired]
    pools = [(sum(value == 1 for value in values), len(values)) for values in known]
    others = [repeats for repeats in REPEATS if repeats > min(head, base) + more]
    would = [
        (repeats, smallest_drop(pools, Runs(head=repeats, base=repeats), gates, tries=FEWER_TRIES))
        for repeats in others
    ]
    return dataclasses.replace(
        told,
        drop=smallest_drop(pools, Runs(head=head, base=base, more=more), gates),
        would=tuple((repeats, drop) for repeats, drop in would if drop is not None),
    )


def smallest_drop(pools: Sequence[tuple[int, int]], runs: Runs, gates: Gates, *, tries: int = TRIES) -> float | None:
    """The smallest drop of the pass rate that is seen four times in five; None where not even all cases together would
    show. `pools`: each case's passes and runs, of both sides."""
    simulated = _Simulated(sorted(pools), runs, gates, tries=min(tries, _tries(len(pools))))
    few = min(FEWER_TRIES, simulated.tries)
    low, high = 0.0, simulated.highest
    if simulated.power(high, few) < POWER:
        return None
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if simulated.power(middle, few) >= POWER else (middle, high)
    if simulated.tries > few:
        low, high = high * (1 - NEAR), min(high * (1 + NEAR), simulated.highest)
        below, above = simulated.power(low), simulated.power(high)
        steps = (POWER - below) / (above - below) if above > below else 0.5
        high = low + (high - low) * min(max(steps, -1.0), 2.0)
    return max(high, FINEST_DROP)


def _tries(cases: int) -> int:
    """How many pull requests of so many cases are simulated."""
    return min(TRIES, max(FEWEST_TRIES, MOST_CASES // cases))


class _Simulated:
    """Pull requests like this one: rates of their cases, the order in which they break, and what decides each run."""

    def __init__(self, pools: Sequence[tuple[int, int]], runs: Runs, gates: Gates, *, tries: int) -> None:
        import numpy as np  # noqa: PLC0415 - 0.1 s of import that a run without a base does not need

        self._runs, self._gates = runs, gates
        # of each kind of pull request its own, so that what chance does is not the same in all of them
        random = np.random.default_rng(zlib.crc32(repr((pools, runs, gates)).encode()))
        cases, self.tries = len(pools), tries
        self._rates = _likely_rates(tuple(pools))[:tries]
        self._order = random.permuted(np.tile(np.arange(cases), (tries, 1)), axis=1)
        shape = (tries, cases)
        self._head, self._base = (random.random((*shape, own + runs.more)) for own in (runs.head, runs.base))
        self._firsts = _Shapes(runs.head, runs.base, cases)
        self._seconds = _Shapes(runs.more, runs.more, cases) if runs.more else None
        self.highest = float(self._rates.mean())

    def power(self, drop: float, tries: int | None = None) -> float:
        """How often a drop is seen, in the first `tries` pull requests or in all."""
        import numpy as np  # noqa: PLC0415 - as above

        rates = self._rates[:tries]
        falls = self._falls(drop, rates)
        ours, theirs = self._head[:tries] < (rates - falls)[..., None], self._base[:tries] < rates[..., None]
        heads, bases = ours[..., : self._runs.head].sum(axis=2), theirs[..., : self._runs.base].sum(axis=2)
        p, spent = self._p_values(ours, theirs, heads, bases)
        seen = (p < 1) & self._is_beyond_floor(heads, bases)
        if not self._gates.alpha:
            return float(seen.mean())
        return float(np.where(seen, 1.0, self._confirmed(falls, heads, bases, spent)).mean())

    def _falls(self, drop: float, rates: Array) -> Array:
        """By how much each case passes less often: case after case breaks altogether, the last in part."""
        import numpy as np  # noqa: PLC0415 - as above

        order = self._order[: len(rates)]
        ordered = np.take_along_axis(rates, order, axis=1)
        left = drop * rates.shape[1] - (np.cumsum(ordered, axis=1) - ordered)
        falls = np.empty_like(rates)
        np.put_along_axis(falls, order, np.clip(left, 0.0, ordered), axis=1)
        return falls

    def _p_values(self, ours: Array, theirs: Array, heads: Array, bases: Array) -> tuple[Array, Array]:
        """p over the limit in each pull request, and how much of alpha the test can spend there."""
        import numpy as np  # noqa: PLC0415 - as above

        limit = self._gates.limit
        if self._seconds is None:
            p, spent = self._firsts.test([(heads, bases)], limit)
            return p / limit, spent
        first, _ = self._firsts.test([(heads, bases)], limit)
        total = heads + bases
        again = (total > 0) & (total < self._runs.head + self._runs.base)
        more = ours[..., self._runs.head :].sum(axis=2), theirs[..., self._runs.base :].sum(axis=2)
        second = [np.where(again, each, 0) for each in more]  # as uninformative as a case that is not run again
        last, _ = self._firsts.test([(heads, bases), (second[0], second[1])], limit, self._seconds)
        shares = comparison_repeats.SHARES
        both = np.minimum(first / shares[Stage.FIRST], last / shares[Stage.LAST])
        return both / limit, np.full(len(first), limit)

    def _is_beyond_floor(self, heads: Array, bases: Array) -> Array:
        import numpy as np  # noqa: PLC0415 - as above

        head, base, cases = self._runs.head, self._runs.base, heads.shape[1]
        if min(head, base) > 1:
            ours, theirs = heads / head, bases / base
            squares = ours * (1 - ours) / (head - 1) + theirs * (1 - theirs) / (base - 1)
        else:
            together = (heads + bases) / (head + base)
            squares = together * (1 - together) * (head + base) / (head + base - 1) * (1 / head + 1 / base)
        drop = (bases / base - heads / head).mean(axis=1)
        return drop - tests.SURE * np.sqrt(squares.sum(axis=1)) / cases > self._gates.floor + tests.DUST

    def _confirmed(self, falls: Array, heads: Array, bases: Array, spent: Array) -> Array:
        """The chance that reruns confirm a failure of one of the cases that fell, in each pull request."""
        import numpy as np  # noqa: PLC0415 - as above

        failed = heads < self._gates.required * self._runs.head - tests.DUST
        levels = (self._gates.alpha - spent) / np.maximum(failed.sum(axis=1), 1)
        pulls, cases = np.nonzero(failed & (falls > 0))
        then = self._rates[pulls, cases]
        now, paired = then - falls[pulls, cases], 2 * bases[pulls, cases] > self._runs.base
        asked = np.stack([then.round(2), now.round(2), levels[pulls], paired], axis=1)
        kinds, places = np.unique(asked, axis=0, return_inverse=True)
        chances = np.asarray([self._chance(*kind) for kind in kinds.tolist()])
        missed = np.ones(len(heads))
        np.multiply.at(missed, pulls, 1 - chances[places.ravel()] if len(kinds) else 1.0)
        return 1 - missed

    def _chance(self, then: float, now: float, level: float, paired: float) -> float:
        if paired:
            return chance_by_pairs(now, then, confirm.pairs_needed(level))
        return chance_alone(now, confirm.failures_needed(level)) if self._gates.alone else 0.0


class _Shapes:
    """The exact test's parts and distributions by a case's passes on both sides, for many comparisons at once."""

    def __init__(self, head: int, base: int, cases: int) -> None:
        import numpy as np  # noqa: PLC0415 - as above

        self.total = head + base
        self.parts = np.zeros((self.total + 1, head + 1))
        self.chances = np.zeros((self.total + 1, head + 1))
        self.chances[[0, -1], [0, -1]] = 1.0
        for passes in range(1, self.total):
            lowest, parts = tests.part_of(head, base, passes)
            places = slice(lowest, lowest + len(parts))
            self.parts[passes, places] = parts
            self.chances[passes, places] = tests.hypergeometric(head, base, passes)[1]
        self.most = float(self.parts.max())
        self.cases = cases

    @functools.lru_cache(maxsize=4)  # noqa: B019 - gone with what it belongs to, a moment later
    def spectra(self, fine: float, length: int) -> tuple[Array, Array]:
        """The parts, rounded, and the logarithms of the transforms of their distributions."""
        import numpy as np  # noqa: PLC0415 - as above

        parts = np.rint(self.parts * fine).astype(int)
        waves = np.zeros((self.total + 1, length))
        np.add.at(waves, (np.arange(self.total + 1)[:, None], parts), self.chances)
        found = np.fft.rfft(waves, axis=1)
        found[np.abs(found) < 1e-130] = 1e-130  # a frequency that a case has not at all: e^-300 of it
        return parts, np.log(found)

    def test(
        self, sides: Sequence[tuple[Array, Array]], limit: float, second: _Shapes | None = None
    ) -> tuple[Array, Array]:
        """The p-value of each pull request, and the largest below the limit that it could have had."""
        import numpy as np  # noqa: PLC0415 - as above

        both = [self, *([] if second is None else [second])]
        counts = []
        observed = np.zeros(len(sides[0][0]))
        for shapes, (heads, bases) in zip(both, sides, strict=True):
            totals = heads + bases
            observed += shapes.parts[totals, heads].sum(axis=1)
            counts.append(np.stack([(totals == passes).sum(axis=1) for passes in range(shapes.total + 1)], axis=1))
        varying = sum(each[:, 1:-1].sum(axis=1) for each in counts)
        if varying.max(initial=0) > FEW_CASES:
            p = _nearly(both, counts, observed)
            return p, np.full(len(p), limit)
        return _exactly(both, counts, sides, limit)


def _exactly(
    both: Sequence[_Shapes], counts: Sequence[Array], sides: Sequence[tuple[Array, Array]], limit: float
) -> tuple[Array, Array]:
    """By Fourier transforms of the distributions of single cases, rounded as `tests.Null` rounds them, but coarser."""
    import numpy as np  # noqa: PLC0415 - as above

    most = math.fsum(each.most * min(each.cases, FEW_CASES) for each in both)
    fine = min(5.0, 1_000 / most)
    length = 1 << (int(most * fine) + FEW_CASES).bit_length()
    logs, observed = 0.0, 0
    for shapes, own, (heads, bases) in zip(both, counts, sides, strict=True):
        parts, spectra = shapes.spectra(fine, length)
        weight = own.astype(float)
        logs = logs + (weight @ spectra.real + 1j * (weight @ spectra.imag))
        observed = observed + parts[heads + bases, heads].sum(axis=1)
    weights = np.maximum(np.fft.irfft(np.exp(logs), n=length, axis=1), 0.0)
    tails = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
    p = np.take_along_axis(tails, np.asarray(observed)[:, None], axis=1)[:, 0]
    spent = np.where(tails < limit, tails, 0.0).max(axis=1)
    # what the transform leaves where there is nothing
    return np.maximum(p, 1e-12), np.where(spent > 1e-9, spent, 0.0)


def _nearly(both: Sequence[_Shapes], counts: Sequence[Array], observed: Array) -> Array:
    """By mean, variance and skewness. Source: Cornish and Fisher 1937."""
    import numpy as np  # noqa: PLC0415 - as above

    moments = np.zeros((3, len(observed)))
    for shapes, own in zip(both, counts, strict=True):
        mean = (shapes.parts * shapes.chances).sum(axis=1)
        away = shapes.parts - mean[:, None]
        moments[0] += own @ mean
        moments[1] += own @ (shapes.chances * away**2).sum(axis=1)
        moments[2] += own @ (shapes.chances * away**3).sum(axis=1)
    spread = np.sqrt(np.maximum(moments[1], 1e-12))
    # far out the series turns back, and all is said
    z = np.clip((observed - moments[0]) / spread, -6.0, 6.0)
    z -= (z**2 - 1) * moments[2] / spread**3 / 6
    normal = NormalDist()
    return np.asarray([1 - normal.cdf(each) for each in z.tolist()])


@functools.lru_cache(maxsize=2)
def _likely_rates(pools: tuple[tuple[int, int], ...]) -> Array:
    """Pass rates of the cases, time and again, as probable as their runs make them. How far they lie apart is drawn as
    well: few coin tosses look as if some cases always passed. `pools`: each case's passes and runs.

    Source: the beta-binomial distribution by its mean and correlation (Griffiths 1973).
    """
    import numpy as np  # noqa: PLC0415 - as above

    angles = (np.arange(GRID) + 0.5) * np.pi / 2 / GRID
    means, spreads = np.sin(angles)[:, None] ** 2, np.asarray((1e-6, *SPREADS))
    chances = np.asarray((ALIKE, *[(1 - ALIKE) / len(SPREADS)] * len(SPREADS)))
    logs = np.log(np.sin(2 * angles)[:, None] * means**OFTEN * chances)
    passes, runs = np.asarray(pools).T

    def in_a_row(share: Array) -> Array:
        """The logarithms of the chances of 0, 1, 2, ... equal outcomes in a row."""
        steps = np.log((share * (1 - spreads))[..., None] + spreads[:, None] * np.arange(runs.max()))
        return np.concatenate([np.zeros((*steps.shape[:2], 1)), np.cumsum(steps, axis=2)], axis=2)

    hits, misses, whole = in_a_row(means), in_a_row(1 - means), in_a_row(np.ones_like(means))
    for (hit, total), count in Counter(pools).items():
        logs += count * (hits[..., hit] + misses[..., total - hit] - whole[..., total])
    weights = np.exp(logs - logs.max()).ravel()
    random = np.random.default_rng(zlib.crc32(repr(pools).encode()))
    drawn = random.choice(len(weights), size=(_tries(len(pools)), 1), p=weights / weights.sum())
    mean, spread = means[drawn // len(spreads), 0], spreads[drawn % len(spreads)]
    more = 1 / spread - 1  # as many runs of a case are as good as seen
    return random.beta(mean * more + passes, (1 - mean) * more + runs - passes)


@functools.lru_cache(maxsize=65_536)
def chance_by_pairs(head: float, base: float, needed: tuple[int, ...]) -> float:
    """How often pairs of reruns confirm a failure, by the pass rates of both sides."""
    agree, twice = (1 - head) * base, head * (1 - base)
    alive, confirmed = {0: 1.0}, 0.0
    for number in range(1, needed[-1] + 1):
        after: dict[int, float] = {}
        for slips, chance in alive.items():
            for more, own in ((0, agree), (1, 1 - agree - twice), (2, twice)):
                total = slips + more
                if total >= len(needed) or (total > 1 and number <= confirm.EARLY_PAIRS):
                    continue
                if number >= needed[total]:
                    confirmed += chance * own
                else:
                    after[total] = after.get(total, 0.0) + chance * own
        alive = after
    return confirmed


def chance_alone(head: float, needed: int) -> float:
    """How often reruns of head alone confirm a failure."""
    fails = 1 - head
    late = max(needed - confirm.EARLY_RUNS, 0)
    return fails**needed + late * head * fails ** (needed + confirm.SECOND_CHANCE - 1)
