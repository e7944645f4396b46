"""Intervals over cases, pass^k and pass@k, and what a comparison could have seen."""

from __future__ import annotations

import dataclasses
import itertools
import math
from random import Random
from statistics import fmean, variance

import pytest
from builders import sides
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.comparison import power, sensitivity, tests
from evalgate.comparison.sensitivity import Gates, Runs
from evalgate.comparison.tests import ScoredStratum, Stratum
from evalgate.model import Change, Policy, ThresholdRule


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (120, 1.980), (10_000, 1.960)],
)
def test_students_quantiles_are_those_of_the_tables(freedom: int, expected: float) -> None:
    assert tests.student(0.975, freedom=freedom) == pytest.approx(expected, abs=6e-4)


def test_an_interval_of_one_case_is_unknown() -> None:
    assert tests.interval([0.5], draws=100, seed=1) is None


def test_the_ends_of_mirrored_differences_mirror_each_other() -> None:
    found = tests.interval([0.0, 0.0, -1.0, 1.0, 0.5, -0.5], draws=199, seed=1)
    assert found is not None
    assert found.low == -found.high


def test_cases_that_all_moved_alike_leave_nothing_open() -> None:
    found = tests.interval([0.25] * 8, draws=100, seed=1)
    assert found is not None
    assert (found.low, found.high) == (0.25, 0.25)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=90), st.randoms(use_true_random=False))
def test_intervals_have_no_favourite_side_and_no_order(values: list[float], random: Random) -> None:
    one = tests.interval(values, draws=300, seed=3)
    other = tests.interval([-value for value in values], draws=300, seed=3)
    random.shuffle(values)
    assert one is not None
    assert other is not None
    assert one == tests.interval(values, draws=300, seed=3)
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low))
    assert one.low <= math.fsum(values) / len(values) + 1e-9
    assert one.high >= math.fsum(values) / len(values) - 1e-9


def test_intervals_hold_what_they_promise() -> None:
    """20 cases whose differences are skewed and have many ties: 95% of intervals are to hold the true mean."""
    random, draws, held = Random(5), 300, 0
    values, weights = (-1.0, -0.5, 0.0, 0.5), (0.1, 0.1, 0.7, 0.1)
    mean = sum(value * weight for value, weight in zip(values, weights, strict=True))
    for number in range(draws):
        found = tests.interval(random.choices(values, weights, k=20), draws=600, seed=number)
        assert found is not None
        held += found.low - 1e-9 <= mean <= found.high + 1e-9
    assert held / draws >= 0.93


def test_pass_rates_by_hand() -> None:
    found = power.rates([[1, 1, 0], [1, 1, 1], [None, 0, 0], [None]])
    assert found is not None
    assert (found.k, found.rate) == (2, 5 / 8)
    assert found.all_of_k == pytest.approx((1 / 3 + 1 + 0) / 3)
    assert found.any_of_k == pytest.approx((1 + 1 + 0) / 3)
    assert found.interval.low < 5 / 8 < found.interval.high
    assert found.all_of_k_interval is not None
    assert found.all_of_k_interval.low < found.all_of_k < found.all_of_k_interval.high
    assert power.rates([[None]]) is None


@pytest.mark.parametrize("runs", [1, 3, 5])
def test_repeats_of_a_case_are_no_cases_of_their_own(runs: int) -> None:
    """20 cases of a kind: both intervals hold what is true of all cases of the kind 95 times in 100."""
    random, draws, held, all_held = Random(runs), 400, 0, 0
    mix = {0.98: 0.7, 0.8: 0.2, 0.4: 0.1}
    rate, every = (sum(rate**power * share for rate, share in mix.items()) for power in (1, runs))
    for _ in range(draws):
        rates = random.choices(list(mix), list(mix.values()), k=20)
        found = power.rates([[float(random.random() < each) for _ in range(runs)] for each in rates])
        assert found is not None
        assert found.all_of_k_interval is not None
        held += found.interval.low <= rate <= found.interval.high
        all_held += found.all_of_k_interval.low <= every <= found.all_of_k_interval.high
    assert min(held, all_held) / draws >= 0.93


@pytest.mark.parametrize("rate", [0.3, 0.9])
def test_pass_to_the_k_is_unbiased_where_the_power_of_the_mean_is_not(rate: float) -> None:
    """A case run three times, k = 2 (another case ran twice): the expectation over all outcomes is rate ** 2."""
    runs, k = 3, 2
    ours = naive = 0.0
    for outcome in itertools.product((0, 1), repeat=runs):
        chance = rate ** sum(outcome) * (1 - rate) ** (runs - sum(outcome))
        found = power.rates([outcome, (1, 1)])
        assert found is not None
        assert found.k == k
        ours += chance * (2 * found.all_of_k - 1)
        naive += chance * (sum(outcome) / runs) ** k
    assert ours == pytest.approx(rate**k)
    assert naive > rate**k


