"""The purse: is head worse than the base, and what is to be run next to tell.

Every pair of runs, one on each side, is a bet that head is worse, at odds that are fair if the
change did nothing. So a purse that starts at 1 ever holds 1/alpha with a chance of at most alpha,
whatever is run next (Ville 1939). What fails on both sides, or has no base, has a purse of its own.
The rule in words: docs/statistics.md; the proof: docs/decisions/024-one-purse.md."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Final

from evalgate.model import Bet, CaseKey, Cell, Confirmation
from evalgate.values import frozen_dataclass

ASIDE: Final = 0.5
"""The share of the purse that bets on every pair alike, for a drop that is spread over cases."""
SHARES: Final = (0.3, 0.6, 0.9)
"""How much of it is staked on a pair, in three equal parts."""
MOST_AT_FIRST: Final = 0.5
"""The most that is staked on a case in the first round."""
FLAKY: Final = 0.3
"""A case that passes this often is flaky, not failing."""
LET_GO = 0.35
PAIRS = 16
"""A suspect is let go when its odds fell to this part of what they were, or after so many pairs."""
RUNS = 20
UNLIKELY = 0.1
"""How often head alone is run at most, and the odds of failing at which a case is let go."""
AT_ONCE = 3
AT_FIRST = 8
"""How many bets on one case may be under way together, and how many cases that were not looked at
alone yet."""
SPARE: Final = 2
"""How many more fresh runs of a case may fail to be measured than are, before it is given up."""
NAMED: Final = 4.0
"""The worth of a case's bets, from 1, at which it is named as broken."""
PROMISING = 2.0
GRADED_PAIRS = 4
GRADED_CASES = 50
"""Graded scores: what their part of the purse must have made of 1 for further pairs, how many of a
case, and of how many cases."""
MEASURED: Final = "(measured)"
"""Used as the name of a graded criterion: the run could be measured at all."""
PASSES: Final = ""
"""Used as the name of a graded criterion: the run passes all deciding criteria."""


_FALL: Final = (1.0, -1.0, 0.0, 0.0)
_SWAPPED: Final = (Cell.ROSE, Cell.FELL, Cell.PASSED, Cell.FAILED)
_RATES: Final = (0.3, 0.5, 0.7, 0.9, 0.98)
"""Assumed pass rates of a case if the change did nothing; they only set the stakes."""


def _chances(base: float, head: float) -> tuple[float, ...]:
    """Of the cells."""
    return base * (1 - head), (1 - base) * head, base * head, (1 - base) * (1 - head)


_SAME: Final = [_chances(rate, rate) for rate in _RATES]
_WORSE: Final = [
    *((0.9 * 0.97, _chances(rate, 0.03)) for rate in _RATES),
    *((0.1 * rate * (1 - rate / 2), _chances(rate, rate / 2)) for rate in _RATES),
]
"""A case that broke: how much of the belief, after its first fall, and the chances of its cells."""
_ALL: Final = [*_SAME, *(chances for _, chances in _WORSE)]


@lru_cache(maxsize=10_000)
def _believed(
    odds: float, cells: tuple[Cell, ...]
) -> tuple[list[float], tuple[float, ...], float, float]:
    """What is believed of a case that broke with `odds`, after these pairs: the weights of its
    kinds, what a bet on the next pair pays in each cell, how fast that grows, and the odds. Kept,
    because many suspects see the same pairs."""
    if cells:
        priors = _believed(odds, cells[:-1])[0]
        weights = [w * chances[cells[-1]] for w, chances in zip(priors, _ALL, strict=True)]
    else:
        same = [rate * (1 - rate) for rate in _RATES]
        worse = [belief for belief, _ in _WORSE]
        weights = [*(w / sum(same) for w in same), *(odds * w / sum(worse) for w in worse)]
    total = math.fsum(weights)
    weights = [weight / total for weight in weights]
    chance = [
        math.fsum(w * chances[cell] for w, chances in zip(weights, _ALL, strict=True))
        for cell in Cell
    ]
    fall = chance[Cell.FELL]
    rise = chance[Cell.ROSE]
    swapped = fall + rise
    pays = (
        (2 * fall / swapped, 2 * rise / swapped, 1.0, 1.0) if fall > rise else (1.0, 1.0, 1.0, 1.0)
    )
    growth = math.fsum(p * math.log(max(pay, 1e-9)) for p, pay in zip(chance, pays, strict=True))
    return weights, pays, growth, 1 / max(1e-12, math.fsum(weights[: len(_SAME)])) - 1


