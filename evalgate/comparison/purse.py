"""The purse: is head worse than the base, and which runs would show it?

Every pair of runs, one on each side, is a bet that head is worse, at odds that are fair if the
change did nothing. So a purse that starts at 1 reaches 1/alpha with a probability of at most alpha,
whatever is run next (Ville 1939). Cases that fail on both sides or have no base have a purse of
their own. The rule in words: docs/statistics.md; the proof: docs/decisions/024-one-purse.md."""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache

from evalgate.model import Bet, CaseKey, Cell, Confirmation
from evalgate.values import frozen_dataclass, grouped

SPREAD_SHARE = 0.5
"""The share of the purse that bets equally on every pair, to find a drop that is spread over
cases."""
SHARES = (0.3, 0.6, 0.9)  # the shares of it that are staked on a pair, in three equal parts
MAX_FIRST_STAKE = 0.5  # the largest stake on a case in the first round
FLAKY = 0.3  # a case that passes this often is flaky, not failing
MIN_ODDS_SHARE = 0.35
"""A suspect is dropped if its odds fall below this share of its first odds, or of 1 : 1."""
MAX_PAIRS = 16  # a suspect is dropped after this many pairs
FAILED_TODAY = 2
"""A suspect of another day is dropped if it fails on both sides in so many pairs at first."""
MAX_RUNS = 20  # runs of head alone for one case
PAIRS_TO_CONFIRM = 6  # pairs that confirm a constant failure; a budget reserves them
RUNS_TO_CONFIRM = 10  # runs that confirm it if there is no base; a budget reserves them
MIN_FAILING_ODDS = 0.1
"""Head's runs of a case end if the odds that it fails are not above this."""
MAX_BETS_AT_ONCE = 3  # bets on one case at the same time
MAX_FIRST_CASES = 8  # cases that begin their runs of head alone at the same time
SPARE_RERUNS = 2
"""A case is given up if more of its reruns than this fail to be measured, beyond those that were
measured."""
BROKEN_FACTOR = 4.0
"""The factor of a case's bets, from 1, at which the case is reported as broken."""
PROMISING_FACTOR = 2.0
"""Graded scores: more pairs are run if their part of the purse reaches this factor."""
MAX_GRADED_PAIRS = 4  # graded scores: pairs of one case
MAX_GRADED_CASES = 50  # graded scores: cases with pairs
MEASURED = "(measured)"  # the name of a graded criterion: the run could be measured
ALL_CRITERIA = ""  # the name of a graded criterion: the run passes all deciding criteria


_FALL = (1.0, -1.0, 0.0, 0.0)
"""By cell: how much head was worse."""
_SWAPPED = (Cell.ROSE, Cell.FELL, Cell.PASSED, Cell.FAILED)
"""By cell: the cell if the sides are exchanged."""
_RATES = (0.3, 0.5, 0.7, 0.9, 0.98)
"""Assumed pass rates of a case if the change did nothing. They only set the stakes."""


def _chances(base: float, head: float) -> tuple[float, ...]:
    """The probability of each cell, for the pass rates of both sides."""
    return base * (1 - head), (1 - base) * head, base * head, (1 - base) * (1 - head)


_UNCHANGED = [(rate * (1 - rate), _chances(rate, rate)) for rate in _RATES]
_WORSE = [
    *((0.9 * 0.97, _chances(rate, 0.03)) for rate in _RATES),
    *((0.1 * rate * (1 - rate / 2), _chances(rate, rate / 2)) for rate in _RATES),
]
"""The kinds of an unchanged and of a broken case: prior weights after its first fall, and the
probabilities of its cells."""
_CHANCES = [*zip(*(chances for _, chances in (*_UNCHANGED, *_WORSE)), strict=True)]
"""For each cell, its probabilities for all of these kinds."""


