"""Rogan and Gladen's correction: by hand, by simulation, and where it is refused."""

from __future__ import annotations

from random import Random

import pytest
from builders.labels import calibrated
from hypothesis import given
from hypothesis import strategies as st

from evalgate.gate import judge_bias
from evalgate.model import Confusion


@pytest.mark.parametrize(
    ("raw", "tpr", "tnr", "theta"),
    [
        (0.8, 0.9, 0.8, 0.857142857),  # (0.8 + 0.8 - 1) / 0.7
        (0.8, 1.0, 1.0, 0.8),  # a judge that never errs changes nothing
        (0.95, 0.9, 0.8, 1.0),  # beyond 1: clipped
        (0.1, 0.9, 0.8, 0.0),  # beyond 0: clipped
    ],
)
def test_by_hand(raw: float, tpr: float, tnr: float, theta: float) -> None:
    assert judge_bias.estimate(raw, tpr=tpr, tnr=tnr) == pytest.approx(theta)


@given(st.floats(0, 1), st.floats(0.51, 1), st.floats(0.51, 1))
def test_it_undoes_what_the_judge_does(theta: float, tpr: float, tnr: float) -> None:
    raw = theta * tpr + (1 - theta) * (1 - tnr)
    assert judge_bias.estimate(raw, tpr=tpr, tnr=tnr) == pytest.approx(theta, abs=1e-9)


@given(st.floats(0, 1), st.integers(1, 500), *[st.integers(0, 60)] * 4)
def test_the_interval_is_within_the_scale_and_never_a_point(
    raw: float, cases: int, tp: int, fn: int, fp: int, tn: int
) -> None:
    matrix = Confusion(true_positive=tp, false_negative=fn, false_positive=fp, true_negative=tn)
    found = judge_bias.interval(raw, cases=cases, matrix=matrix)
    if found is not None:
        assert 0 <= found.low <= found.high <= 1
        assert found.low < found.high or found.low in (0.0, 1.0)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("y/y*5 y/n*5 n/n*5 n/y*5", judge_bias.NO_BETTER),
        ("y/n*9 y/y n/y*9 n/n", judge_bias.NO_BETTER),
        ("y/y*30 y/n*2", judge_bias.ONE_KIND),
        ("n/n*30", judge_bias.ONE_KIND),
        ("y/?", judge_bias.ONE_KIND),
    ],
)
def test_refused(words: str, why: str) -> None:
    found = judge_bias.correct(0.8, cases=20, calibration=calibrated(words))
    assert (found.value, found.interval, found.refused) == (None, None, why)


def test_a_corrected_score_lies_in_its_interval_and_more_labels_narrow_it() -> None:
    few = judge_bias.correct(0.9, cases=50, calibration=calibrated("y/y*9 y/n n/n*8 n/y*2"))
    many = judge_bias.correct(0.9, cases=50, calibration=calibrated("y/y*180 y/n*20 n/n*160 n/y*40"))
    assert few.value == many.value == 1.0
    assert few.interval is not None
    assert many.interval is not None
    assert few.interval.low < many.interval.low < 1.0 == many.interval.high


@pytest.mark.parametrize(
    ("cases", "yes", "no", "theta", "tpr", "tnr"),
    [
        (20, 30, 15, 0.8, 0.9, 0.8),
        (40, 20, 20, 0.5, 0.8, 0.8),  # few labels of an uncertain judge
        (50, 20, 10, 0.9, 1.0, 1.0),  # nothing ever goes wrong, and the interval is still no point
        (8, 15, 15, 0.7, 0.9, 0.9),
    ],
)
def test_the_interval_holds_the_truth(cases: int, yes: int, no: int, theta: float, tpr: float, tnr: float) -> None:
    random = Random(5)

    def draw(total: int, share: float) -> int:
        return sum(random.random() < share for _ in range(total))

    held = known = 0
    for _ in range(1_000):
        good = draw(cases, theta)
        raw = (draw(good, tpr) + draw(cases - good, 1 - tnr)) / cases
        hits, rejections = draw(yes, tpr), draw(no, tnr)
        matrix = Confusion(
            true_positive=hits,
            false_negative=yes - hits,
            false_positive=no - rejections,
            true_negative=rejections,
        )
        found = judge_bias.interval(raw, cases=cases, matrix=matrix)
        if found is not None:
            known += 1
            held += found.low - 1e-9 <= theta <= found.high + 1e-9
    assert held / known >= 0.94
