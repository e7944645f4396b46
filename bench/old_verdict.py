"""What the rules before the purse say of the pull requests of verdict.py, by their own code.

    PYTHONPATH=FOLDER python bench/old_verdict.py [--draws 4000] [--jobs 2]

FOLDER has the package `evalgate` of commit 4c3c04e3; verdict.py puts it there. The rules were:
exact tests of permuted labels, adjusted for all criteria, and reruns that confirm each failure.
Reruns are asked for as `gate/measure.py` did, shards are joined as `gate/merge.py` did. Prints a
line of JSON for each row of the table."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from statistics import fmean
from typing import TypeAlias

from pull_requests import BASE, HEAD, ROWS, Outcome, PullRequest, Row, draws_of

from evalgate.comparison import compare, confirm, sensitivity, tests, verdict as comparison_verdict
from evalgate.model import (
    FRESH,
    AgentFailure,
    AgentUse,
    BaseOrigin,
    BaseSource,
    Case,
    CaseKey,
    Comparison,
    ConfigOrigin,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    FailureKind,
    Grade,
    GradedTrial,
    NotEvaluated,
    Policy,
    Reason,
    Run,
    Score,
    Shard,
    Suite,
    TrialKey,
    Verdict,
    VerdictKind,
)

POLICY = Policy()


def leave_out_what_only_reports_tell() -> None:
    """The power line and the intervals of means, which take nearly all of the time. Neither
    decides: an interval tells `unchanged` from `inconclusive`, and neither of these blocks."""
    sensitivity.line = lambda *_, **__: None
    tests.interval = lambda *_, **__: None


def trial(
    side: int, place: int, outcome: Outcome, repeat: int, *, is_old: bool = False
) -> GradedTrial:
    """A run as evalgate had it."""
    failure = (
        AgentFailure(kind=FailureKind.RAISED, message="x") if outcome is Outcome.CRASHED else None
    )
    grade: Grade = Score(value=float(outcome is Outcome.PASSED))
    if outcome is Outcome.CRASHED:
        grade = NotEvaluated(reason=Reason.AGENT_FAILED, message="x")
    if outcome is Outcome.UNMEASURED:
        grade = NotEvaluated(reason=Reason.JUDGE_UNAVAILABLE, message="x")
    return GradedTrial(
        key=TrialKey(suite="s", case_id=str(place), repeat=repeat),
        failure=failure,
        grades={"m": grade},
        reused=is_old,
        own_failure=failure is not None and side == BASE,
    )


def first_rounds(
    pull: PullRequest, places: Sequence[int], *, index: int | None = None
) -> tuple[Run, Run]:
    """Both sides of some cases, of all where they are no shard."""
    world = pull.world
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
    homes = {
        ("s", str(place)): part for part, own in enumerate(pull.parts, start=1) for place in own
    }
    head, base = (
        Run(
            suites=(suite,),
            trials=tuple(
                trial(side, place, pair[side], number, is_old=world.is_stored and side == BASE)
                for place in places
                for number, pair in enumerate(pull.firsts[place])
            ),
            transcripts={}.get,
            repeats=world.rounds,
            shard=None if index is None else Shard(index=index, of=world.shards, homes=homes),
            shards=world.shards if index is None else 1,
            homes=homes if index is None else {},
        )
        for side in (HEAD, BASE)
    )
    return head, base


def compared(head: Run, base: Run, *, is_stored: bool) -> Comparison:
    """The two sides beside each other."""
    source = BaseSource.STORE if is_stored else BaseSource.RERUN
    return compare.compare(head, base, policy=POLICY, origin=BaseOrigin(source=source), unpaired={})


Sides: TypeAlias = tuple[Run, Run, Comparison]
"""Head, base, and the two beside each other."""


def confirmed(pull: PullRequest, head: Run, base: Run) -> Sides:
    """Both sides with the reruns of what failed. As in a run, head's rerun comes before the base's
    of the same number, and once the gate fails for certain, there are at most as many more as there
    are cases."""
    comparison = compared(head, base, is_stored=pull.world.is_stored)
    asked = confirm.of(head, comparison, policy=POLICY)
    left: int | None = None
    while asked:
        wanted = asked[0].next_runs(asked[0].outcomes(head, base), is_failed=left is not None)
        count = sum(runs for side in wanted for runs in side.values())
        if not count or (left is not None and count > left):
            break
        paired = {each.key for each in asked[0].suspects if each.paired}
        fresh: list[list[GradedTrial]] = [[], []]
        for number, place, side in sorted(tasks(pull, wanted)):
            outcome = pull.rerun(side, place, is_first=side == HEAD and ("s", str(place)) in paired)
            fresh[side].append(trial(side, place, outcome, FRESH + number))
        head, base = (
            dataclasses.replace(side, confirmations=(*side.confirmations, *own))
            for side, own in zip((head, base), fresh, strict=True)
        )
        if left is not None:
            left -= count
        elif confirm.is_failed(
            head, asked[0].confirmed(asked[0].outcomes(head, base)), policy=POLICY
        ):
            left = sum(len(suite.eval_set.cases) for suite in head.suites)
    return head, base, dataclasses.replace(comparison, base=base)


def tasks(
    pull: PullRequest, wanted: Sequence[dict[CaseKey, int]]
) -> Iterator[tuple[int, int, int]]:
    """The numbers of the reruns to make, with the case and the side."""
    for side, counts in enumerate(wanted):
        for (_, case_id), count in counts.items():
            done = pull.reruns[side, int(case_id)]
            yield from ((number, int(case_id), side) for number in range(done, done + count))


def measured(pull: PullRequest) -> Sides:
    """Both sides with all their runs; of shards, what they measured together."""
    sides = first_rounds(pull, range(pull.cases))
    if len(pull.parts) == 1:
        return confirmed(pull, *sides)
    parts = [
        confirmed(pull, *first_rounds(pull, places, index=index))
        for index, places in enumerate(pull.parts, start=1)
    ]
    reruns = [
        tuple(each for part in parts for each in part[side].confirmations) for side in (HEAD, BASE)
    ]
    head, base = (
        dataclasses.replace(side, confirmations=own)
        for side, own in zip(sides, reruns, strict=True)
    )
    return head, base, compared(head, base, is_stored=pull.world.is_stored)


def decided(head: Run, comparison: Comparison) -> Verdict:
    """The verdict, after what reruns confirm."""
    asked = confirm.of(head, comparison, policy=POLICY)
    settled = confirm.settle(comparison, asked, head=head)
    return comparison_verdict.decide(head, POLICY, comparison=settled, asked=asked)


def simulate(row: Row, draws: int) -> tuple[float, float]:
    """The share of pull requests that are blocked, and the runs of a case and side."""
    leave_out_what_only_reports_tell()
    blocked, runs = [], []
    for pull in draws_of(row, draws):
        head, _, comparison = measured(pull)
        verdict = decided(head, comparison)
        is_failed = any(gate.kind is VerdictKind.FAIL for gate in verdict.gates)
        # what a judge's outage leaves unmeasured blocks by the new rules too, and counts under
        # neither
        blocked.append(is_failed or (verdict.blocks and not pull.world.outages))
        runs.append(pull.runs / 2 / pull.cases)
    return fmean(blocked), fmean(runs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        for found in pool.map(simulate, ROWS, [options.draws] * len(ROWS)):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
