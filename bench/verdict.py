"""How often pull requests that changed nothing are called worse, and how often those that broke
something are.

    python bench/verdict.py [--draws 4000] [--old-draws 4000 | --no-old] [--jobs 2] [--largest 200]

Each draw is a pull request of simulated runs (pull_requests.py); what decides, and what is run
next, is evalgate's own code (`comparison.book`, `comparison.verdict`). Mixes and worlds are hard
ones: order effects, crashes, outages of minutes, a provider that moves in the middle, noisy judges,
stored results of another day, shards. Beside it stands what the rules before the purse said of the
same draws (old_verdict.py), where git has their commit. Prints a table; the last line is JSON."""

from __future__ import annotations

import argparse
import dataclasses
import io
import itertools
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pull_requests import BASE, HEAD, MIXES, ROWS, WORLDS, Outcome, PullRequest, Row, draws_of

from evalgate.comparison.book import Sides
from evalgate.model import (
    AgentFailure,
    AgentUse,
    Case,
    ConfigOrigin,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    FailureKind,
    Grade,
    GradedTrial,
    NotEvaluated,
    PlanPart,
    Policy,
    Purpose,
    Reason,
    Run,
    Score,
    Suite,
    TrialKey,
)

ROOT = Path(__file__).resolve().parents[1]
OLD = "4c3c04e3641ef49f349f6bc01565366103b4a772"
"""The last commit before the purse."""
BOUND, NEAR, FEWEST = 0.05, 0.025, 1000
"""What each purse promises where nothing changed, which shares are near it, and the draws that
tell."""
NOTHING, ONE, THREE = (
    Row("14 x .98, 4 x .8, 2 x .4", "", change) for change in ("nothing", "1 broken", "3 broken")
)


def trial(
    side: int, place: int, outcome: Outcome, purpose: Purpose, number: int, *, is_old: bool
) -> GradedTrial:
    """A run as evalgate has it."""
    failure = (
        AgentFailure(kind=FailureKind.RAISED, message="x") if outcome is Outcome.CRASHED else None
    )
    grade: Grade = Score(value=float(outcome is Outcome.PASSED))
    if outcome in (Outcome.CRASHED, Outcome.UNMEASURED):
        grade = NotEvaluated(reason=Reason.JUDGE_UNAVAILABLE, message="x")
    return GradedTrial(
        key=TrialKey(suite="s", case_id=str(place), purpose=purpose, number=number),
        failure=failure,
        grades={"m": grade},
        apart=is_old,
        own_failure=failure is not None and side == BASE,
    )


def measured(pull: PullRequest) -> list[tuple[Run, Run]]:
    """Both sides of each shard, after all that was asked for."""
    return [rerun(pull, places, index) for index, places in enumerate(pull.parts, start=1)]


def rerun(pull: PullRequest, places: Sequence[int], index: int) -> tuple[Run, Run]:
    """Both sides of a shard."""
    world = pull.world
    trials = [
        [
            trial(
                side,
                place,
                pair[side],
                Purpose.FIRST,
                number,
                is_old=world.is_stored and side == BASE,
            )
            for place in places
            for number, pair in enumerate(pull.firsts[place])
        ]
        for side in (HEAD, BASE)
    ]
    part = PlanPart(index=index, of=world.shards) if world.shards > 1 else None
    head, base = (run_of(places, own, rounds=world.rounds, part=part) for own in trials)
    fresh: list[list[GradedTrial]] = [[], []]
    counts: dict[tuple[str, bool], int] = {}
    while True:
        head, base = (
            dataclasses.replace(side, confirmations=tuple(own))
            for side, own in zip((head, base), fresh, strict=True)
        )
        _, reruns = Sides(head=head, base=base, policy=Policy()).book_and_reruns
        if not reruns:
            return head, base
        for each in reruns:
            name = each.key[1], each.is_pair
            number = counts[name] = counts.get(name, -1) + 1
            place = int(name[0])
            if each.is_pair:
                for side, outcome in enumerate(pull.pair(place)):
                    fresh[side].append(
                        trial(side, place, outcome, Purpose.PAIR, number, is_old=False)
                    )
            else:
                outcome = pull.rerun(HEAD, place)
                fresh[HEAD].append(
                    trial(HEAD, place, outcome, Purpose.SINGLE, number, is_old=False)
                )


def run_of(
    places: Sequence[int],
    trials: Sequence[GradedTrial],
    fresh: Sequence[GradedTrial] = (),
    *,
    rounds: int,
    part: PlanPart | None = None,
) -> Run:
    """One side as evalgate has it."""
    suite = Suite(
        key="s",
        eval_set=EvalSet(
            eval_set_id="s",
            cases=tuple(Case(case_id=str(place), conversation=()) for place in places),
        ),
        criteria=(CriterionUse(name="m", threshold=0.5),),
        criteria_source=CriteriaSource(origin=ConfigOrigin.BESIDE),
        agent=AgentUse(driver="adk"),
    )
    return Run(
        suites=(suite,),
        trials=tuple(trials),
        confirmations=tuple(fresh),
        transcripts={}.get,
        repeats=rounds,
        part=part,
    )


