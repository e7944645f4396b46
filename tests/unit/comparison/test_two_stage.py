"""Adaptive repeats: the choice of cases, the exactness of the test on both stages, and the unbiased difference."""

from __future__ import annotations

import dataclasses
import itertools
import math
from random import Random

import pytest
from builders import sides
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.comparison import compare, repeats, tests
from evalgate.comparison.pairing import Sample
from evalgate.comparison.repeats import SHARES, Stage
from evalgate.comparison.tests import Stratum
from evalgate.model import Change, Policy


def undecided(text: str, *, with_base: bool = True, **policy: object) -> list[str]:
    head, base = sides.sides(text)
    found = repeats.undecided(
        head,
        base if with_base else None,
        policy=Policy(**policy),  # type: ignore[arg-type]
    )
    return [case_id for _, case_id in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PP/PP", []),  # unanimous
        ("FF/FF", []),
        ("PP/PF", ["c0"]),  # one of four differs
        ("PP/FF", ["c0"]),  # the sides differ
        ("PP/PP ; PP/FP", ["c0"]),  # by any criterion
        ("PF/PF ; PP/PP", ["c0"]),
        ("PP/P? PF/??", ["c1"]),  # what is not measured says nothing
        ("??/??", []),
        ("68/97", []),  # graded, all above the threshold
        ("68/42", ["c0"]),
    ],
)
def test_cases_whose_first_runs_differ_are_run_again(text: str, expected: list[str]) -> None:
    assert undecided(text) == expected


def test_without_a_base_head_alone_decides_what_is_run_again() -> None:
    assert undecided("PP/FF PF/PP", with_base=False) == ["c1"]


def test_advisory_suites_are_not_worth_more_runs() -> None:
    assert undecided("PF/PF", advisory=frozenset({sides.SUITE})) == []


def test_only_the_first_runs_choose() -> None:
    head, base = sides.sides("PPP/PPF PF./PP.", start=2)
    found = repeats.undecided(head, base, policy=Policy())
    assert found == ((sides.SUITE, "c1"),)


def outcomes(word: str) -> tuple[int, ...]:
    return tuple(int(letter == "1") for letter in word)


def strata(case: tuple[int, ...], *, first: int, more: int) -> list[Stratum]:
    """A case as it is seen: outcomes of head's and base's first runs, then of the further ones."""
    heads, bases, rest = case[:first], case[first : 2 * first], case[2 * first :]
    found = [Stratum(head_passes=sum(heads), head_runs=first, base_passes=sum(bases), base_runs=first)]
    if 0 < sum(heads) + sum(bases) < 2 * first:
        later = Stratum(head_passes=sum(rest[:more]), head_runs=more, base_passes=sum(rest[more:]), base_runs=more)
        found.append(later)
    return found


@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.9, 0.4), (0.3, 0.95)])
def test_the_two_looks_together_keep_alpha_exactly(rates: tuple[float, float]) -> None:
    """Two cases, 1 + 1 runs a side: every possible outcome under the null, with its probability, one by one."""
    first, more, alpha = 1, 1, 0.7  # so tiny a table reaches no smaller p
    looks = alpha * SHARES[Stage.FIRST], alpha * SHARES[Stage.LAST]
    wrong = total = 0.0
    for cases in itertools.product(itertools.product((0, 1), repeat=2 * (first + more)), repeat=2):
        chance = math.prod(
            math.prod(rate if each else 1 - rate for each in case) for case, rate in zip(cases, rates, strict=True)
        )
        seen = [strata(case, first=first, more=more) for case in cases]
        early = tests.exact(each[0] for each in seen).drop
        late = tests.exact(stratum for each in seen for stratum in each).drop
        total += chance
        wrong += chance * (early <= looks[0] or late <= looks[1])
    assert total == pytest.approx(1)
    assert 0 < wrong <= alpha


@pytest.mark.parametrize("rate", [0.5, 0.8, 0.95])
def test_the_last_look_alone_is_exact_at_every_level(rate: float) -> None:
    """One case, 2 + 2 runs a side, all outcomes: P(p <= level) <= level for every level that p can take."""
    chances: dict[float, float] = {}
    for case in itertools.product((0, 1), repeat=8):
        p = round(tests.exact(strata(case, first=2, more=2)).drop, 12)
        passes = sum(case)
        chances[p] = chances.get(p, 0.0) + rate**passes * (1 - rate) ** (8 - passes)
    running = 0.0
    for level in sorted(chances):
        running += chances[level]
        assert running <= level + 1e-12


def test_simulated_false_alarms_stay_below_alpha() -> None:
    random, draws, wrong = Random(11), 1500, 0
    for _ in range(draws):
        seen = [
            strata(tuple(int(random.random() < rate) for _ in range(10)), first=2, more=3)
            for rate in [0.98] * 8 + [0.8] * 3 + [0.4] * 3
        ]
        wrong += tests.exact(each[0] for each in seen).drop < 0.01 or (
            tests.exact(stratum for each in seen for stratum in each).drop < 0.04
        )
    assert wrong / draws <= 0.05


