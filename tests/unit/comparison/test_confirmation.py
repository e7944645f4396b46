"""New failures, confirmed: how many fresh pairs are asked for, and what they say."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import pytest
from builders import sides

from evalgate.comparison import repeats as comparison_repeats
from evalgate.model import CaseKey, CaseStatus, Comparison, FailureOrigin, Policy, Run


def candidates(comparison: Comparison, policy: Policy | None = None) -> tuple[CaseKey, ...]:
    return comparison_repeats.new_failures(comparison, policy=policy or Policy(), unreliable=frozenset())


def fresh_run(run: Run, rows: Sequence[Sequence[str]]) -> Run:
    """`rows`: of every criterion what the fresh runs of c0 gave."""
    fresh = sides.run([list(row) for row in rows], uses=run.suites[0].criteria)
    return dataclasses.replace(run, confirmations=fresh.trials)


def settle(text: str, fresh: str, *, pairs: int = 2, alone: bool = False) -> Comparison:
    """`fresh`: rounds as `FF/PP`, head's letters first; a row for each criterion."""
    head, base = sides.sides(text)
    comparison = sides.compare_runs(head, base)
    rows = [[word.partition("/") for word in row.split()] for row in fresh.split(";")]
    open_ones = frozenset(candidates(comparison))
    asked = comparison_repeats.Asked(cases=open_ones, pairs=pairs, alone=open_ones if alone else frozenset())
    return asked.settle(
        comparison,
        head=fresh_run(head, [[head for head, _, _ in row] for row in rows]),
        base=base if alone else fresh_run(base, [[base for _, _, base in row] for row in rows]),
    )


@pytest.mark.parametrize(
    ("fresh", "origin", "agreed"),
    [
        ("FF/PP", "new", 2),
        ("FP/PP", "flaky", 1),  # head passes once
        ("FF/PF", "flaky", 1),  # base fails once
        ("P./P.", "flaky", 0),  # stopped after the first pair
        ("P?/??", "flaky", 0),  # one good run of head is enough
        ("F?/PP", "unconfirmed", 1),  # too few pairs are known
        ("F!/PP", "unconfirmed", 1),
        ("FFF/P!P", "new", 2),  # a run that failed is made once more
        ("F!F/PPP", "new", 2),
        ("F!F/PPF", "flaky", 1),
        ("F./P.", "unconfirmed", 1),
        ("../..", "unconfirmed", 0),
    ],
)
def test_fresh_pairs_settle_a_new_failure(fresh: str, origin: str, agreed: int) -> None:
    case = settle("F/P", fresh).cases[0]
    assert (case.origin, case.confirmations) == (FailureOrigin(origin), agreed)


@pytest.mark.parametrize(
    ("fresh", "origin", "agreed"),
    [
        ("FF", "new", 2),
        ("FP", "flaky", 1),  # it passes once
        ("F!", "unconfirmed", 1),
        ("F!F", "new", 2),
        ("F", "unconfirmed", 1),  # one is not enough
        ("", "unconfirmed", 0),
    ],
)
def test_where_the_base_cannot_be_run_head_must_fail_every_time(fresh: str, origin: str, agreed: int) -> None:
    case = settle("F/P", fresh or ".", alone=True).cases[0]
    assert (case.origin, case.confirmations) == (FailureOrigin(origin), agreed)


@pytest.mark.parametrize(
    ("text", "fresh", "origin"),
    [
        # the base fails m, head fails n: n is looked at, whatever becomes of m
        ("P/F ; F/P", "PP/FF ; FF/PP", "new"),
        ("P/F ; F/P", "FP/PF ; FF/PP", "new"),
        ("P/F ; F/P", "PP/FF ; FP/PP", "flaky"),
        ("P/F ; F/P", "PP/FF ; FF/PF", "flaky"),
        ("P/F ; F/P", "FF/PP ; PP/PP", "flaky"),  # that m fails now does not confirm n
        ("P/F ; F/P", "??/?? ; FF/PP", "new"),
        ("P/F ; F/P", "PP/FF ; F?/PP", "unconfirmed"),
        # head fails m, then n, then m: the case as a whole is new though no criterion fails every time
        ("F/P ; P/P", "PF/PP ; FP/PP", "new"),
        ("F/P ; P/P", "PP/PP ; FP/PP", "flaky"),  # no: one fresh run is good
        ("F/P ; P/P", "FF/PP ; PP/FP", "new"),  # by m alone, since n is flaky on the base
        # head alone fails both, in turn: the case as a whole turned, and is looked at as a whole
        ("PFF/PPP ; FPP/PPP", "PF/PP ; FP/PP", "new"),
        ("PFF/PPP ; FPP/PPP", "PP/PP ; FP/PP", "flaky"),
    ],
)
def test_fresh_runs_are_looked_at_by_what_newly_fails(text: str, fresh: str, origin: str) -> None:
    assert settle(text, fresh).cases[0].origin is FailureOrigin(origin)


