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
    """Every way to hand out the labels within each case, one by one: how often the statistic is as large."""
    return _tail([(head, base) for head, base in cases]), _tail([(base, head) for head, base in cases])


def _tail(cases: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> float:
    ways, observed = [], 0
    for head, base in cases:
        pool = head + base
        dealt = [sum(pool[i] for i in chosen) for chosen in itertools.combinations(range(len(pool)), len(head))]
        parts = {}
        for passes in set(dealt):
            mid_p = (sum(each < passes for each in dealt) + sum(each == passes for each in dealt) / 2) / len(dealt)
            parts[passes] = round(-64 * math.log(mid_p)) if len(set(dealt)) > 1 else 0
        ways.append([parts[passes] for passes in dealt])
        observed += parts[sum(head)]
    totals = [sum(each) for each in itertools.product(*ways)]
    return sum(total >= observed for total in totals) / len(totals)


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
    mean = variance = observed = 0.0
    for case in cases:
        lowest, parts = tests.part_of(5, 5, case.head_passes + case.base_passes)
        _, chances = tests.hypergeometric(5, 5, case.head_passes + case.base_passes)
        own = sum(part * chance for part, chance in zip(parts, chances, strict=True))
        mean += own
        variance += sum((part - own) ** 2 * chance for part, chance in zip(parts, chances, strict=True))
        observed += parts[case.head_passes - lowest]
    z = (observed - mean) / math.sqrt(variance)
    assert tails.drop == pytest.approx(0.5 * math.erfc(z / math.sqrt(2)), rel=0.2)  # parts are rounded to 2/3


@given(tables, st.floats(0.001, 1))
def test_what_the_test_can_spend_is_what_it_can_reach(
    cases: list[tuple[tuple[int, ...], tuple[int, ...]]], limit: float
) -> None:
    """Over every deal of these outcomes, p falls below the limit exactly as often as `attainable` says."""
    deals = itertools.product(
        *(
            [tuple(pool[i] for i in order) for order in itertools.permutations(range(len(pool)))]
            for pool in map(sum_of, cases)
        )
    )
    sizes = [len(head) for head, _ in cases]
    found = [
        tests.exact(stratum(deal[:size], deal[size:]) for deal, size in zip(each, sizes, strict=True)).drop
        for each in itertools.islice(deals, 720)
    ]
    if math.prod(math.factorial(len(head) + len(base)) for head, base in cases) > 720:
        return
    spent = tests.attainable((stratum(head, base) for head, base in cases), limit, rise=False)
    assert sum(p < limit for p in found) / len(found) == pytest.approx(spent)


def sum_of(case: tuple[tuple[int, ...], tuple[int, ...]]) -> tuple[int, ...]:
    return case[0] + case[1]


@pytest.mark.parametrize("broken", [1, 2, 3])
def test_a_case_that_breaks_says_more_than_many_that_lose_a_run(broken: int) -> None:
    """As many runs lost, by one case after the other or by one in each of many cases."""
    whole = [stratum((0, 0, 0), (1, 1, 1))] * broken + [stratum((1, 1, 1), (1, 1, 1))] * 17
    spread = [stratum((1, 1, 0), (1, 1, 1))] * (3 * broken) + [stratum((1, 1, 1), (1, 1, 1))] * (20 - 3 * broken)
    assert tests.exact(whole).drop < tests.exact(spread).drop


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


def test_monte_carlo_is_never_zero_and_repeats_itself() -> None:
    cases = [ScoredStratum(head=(0.1, 0.2), base=(0.8, 0.9))] * 20
    first = tests.monte_carlo(cases, draws=200, seed=1)
    assert first.drop == pytest.approx(1 / 201)
    assert first == tests.monte_carlo(cases, draws=200, seed=1)
    assert tests.monte_carlo([ScoredStratum(head=(1.0,), base=(1.0,))], draws=10, seed=1).drop == 1.0