class Suspect:
    """A case that fell: what is believed of it, and so what a bet on its next pair pays in each
    cell."""

    def __init__(self, odds: float) -> None:
        self._first = odds
        self._cells: tuple[Cell, ...] = ()
        self.tries = self.falls = 0
        self._look()

    def _look(self) -> None:
        _, self.pays, self.growth, odds = _believed(self._first, self._cells)
        self.is_live = odds >= LET_GO * min(1.0, self._first) and self.tries < PAIRS

    def see(self, cell: Cell | None) -> None:
        """Take one more pair into account; None is a pair that could not be measured and changes
        nothing."""
        self.tries += 1
        if cell is not None:
            self.falls += cell is Cell.FELL
            self._cells += (cell,)
        self._look()


@frozen_dataclass
class RunPair:
    """One run of a case on each side.

    `cell` None: a side could not be measured. `falls`: by graded criterion, base's score less
    head's as a share of the scale, from -1 to 1. `is_staked` False: the two ran on different days.
    """

    cell: Cell | None
    falls: Mapping[str, float] = field(default_factory=dict)
    is_staked: bool = True

    def swapped(self) -> RunPair:
        """The pair with its sides exchanged."""
        cell = None if self.cell is None else _SWAPPED[self.cell]
        return replace(self, cell=cell, falls={name: -fall for name, fall in self.falls.items()})


@frozen_dataclass
class CaseRuns:
    """All that is known of one case.

    `group`: cases that have a pass rate to reach together. `rounds`: its first runs, `pairs`: fresh
    pairs, `alone`: fresh runs of head alone, True if passed (None: not measured). `is_failing`: by
    head's first runs. `passes_on_base`: the base's first runs passed; None if nothing is known of
    them. `is_suspect`: head passes other criteria in the first runs than the base does; `pairs` are
    for those that it lost. `can_pair`: the base can be run again, `can_rerun`: head can."""

    key: CaseKey
    group: str = ""
    rounds: Sequence[RunPair] = ()
    pairs: Sequence[RunPair] = ()
    alone: Sequence[bool | None] = ()
    is_failing: bool = False
    passes_on_base: bool | None = None
    is_suspect: bool = False
    can_pair: bool = True
    can_rerun: bool = True


@frozen_dataclass
class Rerun:
    """What to run next: a case, as a pair or on head alone."""

    key: CaseKey
    is_pair: bool


@frozen_dataclass
class Terms:
    """`needed`: what a purse must hold to speak. `tolerated`: how many failures each group lets
    pass. `graded`: the drop that each graded criterion may have, as a share of its scale.
    `asks_alone`: whether what fails on the base too is looked at; what has no base always is."""

    needed: float = 20.0
    tolerated: Mapping[str, int] = field(default_factory=dict)
    graded: Mapping[str, float] = field(default_factory=dict)
    asks_alone: bool = True


def staked(parts: Sequence[float], fall: float) -> list[float]:
    """Money after a bet of `SHARES` of its parts. `fall`: by how much head was worse, from -1 to
    1."""
    return [part * (1 + share * fall) for part, share in zip(parts, SHARES, strict=True)]