def sample(head: tuple[int, ...], base: tuple[int, ...], *, first: int) -> Sample:
    """As it is seen: without the further runs where the first ones agree."""
    again = 0 < sum(head[:first]) + sum(base[:first]) < 2 * first
    heads, bases = (head, base) if again else (head[:first], base[:first])
    patterns = (tuple((bool(each),) for each in heads), tuple((bool(each),) for each in bases))
    return Sample(
        key=("s", "c"),
        head=tuple(map(float, heads)),
        base=tuple(map(float, bases)),
        head_first=first,
        base_first=first,
        patterns=patterns if again else None,
    )


@pytest.mark.parametrize(("head_rate", "base_rate"), [(0.85, 0.95), (0.1, 0.98), (0.5, 0.5), (0.3, 0.6)])
def test_the_difference_is_not_shrunk_by_the_choice(head_rate: float, base_rate: float) -> None:
    """Its expectation over all outcomes of 2 + 1 runs a side is the true difference; the plain mean's is not."""
    expected = plain = 0.0
    for head in itertools.product((0, 1), repeat=3):
        for base in itertools.product((0, 1), repeat=3):
            chance = math.prod(head_rate if each else 1 - head_rate for each in head) * math.prod(
                base_rate if each else 1 - base_rate for each in base
            )
            seen = sample(head, base, first=2)
            ours = compare.case_means(seen)
            expected += chance * (ours[0] - ours[1])
            plain += chance * (math.fsum(seen.head) / len(seen.head) - math.fsum(seen.base) / len(seen.base))  # type: ignore[arg-type]
    assert expected == pytest.approx(head_rate - base_rate)
    if head_rate != base_rate:
        assert abs(plain) < abs(expected)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 1), min_size=10, max_size=10))
def test_means_stay_on_the_scale(runs: list[int]) -> None:
    head, base = compare.case_means(sample(tuple(runs[:5]), tuple(runs[5:]), first=2))
    assert -1e-9 <= head <= 1 + 1e-9
    assert -1e-9 <= base <= 1 + 1e-9


def test_a_look_spends_its_share_of_alpha() -> None:
    text = "FF/PP " * 2 + "PP/PP " * 3  # p = 1/36
    whole = sides.compare(text)
    first = sides.compare(text, stage=Stage.FIRST)
    assert (whole.criteria[0].change.value, first.criteria[0].change.value) == ("regressed", "inconclusive")
    assert sides.worse(whole.criteria[0]) == sides.worse(first.criteria[0]) == pytest.approx(1 / 36)
    assert sides.adjusted(first.criteria[0]) == pytest.approx(5 / 36)
    assert not repeats.early(first, policy=Policy())
    assert repeats.early(sides.compare("FF/PP " * 4 + "PP/PP", stage=Stage.FIRST), policy=Policy())


@pytest.mark.parametrize(
    ("first", "further", "fact"),
    [
        ("FF/PP", "FFFFF/PPPPP", True),
        ("FF/PP", "FFPPF/PPPFP", False),  # it was a coin toss: no fact, and no early end either
    ],
)
def test_the_first_look_takes_no_chance_for_a_fact(first: str, further: str, fact: bool) -> None:
    same, steady = "PP/PP " * 9, dict.fromkeys(range(10), "the same")
    early = sides.compare(same + first, behaviours=steady, stage=Stage.FIRST)
    assert (early.criteria[0].change, early.criteria[0].fact) == (Change.INCONCLUSIVE, False)
    assert not repeats.early(early, policy=Policy())
    head, base = sides.sides(same + further, start=2, behaviours=steady)
    if not fact:  # its behaviour differs where its outcomes do
        head, base = (
            dataclasses.replace(
                run,
                trials=tuple(dataclasses.replace(each, behavior=f"{each.grades['m']}") for each in run.trials),
            )
            for run in (head, base)
        )
    last = sides.compare_runs(head, base, stage=Stage.LAST).criteria[0]
    assert (last.change is Change.REGRESSED, last.fact) == (fact, fact)


def test_the_second_stage_is_a_stratum_of_its_own() -> None:
    comparison = sides.compare("FFFFF/PPPPP PP/PP PP/PP", start=2, stage=Stage.LAST)
    assert sides.worse(comparison.criteria[0]) == pytest.approx(1 / (6 * 20))
    assert comparison.head_rates is not None
    assert comparison.head_rates.k == 2  # rates by the first runs: the others are of chosen cases


def test_a_stored_base_with_more_runs_does_not_choose() -> None:
    comparison = sides.compare("PP/PPFFF PP/PPPPP FFFFF/PPPPP", start=2, stage=Stage.LAST)
    # of the first two cases only the first two runs count: head has no others
    assert comparison.criteria[0].base == comparison.criteria[0].cases.compared / 3 == 1.0