def test_only_new_failures_are_run_again() -> None:
    comparison = sides.compare("FFFFF/PPPPP FFFFF/FFFFF PPPPP/PPPPP PPPPP/FFFFF FFFFF/????? FFFFP/PPPPP")
    assert [case_id for _, case_id in candidates(comparison)] == ["c0", "c5"]
    settled = settle("F/P F/F", "FF/PP PP/FF")
    assert [case.origin for case in settled.cases] == [FailureOrigin.NEW, FailureOrigin.KNOWN]


@pytest.mark.parametrize("status", [CaseStatus.NEW, CaseStatus.CHANGED])
def test_a_case_that_the_base_was_not_asked_needs_no_confirmation(status: CaseStatus) -> None:
    assert candidates(sides.compare("F/P", unpaired={(sides.SUITE, "c0"): status})) == ()


def test_what_cannot_block_is_not_run_again() -> None:
    comparison = sides.compare("F/P F/P")
    assert candidates(comparison, Policy(advisory=frozenset({sides.SUITE}))) == ()
    unreliable = frozenset({(sides.SUITE, "c0")})
    assert comparison_repeats.new_failures(comparison, policy=Policy(), unreliable=unreliable) == ((sides.SUITE, "c1"),)


@pytest.mark.parametrize(
    ("candidates", "ways", "repeats", "expected"),
    [
        (0, 20, 1, 0),
        (1, 20, 1, 3),  # 1 / 64 < 0.05
        (3, 20, 1, 3),  # 3 / 64
        (4, 20, 1, 4),
        (20, 20, 3, 2),  # 20 cases * 4^-3 before, * 4^-2
        (20, 1000, 3, 5),  # among so many cases three repeats are not enough
    ],
)
def test_as_many_pairs_as_keep_alpha(candidates: int, ways: int, repeats: int, expected: int) -> None:
    assert comparison_repeats.needed(candidates, ways=ways, repeats=repeats, minimum=2, alpha=0.05) == expected


def test_the_users_minimum_holds() -> None:
    assert comparison_repeats.needed(1, ways=1, repeats=5, minimum=4, alpha=0.05) == 4


@pytest.mark.parametrize("repeats", [1, 2, 3, 5])
@pytest.mark.parametrize("rate", [0.05, 0.3, 0.5, 0.8, 0.98])
def test_no_pass_rate_blocks_by_chance_more_often_than_alpha(repeats: int, rate: float) -> None:
    """The exact chance, over 20 unchanged cases, that one becomes a candidate and is confirmed."""
    cases, alpha = 20, 0.05
    pure = rate**repeats * (1 - rate) ** repeats
    agree = rate * (1 - rate)
    wrong = math.fsum(
        math.comb(cases, found)
        * pure**found
        * (1 - pure) ** (cases - found)
        * (
            1
            - (1 - agree ** comparison_repeats.needed(found, ways=cases, repeats=repeats, minimum=2, alpha=alpha))
            ** found
        )
        for found in range(1, cases + 1)
    )
    assert wrong <= alpha


def test_the_chance_of_a_candidate_is_a_bound() -> None:
    assert comparison_repeats.new_failure_chance(1, alpha=0.05) == pytest.approx(0.25)
    assert comparison_repeats.new_failure_chance(3, alpha=0.05) == pytest.approx(1 / 64)
    # 5 runs: 0 of 5 against 4 of 5 is significant as well
    assert comparison_repeats.new_failure_chance(5, alpha=0.05) > 4**-5


def test_a_case_of_several_criteria_may_become_a_candidate_in_several_ways() -> None:
    one, _ = sides.sides("P/P P/P")
    three, _ = sides.sides("P/P P/P ; P/P P/P ; P/P P/P")
    assert (comparison_repeats.ways(one.suites), comparison_repeats.ways(three.suites)) == (2, 2 * (1 + 3))


@pytest.mark.parametrize("repeats", [1, 2, 3])
@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.3, 0.8), (0.9, 0.5)])
def test_two_criteria_do_not_block_by_chance_more_often_than_alpha(repeats: int, rates: tuple[float, float]) -> None:
    """As above, with two criteria that fail independently of each other: the union of what may look new."""
    cases, alpha = 20, 0.05
    whole = rates[0] * rates[1]
    candidate = math.fsum((p * (1 - p)) ** repeats for p in (whole, *rates))
    wrong = math.fsum(
        math.comb(cases, found)
        * candidate**found
        * (1 - candidate) ** (cases - found)
        * min(
            1.0,
            found * 0.25 ** comparison_repeats.needed(found, ways=3 * cases, repeats=repeats, minimum=2, alpha=alpha),
        )
        for found in range(1, cases + 1)
    )
    assert wrong <= alpha
