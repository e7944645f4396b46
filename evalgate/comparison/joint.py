"""Several criteria of one verdict: p-values that answer for all of them, by permuting whole trials.

Where the two labels are chance, they are chance for all scores of a trial together. So trials are dealt to the sides,
and every deal gives a p-value of each criterion: how often the smallest of them is as small as one that was observed is
its adjusted p-value. Criteria that say the same count as one, and one that never varies counts as none.
Source: Westfall and Young 1993 (min p, step-down); Phipson and Smyth 2010 (the observed deal counts as one).
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from evalgate.comparison import tests
from evalgate.comparison.tests import Null, Stratum, Tails

if TYPE_CHECKING:
    from numpy.random import Generator

Row: TypeAlias = tuple[float | None, ...]
"""A trial's scores, one of each criterion; None where there is none. Higher is better."""

Array: TypeAlias = Any

MOST_WAYS, FEW_KINDS = 20_000, 16
"""Up to so many ways to choose head's runs in a stratum, all of them are listed; beyond, it is drawn how many there are
of each kind of trial where there are few kinds, and else the runs are shuffled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """The trials of one case on both sides, or of one stage of it."""

    head: Sequence[Row]
    base: Sequence[Row]


def adjusted(strata: Sequence[Trials], own: Sequence[Tails], *, draws: int, seed: int) -> list[Tails]:
    """Each criterion's p-values for all of them together, at least its `own`.

    Neither the order of strata and trials nor which side is called head changes what is drawn.
    """
    columns = {number: _column(strata, number) for number in range(len(own))}
    first = {column: number for number, column in reversed(columns.items()) if _varies(column)}
    if len(first) < 2:
        return list(own)
    family = sorted(first.values())
    usable = [each for each in strata if each.head and each.base and len({*each.head, *each.base}) > 1]
    forth = sorted((_in_order(each.head, family), _in_order(each.base, family)) for each in usable)
    back = sorted((base, head) for head, base in forth)
    drops, rises = _Permuted(min(forth, back), draws=draws, seed=seed).adjusted()
    if back < forth:
        drops, rises = rises, drops
    elif forth == back:  # the sides are each other's mirror image: so are their tails
        drops = rises = [max(pair) for pair in zip(drops, rises, strict=True)]
    found = {number: Tails(drop=drops[at], rise=rises[at]) for at, number in enumerate(family)}
    told = []
    for number, tails in enumerate(own):
        each = found.get(first.get(columns[number], -1), tails)
        told.append(Tails(drop=max(tails.drop, each.drop), rise=max(tails.rise, each.rise)))
    return told


Column: TypeAlias = tuple[tuple[tuple[float | None, ...], tuple[float | None, ...]], ...]


def _column(strata: Sequence[Trials], number: int) -> Column:
    return tuple((tuple(row[number] for row in each.head), tuple(row[number] for row in each.base)) for each in strata)


def _varies(column: Column) -> bool:
    return any({*head} - {None} and {*base} - {None} and len({*head, *base} - {None}) > 1 for head, base in column)


Known: TypeAlias = tuple[float, ...]
"""A row with `MISSING` in the place of None, so that rows have an order."""
MISSING = -math.inf


def _in_order(rows: Sequence[Row], family: Sequence[int]) -> tuple[Known, ...]:
    return tuple(sorted(tuple(MISSING if row[at] is None else float(row[at] or 0.0) for at in family) for row in rows))


class _Permuted:
    """The statistics of all criteria in every deal, the observed one first. `strata`: trials of the two sides."""

    def __init__(self, strata: Sequence[tuple[tuple[Known, ...], tuple[Known, ...]]], *, draws: int, seed: int) -> None:
        import numpy as np  # noqa: PLC0415 - 0.1 s of import that a run without a base does not need

        self._strata, self._draws = strata, draws
        count = len(strata[0][0][0])
        self._best = [_best(strata, number) for number in range(count)]
        self._nulls = [self._null(number) for number in range(count)]
        # a column a deal: the statistics of a drop of all criteria, then those of a rise
        self._sums = np.zeros((2 * count, draws + 1))
        random = np.random.default_rng(seed)
        for head, base in strata:
            self._add(head, base, random)

    def adjusted(self) -> tuple[list[float], list[float]]:
        """The adjusted p-values of a drop of each criterion, and those of a rise."""
        drops, rises = (_step_down([self._p_values(way, at) for at in range(len(self._nulls))]) for way in (0, 1))
        return drops, rises

    def _null(self, number: int) -> tuple[Null, Null] | None:
        """The exact distributions of a criterion of passes and failures; None of a graded one."""
        best = self._best[number]
        if best is None:
            return None
        sides = (([row[number] for row in side] for side in pair) for pair in self._strata)
        strata = [
            Stratum(
                head_passes=head.count(best),
                head_runs=len(head) - head.count(MISSING),
                base_passes=base.count(best),
                base_runs=len(base) - base.count(MISSING),
            )
            for head, base in sides
        ]
        return Null(strata), Null([tests.mirrored(each) for each in strata])

    def _add(self, head: Sequence[Known], base: Sequence[Known], random: Generator) -> None:
        """Deal the trials of a stratum, and add to all statistics what comes of it."""
        import numpy as np  # noqa: PLC0415 - as above

        rows = np.asarray((*head, *base)).T
        lacking = np.isneginf(rows)
        is_passed = np.asarray([[best is not None] for best in self._best])
        best = np.asarray([[0.0 if value is None else value] for value in self._best])
        values = np.where(lacking, 0.0, np.where(is_passed, rows == best, rows))
        parts = _Parts(self._nulls, values, lacking, heads=len(head))
        self._sums[:, :1] += parts.of(values[:, : len(head)].sum(axis=1, keepdims=True))
        # a trial that lacks scores takes the place of one that lacks the same
        groups = list(_alike(lacking, len(head)))
        runs = rows.shape[1]
        if len(groups) == 1 and math.comb(runs, len(head)) <= 2 * self._draws:
            every = parts.of(_sums_of_all(values, len(head)))
            self._sums[:, 1:] += every.take(random.integers(every.shape[1], size=self._draws), axis=1)
            return
        dealt = np.zeros((len(rows), self._draws))
        for of_head, places in groups:
            dealt += _sums(values[:, places], of_head, self._draws, random)
        self._sums[:, 1:] += parts.of(dealt)

    def _p_values(self, way: int, number: int) -> Array:
        """The criterion's own p-value of every deal."""
        import numpy as np  # noqa: PLC0415 - as above

        sums, nulls = self._sums[way * len(self._nulls) + number], self._nulls[number]
        if nulls is not None:
            tails = np.asarray(nulls[way].tails)
            return tails[np.minimum(np.rint(sums).astype(int), len(tails) - 1)]
        dust = 1e-11 * (1 + float(np.abs(sums).max()))
        ordered = np.sort(sums)
        return 1 - np.searchsorted(ordered, sums - dust) / len(sums)


