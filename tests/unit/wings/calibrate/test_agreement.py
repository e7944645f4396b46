"""Wilson's interval, agreement and kappa against published examples, brute force and simulation."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from random import Random
from statistics import NormalDist

import pytest
from builders.labels import JUDGE, MATCH, labelled
from hypothesis import given, strategies as st

from evalgate.model import Confusion, CriterionJudge
from evalgate.wings.calibrate import agreement

COUNTS = st.integers(0, 30)


def matrix(yes_yes: int, yes_no: int, no_yes: int, no_no: int) -> Confusion:
    return Confusion(
        true_positive=yes_yes, false_negative=yes_no, false_positive=no_yes, true_negative=no_no
    )


@pytest.mark.parametrize(
    ("cells", "kappa"),
    [
        ((20, 5, 10, 15), 0.4),  # grant proposals, the textbook example
        ((45, 15, 25, 15), 0.1304),  # equal agreement, unlike kappas: the textbook's two tables
        ((25, 35, 5, 35), 0.2593),
        # Feinstein and Cicchetti 1990, the first paradox: 85 % agreement both times
        ((40, 9, 6, 45), 0.6995),
        ((80, 10, 5, 5), 0.3182),
        ((10, 0, 0, 10), 1.0),
        ((0, 10, 10, 0), -1.0),
        ((5, 5, 5, 5), 0.0),
    ],
)
def test_published_kappas(cells: tuple[int, int, int, int], kappa: float) -> None:
    assert round(agreement.kappa(*cells) or 0.0, 4) == kappa


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_kappa_is_agreement_beyond_that_of_every_pair(a: int, b: int, c: int, d: int) -> None:
    """Expected agreement by brute force: the person's label of one item beside the judge's of
    another."""
    people = [True] * (a + b) + [False] * (c + d)
    judged = [True] * a + [False] * b + [True] * c + [False] * d
    total = len(people)
    found = agreement.kappa(a, b, c, d)
    if not total:
        assert found is None
        return
    observed = Fraction(sum(one is other for one, other in zip(people, judged, strict=True)), total)
    expected = Fraction(sum(one is other for one in people for other in judged), total * total)
    if expected == 1:
        assert found is None
    else:
        assert found == pytest.approx(float((observed - expected) / (1 - expected)))
        assert -1 <= found <= 1


def test_an_undecided_label_is_no_disagreement() -> None:
    verdicts = labelled("y/y*6 n/n*5 y/? n/?*3 y/n")
    made = agreement.calibrate(CriterionJudge(criterion=MATCH, judge=JUDGE), verdicts, seed=0)
    assert (made.matrix, made.undecided, made.clusters) == (matrix(6, 1, 0, 5), 4, 16)
    rate = agreement.agreement_rate(verdicts)
    assert rate is not None
    assert rate.value == 11 / 12
    assert (rate.low, rate.high) == agreement.wilson(11, 12)


def test_rates_are_shares_of_what_people_say() -> None:
    verdicts = labelled("y/y*9 y/n*1 n/y*2 n/n*6")
    tpr, tnr = (
        agreement.agreement_rate(verdicts, human=True),
        agreement.agreement_rate(verdicts, human=False),
    )
    assert tpr is not None
    assert tnr is not None
    assert (tpr.value, tnr.value) == (0.9, 0.75)
    assert (tpr.low, tpr.high) == agreement.wilson(9, 10)
    assert agreement.agreement_rate(labelled("y/y y/n"), human=False) is None


def test_one_word_only_has_no_kappa() -> None:
    assert agreement.kappa_rate(labelled("y/y*20"), seed=0) is None
    assert agreement.kappa_rate(labelled("y/?"), seed=0) is None


def test_agreeing_on_a_few_is_no_certainty() -> None:
    few, many = (
        agreement.kappa_rate(labelled("y/y*3 n/n*3"), seed=0),
        agreement.kappa_rate(labelled("y/y*60 n/n*60"), seed=0),
    )
    assert few is not None
    assert many is not None
    assert few.value == few.high == 1.0
    assert few.low < 0.6 < 0.9 < many.low


def test_labels_of_one_case_count_for_less() -> None:
    spread = [
        each for number in range(4) for each in labelled("y/y*10" if number % 2 else "y/n*10")
    ]
    four_cases = [
        dataclasses.replace(each, cluster=str(number // 10)) for number, each in enumerate(spread)
    ]
    clustered = agreement.agreement_rate(four_cases)
    assert clustered is not None
    # forty labels of four cases that never differ inside
    assert (clustered.low, clustered.high) == agreement.wilson(2, 4)


@pytest.mark.parametrize(
    ("cells", "total"),
    [((0.45, 0.05, 0.05, 0.45), 15), ((0.76, 0.04, 0.04, 0.16), 20), ((0.3, 0.2, 0.2, 0.3), 15)],
)
def test_kappas_interval_holds_the_truth_as_often_as_it_says(
    cells: tuple[float, float, float, float], total: int
) -> None:
    truth = agreement.kappa(*cells)
    assert truth is not None
    random = Random(7)
    held = known = 0
    for _ in range(250):
        drawn = random.choices(["y/y", "y/n", "n/y", "n/n"], weights=cells, k=total)
        rate = agreement.kappa_rate(
            labelled(" ".join(drawn)), seed=random.randrange(10**6), draws=200
        )
        if rate is not None:
            known += 1
            held += rate.low <= truth <= rate.high
    # 0.95 but for chance; the bootstrap holds it in 65 % to 78 % of the first two
    assert held / known > 0.88


# --- the same judge ------------------------------------------------------------------------------


def test_what_changed_about_the_judge_is_said() -> None:
    other = dataclasses.replace(
        JUDGE, model="gemini-3-pro", prompt_version="3", config={"temperature": 0}
    )
    assert agreement.judge_changes(other, JUDGE) == (
        "model gemini-2.5-flash -> gemini-3-pro",
        "prompt version 2 -> 3",
        "options {} -> {'temperature': 0}",
    )


@pytest.mark.parametrize(
    ("successes", "total", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I
        (15, 148, 0.0624, 0.1605),  # the same
        (0, 20, 0.0, 0.1611),  # the same
        (1, 29, 0.0061, 0.1718),  # the same
        (10, 10, 0.7225, 1.0),  # nothing wrong in ten is no certainty
    ],
)
def test_published_intervals(successes: int, total: int, low: float, high: float) -> None:
    assert tuple(round(end, 4) for end in agreement.wilson(successes, total)) == (low, high)


def test_nothing_observed_may_be_anything() -> None:
    assert agreement.wilson(0, 0) == (0.0, 1.0)


@given(st.integers(1, 400), st.data())
def test_the_ends_solve_the_score_equation(total: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, total))
    low, high = agreement.wilson(successes, total)
    assert 0 <= low <= successes / total <= high <= 1
    assert low < high
    z = NormalDist().inv_cdf(0.975)
    for end in (low, high):
        if 0 < end < 1:
            assert abs(successes / total - end) / math.sqrt(
                end * (1 - end) / total
            ) == pytest.approx(z)


def test_ten_alike_in_each_cluster_are_one_observation() -> None:
    assert agreement.design_effect([(10, 10), (0, 10), (10, 10), (0, 10)]) == 10


def test_independent_ones_cost_nothing() -> None:
    assert agreement.design_effect([(1, 1), (0, 1), (1, 1)]) == 1
    # less than chance would spread: not below 1
    assert agreement.design_effect([(5, 10), (5, 10)]) == 1
    # all alike everywhere: nothing to tell it from
    assert agreement.design_effect([(10, 10), (10, 10)]) == 1
    assert agreement.design_effect([]) == 1


@given(
    st.lists(
        st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), max_size=12
    )
)
def test_the_effect_lies_between_none_and_whole_clusters(clusters: list[tuple[int, int]]) -> None:
    effect = agreement.design_effect(clusters)
    assert 1 <= effect <= max([1, *(total for _, total in clusters)])