class Alone:
    """A case that head is run on alone: what is believed of it, and what the bets that it fails
    made of 1."""

    def __init__(self) -> None:
        self.odds = self.factor = 1.0
        self.tries = 0

    @property
    def believed(self) -> float:
        """How likely it fails; at least as often as a flaky case, which makes the bet fair."""
        return max(1 - FLAKY, (self.odds * 0.97 + 0.5) / (1 + self.odds))

    def see(self, *, passed: bool | None, believed: float) -> None:
        """One more run, at odds that were fixed before."""
        self.tries += 1
        if passed is not None:
            self.factor *= (1 - believed) / FLAKY if passed else believed / (1 - FLAKY)
            self.odds *= 0.06 if passed else 1.94


class State:
    """What the bets found of one case."""

    def __init__(self, runs: CaseRuns) -> None:
        self.runs = runs
        self.suspect: Suspect | None = None
        self.alone: Alone | None = None
        self.unmeasured = self.graded = 0
        self.has_passed = self.failed_together = False

    @property
    def can_measure(self) -> bool:
        """True if its fresh runs can be measured, as far as is known."""
        return self.unmeasured <= SPARE

    @property
    def is_live(self) -> bool:
        """True if another pair of it may say more."""
        can_pair = (
            self.runs.is_failing and self.runs.can_rerun and self.runs.can_pair and self.can_measure
        )
        return can_pair and self.suspect is not None and self.suspect.is_live

    @property
    def is_open(self) -> bool:
        """True if another run of head alone may say more."""
        alone = self.alone
        return (
            alone is not None and alone.odds > UNLIKELY and alone.tries < RUNS and self.can_measure
        )

    def look_alone(self, *, asks: bool) -> None:
        """Start to rerun a failing case without the base, if it fails there too (if `asks`), is
        unknown there, or cannot be paired."""
        runs = self.runs
        suspect = self.suspect
        if suspect is None:
            is_wanted = asks or runs.passes_on_base is not False
        else:
            is_wanted = not runs.can_pair or (asks and not suspect.is_live and self.failed_together)
        is_wanted = is_wanted or runs.passes_on_base is None
        is_new = self.alone is None and self.can_measure and not self.has_passed
        if is_wanted and is_new and runs.is_failing and runs.can_rerun:
            self.alone = Alone()