class _Parts:
    """A stratum's parts of all statistics, by the sums of head's scores."""

    def __init__(self, nulls: Sequence[tuple[Null, Null] | None], values: Array, lacking: Array, *, heads: int) -> None:
        import numpy as np  # noqa: PLC0415 - as above

        ours, theirs = (~lacking[:, :heads]).sum(axis=1), (~lacking[:, heads:]).sum(axis=1)
        self._tables: list[tuple[Array, Array] | None] = []
        for at, pair in enumerate(nulls):
            if pair is None:
                self._tables.append(None)
                continue
            mine, others, passes = int(ours[at]), int(theirs[at]), round(float(values[at].sum()))
            drop, rise = np.zeros(passes + 1), np.zeros(passes + 1)
            if mine and others and 0 < passes < mine + others:
                lowest, parts = pair[0].parts(mine, others, passes)
                drop[lowest : lowest + len(parts)] = parts
                lowest, parts = pair[1].parts(others, mine, passes)
                rise[lowest : lowest + len(parts)] = parts
            self._tables.append((drop, rise[::-1]))
        # a side without any score of a graded criterion tells nothing
        self._told = (ours > 0) & (theirs > 0)

    def of(self, sums: Array) -> Array:
        """A column for each of `sums`: the parts of a drop, then those of a rise."""
        import numpy as np  # noqa: PLC0415 - as above

        count = len(self._tables)
        parts = np.zeros((2 * count, sums.shape[1]))
        for at, tables in enumerate(self._tables):
            if tables is not None:
                passes = (sums[at] + 0.5).astype(np.intp)
                parts[at], parts[count + at] = tables[0].take(passes), tables[1].take(passes)
            elif self._told[at]:
                parts[at], parts[count + at] = -sums[at], sums[at]
        return parts