@pytest.mark.parametrize(
    ("stages", "alpha", "expected"),
    [
        (((1, 1),), 0.05, 5),
        (((2, 2),), 0.05, 2),
        (((3, 3),), 0.05, 2),
        (((5, 5),), 0.05, 1),
        (((5, 5),), 0.0001, 2),
        (((2, 2), (3, 3)), 0.04, 1),
        (((5, 1),), 0.05, 2),  # a stored base that ran once
        (((2, 2), (3, 1)), 0.04, 2),
    ],
)
def test_fewest_broken_cases_are_those_that_the_exact_test_asks_for(
    stages: tuple[tuple[int, int], ...], alpha: float, expected: int
) -> None:
    def p(broken: int) -> float:
        one = [Stratum(head_passes=0, head_runs=head, base_passes=base, base_runs=base) for head, base in stages]
        return tests.exact(one * broken).drop

    assert power.fewest_broken(stages, alpha=alpha) == expected
    assert p(expected) < alpha <= p(expected - 1)


def test_the_power_line_of_a_clean_suite() -> None:
    """Five breaking cases are needed at one run a side, two of more (more than the floor of 1 in 20); and at most half
    a case is added for what so few runs cannot rule out: that cases fail now and then."""
    found = sides.compare("P/P " * 20).power
    assert found is not None
    assert found.drop is not None
    assert 4 / 20 < found.drop <= 5.5 / 20
    assert 1 / 20 < dict(found.would)[5] <= dict(found.would)[2] <= 2.5 / 20
    assert sides.compare("P/P " * 4).power.drop is None  # type: ignore[union-attr] - 4 of 4 broken: p = 1/16
    assert sides.compare("?/P").power is None


def test_reruns_of_failures_show_what_the_first_runs_do_not() -> None:
    """One case of twenty that breaks: nothing for a test of one run a side, and all that a few reruns need."""
    policy = Policy(threshold=ThresholdRule.CONFIRMED)
    found = sides.compare("P/P " * 20, policy=policy).power
    assert found is not None
    assert found.drop is not None
    assert found.drop <= 1 / 20
    # under a pass rate one failure fails nothing
    lax = sides.compare("P/P " * 20, policy=dataclasses.replace(policy, pass_rate=0.9)).power
    assert lax is not None
    assert lax.drop is not None
    assert lax.drop > 1 / 20


def test_noise_costs_power_and_repeats_buy_it() -> None:
    clean, noisy = (sides.compare(text).power for text in ("PPP/PPP " * 20, "PPF/PFP " * 20))
    assert clean is not None
    assert noisy is not None
    assert noisy.drop is not None
    assert clean.drop is not None
    assert noisy.drop > clean.drop
    drops = [noisy.drop, *(drop for _, drop in noisy.would)]
    assert drops == sorted(drops, reverse=True)


@pytest.mark.parametrize("rates", [[0.8] * 20, [0.98] * 14 + [0.8] * 4 + [0.4] * 2, [0.5] * 20])
@pytest.mark.parametrize("more", [0, 3])
def test_the_power_line_keeps_its_word(rates: list[float], more: int) -> None:
    """The drop that it names, by cases that break one after the other, is seen about 4 times in 5."""
    random, seen, draws, first = Random(len(rates) + more), 0, 40, 2 if more else 3
    runs, gates = Runs(head=first, base=first, more=more), Gates(limit=0.05, floor=0.05)
    for _ in range(draws):
        quiet = both(rates, rates, first, more, random)
        pools = [(sum(head) + sum(base), len(head) + len(base)) for head, base in quiet]
        drop = sensitivity.smallest_drop(pools, runs, gates)
        assert drop is not None
        left, fallen = drop * len(rates), []
        for rate in random.sample(rates, len(rates)):
            fallen.append((rate, rate - min(left, rate)))
            left -= min(left, rate)
        broken = both([after for _, after in fallen], [before for before, _ in fallen], first, more, random)
        seen += is_seen(broken, first)
    assert 0.6 <= seen / draws <= 0.97


Outcomes = list[tuple[list[bool], list[bool]]]


