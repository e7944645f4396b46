"""How criteria went on the base branch, as small line charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalgate.exhibits import trends
from evalgate.markup import page
from evalgate.markup.html import Html, element
from evalgate.model import Trend

WIDTH, HEIGHT, MARGIN = 220, 36, 4
LIMIT = 200
HEADER = ("Criterion", "Base runs, oldest first; this run last", "Lowest", "Highest", "Last", "This run")


def render_trends(found: Sequence[Trend]) -> Html:
    """A row a criterion; nothing where no past is known."""
    if not found:
        return Html("")
    rows: list[list[Html | str]] = [
        [element("code", each.criterion), _chart(each), *trends.figures(each)] for each in found[:LIMIT]
    ]
    shown = page.table(list(HEADER), rows, label="Criteria on the base branch", numeric=range(2, 6))
    return element("section", element("h2", trends.title(found)), shown)


def _chart(trend: Trend) -> Html:
    """A line through the base runs, broken where one has no score, and a dot for this run."""
    low, high, last, now = trends.figures(trend)
    lines = [
        element("polyline", points=" ".join(points), fill="none", stroke="currentColor", stroke_width="1.5")
        for points in _lines(trend)
    ]
    dot = [] if trend.now is None else [_dot(trend, at=len(trend.means), value=trend.now)]
    alone = [
        _dot(trend, at=at, value=value)
        for at, value in enumerate(trend.means)
        if value is not None and all(_mean(trend, beside) is None for beside in (at - 1, at + 1))
    ]
    said = f"between {low} and {high}, last {last}, this run {now}"
    box = f"0 0 {WIDTH} {HEIGHT}"
    drawn = (*lines, *alone, *dot)
    return element("svg", *drawn, width=WIDTH, height=HEIGHT, viewBox=box, role="img", aria_label=said)


def _lines(trend: Trend) -> Iterator[list[str]]:
    points: list[str] = []
    for at, value in enumerate(trend.means):
        if value is not None:
            x, y = _place(trend, at=at, value=value)
            points.append(f"{x},{y}")
        if points and (value is None or at == len(trend.means) - 1):
            if len(points) > 1:
                yield points
            points = []


def _mean(trend: Trend, at: int) -> float | None:
    return trend.means[at] if 0 <= at < len(trend.means) else None


def _dot(trend: Trend, *, at: int, value: float) -> Html:
    x, y = _place(trend, at=at, value=value)
    return element("circle", cx=x, cy=y, r="2.5", fill="currentColor")


def _place(trend: Trend, *, at: int, value: float) -> tuple[str, str]:
    """From the left by run, from the top by value."""
    across = at / len(trend.means) * (WIDTH - 2 * MARGIN) + MARGIN
    down = (1 - trends.scale(trend).at(value)) * (HEIGHT - 2 * MARGIN) + MARGIN
    return f"{across:.1f}", f"{down:.1f}"
