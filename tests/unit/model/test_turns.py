"""Means that are rounded once, and informational grades."""

import statistics
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from evalgate.model import NotEvaluated, Reason, Score, turns
from evalgate.reports.phrases import phrase

FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=64, min_value=-1e9, max_value=1e9)


@given(st.lists(FLOATS, min_size=1))
def test_the_mean_is_the_exact_one_rounded_once(values: list[float]) -> None:
    assert turns.mean(values) == statistics.mean(values)


@given(st.integers(1, 100), st.lists(st.integers(0, 100), min_size=1, max_size=8))
def test_a_mean_of_fractions_that_is_a_threshold_on_paper_reaches_it(
    whole: int, parts: list[int]
) -> None:
    values = [Fraction(part, whole) for part in parts]
    exact = sum(values, start=Fraction()) / len(values)
    threshold = round(float(exact), 2)
    if exact == Fraction(str(threshold)):
        assert turns.mean(values) == threshold


@given(st.lists(FLOATS, min_size=1))
def test_the_running_mean_is_near_the_exact_one(values: list[float]) -> None:
    assert turns.running_mean(values) == pytest.approx(statistics.fmean(values), rel=1e-9, abs=1e-6)


def test_the_two_means_differ_where_adk_misses_a_threshold() -> None:
    assert turns.mean([0.7, 0.8, 0.9]) == 0.8
    assert turns.running_mean([0.7, 0.8, 0.9]) < 0.8


def test_an_informational_grade_is_the_mean_of_what_is_known() -> None:
    grade = turns.inform([1.0, None, 2.0], absence="no_steps")
    assert grade == Score(value=1.5, turns=(1.0, None, 2.0))
    unknown = turns.inform([None, None], absence="no_steps")
    assert unknown == NotEvaluated(
        reason=Reason.NOTHING_RECORDED, message=phrase("no_steps"), turns=(None, None)
    )
    assert isinstance(turns.inform([], absence="no_steps"), NotEvaluated)


@given(
    st.lists(
        st.one_of(
            st.floats(0, 1).map(lambda value: round(value, 9)), st.integers(0, 10**9).map(float)
        ),
        min_size=1,
    )
)
def test_means_of_runs_are_rounded_once(values: list[float]) -> None:
    assert turns.mean_of_runs(values) == statistics.mean(values)