@lru_cache(maxsize=10_000)
def _believed(
    odds: float, cells: tuple[Cell, ...]
) -> tuple[list[float], tuple[float, ...], float, float]:
    """The belief about a case that broke with `odds`, after these pairs: the weights of its kinds,
    the factor that a bet on the next pair pays in each cell, the expected growth of that bet, and
    the odds. Cached, because many suspects have the same pairs."""
    if cells:
        weights = [*map(operator.mul, _believed(odds, cells[:-1])[0], _CHANCES[cells[-1]])]
    else:
        same, worse = ([weight for weight, _ in kinds] for kinds in (_UNCHANGED, _WORSE))
        weights = [
            *(weight / sum(same) for weight in same),
            *(odds * weight / sum(worse) for weight in worse),
        ]
    total = math.fsum(weights)
    weights = [weight / total for weight in weights]
    probabilities = [math.fsum(map(operator.mul, weights, chances)) for chances in _CHANCES]
    fall, rise = probabilities[Cell.FELL], probabilities[Cell.ROSE]
    swapped = fall + rise
    # a bet of nothing pays the same in each cell
    gain, loss = (2 * fall / swapped, 2 * rise / swapped) if fall > rise else (1.0, 1.0)
    pays = (gain, loss, 1.0, 1.0)
    growth = fall * math.log(gain) + rise * math.log(max(loss, 1e-9))
    return weights, pays, growth, 1 / max(1e-12, math.fsum(weights[: len(_UNCHANGED)])) - 1


class Suspect:
    """A case that fell: the belief about it, and the factors that a bet on its next pair pays."""

    def __init__(self, odds: float, *, is_past: bool = False) -> None:
        self.odds = odds
        """That it broke; 0 if it did not fall, so that nothing is bet on it."""
        self.is_past = is_past
        """It fell beside a base of another day, so the base may fail it today."""
        self.cells: tuple[Cell, ...] = ()
        self.tries = 0
        self._look()

    def _look(self) -> None:
        _, self.pays, self.growth, odds = _believed(self.odds, self.cells)
        is_likely = odds >= MIN_ODDS_SHARE * min(1.0, self.odds) > 0
        fails_today = self.is_past and self.cells[:FAILED_TODAY] == (Cell.FAILED,) * FAILED_TODAY
        self.is_live = is_likely and self.tries < MAX_PAIRS and not fails_today

    def see(self, cell: Cell | None) -> None:
        """Add one more pair. None is a pair that could not be measured; it changes nothing."""
        if self.odds:
            self.tries += 1
            self.cells += () if cell is None else (cell,)
            self._look()


NO_SUSPECT = Suspect(0.0)  # of all cases that did not fall: it never changes


@frozen_dataclass
class RunPair:
    """One run of a case on each side."""

    cell: Cell | None
    """None: a side could not be measured."""
    falls: Mapping[str, float] = field(default_factory=dict)
    """By graded criterion: base's score minus head's as a share of the scale, from -1 to 1."""
    is_staked: bool = True
    """False: the two runs are of different days."""


@frozen_dataclass
class CaseRuns:
    """All runs of one case."""

    key: CaseKey
    group: str = ""
    """The cases that share one pass rate."""
    rounds: Sequence[RunPair] = ()
    """Its first runs."""
    pairs: Iterable[RunPair] = ()
    """Reruns on both sides."""
    alone: Iterable[bool | None] = ()
    """Reruns of head only, True if passed (None: not measured)."""
    is_failing: bool = False
    """By head's first runs, and head can be rerun."""
    passes_on_base: bool | None = None
    """The base's first runs passed; None if unknown."""
    is_suspect: bool = False
    """In the first runs, the sides pass different criteria; `pairs` are scored by those that head
    lost."""
    can_pair: bool = True
    """Both sides can be rerun."""

    def swapped(self) -> CaseRuns:
        """All of its pairs as first runs, with their sides exchanged."""
        rounds = [
            RunPair(
                cell=None if pair.cell is None else _SWAPPED[pair.cell],
                falls={name: -fall for name, fall in pair.falls.items()},
                is_staked=pair.is_staked,
            )
            for pair in (*self.rounds, *self.pairs)
        ]
        return CaseRuns(key=self.key, rounds=rounds)


