"""How often pull requests that changed nothing are called worse, and how often those that broke something are.

    python bench/verdict.py [--draws 4000] [--jobs 2]

Each draw is a pull request of simulated runs; what decides, and what is run next, is evalgate's own code
(`comparison.book`, `comparison.verdict`). Mixes and worlds are hard ones: order effects, crashes, outages of minutes, a
provider that moves in the middle, noisy judges, stored results of another day, shards. Prints a table; the last line is
JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from random import Random
from statistics import fmean

from evalgate.comparison import book
from evalgate.comparison.book import Sides
from evalgate.model import (
    AgentFailure,
    AgentUse,
    Book,
    Case,
    ConfigOrigin,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    FailureKind,
    Grade,
    GradedTrial,
    InMemoryTranscripts,
    NotEvaluated,
    Policy,
    Purpose,
    Reason,
    Run,
    Score,
    Shard,
    Suite,
    TrialKey,
)
from evalgate.runner.trials import Round

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


class PullRequest:
    """One simulated pull request. `heads`, `bases`: how often each case passes on either side."""

    def __init__(self, heads: Sequence[float], bases: Sequence[float], world: World, random: Random) -> None:
        self._rates = (heads, bases)
        self._world = world
        self._random = random
        self._bad = 0
        self._is_late = False
        self.runs = 0

    def trial(self, side: int, place: int, at: Round, *, is_first: bool, is_old: bool = False) -> GradedTrial:
        """One run of a case; `is_old`: of the day when the base was stored."""
        world, draw = self._world, self._random.random
        self.runs += not is_old
        rate = self._rates[side][place]
        if not is_old:
            rate -= world.since + (world.fall if self._is_late else 0.0) + (world.order if is_first else 0.0)
        if self._bad == 0 and draw() < world.episodes:
            self._bad = 3
        passed = draw() < rate and self._bad == 0
        self._bad = max(0, self._bad - 1)
        if draw() < world.noise:
            passed = not passed
        key = TrialKey(suite="s", case_id=str(place), purpose=at[0], number=at[1])
        failure = AgentFailure(kind=FailureKind.RAISED, message="x") if draw() < world.crashes else None
        grade: Grade = Score(value=float(passed))
        if failure is not None or draw() < world.outages:
            grade = NotEvaluated(reason=Reason.JUDGE_UNAVAILABLE, message="x")
        own = failure is not None and side == 1
        return GradedTrial(key=key, failure=failure, grades={"m": grade}, apart=is_old, own_failure=own)

    def pair(self, place: int, at: Round) -> tuple[GradedTrial, GradedTrial]:
        """Both sides, in the order that a coin says."""
        order = (0, 1) if self._random.random() < 0.5 else (1, 0)
        made = {side: self.trial(side, place, at, is_first=turn == 0) for turn, side in enumerate(order)}
        return made[0], made[1]

    def measured(self) -> list[tuple[Run, Run]]:
        """Both sides of each shard, after all that was asked for."""
        cases = len(self._rates[0])
        parts = [range(part, cases, self._world.shards) for part in range(self._world.shards)]
        firsts = [[self._first(place) for place in places] for places in parts]
        self._is_late = True
        return [
            self._rerun(places, first, index) for index, (places, first) in enumerate(zip(parts, firsts, strict=True))
        ]

    def _first(self, place: int) -> list[tuple[GradedTrial, GradedTrial]]:
        if self._world.is_stored:
            old = self.trial(1, place, (Purpose.FIRST, 0), is_first=False, is_old=True)
            return [(self.trial(0, place, (Purpose.FIRST, 0), is_first=False), old)]
        return [self.pair(place, (Purpose.FIRST, number)) for number in range(self._world.rounds)]

    def _rerun(
        self, places: Sequence[int], first: Sequence[Sequence[tuple[GradedTrial, GradedTrial]]], index: int
    ) -> tuple[Run, Run]:
        trials = [[pair[side] for pairs in first for pair in pairs] for side in (0, 1)]
        fresh: list[list[GradedTrial]] = [[], []]
        counts: dict[tuple[str, bool], int] = {}
        shard = Shard(index=index + 1, of=self._world.shards) if self._world.shards > 1 else None
        while True:
            head, base = (
                run_of(places, own, again, rounds=self._world.rounds, shard=shard)
                for own, again in zip(trials, fresh, strict=True)
            )
            _, reruns = settled(head, base)
            if not reruns:
                return head, base
            for rerun in reruns:
                name = rerun.key[1], rerun.is_pair
                number = counts[name] = counts.get(name, -1) + 1
                if rerun.is_pair:
                    ours, theirs = self.pair(int(name[0]), (Purpose.PAIR, number))
                    fresh[1].append(theirs)
                else:
                    ours = self.trial(0, int(name[0]), (Purpose.SINGLE, number), is_first=False)
                fresh[0].append(ours)


def run_of(
    places: Sequence[int],
    trials: Sequence[GradedTrial],
    fresh: Sequence[GradedTrial],
    *,
    rounds: int,
    shard: Shard | None = None,
    shards: int = 1,
) -> Run:
    """One side as evalgate has it."""
    suite = Suite(
        key="s",
        eval_set=EvalSet(eval_set_id="s", cases=tuple(Case(case_id=str(place), conversation=()) for place in places)),
        criteria=(CriterionUse(name="m", threshold=0.5),),
        criteria_source=CriteriaSource(origin=ConfigOrigin.BESIDE),
        agent=AgentUse(driver="adk"),
    )
    homes = {("s", str(place)): place % shards + 1 for place in places} if shards > 1 else {}
    return Run(
        suites=(suite,),
        trials=tuple(trials),
        confirmations=tuple(fresh),
        transcripts=InMemoryTranscripts(),
        repeats=rounds,
        shard=shard,
        shards=shards,
        homes=homes,
    )


def settled(head: Run, base: Run) -> tuple[Book, Sequence[book.Rerun]]:
    """What evalgate says of both sides."""
    return Sides(head=head, base=base, policy=Policy()).settled


def merged(parts: Sequence[tuple[Run, Run]], cases: int, rounds: int) -> tuple[Run, Run]:
    """The shards as one."""
    if len(parts) == 1:
        return parts[0]
    head, base = (
        run_of(
            range(cases),
            [trial for part in parts for trial in part[side].trials],
            [trial for part in parts for trial in part[side].confirmations],
            rounds=rounds,
            shards=len(parts),
        )
        for side in (0, 1)
    )
    return head, base


Change = Callable[[list[float], list[float], Random], None]


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

ROWS = [
    *((mix, "", "nothing") for mix in MIXES),
    *((mix, world, "nothing") for world in WORLDS if world for mix in ("14 x .98, 4 x .8, 2 x .4", "20 x .7")),
    *((mix, "", change) for mix in [*list(MIXES)[:4], ".95 .8 .5"] for change in ("1 broken", "3 broken")),
    *(("14 x .98, 4 x .8, 2 x .4", world, "1 broken") for world in ("stored base", "4 shards", "5 rounds")),
    ("14 x .98, 4 x .8, 2 x .4", "stored base", "3 broken"),
    ("14 x .98, 4 x .8, 2 x .4", "4 shards", "3 broken"),
    ("20 x .98", "", "4 fail on main too"),
    ("200: 140 x .98, 40 x .8, 20 x .4", "", "10 broken"),
]


def simulate(row: tuple[str, str, str], draws: int) -> tuple[float, float, float, int]:
    """Shares of pull requests that are worse, and that fail by themselves alone; runs a case and side; draws."""
    mix, world, change = row
    rates, settings = MIXES[mix], WORLDS[world]
    random = Random(zlib.crc32(repr(row).encode()))
    times = max(4, draws // 10) if len(rates) >= LARGE else draws
    worse = failing = 0
    runs = []
    for _ in range(times):
        bases = random.sample(list(rates), len(rates))
        heads = list(bases)
        CHANGES[change](heads, bases, random)
        made = PullRequest(heads, bases, settings, random)
        found, _ = settled(*merged(made.measured(), len(rates), settings.rounds))
        worse += found.is_worse
        failing += found.is_failing and not found.is_worse
        runs.append(made.runs / 2 / len(rates))
    return worse / times, failing / times, fmean(runs), times


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print("| cases' pass rates | world | change | worse | failing | runs a case and side |")
    print("|---|---|---|--:|--:|--:|")
    found = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for row, result in zip(ROWS, pool.map(simulate, ROWS, [options.draws] * len(ROWS)), strict=True):
            worse, failing, runs, _ = found[row] = result
            cells = (*row, f"{100 * worse:.1f} %", f"{100 * failing:.1f} %", f"{runs:.2f}")
            print(f"| {' | '.join(cells)} |", flush=True)
    unchanged = [row for row in ROWS if row[2] == "nothing"]
    first = "14 x .98, 4 x .8, 2 x .4"
    told = {
        "false_block_max": max(found[row][0] for row in unchanged),
        # the least that is promised for what fails alone: it passes 3 times in 10 or more
        "false_failing_max": max(found[row][1] for row in unchanged if WORLDS[row[1]].fall == 0),
        "power_1_of_20": found[first, "", "1 broken"][0],
        "blocked_1_of_20": sum(found[first, "", "1 broken"][:2]),
        "power_3_of_20": found[first, "", "3 broken"][0],
        "runs_nothing_changed": found[first, "", "nothing"][2],
        "draws": options.draws,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
