"""Simulated pull requests: what each run of their cases gives, without a class of evalgate's.

Two versions of evalgate decide about the same ones (verdict.py, old_verdict.py). What a run gives
follows from the row, the draw, the case, the side and the number of the run, so both versions see
the same where they ask for the same run. Bad episodes alone depend on the order too: an episode
strikes the runs that come next, whichever they are."""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple, TypeAlias

HEAD, BASE = 0, 1
FIRST = [0.98] * 14 + [0.8] * 4 + [0.4] * 2
MIXES: dict[str, Sequence[float]] = {
    "14 x .98, 4 x .8, 2 x .4": FIRST,
    "20 x .98": [0.98] * 20,
    "20 x .9": [0.9] * 20,
    "20 x .7": [0.7] * 20,
    "20 x .5": [0.5] * 20,
    "20 x .3": [0.3] * 20,
    "1 x .5": [0.5],
    ".95 .8 .5": [0.95, 0.8, 0.5],
    "8 from .3 to 1": [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
    "50, a heavy tail": [1.0] * 35 + [0.95] * 8 + [0.7] * 4 + [0.3] * 3,
    "200: 140 x .98, 40 x .8, 20 x .4": [0.98] * 140 + [0.8] * 40 + [0.4] * 20,
    "1,000: 900 x .99, 100 x .5": [0.99] * 900 + [0.5] * 100,
}
BROKEN = 0.02
LARGE = 100
"""From so many cases on, a tenth of the draws: they take as long."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What else makes runs fail. Each is a chance, or a share of the pass rate."""

    order: float = 0.0  # the first run of a pair fails so much more often
    crashes: float = 0.0  # the agent breaks down
    outages: float = 0.0  # a judge gives no score
    episodes: float = 0.0  # three runs in a row fail, whichever they are
    fall: float = 0.0  # of both sides, after the first round
    noise: float = 0.0  # a judge says the opposite
    since: float = 0.0  # the provider is so much worse than when the base was stored
    is_stored: bool = False
    shards: int = 1
    rounds: int = 1


WORLDS = {
    "": World(),
    "order effect 20 points": World(order=0.2),
    "crashes of 5 %": World(crashes=0.05),
    "outages of 5 %": World(outages=0.05),
    "bad episodes of 3 runs": World(episodes=0.05),
    "both fall in the middle": World(fall=0.2),
    "noisy judge, 10 %": World(noise=0.1),
    "stored base": World(is_stored=True),
    "stored base, provider fell .10": World(is_stored=True, since=0.1),
    "4 shards": World(shards=4),
    "5 rounds": World(rounds=5),
}

Change: TypeAlias = Callable[[list[float], list[float], Random], None]


def broken(count: int) -> Change:
    """So many cases that head fails nearly always."""

    def change(heads: list[float], _bases: list[float], random: Random) -> None:
        for place in random.sample(range(len(heads)), min(count, len(heads))):
            heads[place] = BROKEN

    return change


def on_both(count: int) -> Change:
    """So many cases that fail on both sides."""

    def change(heads: list[float], bases: list[float], random: Random) -> None:
        for place in random.sample(range(len(heads)), count):
            heads[place] = bases[place] = BROKEN

    return change


CHANGES: dict[str, Change] = {
    "nothing": lambda *_: None,
    "1 broken": broken(1),
    "3 broken": broken(3),
    "10 broken": broken(10),
    "4 fail on main too": on_both(4),
}


class Row(NamedTuple):
    """A row of the table, by the names of its parts."""

    mix: str
    world: str
    change: str


_ROWS = [
    *((mix, "", "nothing") for mix in MIXES),
    *(
        (mix, world, "nothing")
        for world in WORLDS
        if world
        for mix in ("14 x .98, 4 x .8, 2 x .4", "20 x .7")
    ),
    *(
        (mix, "", change)
        for mix in [*list(MIXES)[:4], ".95 .8 .5"]
        for change in ("1 broken", "3 broken")
    ),
    *(
        ("14 x .98, 4 x .8, 2 x .4", world, "1 broken")
        for world in ("stored base", "4 shards", "5 rounds")
    ),
    ("14 x .98, 4 x .8, 2 x .4", "stored base", "3 broken"),
    ("14 x .98, 4 x .8, 2 x .4", "4 shards", "3 broken"),
    ("20 x .98", "", "4 fail on main too"),
    ("200: 140 x .98, 40 x .8, 20 x .4", "", "10 broken"),
]
ROWS = [Row(*row) for row in _ROWS]


class Outcome(enum.Enum):
    """What a run gives."""

    PASSED = enum.auto()
    FAILED = enum.auto()
    CRASHED = enum.auto()  # the agent broke down
    UNMEASURED = enum.auto()  # a judge gave no score


class Luck(NamedTuple):
    """What chance has ready for a run, each from 0 to 1."""

    coin: float
    episode: float
    passing: float
    noise: float
    crash: float
    outage: float

    @classmethod
    def of(cls, random: Random) -> Luck:
        """The next one."""
        return cls(*(random.random() for _ in cls._fields))


Pair: TypeAlias = tuple[Outcome, Outcome]


class PullRequest:
    """One simulated pull request.

    `firsts`: the pairs of the first rounds, by case. `parts`: the cases of each shard. `reruns`:
    how often each side of a case ran again. `runs`: how many runs there were, without those of the
    day when the base was stored."""

    def __init__(self, row: Row, draw: int) -> None:
        self.world = WORLDS[row.world]
        self._name = f"{'/'.join(row)}/{draw}"
        random = Random(self._name)
        rates = MIXES[row.mix]
        bases = random.sample(list(rates), len(rates))
        heads = list(bases)
        CHANGES[row.change](heads, bases, random)
        self._rates = heads, bases
        self._bad = 0
        self._is_late = False
        self.runs = 0
        self.reruns: Counter[tuple[int, int]] = Counter()
        self.parts = [
            range(part, len(rates), self.world.shards) for part in range(self.world.shards)
        ]
        self.firsts = {
            place: self._first(place, random) for places in self.parts for place in places
        }
        self._is_late = True

    @property
    def cases(self) -> int:
        """How many cases there are."""
        return len(self.firsts)

    def _first(self, place: int, random: Random) -> list[Pair]:
        lucks = [(Luck.of(random), Luck.of(random)) for _ in range(self.world.rounds)]
        if self.world.is_stored:
            old = self._run(BASE, place, lucks[0][BASE], is_old=True)
            return [(self._run(HEAD, place, lucks[0][HEAD]), old)]
        return [self._both(place, luck) for luck in lucks]

    def pair(self, place: int) -> Pair:
        """A fresh run of a case on both sides, in the order that a coin says."""
        return self._both(place, (self._next(HEAD, place), self._next(BASE, place)))

    def rerun(self, side: int, place: int, *, is_first: bool = False) -> Outcome:
        """A fresh run of a case on one side. `is_first`: the other side's runs after it."""
        return self._run(side, place, self._next(side, place), is_first=is_first)

    def _next(self, side: int, place: int) -> Luck:
        number = self.reruns[side, place]
        self.reruns[side, place] += 1
        return Luck.of(Random(f"{self._name}/{place}/{side}/{number}"))

    def _both(self, place: int, lucks: tuple[Luck, Luck]) -> Pair:
        order = (HEAD, BASE) if lucks[HEAD].coin < 0.5 else (BASE, HEAD)
        made = {
            side: self._run(side, place, lucks[side], is_first=turn == 0)
            for turn, side in enumerate(order)
        }
        return made[HEAD], made[BASE]

    def _run(
        self, side: int, place: int, luck: Luck, *, is_first: bool = False, is_old: bool = False
    ) -> Outcome:
        """`is_old`: of the day when the base was stored."""
        world = self.world
        self.runs += not is_old
        rate = self._rates[side][place]
        if not is_old:
            rate -= (
                world.since
                + (world.fall if self._is_late else 0.0)
                + (world.order if is_first else 0.0)
            )
        if self._bad == 0 and luck.episode < world.episodes:
            self._bad = 3
        passed = luck.passing < rate and self._bad == 0
        self._bad = max(0, self._bad - 1)
        if luck.noise < world.noise:
            passed = not passed
        if luck.crash < world.crashes:
            return Outcome.CRASHED
        if luck.outage < world.outages:
            return Outcome.UNMEASURED
        return Outcome.PASSED if passed else Outcome.FAILED


def draws_of(row: Row, draws: int) -> Iterator[PullRequest]:
    """The pull requests of a row."""
    count = max(min(4, draws), draws // 10) if len(MIXES[row.mix]) >= LARGE else draws
    return (PullRequest(row, draw) for draw in range(count))