@frozen_dataclass
class Rerun:
    """A run to do next: of a case, as a pair or on head alone."""

    key: CaseKey
    is_pair: bool


@frozen_dataclass
class Terms:
    """The rules of a purse."""

    needed: float = 20.0
    """The amount that decides."""
    tolerated: Counter[str] = field(default_factory=Counter)
    """The number of failures that each group tolerates."""
    graded: Mapping[str, float] = field(default_factory=dict)
    """The tolerated drop of each graded criterion, as a share of its scale."""
    asks_alone: bool = True
    """Cases that fail on the base too are rerun on head alone, as those without a base are."""


def staked(amounts: Sequence[float], fall: float) -> list[float]:
    """The amounts after a bet of `SHARES` of them. `fall`: by how much head was worse, from -1 to
    1."""
    return [amount * (1 + share * fall) for amount, share in zip(amounts, SHARES, strict=True)]


def evidence(drops: Iterable[float], *, tolerated: float) -> float:
    """The factor that bets on one criterion alone reach, from 1. `drops`: by how much head was
    worse in each pair, from -1 to 1."""
    amounts = [1.0] * len(SHARES)
    for drop in drops:
        amounts = staked(amounts, (drop - tolerated) / (1 + tolerated))
    return math.fsum(amounts) / len(amounts)


class State:
    """The state of one case in the bets."""

    def __init__(self, runs: CaseRuns) -> None:
        self.runs = runs
        self.suspect = NO_SUSPECT
        self.is_alone = self.has_passed = self.failed_together = False
        """It is rerun on head alone; a rerun passed; it failed on both sides in one rerun."""
        self.odds = self.factor = 1.0
        """That it fails, and the factor of these bets: by reruns of head alone."""
        self.tries = self.unmeasured = self.graded = 0
        """Runs of head alone; unmeasured reruns, less measured ones; pairs."""

    @property
    def can_measure(self) -> bool:
        """True if its reruns can be measured, as far as is known."""
        return self.unmeasured <= SPARE_RERUNS

    @property
    def is_live(self) -> bool:
        """True if another pair of it could change the answer."""
        can_pair = self.runs.is_failing and self.runs.can_pair and self.can_measure
        return can_pair and self.suspect.is_live

    @property
    def is_open(self) -> bool:
        """True if another run of head alone could change the answer."""
        is_likely = self.is_alone and self.odds > MIN_FAILING_ODDS
        return is_likely and self.tries < MAX_RUNS and self.can_measure

    @property
    def believed(self) -> float:
        """The probability that head fails, at least that of a flaky case, which makes the bet
        fair."""
        return max(1 - FLAKY, (self.odds * 0.97 + 0.5) / (1 + self.odds))

    def rerun_head(self, *, asks: bool) -> None:
        """Start to rerun a failing case on head alone, if it also fails on the base (and `asks`),
        is unknown there, or cannot be paired."""
        runs = self.runs
        if self.suspect.odds:
            is_known = asks and not self.suspect.is_live and self.failed_together
            is_wanted = is_known or not runs.can_pair or runs.passes_on_base is None
        else:
            is_wanted = asks or runs.passes_on_base is not False
        self.is_alone |= is_wanted and runs.is_failing and self.can_measure and not self.has_passed


