"""The forest plot: marks where the numbers are, and the same in words."""

from __future__ import annotations

import dataclasses

import pytest
from builders import build, comparing
from builders.scenarios import SCENARIOS

from evalgate.model import OPEN, Change, Comparison, CriterionComparison, Interval, Scale
from evalgate.reports import forest


def drawn(*rows: CriterionComparison) -> forest.Forest:
    return forest.of(Comparison(origin=comparing.RERUN, criteria=rows), ())


def percent(text: str) -> float:
    return float(text.removesuffix("%"))


def with_sides(row: CriterionComparison, base: Interval, head: Interval) -> CriterionComparison:
    assert row.difference is not None
    return dataclasses.replace(
        row, difference=dataclasses.replace(row.difference, base_interval=base, head_interval=head)
    )


def test_marks_stand_where_the_numbers_are() -> None:
    row = comparing.row(0.9, 0.6, interval=Interval(low=-0.4, high=-0.2))
    found = drawn(with_sides(row, Interval(low=0.8, high=1.0), Interval(low=0.5, high=0.7)))
    (plotted,) = found.rows
    assert (found.low, found.high, found.reach) == ("0.50", "1.00", "0.40")
    places = [percent(each) for each in (plotted.head.low, plotted.head.at, plotted.base.at, plotted.base.high)]
    assert places == pytest.approx([2.0, 21.2, 78.8, 98.0])
    assert [percent(each) for each in (plotted.delta.low, plotted.delta.at, plotted.delta.high)] == [2.0, 14.0, 26.0]
    assert percent(plotted.floor) == 44.0
    assert plotted.levels == "m: base 0.90 (0.80 to 1.00), head 0.60 (0.50 to 0.70)"
    assert plotted.change == (
        "m: change \N{MINUS SIGN}0.30, 95% interval \N{MINUS SIGN}0.40 to \N{MINUS SIGN}0.20, tolerated drop 0.05"
    )


def test_worse_is_to_the_left_also_where_lower_is_better() -> None:
    (plotted,) = drawn(comparing.row(0.2, 0.4, lower_is_better=True)).rows
    assert percent(plotted.delta.at) < percent(plotted.floor) < 50


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (comparing.row(1.0, 0.5), "fail"),
        (comparing.row(0.5, 1.0, change=Change.IMPROVED), "pass"),
        (comparing.row(1.0, 0.5, gating=False), ""),  # it does not decide
        (comparing.row(1.0, 1.0, change=Change.UNCHANGED), "pass"),  # nothing moved, and nothing is divided by zero
    ],
)
def test_what_decides_has_the_color_of_its_verdict(row: CriterionComparison, kind: str) -> None:
    assert [each.kind for each in drawn(row).rows] == [kind]


@pytest.mark.parametrize(
    "row",
    [
        comparing.row(400.0, 500.0),  # another scale
        comparing.row(None, 0.5),
    ],
)
def test_what_has_no_place_on_the_scale_is_left_to_the_table(row: CriterionComparison) -> None:
    assert drawn(row).rows == ()


@pytest.mark.parametrize(
    ("scale", "drawn"),
    [
        (Scale(), 1),
        (OPEN, 1),  # a custom metric, which may be anything
        (Scale(highest=None), 0),  # seconds, of which there are few
    ],
)
def test_small_numbers_on_another_scale_are_left_to_the_table(scale: Scale, drawn: int) -> None:
    suite = build.suite(criteria={"m": 1.0})
    suite = dataclasses.replace(suite, criteria=(dataclasses.replace(suite.criteria[0], scale=scale),))
    assert (
        len(forest.of(Comparison(origin=comparing.RERUN, criteria=(comparing.row(0.2, 0.3),)), [suite]).rows) == drawn
    )


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name.startswith("base_")])
def test_all_marks_are_in_the_picture(scenario: str) -> None:
    comparison = SCENARIOS[scenario]().comparison
    assert comparison is not None
    for each in forest.of(comparison, ()).rows:
        marks = [
            *(end for mark in (each.base, each.head, each.delta) for end in (mark.at, mark.low, mark.high)),
            each.floor,
        ]
        assert all(0 <= percent(mark) <= 100 for mark in marks if mark)
