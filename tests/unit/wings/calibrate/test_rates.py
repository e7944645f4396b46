"""Wilson's interval against published figures, and what clusters and differences must obey."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from hypothesis import given, strategies as st

from evalgate.wings.calibrate import rates


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
    assert tuple(round(end, 4) for end in rates.wilson(successes, total)) == (low, high)


def test_nothing_observed_may_be_anything() -> None:
    assert rates.wilson(0, 0) == (0.0, 1.0)


@given(st.integers(1, 400), st.data())
def test_the_ends_solve_the_score_equation(total: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, total))
    low, high = rates.wilson(successes, total)
    assert 0 <= low <= successes / total <= high <= 1
    assert low < high
    z = NormalDist().inv_cdf(0.975)
    for end in (low, high):
        if 0 < end < 1:
            assert abs(successes / total - end) / math.sqrt(
                end * (1 - end) / total
            ) == pytest.approx(z)


def test_ten_alike_in_each_cluster_are_one_observation() -> None:
    assert rates.design_effect([(10, 10), (0, 10), (10, 10), (0, 10)]) == 10


def test_independent_ones_cost_nothing() -> None:
    assert rates.design_effect([(1, 1), (0, 1), (1, 1)]) == 1
    # less than chance would spread: not below 1
    assert rates.design_effect([(5, 10), (5, 10)]) == 1
    # all alike everywhere: nothing to tell it from
    assert rates.design_effect([(10, 10), (10, 10)]) == 1
    assert rates.design_effect([]) == 1


@given(
    st.lists(
        st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), max_size=12
    )
)
def test_the_effect_lies_between_none_and_whole_clusters(clusters: list[tuple[int, int]]) -> None:
    effect = rates.design_effect(clusters)
    assert 1 <= effect <= max([1, *(total for _, total in clusters)])