class Purse:
    """The bets of one run, or of one part of it, which starts with `money`. It begins with the
    first runs of its cases.

    Call `reruns` and `see` with their results until `reruns` returns nothing."""

    def __init__(self, cases: Iterable[CaseRuns], terms: Terms, *, money: float = 1.0) -> None:
        self._terms = terms
        self._money = money
        graded = terms.graded
        shares = {ALL_CRITERIA: 0.5 if graded else 1.0} | dict.fromkeys(
            graded, 0.5 / max(len(graded), 1)
        )
        self._spread = {name: [share / len(SHARES)] * len(SHARES) for name, share in shares.items()}
        """By criterion: the amounts that bet equally on every pair."""
        self._seen = {name: [1.0 / len(SHARES)] * len(SHARES) for name in graded}
        self._product = 1.0
        """The factor of the bets on single cases."""
        self._states = {case.key: State(case) for case in cases}
        self._failing_states = [state for state in self._states.values() if state.runs.is_failing]
        self.factors: dict[CaseKey, float] = {}
        self.bets: list[Bet] = []
        self._play_rounds()

    @property
    def failed_together(self) -> set[CaseKey]:
        """Suspects that failed on both sides in the same rerun."""
        return {key for key, state in self._states.items() if state.failed_together}

    @property
    def worth(self) -> float:
        """The amount that the bets on "head is worse" have reached."""
        return self._worth(self._product, self._spread)

    def _worth(self, product: float, spread: Mapping[str, Sequence[float]]) -> float:
        return self._money * ((1 - SPREAD_SHARE) * product + SPREAD_SHARE * _total(spread))

    @property
    def failing(self) -> float:
        """The amount that the bets on "more cases fail by themselves than are tolerated" have
        reached. For each group it is the product over the cases with the least evidence, as many as
        exceed the tolerated number."""
        groups = grouped(
            (state.runs.group, state.factor) for state in self._failing_states if state.is_alone
        )
        total = self._money
        for group, factors in groups.items():
            excess = max(0, len(factors) - self._terms.tolerated[group])
            total *= math.prod(sorted(factors)[:excess])
        return total

    @property
    def is_worse(self) -> bool:
        """True if head is worse."""
        return self.worth >= self._terms.needed

    @property
    def is_failing(self) -> bool:
        """True if more cases fail by themselves than are tolerated."""
        return self.failing >= self._terms.needed

    def _play_rounds(self) -> None:
        """Play the first round of all cases, then their further rounds."""
        paired_states = [state for state in self._states.values() if state.runs.rounds]
        fell = rose = 0
        for state in paired_states:
            pair = state.runs.rounds[0]
            lead = (fell - rose + 0.5) / (fell + rose + 1)
            stake = min(MAX_FIRST_STAKE, max(0.0, lead))
            self._bet(state, pair, [1 + stake * fall for fall in _FALL])
            fell += pair.cell is Cell.FELL
            rose += pair.cell is Cell.ROSE
        self._split([state.runs.rounds[0] for state in paired_states], lead=fell - rose)
        odds = max(1, fell - rose) / (rose + 1)
        for state in paired_states:
            if state.runs.is_suspect or state.runs.rounds[0].cell is Cell.FELL:
                state.suspect = Suspect(odds, is_past=not state.runs.rounds[0].is_staked)
        for pairs in itertools.zip_longest(*(state.runs.rounds[1:] for state in paired_states)):
            for state, pair in zip(paired_states, pairs, strict=True):
                if pair is not None:
                    is_new = not state.suspect.odds and pair.cell is Cell.FELL
                    self._bet(state, pair, state.suspect.pays)
                    state.suspect = Suspect(odds) if is_new else state.suspect
        for state in self._failing_states:
            state.rerun_head(asks=self._terms.asks_alone)

    def _split(self, firsts: Sequence[RunPair], *, lead: float) -> None:
        """Divide the part that bets equally on every pair among the criteria that fell in the first
        round, in proportion to their falls. It is staked only on later pairs. `lead`: the fall by
        all criteria."""
        falls = {ALL_CRITERIA: lead}
        for name in self._terms.graded:
            falls[name] = math.fsum(self._falls(pair).get(name, 0.0) for pair in firsts)
        total = math.fsum(max(0.0, fall) for fall in falls.values())
        if total <= 0:
            return
        spread = _total(self._spread)
        for name, amounts in self._spread.items():
            factor = max(0.0, falls[name]) / total * spread / math.fsum(amounts)
            self._spread[name] = [amount * factor for amount in amounts]

    def _falls(self, pair: RunPair) -> dict[str, float]:
        """The falls of a pair beyond what is tolerated."""
        graded = self._terms.graded
        return {
            name: (pair.falls[name] - tolerated) / (1 + tolerated)
            for name, tolerated in graded.items()
            if name in pair.falls
        }

    def _bet(self, state: State, pair: RunPair, pays: Sequence[float]) -> None:
        """`pays`: the factor of the bet in each cell, which was fixed before."""
        cell = pair.cell
        state.suspect.see(cell)
        falls = self._falls(pair)
        for name, fall in falls.items():  # a base of another day shows suspects too
            self._seen[name] = staked(self._seen[name], fall)
        if not pair.is_staked:
            return
        if cell is not None and pays[cell] != 1.0:
            self.factors[state.runs.key] = self.factors.get(state.runs.key, 1.0) * pays[cell]
            self._product *= pays[cell]
        falls[ALL_CRITERIA] = 0.0 if cell is None else _FALL[cell]
        for name, fall in falls.items():
            self._spread[name] = staked(self._spread[name], fall)
        if cell is not None:
            self.bets.append(Bet(key=state.runs.key, cell=cell, worth=self.worth))

    def see(self, results: Sequence[tuple[Rerun, RunPair | bool | None]]) -> None:
        """Add the results of reruns. The stakes of all reruns of one request were fixed before any
        of them ran."""
        states = {rerun.key: self._states[rerun.key] for rerun, _ in results}
        stakes = {key: (state.suspect.pays, state.believed) for key, state in states.items()}
        for rerun, result in results:
            state = states[rerun.key]
            pays, believed = stakes[rerun.key]
            if isinstance(result, RunPair):
                state.unmeasured += 1 if result.cell is None else -1
                state.graded += 1
                if result.is_staked:
                    state.has_passed |= result.cell in (Cell.PASSED, Cell.ROSE)
                    state.failed_together |= result.cell is Cell.FAILED
                self._bet(state, result, pays)
            else:
                state.tries += 1
                state.unmeasured += 1 if result is None else -1
                if result is not None:
                    state.has_passed |= result
                    state.factor *= (1 - believed) / FLAKY if result else believed / (1 - FLAKY)
                    state.odds *= 0.06 if result else 1.94
        for state in states.values():
            if state.suspect.odds and not state.suspect.is_live:
                state.rerun_head(asks=self._terms.asks_alone)

    def reruns(self) -> tuple[Rerun, ...]:
        """The next bets; empty if none could change the answer. Suspects come first, as many at
        once as could decide."""
        states = self._failing_states
        if self.is_worse:
            return ()
        if suspects := [state for state in states if state.is_live]:
            suspects.sort(key=lambda state: (-state.suspect.growth, state.suspect.tries))
            return tuple(Rerun(key=key, is_pair=True) for key in self._fewest(suspects))
        if self.is_failing:
            return ()
        open_states = [state for state in states if state.is_open]
        counts = Counter(
            state.runs.group
            for state in states
            if state.is_alone and (state.factor > 1 or state.is_open)
        )
        tolerated = self._terms.tolerated
        could_fail = any(count > tolerated[group] for group, count in counts.items())
        if open_states and could_fail:
            next_states = self._next_alone(open_states)
            return tuple(Rerun(key=state.runs.key, is_pair=False) for state in next_states)
        return tuple(Rerun(key=key, is_pair=True) for key in self._next_graded())

    def _fewest(self, suspects: Sequence[State]) -> list[CaseKey]:
        """The fewest bets that would reach the needed amount if all of them fell; else one bet on
        every suspect."""
        keys: list[CaseKey] = []
        product = self._product
        spread = dict(self._spread)
        for turn in range(MAX_BETS_AT_ONCE if len(suspects) == 1 else 1):
            for state in suspects:
                suspect = state.suspect
                if turn > suspect.cells.count(Cell.FELL) or suspect.tries + turn >= MAX_PAIRS:
                    continue
                keys.append(state.runs.key)
                product *= suspect.pays[Cell.FELL]
                spread[ALL_CRITERIA] = staked(spread[ALL_CRITERIA], 1.0)
                if self._worth(product, spread) >= self._terms.needed:
                    return keys
        return keys

    def _next_alone(self, states: Sequence[State]) -> Sequence[State]:
        """The case that most likely fails, up to three times at once if it failed again before. If
        its group tolerates failures, the cases with the fewest runs, because all of them must be
        known."""
        fewest_tries = min(state.tries for state in states)
        least_known = [state for state in states if state.tries == fewest_tries]
        if any(self._terms.tolerated[state.runs.group] for state in states):
            return least_known
        likeliest = max(states, key=lambda state: (state.odds, -state.tries))
        if not likeliest.tries:
            return least_known[:MAX_FIRST_CASES]
        growth = math.log(likeliest.believed / (1 - FLAKY))
        missing_runs = math.log(self._terms.needed / self.failing) / growth if growth > 0 else 1.0
        most_runs = min(MAX_BETS_AT_ONCE, likeliest.tries, MAX_RUNS - likeliest.tries)
        return [likeliest] * max(1, min(most_runs, math.ceil(missing_runs)))

    def _next_graded(self) -> list[CaseKey]:
        """The next pairs: cases that fell by the graded criterion with the largest part of the
        purse."""
        part_amounts = {name: math.fsum(amounts) for name, amounts in self._seen.items()}
        criterion = max(part_amounts, key=part_amounts.__getitem__, default="")
        if not criterion or part_amounts[criterion] < PROMISING_FACTOR:
            return []
        tolerated = self._terms.graded[criterion]
        falls = {
            key: math.fsum(pair.falls.get(criterion, 0.0) - tolerated for pair in state.runs.rounds)
            for key, state in self._states.items()
            if state.runs.can_pair and state.can_measure
        }
        return [
            key
            for key in sorted(falls, key=lambda key: -falls[key])[:MAX_GRADED_CASES]
            if falls[key] > 0 and self._states[key].graded < MAX_GRADED_PAIRS
        ]

    def confirmations(
        self, *, is_worse: bool, is_failing: bool, largest_factor: float
    ) -> dict[CaseKey, Confirmation]:
        """The result of the reruns of each case that fails in its first runs and can be rerun.
        `is_worse`, `is_failing`: of all parts together. `largest_factor`: the largest factor of a
        case in any part."""
        floor = min(BROKEN_FACTOR, largest_factor)
        confirmations = {}
        for state in self._failing_states:
            key = state.runs.key
            # a case that passed in the first of several bets may still turn out to fail
            is_open = not (is_worse or is_failing) and (state.is_live or state.is_open)
            if is_worse and state.suspect.odds and self.factors.get(key, 1.0) >= floor:
                confirmations[key] = Confirmation.BROKEN
            elif is_failing and state.factor > 1:
                confirmations[key] = Confirmation.FAILING
            elif not state.can_measure:
                confirmations[key] = Confirmation.LOST
            else:
                is_flaky = state.has_passed and not is_open
                confirmations[key] = Confirmation.FLAKY if is_flaky else Confirmation.OPEN
        return confirmations


def _total(parts: Mapping[str, Sequence[float]]) -> float:
    """The sum of all amounts."""
    return math.fsum(itertools.chain.from_iterable(parts.values()))


def play(
    cases: Sequence[CaseRuns], terms: Terms, *, money: float = 1.0
) -> tuple[Purse, tuple[Rerun, ...]]:
    """Bet on all runs so far. Returns the purse and the runs to do next."""
    purse = Purse(cases, terms, money=money)
    results_by_rerun: dict[Rerun, Iterator[RunPair | bool | None]] = {}
    for case in cases:
        results_by_rerun[Rerun(key=case.key, is_pair=True)] = iter(case.pairs)
        results_by_rerun[Rerun(key=case.key, is_pair=False)] = iter(case.alone)
    while reruns := purse.reruns():
        results = [
            (rerun, result)
            for rerun in reruns
            for result in itertools.islice(results_by_rerun[rerun], 1)
        ]
        purse.see(results)
        if len(results) < len(reruns):
            missing_reruns = Counter(reruns) - Counter(rerun for rerun, _ in results)
            return purse, tuple(missing_reruns.elements())
    return purse, ()
