"""The exact test equals brute force, and its p-values keep their promise."""

from __future__ import annotations

import itertools
import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.comparison import tests
from evalgate.comparison.tests import ScoredStratum, Stratum


def stratum(head: tuple[int, ...], base: tuple[int, ...]) -> Stratum:
    return Stratum(head_passes=sum(head), head_runs=len(head), base_passes=sum(base), base_runs=len(base))


outcomes = st.lists(st.integers(0, 1), max_size=3).map(tuple)
tables = st.lists(st.tuples(outcomes, outcomes), max_size=3)


def brute_force(cases: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> tuple[float, float]:
    """Every way to hand out the labels within each case, one by one."""
    ways = []
    for head, base in cases:
        pool = head + base
        ways.append([sum(pool[i] for i in chosen) for chosen in itertools.combinations(range(len(pool)), len(head))])
    observed = sum(sum(head) for head, _ in cases)
    totals = [sum(each) for each in itertools.product(*ways)]
    return (
        sum(total <= observed for total in totals) / len(totals),
        sum(total >= observed for total in totals) / len(totals),
    )


@settings(max_examples=300)
@given(tables)
def test_the_convolution_is_the_enumeration(cases: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    tails = tests.exact(stratum(head, base) for head, base in cases)
    drop, rise = brute_force(cases)
    assert tails.drop == pytest.approx(drop, abs=1e-12)
    assert tails.rise == pytest.approx(rise, abs=1e-12)


@given(tables)
def test_swapping_the_sides_mirrors_the_test(cases: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    forth = tests.exact(stratum(head, base) for head, base in cases)
    back = tests.exact(stratum(base, head) for head, base in cases)
    assert forth.drop == pytest.approx(back.rise)
    assert forth.rise == pytest.approx(back.drop)


@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_cases_is_irrelevant(cases: list[tuple[tuple[int, ...], tuple[int, ...]]], random: Random) -> None:
    shuffled = list(cases)
    random.shuffle(shuffled)
    first = tests.exact(stratum(head, base) for head, base in cases)
    second = tests.exact(stratum(head, base) for head, base in shuffled)
    assert first.drop == pytest.approx(second.drop)


@pytest.mark.parametrize(
    ("broken", "fixed"),
    [(1, 0), (4, 0), (5, 0), (5, 1), (7, 2), (0, 3)],
)
def test_at_one_run_a_side_it_is_the_sign_test(broken: int, fixed: int) -> None:
    cases = [stratum((0,), (1,))] * broken + [stratum((1,), (0,))] * fixed + [stratum((1,), (1,))] * 9
    n = broken + fixed
    expected = sum(math.comb(n, k) for k in range(broken, n + 1)) / 2**n
    assert tests.exact(cases).drop == pytest.approx(expected)


def test_identical_sides_never_regress() -> None:
    cases = [stratum((1, 0, 1), (1, 0, 1)), stratum((0, 0, 0), (0, 0, 0))] * 10
    assert tests.exact(cases).drop >= 0.5
    assert tests.exact([]).drop == tests.exact([]).rise == 1.0


def test_ten_thousand_cases_are_no_trouble() -> None:
    random = Random(1)
    cases = [
        stratum(
            tuple(int(random.random() < 0.8) for _ in range(5)), tuple(int(random.random() < 0.82) for _ in range(5))
        )
        for _ in range(10_000)
    ]
    tails = tests.exact(cases)
    # the normal approximation, good at this size
    mean = variance = 0.0
    observed = 0
    for case in cases:
        n, k, t = 10, 5, case.head_passes + case.base_passes
        mean += k * t / n
        variance += k * t / n * (1 - t / n) * (n - k) / (n - 1)
        observed += case.head_passes
    z = (observed + 0.5 - mean) / math.sqrt(variance)
    assert tails.drop == pytest.approx(0.5 * math.erfc(-z / math.sqrt(2)), rel=0.05)


def test_p_values_are_conservative_under_the_null() -> None:
    random = Random(7)
    below = {0.01: 0, 0.05: 0, 0.2: 0}
    draws = 2000
    for _ in range(draws):
        rates = [random.choice((0.98, 0.8, 0.4)) for _ in range(12)]
        cases = [
            stratum(
                tuple(int(random.random() < rate) for _ in range(3)),
                tuple(int(random.random() < rate) for _ in range(3)),
            )
            for rate in rates
        ]
        p = tests.exact(cases).drop
        for alpha in below:
            below[alpha] += p <= alpha
    for alpha, count in below.items():
        assert count / draws <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / draws)


def test_monte_carlo_agrees_with_the_exact_test_on_passes_and_fails() -> None:
    cases = [((0, 0, 1), (1, 1, 1)), ((0, 1, 1), (1, 1, 1)), ((1, 0, 0), (1, 1, 0))]
    exact = tests.exact(stratum(head, base) for head, base in cases)
    sampled = tests.monte_carlo(
        [ScoredStratum(head=tuple(map(float, head)), base=tuple(map(float, base))) for head, base in cases],
        draws=20_000,
        seed=3,
    )
    assert sampled.drop == pytest.approx(exact.drop, abs=0.01)
    assert sampled.rise == pytest.approx(exact.rise, abs=0.01)


def test_monte_carlo_is_never_zero_and_repeats_itself() -> None:
    cases = [ScoredStratum(head=(0.1, 0.2), base=(0.8, 0.9))] * 20
    first = tests.monte_carlo(cases, draws=200, seed=1)
    assert first.drop == pytest.approx(1 / 201)
    assert first == tests.monte_carlo(cases, draws=200, seed=1)
    assert tests.monte_carlo([ScoredStratum(head=(1.0,), base=(1.0,))], draws=10, seed=1).drop == 1.0


def test_holm_by_hand() -> None:
    assert tests.holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    assert tests.holm({}) == {}