def merged(parts: Sequence[tuple[Run, Run]], cases: int, rounds: int) -> tuple[Run, Run]:
    """The shards as one."""
    if len(parts) == 1:
        return parts[0]
    homes = {("s", str(place)): place % len(parts) + 1 for place in range(cases)}
    head, base = (
        run_of(
            range(cases),
            [trial for part in parts for trial in part[side].trials],
            [trial for part in parts for trial in part[side].confirmations],
            rounds=rounds,
            part=PlanPart(of=len(parts), homes=homes),
        )
        for side in (HEAD, BASE)
    )
    return head, base


class Shares(NamedTuple):
    """What is said of the draws of a row. `worse`, `failing`: the shares that are worse, and that
    fail by themselves alone; `runs`: of a case and side."""

    worse: float
    failing: float
    runs: float


def simulate(row: Row, draws: int) -> Shares:
    """What the rules say of a row: of all draws in the first mix and where a share is near what is
    promised, else of the first `FEWEST`."""
    if row.mix != NOTHING.mix or row.world:
        shares = said(draws_of(row, draws), FEWEST)
        if row.change != "nothing" or all(
            abs(share - BOUND) > NEAR for share in (shares.worse, shares.failing)
        ):
            return shares
    return said(draws_of(row, draws), draws)


def said(pulls: Iterable[PullRequest], draws: int) -> Shares:
    """What the rules say of the first `draws` pull requests."""
    worse, failing, runs = [], [], []
    for pull in itertools.islice(pulls, draws):
        head, base = merged(measured(pull), pull.cases, pull.world.rounds)
        book, _ = Sides(head=head, base=base, policy=Policy()).book_and_reruns
        worse.append(book.is_worse)
        failing.append(book.is_failing and not book.is_worse)
        runs.append(pull.runs / 2 / pull.cases)
    return Shares(fmean(worse), fmean(failing), fmean(runs))


class OldShares(NamedTuple):
    """What the rules before the purse said of the draws of a row. `runs`: of a case and side."""

    blocked: float
    runs: float


def old_shares(draws: int, jobs: int) -> dict[Row, OldShares]:
    """What the rules before the purse say of all rows, by their own code; nothing where git cannot
    give it."""
    with TemporaryDirectory() as folder:
        try:
            archive = ["git", "-C", str(ROOT), "archive", "--format=zip", OLD, "evalgate"]
            packed = subprocess.run(archive, capture_output=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            said = (
                error.stderr.decode()
                if isinstance(error, subprocess.CalledProcessError)
                else str(error)
            )
            print(
                f"no old rules: git does not give commit {OLD[:8]}: {said.strip()}", file=sys.stderr
            )
            return {}
        zipfile.ZipFile(io.BytesIO(packed)).extractall(folder)
        # in a process of its own, since both packages have the same name
        program = [sys.executable, str(Path(__file__).with_name("old_verdict.py"))]
        done = subprocess.run(
            [*program, f"--draws={draws}", f"--jobs={jobs}"],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": folder},
            check=True,
        )
        lines = done.stdout.splitlines()
        return {row: OldShares(*json.loads(line)) for row, line in zip(ROWS, lines, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument(
        "--old-draws", type=int, help="the first so many of them for the old rules (default: all)"
    )
    parser.add_argument("--no-old", action="store_true", help="leave the old rules out")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--largest", type=int, default=sys.maxsize, help="leave out rows of more cases than that"
    )
    options = parser.parse_args()
    rows = [row for row in ROWS if len(MIXES[row.mix]) <= options.largest]
    old_draws = options.draws if options.old_draws is None else options.old_draws
    old = {} if options.no_old else old_shares(old_draws, options.jobs)
    header = ["cases' pass rates", "world", "change", "worse", "failing", "runs a case and side"]
    header += [] if options.no_old else ["old: blocked", "runs"]
    print(f"| {' | '.join(header)} |")
    print(f"|---|---|---|{'--:|' * len(header[3:])}")
    found: dict[Row, Shares] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for row, new in zip(
            rows, pool.map(simulate, rows, [options.draws] * len(rows)), strict=True
        ):
            found[row] = new
            cells = [
                *row,
                f"{100 * new.worse:.1f} %",
                f"{100 * new.failing:.1f} %",
                f"{new.runs:.2f}",
            ]
            if old:
                cells += [f"{100 * old[row].blocked:.1f} %", f"{old[row].runs:.2f}"]
            cells += ["-"] * (len(header) - len(cells))
            print(f"| {' | '.join(cells)} |", flush=True)
    unchanged = [row for row in rows if row.change == "nothing"]
    told = {
        "false_block_max": max(found[row].worse for row in unchanged),
        # the least that is promised for what fails alone: it passes 3 times in 10 or more
        "false_failing_max": max(
            found[row].failing for row in unchanged if WORLDS[row.world].fall == 0
        ),
        "power_1_of_20": found[ONE].worse,
        "blocked_1_of_20": found[ONE].worse + found[ONE].failing,
        "power_3_of_20": found[THREE].worse,
        "runs_nothing_changed": found[NOTHING].runs,
        "draws": options.draws,
    }
    if not options.no_old:
        told |= {
            "old_false_block_max": max(
                (old[row].blocked for row in unchanged if old), default=None
            ),
            "old_power_1_of_20": old[ONE].blocked if old else None,
            "old_power_3_of_20": old[THREE].blocked if old else None,
            "old_runs_nothing_changed": old[NOTHING].runs if old else None,
        }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
