"""How criteria went on the base branch, in figures."""

from __future__ import annotations

from builders import build

from evalgate.model import Trend
from evalgate.reports import comment, html_report, view


def trend(*means: float | None, now: float | None = None, name: str = "m") -> Trend:
    return Trend(
        criterion=name,
        means=means,
        current=now,
        since="2026-01-02T03:04:05Z",
        until="2026-01-20T03:04:05Z",
    )


def test_the_figures_leave_out_what_is_not_known() -> None:
    assert view.trend_figures(trend(0.5, None, 0.25, None, now=None)) == (
        "0.25",
        "0.50",
        "0.25",
        "-",
    )
    assert view.trend_title([trend(1.0, 1.0)]).endswith(
        "last 2 runs of the base branch, 2026-01-02 to 2026-01-20"
    )


def test_a_name_cannot_break_out_and_the_rest_is_counted() -> None:
    evil = trend(1.0, 0.5, name="a|b\n| `x` <script>")
    table = comment._TEMPLATE.macros.trend_table([evil, trend(1.0, 1.0)], 1)
    assert "1 more row in `report.html`" in table
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert [len(row.replace("\\|", "").split("|")) for row in rows] == [7, 7, 7]
    page = html_report.render(build.changed(build.report("pass"), trends=(evil,)))
    assert "`x` &lt;script&gt;" in page
    assert "`x` <script>" not in page
