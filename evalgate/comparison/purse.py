"""The purse: is head worse than the base, and what is to be run next to tell.

Every pair of runs, one on each side, is a bet that head is worse, at odds that are fair if the change did nothing. So a
purse that starts at 1 ever holds 1/alpha with a chance of at most alpha, whatever is run next (Ville 1939). What fails
on both sides, or has no base, has a purse of its own. The rule in words: docs/statistics.md; the proof:
docs/decisions/024-one-purse.md.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final, TypeAlias

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
LET_GO, PAIRS = 0.35, 16
"""A suspect is let go when its odds fell to this part of what they were, or after so many pairs."""
RUNS, UNLIKELY = 20, 0.1
"""How often head alone is run at most, and the odds of failing at which a case is let go."""
AT_ONCE, AT_FIRST = 3, 8
"""How many bets on one case may be under way together, and how many cases that were not looked at alone yet."""
SPARE: Final = 2
"""How many more fresh runs of a case may fail to be measured than are, before it is given up."""
NAMED: Final = 4.0
"""What the bets on a case have made of 1 where it is named as broken."""
PROMISING, GRADED_PAIRS, GRADED_CASES = 2.0, 4, 50
"""Graded scores: what their part of the purse must have made of 1 for further pairs, how many of a case, and of how
many cases."""
MEASURED: Final = "(measured)"
"""Stands where the name of a graded criterion stands, for whether a run could be measured at all."""
PASSES: Final = ""
"""Stands where the name of a graded criterion stands, for passing all that decides."""


_FALL: Final = (1.0, -1.0, 0.0, 0.0)
_SWAPPED: Final = (Cell.ROSE, Cell.FELL, Cell.PASSED, Cell.FAILED)
_RATES: Final = (0.3, 0.5, 0.7, 0.9, 0.98)
"""How often a case may pass, where the change did nothing; what is believed sets stakes alone."""


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


class Suspect:
    """A case that fell: what is believed of it, and so what a bet on its next pair pays in each cell."""

    def __init__(self, odds: float) -> None:
        same = [rate * (1 - rate) for rate in _RATES]
        worse = [belief for belief, _ in _WORSE]
        self._weights = [
            *(weight / sum(same) for weight in same),
            *(odds * weight / sum(worse) for weight in worse),
        ]
        self._least = LET_GO * min(1.0, odds)
        self.tries = 0
        self.falls = 0
        self._look()

    def _look(self) -> None:
        total = math.fsum(self._weights)
        self._weights = [weight / total for weight in self._weights]
        belief = [math.fsum(w * chances[cell] for w, chances in zip(self._weights, _ALL, strict=True)) for cell in Cell]
        swapped = belief[Cell.FELL] + belief[Cell.ROSE]
        self.pays = (1.0, 1.0, 1.0, 1.0)
        if belief[Cell.FELL] > belief[Cell.ROSE]:
            self.pays = (2 * belief[Cell.FELL] / swapped, 2 * belief[Cell.ROSE] / swapped, 1.0, 1.0)
        self.growth = math.fsum(p * math.log(max(pay, 1e-9)) for p, pay in zip(belief, self.pays, strict=True))
        odds = 1 / max(1e-12, math.fsum(self._weights[: len(_SAME)])) - 1
        self.is_live = odds >= self._least and self.tries < PAIRS

    def see(self, cell: Cell | None) -> None:
        """One more pair; None: it could not be measured, and says nothing."""
        self.tries += 1
        if cell is not None:
            self.falls += cell is Cell.FELL
            self._weights = [w * chances[cell] for w, chances in zip(self._weights, _ALL, strict=True)]
        self._look()


@frozen_dataclass
class Pair:
    """One run of a case on each side.

    `cell` None: a side could not be measured. `falls`: by graded criterion, base's score less head's as a share of the
    scale, from -1 to 1. `is_staked` False: the two ran on different days.
    """

    cell: Cell | None
    falls: Mapping[str, float] = field(default_factory=dict)
    is_staked: bool = True

    def swapped(self) -> Pair:
        """The same with the sides exchanged."""
        cell = None if self.cell is None else _SWAPPED[self.cell]
        return dataclasses.replace(self, cell=cell, falls={name: -fall for name, fall in self.falls.items()})


@frozen_dataclass
class CaseRuns:
    """All that is known of one case.

    `group`: cases that have a pass rate to reach together. `rounds`: its first runs, `pairs`: fresh pairs, `alone`:
    fresh runs of head alone, whether they passed (None: not measured). `is_failing`: by head's first runs.
    `passes_on_base`: the base's first runs passed; None where nothing is known of them. `is_suspect`: head passes other
    criteria in the first runs than the base does; `pairs` are of those that it lost. `can_pair`: the base can be run
    again, `can_rerun`: head can.
    """

    key: CaseKey
    group: str = ""
    rounds: Sequence[Pair] = ()
    pairs: Sequence[Pair] = ()
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
    """`needed`: what a purse must hold to speak. `tolerated`: how many failures each group lets pass. `graded`: the
    drop that each graded criterion may have, as a share of its scale. `asks_alone`: whether what fails on the base too
    is looked at; what has no base always is."""

    needed: float = 20.0
    tolerated: Mapping[str, int] = field(default_factory=dict)
    graded: Mapping[str, float] = field(default_factory=dict)
    asks_alone: bool = True


class Purse:
    """The bets of one run, or of one shard of it, which has `money` to begin with.

    Feed it the first round, then ask `reruns` and feed what came of them, until there are none.
    """

    def __init__(self, terms: Terms, *, money: float = 1.0) -> None:
        self._terms = terms
        self._money = money
        graded = terms.graded
        parts = {PASSES: 0.5 if graded else 1.0} | dict.fromkeys(graded, 0.5 / max(len(graded), 1))
        self._spread = {name: [part / len(SHARES)] * len(SHARES) for name, part in parts.items()}
        self._seen = {name: [1.0 / len(SHARES)] * len(SHARES) for name in graded}
        self.factors: dict[CaseKey, float] = {}
        self._product = 1.0
        self._fell, self._rose = 0, 0
        self._cases: dict[CaseKey, CaseRuns] = {}
        self._suspects: dict[CaseKey, Suspect] = {}
        self._odds: dict[CaseKey, float] = {}
        self._alone: dict[CaseKey, float] = {}
        self._tries: dict[CaseKey, int] = {}
        self._unmeasured: defaultdict[CaseKey, int] = defaultdict(int)
        self._passed: set[CaseKey] = set()
        self.failed_together: set[CaseKey] = set()
        self._graded: dict[CaseKey, int] = {}
        self.bets: list[Bet] = []

    # --- what it holds ---------------------------------------------------------------------------

    @property
    def worth(self) -> float:
        """What the bets that head is worse have made of the money."""
        spread = math.fsum(itertools.chain.from_iterable(self._spread.values()))
        return self._money * ((1 - ASIDE) * self._product + ASIDE * spread)

    @property
    def failing(self) -> float:
        """What the bets have made of the money that more cases fail by themselves than are tolerated: of each group
        the product over the cases with the least evidence, as many as are beyond those tolerated."""
        groups: defaultdict[str, list[float]] = defaultdict(list)
        for key, factor in self._alone.items():
            groups[self._cases[key].group].append(factor)
        total = self._money
        for group, factors in groups.items():
            beyond = len(factors) - self._terms.tolerated.get(group, 0)
            total *= math.prod(sorted(factors)[:beyond]) if beyond > 0 else 1.0
        return total

    @property
    def is_worse(self) -> bool:
        """Whether head is worse."""
        return self.worth >= self._terms.needed

    @property
    def is_failing(self) -> bool:
        """Whether more cases fail by themselves than are tolerated."""
        return self.failing >= self._terms.needed

    # --- what it sees ----------------------------------------------------------------------------

    def begin(self, cases: Sequence[CaseRuns]) -> None:
        """The first round of all cases, then their further rounds."""
        self._cases = {case.key: case for case in cases}
        for case in cases:
            if case.rounds:
                self._first(case, case.rounds[0])
        self._split(cases)
        odds = max(1, self._fell - self._rose) / (self._rose + 1)
        for case in cases:
            if case.rounds and (case.is_suspect or case.rounds[0].cell is Cell.FELL):
                self._suspects[case.key] = Suspect(odds)
        for number in range(1, max((len(case.rounds) for case in cases), default=0)):
            for case in cases:
                if number < len(case.rounds):
                    self._further(case, case.rounds[number], odds)
        for case in cases:
            if case.is_failing and case.can_rerun and self._is_alone(case):
                self._look_alone(case)

    def _split(self, cases: Sequence[CaseRuns]) -> None:
        """Give what bets on every pair alike to the criteria that fell in the first round, in proportion; it is staked
        on later pairs alone."""
        falls = {PASSES: float(self._fell - self._rose)}
        firsts = [case.rounds[0] for case in cases if case.rounds]
        for name in self._terms.graded:
            falls[name] = math.fsum(self._falls(pair).get(name, 0.0) for pair in firsts)
        total = math.fsum(max(0.0, fall) for fall in falls.values())
        if total <= 0 or len(falls) < 2:
            return
        spread = math.fsum(itertools.chain.from_iterable(self._spread.values()))
        for name, parts in self._spread.items():
            part = max(0.0, falls[name]) / total * spread / math.fsum(parts)
            self._spread[name] = [own * part for own in parts]

    def _first(self, case: CaseRuns, pair: Pair) -> None:
        self._note(pair)
        if pair.is_staked:
            lead = (self._fell - self._rose + 0.5) / (self._fell + self._rose + 1)
            stake = min(MOST_AT_FIRST, max(0.0, lead))
            self._stake(case.key, pair, 1.0 if pair.cell is None else 1 + stake * _FALL[pair.cell])
        self._fell += pair.cell is Cell.FELL
        self._rose += pair.cell is Cell.ROSE

    def _further(self, case: CaseRuns, pair: Pair, odds: float) -> None:
        suspect = self._suspects.get(case.key)
        self._note(pair)
        if pair.is_staked:
            self._stake(case.key, pair, 1.0 if suspect is None or pair.cell is None else suspect.pays[pair.cell])
        if suspect is not None:
            suspect.see(pair.cell)
        elif pair.cell is Cell.FELL:
            self._suspects[case.key] = Suspect(odds)

    def _note(self, pair: Pair) -> None:
        """What graded scores say of whom to suspect, also beside a base of another day."""
        for name, fall in self._falls(pair).items():
            parts = zip(self._seen[name], SHARES, strict=True)
            self._seen[name] = [part * (1 + share * fall) for part, share in parts]

    def _falls(self, pair: Pair) -> dict[str, float]:
        """Beyond what is tolerated."""
        graded = self._terms.graded
        return {
            name: (pair.falls[name] - tolerated) / (1 + tolerated)
            for name, tolerated in graded.items()
            if name in pair.falls
        }

    def _stake(self, key: CaseKey, pair: Pair, pays: float) -> None:
        if pays != 1.0:
            self.factors[key] = self.factors.get(key, 1.0) * pays
            self._product *= pays
        falls = {PASSES: 0.0 if pair.cell is None else _FALL[pair.cell]} | self._falls(pair)
        for name, fall in falls.items():
            if fall:
                parts = zip(self._spread[name], SHARES, strict=True)
                self._spread[name] = [part * (1 + share * fall) for part, share in parts]
        if pair.cell is not None:
            self.bets.append(Bet(key=key, cell=pair.cell, worth=self.worth))

    def see(self, reruns: Sequence[Rerun], results: Iterable[Pair | bool | None]) -> None:
        """What came of reruns that were asked for together: their stakes were fixed before any was run."""
        pays = {key: suspect.pays for key, suspect in self._suspects.items()}
        chances = {key: self._believed(key) for key in self._odds}
        for rerun, result in zip(reruns, results, strict=True):
            if isinstance(result, Pair):
                self._see_pair(rerun.key, result, pays.get(rerun.key, (1.0,) * 4))
            else:
                self._see_alone(rerun.key, passed=result, believed=chances[rerun.key])
        for key, suspect in self._suspects.items():
            case = self._cases[key]
            if not suspect.is_live and case.is_failing and self._is_alone(case):
                self._look_alone(case)

    def _see_pair(self, key: CaseKey, pair: Pair, pays: Sequence[float]) -> None:
        self._unmeasured[key] += 1 if pair.cell is None else -1
        if key in self._graded:
            self._graded[key] += 1
        self._note(pair)
        if pair.is_staked:
            self._stake(key, pair, 1.0 if pair.cell is None else pays[pair.cell])
            if pair.cell in (Cell.PASSED, Cell.ROSE):
                self._passed.add(key)
            if pair.cell is Cell.FAILED:
                self.failed_together.add(key)
        if key in self._suspects:
            self._suspects[key].see(pair.cell)

    def _see_alone(self, key: CaseKey, *, passed: bool | None, believed: float) -> None:
        self._tries[key] += 1
        self._unmeasured[key] += 1 if passed is None else -1
        if passed is None:
            return
        self._alone[key] *= (1 - believed) / FLAKY if passed else believed / (1 - FLAKY)
        self._odds[key] *= 0.06 if passed else 1.94
        if passed:
            self._passed.add(key)

    def _believed(self, key: CaseKey) -> float:
        """How likely a case is believed to fail; at least as often as a flaky one, which makes the bet fair."""
        odds = self._odds[key]
        return max(1 - FLAKY, (odds * 0.97 + 0.5) / (1 + odds))

    # --- what is run next ------------------------------------------------------------------------

    def reruns(self) -> tuple[Rerun, ...]:
        """The next bets; none where nothing could change the answer any more. Of suspects first, as many at once as
        could end it."""
        if self.is_worse:
            return ()
        suspects = sorted(
            (key for key, suspect in self._suspects.items() if suspect.is_live and self._can_pair(key)),
            key=lambda key: (-self._suspects[key].growth, self._suspects[key].tries),
        )
        if suspects:
            return tuple(Rerun(key=key, is_pair=True) for key in self._fewest(suspects))
        if self.is_failing:
            return ()
        alone = [key for key in self._odds if self._is_open(key)]
        if alone and self._could_fail():
            return tuple(Rerun(key=key, is_pair=False) for key in self._next_alone(alone))
        return tuple(Rerun(key=key, is_pair=True) for key in self._next_graded())

    def _can_pair(self, key: CaseKey) -> bool:
        case = self._cases[key]
        return case.is_failing and case.can_rerun and case.can_pair and self._unmeasured[key] <= SPARE

    def _is_alone(self, case: CaseRuns) -> bool:
        """Whether a failing case is looked at without the base: it fails there too, has none, or none that can be run
        beside it."""
        suspect = self._suspects.get(case.key)
        if case.passes_on_base is None:
            return True
        if suspect is None:
            return case.passes_on_base or self._terms.asks_alone
        if not case.can_pair:
            return True
        return self._terms.asks_alone and not suspect.is_live and case.key in self.failed_together

    def _look_alone(self, case: CaseRuns) -> None:
        if case.key not in self._odds and self._unmeasured[case.key] <= SPARE and case.key not in self._passed:
            self._odds[case.key] = 1.0
            self._alone[case.key] = 1.0
            self._tries[case.key] = 0

    def _is_open(self, key: CaseKey) -> bool:
        is_likely = self._odds[key] > UNLIKELY and self._tries[key] < RUNS
        return is_likely and self._unmeasured[key] <= SPARE

    def _could_fail(self) -> bool:
        """Whether more cases may fail by themselves than are tolerated."""
        groups: defaultdict[str, int] = defaultdict(int)
        for key in self._odds:
            groups[self._cases[key].group] += self._alone[key] > 1 or self._is_open(key)
        return any(count > self._terms.tolerated.get(group, 0) for group, count in groups.items())

    def _fewest(self, suspects: Sequence[CaseKey]) -> list[CaseKey]:
        """The fewest bets that would reach what is needed if all of them fell; else one on every suspect."""
        chosen: list[CaseKey] = []
        product = self._product
        spread = dict(self._spread)
        for turn in range(AT_ONCE):
            for key in suspects:
                suspect = self._suspects[key]
                if turn > suspect.falls or suspect.tries + turn >= PAIRS:
                    continue
                chosen.append(key)
                product *= suspect.pays[Cell.FELL]
                spread[PASSES] = [part * (1 + share) for part, share in zip(spread[PASSES], SHARES, strict=True)]
                total = math.fsum(itertools.chain.from_iterable(spread.values()))
                if self._money * ((1 - ASIDE) * product + ASIDE * total) >= self._terms.needed:
                    return chosen
            if turn == 0 and len(suspects) > 1:
                return chosen
        return chosen

    def _next_alone(self, cases: Sequence[CaseKey]) -> list[CaseKey]:
        """The case that most likely fails, up to three times at once when it failed again before; where failures are
        tolerated, those that were run least, as all of them have to speak."""
        groups = {self._cases[key].group for key in cases}
        if any(self._terms.tolerated.get(group, 0) for group in groups):
            least = min(self._tries[key] for key in cases)
            return [key for key in cases if self._tries[key] == least]
        best = max(cases, key=lambda key: (self._odds[key], -self._tries[key]))
        if not self._tries[best]:
            return [key for key in cases if not self._tries[key]][:AT_FIRST]
        growth = math.log(self._believed(best) / (1 - FLAKY))
        lacking = math.log(self._terms.needed / self.failing) / growth if growth > 0 else 1.0
        return [best] * max(1, min(AT_ONCE, self._tries[best], RUNS - self._tries[best], math.ceil(lacking)))

    def _next_graded(self) -> list[CaseKey]:
        """Further pairs of the cases that fell by a graded criterion whose part of the purse has grown."""
        parts = {name: math.fsum(own) for name, own in self._seen.items()}
        best = max(parts, key=lambda name: parts[name], default="")
        if not best or parts[best] < PROMISING:
            return []
        falls = {
            key: math.fsum(pair.falls.get(best, 0.0) - self._terms.graded[best] for pair in case.rounds)
            for key, case in self._cases.items()
            if case.can_rerun and case.can_pair and self._unmeasured[key] <= SPARE
        }
        worst = sorted((key for key, fall in falls.items() if fall > 0), key=lambda key: -falls[key])[:GRADED_CASES]
        for key in worst:
            self._graded.setdefault(key, 0)
        return [key for key in worst if self._graded[key] < GRADED_PAIRS]

    # --- what it says ----------------------------------------------------------------------------

    def confirmations(self, *, is_worse: bool, is_failing: bool, largest: float) -> dict[CaseKey, Confirmation]:
        """What is known of each case that fails by its first runs and can be run again. `is_worse`, `is_failing`: of
        all shards together; `largest`: the largest factor of a case there."""
        found = {}
        for key, case in self._cases.items():
            if case.is_failing and case.can_rerun:
                is_broken = is_worse and key in self._suspects and self.factors.get(key, 1.0) >= min(NAMED, largest)
                is_lasting = is_failing and self._alone.get(key, 0.0) > 1
                found[key] = self._confirmation(key, is_broken=is_broken, is_lasting=is_lasting)
                if found[key] is Confirmation.OPEN and key in self._passed and (is_worse or is_failing):
                    found[key] = Confirmation.FLAKY  # nobody looks any further, and it passes
        return found

    def _confirmation(self, key: CaseKey, *, is_broken: bool, is_lasting: bool) -> Confirmation:
        if is_broken:
            return Confirmation.BROKEN
        if is_lasting:
            return Confirmation.FAILING
        if self._unmeasured[key] > SPARE:
            return Confirmation.LOST
        # who passed in the first of several bets on it may yet be shown to fail
        is_live = key in self._suspects and self._suspects[key].is_live and self._can_pair(key)
        is_open = is_live or (key in self._odds and self._is_open(key))
        return Confirmation.FLAKY if key in self._passed and not is_open else Confirmation.OPEN


Runs: TypeAlias = Sequence[Pair] | Sequence[bool | None]


def play(cases: Sequence[CaseRuns], terms: Terms, *, money: float = 1.0) -> tuple[Purse, tuple[Rerun, ...]]:
    """The purse after all that was run, and what is to be run next."""
    purse = Purse(terms, money=money)
    purse.begin(cases)
    by_key = {case.key: case for case in cases}
    done: defaultdict[Rerun, int] = defaultdict(int)
    while reruns := purse.reruns():
        known: list[Rerun] = []
        results: list[Pair | bool | None] = []
        lacking: list[Rerun] = []
        for rerun in reruns:
            case = by_key[rerun.key]
            runs: Runs = case.pairs if rerun.is_pair else case.alone
            if done[rerun] < len(runs):
                known.append(rerun)
                results.append(runs[done[rerun]])
                done[rerun] += 1
            else:
                lacking.append(rerun)
        if known:
            purse.see(known, results)
        if lacking:
            return purse, tuple(lacking)
    return purse, ()


def certainly_broken(factors: Mapping[CaseKey, float], *, needed: float) -> tuple[CaseKey, ...]:
    """The cases that may be called broken by name: with a chance of at most 1 in `needed` any of them did not change
    (closed testing)."""
    lost = math.prod(min(1.0, factor) for factor in factors.values())
    return tuple(key for key, factor in factors.items() if factor > 1 and factor * lost >= needed)
