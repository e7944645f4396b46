"""The chart of the differences: worse to the left, whatever the criterion counts."""

from __future__ import annotations

from typing import Any

import pytest
from builders import comparing
from builders.compared_scenarios import COMPARED

from evalgate.model import CriterionComparison
from evalgate.reports import comment


def row(head: float, **more: Any) -> CriterionComparison:
    return comparing.row(head=head, **{"base": 0.5, **more})


def line_of(each: CriterionComparison) -> str:
    """The first criterion's line, from the chart's left end on."""
    return comment.chart([each], limit=5).splitlines()[1][3:]


@pytest.mark.parametrize(
    ("each", "left"),
    [
        (row(0.1), True),
        (row(0.9), False),
        (row(0.9, lower_is_better=True), True),  # seconds rose: that is worse
        (row(0.1, lower_is_better=True), False),
    ],
)
def test_worse_is_left(each: CriterionComparison, left: bool) -> None:
    assert (line_of(each).index(comment.POINT) < comment.HALF) is left


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [row(0.5)],  # nothing moved
        [row(0.1, gating=False)],
        [row(0.1, base=None)],
        [row(411.0, base=532.0)],  # tokens do not fit the scale
    ],
)
def test_there_is_no_chart_of_nothing(rows: list[CriterionComparison]) -> None:
    assert comment.chart(rows, limit=5) == ""


@pytest.mark.parametrize("scenario", COMPARED)
def test_lines_are_of_one_width(scenario: str) -> None:
    comparison = COMPARED[scenario]().comparison
    chart = comment.chart(comparison.criteria, limit=20).splitlines()
    if chart:
        lines = chart[1:]
        assert len({len(each.rpartition("  ")[0]) for each in lines}) == 1
