"""How criteria went on the base branch, in GitHub's Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate import words
from evalgate.exhibits import trends
from evalgate.markup import github, plain
from evalgate.model import Trend

NAME = 80
HEADER = ("Criterion", "Base runs, oldest first", "Lowest", "Highest", "Last", "This run")


def render_trends(found: Sequence[Trend], *, limit: int) -> str:
    """A row a criterion, folded; "" where no past is known."""
    if not found:
        return ""
    rows = [_row(each) for each in found[:limit]]
    rest = len(found) - len(rows)
    more = f"\n\n{words.counted(rest, 'more row')} in report.html." if rest else ""
    return github.details(github.raw_prose(trends.title(found)), github.table(HEADER, rows, right=range(2, 6)) + more)


def _row(trend: Trend) -> list[str]:
    name, line = plain.label(trend.criterion, NAME), trends.line(trend)
    return [github.cell_code(name), github.cell_code(line), *trends.figures(trend)]