class Purse:
    """The bets of one run, or of one shard of it, which has `money` to begin with.

    Feed it the first round, then ask `reruns` and feed their results, until there are no more."""

    def __init__(self, terms: Terms, *, money: float = 1.0) -> None:
        self._terms = terms
        self._money = money
        graded = terms.graded
        parts = {PASSES: 0.5 if graded else 1.0} | dict.fromkeys(graded, 0.5 / max(len(graded), 1))
        self._spread = {name: [part / len(SHARES)] * len(SHARES) for name, part in parts.items()}
        self._seen = {name: [1.0 / len(SHARES)] * len(SHARES) for name in graded}
        self._product = 1.0
        self._fell = self._rose = 0
        self._states: dict[CaseKey, State] = {}
        self.factors: dict[CaseKey, float] = {}
        self.bets: list[Bet] = []

    @property
    def failed_together(self) -> set[CaseKey]:
        """Suspects that failed on both sides in fresh runs."""
        return {key for key, state in self._states.items() if state.failed_together}

    @property
    def worth(self) -> float:
        """What the bets that head is worse have made of the money."""
        return self._worth(self._product, self._spread)

    def _worth(self, product: float, spread: Mapping[str, Sequence[float]]) -> float:
        return self._money * ((1 - ASIDE) * product + ASIDE * _total(spread))

    @property
    def failing(self) -> float:
        """What the bets have made of the money that more cases fail by themselves than are
        tolerated: of each group the product over the cases with the least evidence, as many as are
        beyond those tolerated."""
        groups: defaultdict[str, list[float]] = defaultdict(list)
        for state in self._states.values():
            if state.alone is not None:
                groups[state.runs.group].append(state.alone.factor)
        total = self._money
        for group, factors in groups.items():
            total *= math.prod(sorted(factors)[: max(0, len(factors) - self._allowed(group))])
        return total

    def _allowed(self, group: str) -> int:
        return self._terms.tolerated.get(group, 0)

    @property
    def is_worse(self) -> bool:
        """True if head is worse."""
        return self.worth >= self._terms.needed

    @property
    def is_failing(self) -> bool:
        """True if more cases fail by themselves than are tolerated."""
        return self.failing >= self._terms.needed

    def begin(self, cases: Sequence[CaseRuns]) -> None:
        """The first round of all cases, then their further rounds."""
        self._states = {case.key: State(case) for case in cases}
        played = [state for state in self._states.values() if state.runs.rounds]
        for state in played:
            self._first(state, state.runs.rounds[0])
        self._split([state.runs.rounds[0] for state in played])
        odds = max(1, self._fell - self._rose) / (self._rose + 1)
        for state in played:
            if state.runs.is_suspect or state.runs.rounds[0].cell is Cell.FELL:
                state.suspect = Suspect(odds)
        for number in range(1, max((len(state.runs.rounds) for state in played), default=0)):
            for state in played:
                if number < len(state.runs.rounds):
                    self._stake_next(state, state.runs.rounds[number], odds)
        for state in self._states.values():
            state.look_alone(asks=self._terms.asks_alone)

    def _split(self, firsts: Sequence[RunPair]) -> None:
        """Divide the part that bets on every pair alike among the criteria that fell in the first
        round, in proportion to their falls. It is staked only on later pairs."""
        falls = {PASSES: float(self._fell - self._rose)}
        for name in self._terms.graded:
            falls[name] = math.fsum(self._falls(pair).get(name, 0.0) for pair in firsts)
        total = math.fsum(max(0.0, fall) for fall in falls.values())
        if total <= 0 or len(falls) < 2:
            return
        spread = _total(self._spread)
        for name, amounts in self._spread.items():
            factor = max(0.0, falls[name]) / total * spread / math.fsum(amounts)
            self._spread[name] = [amount * factor for amount in amounts]

    def _first(self, state: State, pair: RunPair) -> None:
        lead = (self._fell - self._rose + 0.5) / (self._fell + self._rose + 1)
        stake = min(MOST_AT_FIRST, max(0.0, lead))
        self._stake(state, pair, 1.0 if pair.cell is None else 1 + stake * _FALL[pair.cell])
        self._fell += pair.cell is Cell.FELL
        self._rose += pair.cell is Cell.ROSE

    def _stake_next(self, state: State, pair: RunPair, odds: float) -> None:
        suspect = state.suspect
        self._stake(
            state, pair, 1.0 if suspect is None or pair.cell is None else suspect.pays[pair.cell]
        )
        if suspect is not None:
            suspect.see(pair.cell)
        elif pair.cell is Cell.FELL:
            state.suspect = Suspect(odds)

    def _falls(self, pair: RunPair) -> dict[str, float]:
        """Beyond what is tolerated."""
        graded = self._terms.graded
        return {
            name: (pair.falls[name] - tolerated) / (1 + tolerated)
            for name, tolerated in graded.items()
            if name in pair.falls
        }

    def _stake(self, state: State, pair: RunPair, pays: float) -> None:
        falls = self._falls(pair)
        for name, fall in falls.items():  # a base of another day also shows what to suspect
            self._seen[name] = staked(self._seen[name], fall)
        if not pair.is_staked:
            return
        if pays != 1.0:
            self.factors[state.runs.key] = self.factors.get(state.runs.key, 1.0) * pays
            self._product *= pays
        for name, fall in (
            {PASSES: 0.0 if pair.cell is None else _FALL[pair.cell]} | falls
        ).items():
            self._spread[name] = staked(self._spread[name], fall)
        if pair.cell is not None:
            self.bets.append(Bet(key=state.runs.key, cell=pair.cell, worth=self.worth))

    def see(self, reruns: Sequence[Rerun], results: Iterable[RunPair | bool | None]) -> None:
        """Take the results of reruns into account. Reruns of one request had their stakes fixed
        before any of them ran."""
        pays = {
            key: state.suspect.pays
            for key, state in self._states.items()
            if state.suspect is not None
        }
        chances = {
            key: state.alone.believed
            for key, state in self._states.items()
            if state.alone is not None
        }
        for rerun, result in zip(reruns, results, strict=True):
            state = self._states[rerun.key]
            if isinstance(result, RunPair):
                self._see_pair(state, result, pays.get(rerun.key, (1.0,) * 4))
            elif state.alone is not None:
                state.alone.see(passed=result, believed=chances[rerun.key])
                state.unmeasured += 1 if result is None else -1
                state.has_passed |= result is True
        for state in self._states.values():
            if state.suspect is not None and not state.suspect.is_live:
                state.look_alone(asks=self._terms.asks_alone)

    def _see_pair(self, state: State, pair: RunPair, pays: Sequence[float]) -> None:
        state.unmeasured += 1 if pair.cell is None else -1
        state.graded += 1
        self._stake(state, pair, 1.0 if pair.cell is None else pays[pair.cell])
        if pair.is_staked:
            state.has_passed |= pair.cell in (Cell.PASSED, Cell.ROSE)
            state.failed_together |= pair.cell is Cell.FAILED
        if state.suspect is not None:
            state.suspect.see(pair.cell)

    def reruns(self) -> tuple[Rerun, ...]:
        """The next bets; empty if nothing could change the answer any more. Suspects come first, as
        many at once as could end it."""
        states = self._states.values()
        if self.is_worse:
            return ()
        if suspects := [
            (state, state.suspect)
            for state in states
            if state.suspect is not None and state.is_live
        ]:
            suspects.sort(key=lambda suspect: (-suspect[1].growth, suspect[1].tries))
            return tuple(Rerun(key=key, is_pair=True) for key in self._fewest(suspects))
        if self.is_failing:
            return ()
        alone = [
            (state, state.alone) for state in states if state.alone is not None and state.is_open
        ]
        if alone and self._could_fail():
            return tuple(
                Rerun(key=state.runs.key, is_pair=False) for state in self._next_alone(alone)
            )
        return tuple(Rerun(key=key, is_pair=True) for key in self._next_graded())

    def _could_fail(self) -> bool:
        """True if more cases may fail by themselves than are tolerated."""
        groups: defaultdict[str, int] = defaultdict(int)
        for state in self._states.values():
            if state.alone is not None:
                groups[state.runs.group] += state.alone.factor > 1 or state.is_open
        return any(count > self._allowed(group) for group, count in groups.items())

    def _fewest(self, suspects: Sequence[tuple[State, Suspect]]) -> list[CaseKey]:
        """The fewest bets that would reach what is needed if all of them fell; else one on every
        suspect."""
        chosen: list[CaseKey] = []
        product = self._product
        spread = dict(self._spread)
        for turn in range(AT_ONCE):
            for state, suspect in suspects:
                if turn > suspect.falls or suspect.tries + turn >= PAIRS:
                    continue
                chosen.append(state.runs.key)
                product *= suspect.pays[Cell.FELL]
                spread[PASSES] = staked(spread[PASSES], 1.0)
                if self._worth(product, spread) >= self._terms.needed:
                    return chosen
            if turn == 0 and len(suspects) > 1:
                return chosen
        return chosen

    def _next_alone(self, cases: Sequence[tuple[State, Alone]]) -> list[State]:
        """The case that most likely fails, up to three times at once when it failed again before;
        where failures are tolerated, those that were run least, as all of them have to speak."""
        if any(self._allowed(state.runs.group) for state, _ in cases):
            least = min(alone.tries for _, alone in cases)
            return [state for state, alone in cases if alone.tries == least]
        best, alone = max(cases, key=lambda case: (case[1].odds, -case[1].tries))
        if not alone.tries:
            return [state for state, belief in cases if not belief.tries][:AT_FIRST]
        growth = math.log(alone.believed / (1 - FLAKY))
        lacking = math.log(self._terms.needed / self.failing) / growth if growth > 0 else 1.0
        return [best] * max(1, min(AT_ONCE, alone.tries, RUNS - alone.tries, math.ceil(lacking)))

    def _next_graded(self) -> list[CaseKey]:
        """Further pairs of the cases that fell by a graded criterion whose part of the purse has
        grown."""
        parts = {name: math.fsum(amounts) for name, amounts in self._seen.items()}
        best = max(parts, key=lambda name: parts[name], default="")
        if not best or parts[best] < PROMISING:
            return []
        falls = {
            key: math.fsum(
                pair.falls.get(best, 0.0) - self._terms.graded[best] for pair in state.runs.rounds
            )
            for key, state in self._states.items()
            if state.runs.can_rerun and state.runs.can_pair and state.can_measure
        }
        worst = sorted(
            (key for key, fall in falls.items() if fall > 0), key=lambda key: -falls[key]
        )[:GRADED_CASES]
        return [key for key in worst if self._states[key].graded < GRADED_PAIRS]

    def confirmations(
        self, *, is_worse: bool, is_failing: bool, largest: float
    ) -> dict[CaseKey, Confirmation]:
        """What is known of each case that fails by its first runs and can be run again. `is_worse`,
        `is_failing`: of all shards together; `largest`: the largest factor of a case there."""
        floor = min(NAMED, largest)
        return {
            key: _confirmation(
                state,
                is_broken=is_worse
                and state.suspect is not None
                and self.factors.get(key, 1.0) >= floor,
                is_failing=is_failing,
                is_settled=is_worse or is_failing,
            )
            for key, state in self._states.items()
            if state.runs.is_failing and state.runs.can_rerun
        }