def _best(strata: Sequence[tuple[tuple[Known, ...], tuple[Known, ...]]], number: int) -> float | None:
    """The score of those that pass, where a criterion has two scores at most."""
    found = {row[number] for pair in strata for side in pair for row in side} - {MISSING}
    return max(found) if len(found) <= 2 else None


def _alike(lacking: Array, heads: int) -> Iterator[tuple[int, list[int]]]:
    """Trials that lack the same scores: how many of them are head's, which come first, and which they are."""
    groups: defaultdict[tuple[bool, ...], list[int]] = defaultdict(list)
    for number, trial in enumerate(lacking.T.tolist()):
        groups[tuple(trial)].append(number)
    for places in groups.values():
        yield sum(place < heads for place in places), places


def _sums(pool: Array, chosen: int, draws: int, random: Generator) -> Array:
    """The sums of `chosen` trials, in each deal."""
    import numpy as np  # noqa: PLC0415 - as above

    runs = pool.shape[1]
    if (pool == pool[:, :1]).all() or chosen in (0, runs):
        return pool.sum(axis=1, keepdims=True) * (chosen / runs)
    if math.comb(runs, chosen) <= MOST_WAYS:
        every = _sums_of_all(pool, chosen)
        return every.take(random.integers(every.shape[1], size=draws), axis=1)
    kinds, counts = np.unique(pool, axis=1, return_counts=True)
    if len(counts) <= FEW_KINDS:
        return kinds @ random.multivariate_hypergeometric(counts, chosen, size=draws, method="marginals").T
    picks = np.argpartition(random.random((draws, runs)), chosen - 1, axis=1)[:, :chosen]
    return pool[:, picks].sum(axis=2)


def _sums_of_all(pool: Array, chosen: int) -> Array:
    """The sums of `chosen` trials, in each way to choose them."""
    import numpy as np  # noqa: PLC0415 - as above

    # einsum, where a matrix product would start threads that wait for each other on a busy machine
    return np.einsum("cr,rw->cw", pool, _ways(pool.shape[1], chosen))


@lru_cache(maxsize=16)
def _ways(runs: int, chosen: int) -> Array:
    """A column for each way to choose, with 1 for what is chosen."""
    import numpy as np  # noqa: PLC0415 - as above

    places = np.asarray(list(itertools.combinations(range(runs), chosen)))
    ways = np.zeros((len(places), runs))
    np.put_along_axis(ways, places, 1.0, axis=1)
    return np.ascontiguousarray(ways.T)


def _step_down(p_values: Sequence[Array]) -> list[float]:
    """Adjusted p-values from those of every deal, the observed one first."""
    import numpy as np  # noqa: PLC0415 - as above

    order = sorted(range(len(p_values)), key=lambda at: float(p_values[at][0]))
    found: Mapping[int, float]
    found, smallest, worst = {}, {}, np.ones(len(p_values[0]))
    for at in reversed(order):
        worst = np.minimum(worst, p_values[at])
        smallest[at] = float((worst <= p_values[at][0] * (1 + 1e-9)).mean())
    highest = 0.0
    for at in order:
        highest = max(highest, smallest[at])
        found[at] = highest
    return [found[at] for at in range(len(p_values))]
