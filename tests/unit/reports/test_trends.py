"""How criteria went on the base branch: noise looks flat, a fall looks like one, gaps stay gaps."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from evalgate.model import Trend
from evalgate.reports import comment, html_report, trends


def trend(*means: float | None, now: float | None = None, name: str = "m") -> Trend:
    return Trend(
        criterion=name,
        means=means,
        current=now,
        since="2026-01-02T03:04:05Z",
        until="2026-01-20T03:04:05Z",
    )


@pytest.mark.parametrize(
    ("means", "now", "line"),
    [
        ((1.0, 1.0, 1.0), 1.0, "███"),  # what never left its upper end stays there
        ((0.0, 1.0, 0.5), None, "▁█▅"),
        ((0.99, 1.0, 0.98), 1.0, "██▇"),  # two points are noise
        ((1.0, None, 0.0), None, "█·▁"),  # nobody knows
        ((1.0, 0.9), None, "█▁"),  # a tenth is the whole height
        ((1.0, 1.0), 0.0, "██"),  # this run counts for the ends
        ((400.0, 402.0, 404.0), None, "███"),  # a percent of many tokens
        ((400.0, 800.0), None, "▁█"),
        ((1e308, -1e308, 0.0), None, "█▁▅"),  # whose difference no float can hold
        ((-1.7e308, -1.7e308), None, "██"),
    ],
)
def test_the_line(means: tuple[float | None, ...], now: float | None, line: str) -> None:
    assert trends.line(trend(*means, now=now)) == line


def test_the_figures_leave_out_what_is_not_known() -> None:
    assert trends.figures(trend(0.5, None, 0.25, None, now=None)) == ("0.25", "0.50", "0.25", "-")
    assert trends.title([trend(1.0, 1.0)]).endswith(
        "last 2 runs of the base branch, 2026-01-02 to 2026-01-20"
    )


FINITE = st.floats(-1e9, 1e9) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.lists(st.none() | FINITE, min_size=1, max_size=60)


@given(VALUES.filter(lambda values: any(value is not None for value in values)), st.none() | FINITE)
def test_a_gap_stays_a_gap(means: list[float | None], now: float | None) -> None:
    found = trend(*means, now=now)
    assert len(trends.line(found)) == len(means)
    assert [each == trends.GAP for each in trends.line(found)] == [value is None for value in means]
    assert trends.line(found) in html_report._page().trend_charts([found])


def test_a_name_cannot_break_out_and_the_rest_is_counted() -> None:
    evil = trend(1.0, 0.5, name="a|b\n| `x` <script>")
    table = comment._macros("summary").trend_table([evil, trend(1.0, 1.0)], 1)
    assert "1 more row in `report.html`" in table
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert [len(row.replace("\\|", "").split("|")) for row in rows] == [8, 8, 8]
    assert "<script>" not in html_report._page().trend_charts([evil])