def _confirmation(
    state: State, *, is_broken: bool, is_failing: bool, is_settled: bool
) -> Confirmation:
    """`is_settled`: nobody looks any further."""
    if is_broken:
        return Confirmation.BROKEN
    if is_failing and state.alone is not None and state.alone.factor > 1:
        return Confirmation.FAILING
    if not state.can_measure:
        return Confirmation.LOST
    # who passed in the first of several bets on it may yet be shown to fail
    is_open = not is_settled and (state.is_live or state.is_open)
    return Confirmation.FLAKY if state.has_passed and not is_open else Confirmation.OPEN


def _total(parts: Mapping[str, Sequence[float]]) -> float:
    return math.fsum(itertools.chain.from_iterable(parts.values()))


def play(
    cases: Sequence[CaseRuns], terms: Terms, *, money: float = 1.0
) -> tuple[Purse, tuple[Rerun, ...]]:
    """The purse after all that was run, and what is to be run next."""
    purse = Purse(terms, money=money)
    purse.begin(cases)
    results_by_rerun: dict[Rerun, list[RunPair | bool | None]] = {}
    for case in cases:
        results_by_rerun[Rerun(key=case.key, is_pair=True)] = [*case.pairs]
        results_by_rerun[Rerun(key=case.key, is_pair=False)] = [*case.alone]
    while reruns := purse.reruns():
        results = [
            (rerun, results_by_rerun[rerun].pop(0)) for rerun in reruns if results_by_rerun[rerun]
        ]
        if results:
            purse.see([rerun for rerun, _ in results], [result for _, result in results])
        if len(results) < len(reruns):
            lacking = Counter(reruns) - Counter(rerun for rerun, _ in results)
            return purse, tuple(lacking.elements())
    return purse, ()
