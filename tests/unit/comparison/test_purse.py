"""The purse: every bet is fair if the change did nothing, it ends when it is certain, and what is
run next follows."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings, strategies as st

from evalgate.comparison import purse
from evalgate.comparison.purse import CaseRuns, Purse, RunPair, Suspect, Terms
from evalgate.model import Book, Cell

CELLS = {"f": Cell.FELL, "r": Cell.ROSE, "p": Cell.PASSED, "x": Cell.FAILED, "?": None}


def case(number: int, first: str, *, pairs: str = "", alone: str = "", **more: object) -> CaseRuns:
    """`first`: a letter a round, as `CELLS` has them; `alone`: `p` passed, `x` failed, `?` not
    measured."""
    rounds = [RunPair(cell=CELLS[letter]) for letter in first]
    return CaseRuns(
        key=("s", f"c{number}"),
        rounds=rounds,
        pairs=[RunPair(cell=CELLS[letter]) for letter in pairs],
        alone=[{"p": True, "x": False}.get(letter) for letter in alone],
        **{
            "is_failing": any(letter in "fx" for letter in first),
            "passes_on_base": None if not first else all(letter in "fp" for letter in first),
            **more,
        },  # type: ignore[arg-type]  # of any type
    )


def cases(text: str, **more: object) -> list[CaseRuns]:
    """`f p:fff x::xxp`: first rounds, then fresh pairs, then fresh runs of head alone."""
    made = []
    for number, word in enumerate(text.split()):
        first, pairs, alone = (*word.split(":"), "", "")[:3]
        made.append(case(number, first, pairs=pairs, alone=alone, **more))
    return made


def confirmations(made: Purse) -> list[str]:
    largest = max(made.factors.values(), default=1.0)
    found = made.confirmations(
        is_worse=made.is_worse, is_failing=made.is_failing, largest_factor=largest
    )
    return [each.value for each in found.values()]


# --- every bet is fair ----------------------------------------------------------------------------

letters = st.text("frpx?", max_size=12)
laws = st.tuples(*[st.floats(0, 1)] * 3).filter(lambda law: sum(law) > 0)


def swappable(law: tuple[float, float, float]) -> dict[Cell, float]:
    """Any law of a pair whose two sides can be exchanged: falling is as likely as rising."""
    swapped, passed, failed = (part / sum(law) for part in law)
    return {
        Cell.FELL: swapped / 2,
        Cell.ROSE: swapped / 2,
        Cell.PASSED: passed,
        Cell.FAILED: failed,
    }


@given(letters, laws, st.floats(0.05, 20))
def test_no_bet_on_a_suspect_gains_if_the_sides_can_be_exchanged(
    seen: str, law: tuple[float, float, float], odds: float
) -> None:
    suspect = Suspect(odds)
    for letter in seen:
        suspect.see(CELLS[letter])
    expected = math.fsum(chance * suspect.pays[cell] for cell, chance in swappable(law).items())
    assert expected <= 1 + 1e-9
    assert min(suspect.pays) >= 0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from("frpx"), max_size=6), laws)
def test_no_first_round_gains_if_the_sides_can_be_exchanged(
    before: list[str], law: tuple[float, float, float]
) -> None:
    known = " ".join(before)

    def worth(last: str) -> float:
        return Purse(cases(f"{known} {last}"), Terms()).worth

    start = Purse(cases(known), Terms())
    signs = {Cell.FELL: "f", Cell.ROSE: "r", Cell.PASSED: "p", Cell.FAILED: "x"}
    expected = math.fsum(chance * worth(signs[cell]) for cell, chance in swappable(law).items())
    assert expected <= start.worth + 1e-9


@given(st.text("px", max_size=12), st.floats(0.3, 1.0))
def test_no_bet_alone_gains_on_a_case_that_passes_three_times_in_ten(
    seen: str, rate: float
) -> None:
    def failing(runs: str) -> float:
        made = Purse([case(0, "x")], Terms())
        for letter in runs:
            rerun = purse.Rerun(key=("s", "c0"), is_pair=False)
            made.see([(rerun, letter == "p")])
        return made.failing

    assert rate * failing(seen + "p") + (1 - rate) * failing(seen + "x") <= failing(seen) * (
        1 + 1e-9
    )


@given(
    st.lists(st.tuples(st.text("frpx?", min_size=1, max_size=2), letters), min_size=1, max_size=6)
)
def test_exchanging_the_sides_exchanges_what_first_rounds_say(table: list[tuple[str, str]]) -> None:
    given_cases = [case(number, first) for number, (first, _) in enumerate(table)]
    twice = [each.swapped().swapped() for each in given_cases]
    assert Purse(given_cases, Terms()).worth == Purse(twice, Terms()).worth


def test_graded_scores_are_bets_beyond_what_is_tolerated() -> None:
    def worth(drop: float, tolerated: float) -> float:
        rounds = [RunPair(cell=Cell.PASSED, falls={"m": drop})]
        compared = [
            CaseRuns(key=("s", str(number)), rounds=rounds, passes_on_base=True)
            for number in range(20)
        ]
        return Purse(compared, Terms(graded={"m": tolerated})).worth

    assert worth(0.05, 0.05) == 1
    assert worth(0.6, 0.05) > 20
    assert worth(0.04, 0.05) < 1
    assert worth(-0.6, 0.05) < 1


# --- what it needs --------------------------------------------------------------------------------


def carried_out(
    text: str, answer: Callable[[purse.Rerun], RunPair | bool | None], **terms: object
) -> tuple[Purse, int, int]:
    """The purse after all reruns, how many runs they took, and in how many rounds."""
    runs = rounds = 0
    made = Purse(cases(text), Terms(**terms))  # type: ignore[arg-type]  # of any type
    while reruns := made.reruns():
        rounds += 1
        runs += sum(2 if rerun.is_pair else 1 for rerun in reruns)
        made.see([(rerun, answer(rerun)) for rerun in reruns])
    return made, runs, rounds


FALLS = RunPair(cell=Cell.FELL)


def test_four_certain_failures_of_forty_take_six_runs_in_two_rounds() -> None:
    made, runs, rounds = carried_out("f " * 4 + "p " * 36, lambda _: FALLS)
    assert made.is_worse
    assert runs <= 6
    assert rounds <= 2


def test_four_failures_that_main_has_too_take_twenty_runs() -> None:
    made, runs, _ = carried_out("x " * 4 + "p " * 36, lambda _: False)
    assert made.is_failing
    assert not made.is_worse
    assert runs <= 20


def test_one_case_of_twenty_takes_five_pairs() -> None:
    made, runs, _ = carried_out("f " + "p " * 19, lambda _: FALLS)
    assert made.is_worse
    assert runs <= 12
    assert confirmations(made) == ["broken"]


def test_what_passes_again_is_let_go_soon_and_called_flaky() -> None:
    made, runs, _ = carried_out("f " + "p " * 19, lambda _: RunPair(cell=Cell.PASSED))
    assert runs <= 6
    assert confirmations(made) == ["flaky"]
    made, runs, _ = carried_out("x " + "p " * 19, lambda _: True)
    assert (runs, confirmations(made)) == (1, ["flaky"])


def test_a_suspect_that_fails_on_both_sides_is_looked_at_alone() -> None:
    made, _, _ = carried_out(
        "f " + "p " * 9, lambda rerun: RunPair(cell=Cell.FAILED) if rerun.is_pair else False
    )
    assert (made.is_worse, made.is_failing, confirmations(made)) == (False, True, ["failing"])


def test_nothing_is_run_that_cannot_change_the_answer() -> None:
    assert not play("p p p")[1]
    assert not play("f " * 7 + "p " * 13)[1], "it is certain already"
    assert not play("x x p p p p p p p p", tolerated={"": 2})[1], "as many may fail"
    assert not play("x p p", asks_alone=False)[1]
    assert len(play("x x x p p p p p p p", tolerated={"": 2})[1]) == 3, "all of them have to speak"


def play(text: str, **terms: object) -> tuple[Purse, Sequence[purse.Rerun]]:
    return purse.play(cases(text), Terms(**terms))  # type: ignore[arg-type]  # of any type


def test_more_failures_than_are_tolerated_have_to_last() -> None:
    one, _ = play("x::xxxxxxxxxxxxxx x::p x::p p p p p p p p", tolerated={"": 1})
    assert not one.is_failing
    two, _ = play("x::xxxxxxxxxxxxxx x::xxxxxxxxxxxxxx x::p p p p p p p p", tolerated={"": 1})
    assert two.is_failing


def test_what_cannot_be_measured_is_given_up() -> None:
    made, runs, _ = carried_out(
        "f " + "p " * 9, lambda rerun: RunPair(cell=None) if rerun.is_pair else None
    )
    assert confirmations(made) == ["lost"]
    assert runs <= 8


def test_a_pull_request_that_goes_on_has_the_purse_that_it_had() -> None:
    """What was run is what is played, in any number of parts."""
    whole = purse.play(cases("f:ffff " + "p " * 19), Terms())[0]
    for count in range(5):
        part, _ = purse.play(cases(f"f:{'f' * count} " + "p " * 19), Terms())
        assert [bet.worth for bet in part.bets] == [bet.worth for bet in whole.bets][
            : len(part.bets)
        ]


def of_another_day(text: str) -> list[CaseRuns]:
    """Cases whose first rounds are beside a stored base."""
    return [
        dataclasses.replace(
            each, rounds=[dataclasses.replace(pair, is_staked=False) for pair in each.rounds]
        )
        for each in cases(text)
    ]


@pytest.mark.parametrize(
    ("text", "is_pair"),
    [
        ("f:x", True),  # the base may have failed by chance
        ("f:xx", False),  # it fails today as well: head alone can tell the rest
        ("f:fxx", True),  # today it passed once
    ],
)
def test_a_case_that_the_base_of_today_fails_too_goes_on_alone(text: str, *, is_pair: bool) -> None:
    _, reruns = purse.play(of_another_day(text), Terms())
    assert {rerun.is_pair for rerun in reruns} == {is_pair}
    beside, reruns = purse.play(cases(text), Terms())
    assert beside.is_worse or all(rerun.is_pair for rerun in reruns)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_base_of_another_day_says_whom_to_suspect_and_nothing_more(
    order: tuple[int, ...],
) -> None:
    old = of_another_day("f p p")
    made, reruns = purse.play([old[place] for place in order], Terms())
    assert (made.worth, [rerun.key for rerun in reruns]) == (1, [("s", "c0")])


@pytest.mark.parametrize(
    ("factors", "named"),
    [
        ({"a": 30.0, "b": 1.0}, ["a"]),
        ({"a": 30.0, "b": 0.5}, []),  # what the other lost counts against it
        ({"a": 50.0, "b": 50.0, "c": 0.9}, ["a", "b"]),
        ({"a": 5.0, "b": 5.0}, []),  # these together, none by name
    ],
)
def test_who_is_certainly_broken(factors: dict[str, float], named: list[str]) -> None:
    keys = {("s", name): factor for name, factor in factors.items()}
    assert [case_id for _, case_id in Book(factors=keys).certainly_broken] == named
