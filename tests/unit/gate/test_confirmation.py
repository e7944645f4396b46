"""New failures, confirmed: how many fresh pairs are asked for, and what they say."""

from __future__ import annotations

import dataclasses
import math

import pytest
from builders import sides

from evalgate.gate import confirmation
from evalgate.model import Comparison, FailureOrigin, Run, Standing


def confirmed(run: Run, words: str) -> Run:
    fresh = sides.run([words.split()], uses=run.suites[0].criteria)
    return dataclasses.replace(run, confirmations=fresh.trials)


def settle(text: str, fresh: str, *, pairs: int = 2) -> Comparison:
    head, base = sides.sides(text)
    comparison = sides.compare_runs(head, base)
    parts = [word.partition("/") for word in fresh.split()]
    return confirmation.settle(
        comparison,
        head=confirmed(head, " ".join(head for head, _, _ in parts)),
        base=confirmed(base, " ".join(base for _, _, base in parts)),
        pairs=pairs,
    )


@pytest.mark.parametrize(
    ("fresh", "origin", "agreed"),
    [
        ("FF/PP", "new", 2),
        ("FP/PP", "flaky", 1),  # head passes once
        ("FF/PF", "flaky", 1),  # base fails once
        ("P./P.", "flaky", 0),  # stopped after the first pair
        ("P?/??", "flaky", 0),  # one good run of head is enough
        ("F?/PP", "unknown", 1),  # too few pairs are known
        ("F!/PP", "unknown", 1),
        ("F./P.", "unknown", 1),
        ("../..", "unknown", 0),
    ],
)
def test_fresh_pairs_settle_a_new_failure(fresh: str, origin: str, agreed: int) -> None:
    case = settle("F/P", fresh).cases[0]
    assert (case.origin, case.confirmations) == (FailureOrigin(origin), agreed)


def test_only_new_failures_are_run_again() -> None:
    comparison = sides.compare("FFFFF/PPPPP FFFFF/FFFFF PPPPP/PPPPP PPPPP/FFFFF FFFFF/????? FFFFP/PPPPP")
    assert [case.case_id for case in confirmation.candidates(comparison)] == ["c0", "c5"]
    settled = settle("F/P F/F", "FF/PP PP/FF")
    assert [case.origin for case in settled.cases] == [FailureOrigin.NEW, FailureOrigin.KNOWN]


def test_a_case_that_the_change_adds_needs_no_confirmation() -> None:
    comparison = sides.compare("F/P", unpaired={(sides.SUITE, "c0"): Standing.NEW})
    assert confirmation.candidates(comparison) == ()


@pytest.mark.parametrize(
    ("candidates", "cases", "repeats", "expected"),
    [
        (0, 20, 1, 0),
        (1, 20, 1, 3),  # 1 / 64 < 0.05
        (3, 20, 1, 3),  # 3 / 64
        (4, 20, 1, 4),
        (20, 20, 3, 2),  # 20 cases * 4^-3 before, * 4^-2
        (20, 1000, 3, 5),  # among so many cases three repeats are not enough
    ],
)
def test_as_many_pairs_as_keep_alpha(candidates: int, cases: int, repeats: int, expected: int) -> None:
    assert confirmation.needed(candidates, cases=cases, repeats=repeats, minimum=2, alpha=0.05) == expected


def test_the_users_minimum_holds() -> None:
    assert confirmation.needed(1, cases=1, repeats=5, minimum=4, alpha=0.05) == 4


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
        * (1 - (1 - agree ** confirmation.needed(found, cases=cases, repeats=repeats, minimum=2, alpha=alpha)) ** found)
        for found in range(1, cases + 1)
    )
    assert wrong <= alpha


def test_the_chance_of_a_candidate_is_a_bound() -> None:
    assert confirmation.candidate_chance(1, alpha=0.05) == pytest.approx(0.25)
    assert confirmation.candidate_chance(3, alpha=0.05) == pytest.approx(1 / 64)
    # 5 runs: 0 of 5 against 4 of 5 is significant as well
    assert confirmation.candidate_chance(5, alpha=0.05) > 4**-5