def both(head: list[float], base: list[float], first: int, more: int, random: Random) -> Outcomes:
    """Both sides' outcomes of every case: the first runs, and more where these differ."""
    found = []
    for rates in zip(head, base, strict=True):
        ours, theirs = ([random.random() < rate for _ in range(first)] for rate in rates)
        if len({*ours, *theirs}) > 1:
            ours += [random.random() < rates[0] for _ in range(more)]
            theirs += [random.random() < rates[1] for _ in range(more)]
        found.append((ours, theirs))
    return found


def is_seen(outcomes: Outcomes, first: int) -> bool:
    """What the regression gate says, of one look or of two."""

    def p_value(strata: Outcomes) -> float:
        return tests.exact(
            Stratum(head_passes=sum(head), head_runs=len(head), base_passes=sum(base), base_runs=len(base))
            for head, base in strata
        ).drop

    firsts = [(head[:first], base[:first]) for head, base in outcomes]
    seconds = [(head[first:], base[first:]) for head, base in outcomes]
    if any(head for head, _ in seconds):
        is_significant = p_value(firsts) < 0.01 or p_value([*firsts, *seconds]) < 0.04
    else:
        is_significant = p_value(firsts) < 0.05
    squares = [variance(map(float, head)) / len(head) + variance(map(float, base)) / len(base) for head, base in firsts]
    drop = fmean(fmean(base) - fmean(head) for head, base in firsts)
    return is_significant and drop - tests.SURE * math.sqrt(sum(squares)) / len(squares) > 0.05


@pytest.mark.parametrize(
    ("text", "start", "runs", "enough"),
    [
        ("PPPPP/P", None, (5, 1, 0), False),  # a stored base that ran once
        ("P/PPPPP", None, (1, 5, 0), False),
        ("PPPPP/PP", None, (5, 2, 0), True),
        ("PPPPP/PP", 2, (2, None, 0), False),  # the further runs have no counterpart
        ("PPPPP/PPPP", 2, (2, None, 2), True),
        ("PPPPP/PPPPP", 2, (2, None, 3), True),
    ],
)
def test_the_power_line_speaks_of_the_runs_that_both_sides_have(
    text: str, start: int | None, runs: tuple[int, int | None, int], enough: bool
) -> None:
    """`enough`: one case of ten that breaks outright, and little more, is seen."""
    comparison = sides.compare(f"{text} " * 10, start=start)
    found = comparison.power
    assert found is not None
    assert (found.repeats, found.base_repeats, found.more) == runs
    assert (found.drop is not None and found.drop <= 0.11) == enough
    head, _, base = text.partition("/")
    row = sides.compare(f"{text} " * 9 + f"{'F' * len(head)}/{base}", start=start).criteria[0]
    assert (row.change is Change.REGRESSED) == enough


# ---- graded scores


def test_strata_are_permuted_apart() -> None:
    """Two stages of one case: head's runs of the second cannot come from the first. Exactly 1 of 2 * 2 ways."""
    strata = [ScoredStratum(head=(0.1,), base=(0.9,)), ScoredStratum(head=(0.2,), base=(0.7,))]
    assert tests.monte_carlo(strata, draws=20_000, seed=1).drop == pytest.approx(0.25, abs=0.01)
    together = [ScoredStratum(head=(0.1, 0.2), base=(0.9, 0.7))]
    assert tests.monte_carlo(together, draws=20_000, seed=1).drop == pytest.approx(1 / 6, abs=0.01)


def test_many_runs_are_shuffled_and_few_are_listed_with_the_same_result() -> None:
    few = [ScoredStratum(head=(0.1, 0.4, 0.5), base=(0.3, 0.6, 0.9))]
    many = [ScoredStratum(head=tuple(i / 40 for i in range(0, 16, 2)), base=tuple(i / 40 for i in range(1, 17, 2)))]
    for strata in (few, many):
        pool = [*strata[0].head, *strata[0].base]
        observed = math.fsum(strata[0].head)
        ways = [math.fsum(each) for each in itertools.combinations(pool, len(strata[0].head))]
        expected = sum(way <= observed + 1e-9 for way in ways) / len(ways)
        assert tests.monte_carlo(strata, draws=20_000, seed=4).drop == pytest.approx(expected, abs=0.012)


def test_graded_p_values_are_conservative_under_the_null() -> None:
    random, draws, wrong = Random(9), 400, 0
    for number in range(draws):
        strata = []
        for _ in range(10):
            scores = [round(random.betavariate(2, 1), 2) for _ in range(4)]
            strata.append(ScoredStratum(head=tuple(scores[:2]), base=tuple(scores[2:])))
        wrong += tests.monte_carlo(strata, draws=399, seed=number).drop <= 0.1
    assert wrong / draws <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / draws)
