"""Many cases in GitHub's Markdown, within the room there is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from evalgate import words
from evalgate.exhibits.cases import CaseExhibit
from evalgate.exhibits.gfm import cases
from evalgate.markup import budget, github, plain
from evalgate.model import Report

ID_WIDTH = 100
FOLD_FROM = 10


def render_cases(
    title: str, exhibits: Sequence[CaseExhibit], report: Report, *, room: int, turns: int, where: str
) -> str:
    """A section of cases: whole ones, then lines, then a count with `where` the rest can be read; "" without any."""
    if not exhibits:
        return ""
    items = [
        budget.Item(
            line=cases.render_line(exhibit, report), full=partial(cases.render_details, exhibit, report, turns=turns)
        )
        for exhibit in exhibits
    ]
    heading = f"### {title}"
    filled = budget.fill(items, room=room - budget.length(heading) - 300)
    return "\n\n".join([heading, *filled.full, *_lines(filled, where=where)])


def render_flaky(exhibits: Sequence[CaseExhibit], *, limit: int) -> str:
    """The cases that pass in some repeats and fail in others, with the value of every repeat; "" without any."""
    rows = [
        [
            github.cell_code(plain.label(exhibit.verdict.case_id, ID_WIDTH)),
            github.cell_code(plain.label(verdict.name, ID_WIDTH)),
            cases.render_values(verdict),
            words.threshold(verdict.threshold),
        ]
        for exhibit in exhibits
        for verdict in exhibit.flaky
    ]
    if not rows:
        return ""
    shown = github.table(["Case", "Criterion", "Its runs", "Threshold"], rows[:limit])
    if len(rows) > limit:
        shown += f"\n\n{words.counted(len(rows) - limit, 'more row')} in `report.html`."
    return github.details(
        f"\N{GAME DIE} {words.counted(len(exhibits), 'flaky case')}: not the same in every run", shown
    )


def _lines(filled: budget.Filled, *, where: str) -> list[str]:
    """The one-line forms and the count of the rest, folded where they are many."""
    rest = [f"...and **{words.counted(filled.dropped, 'more case')}**, left out to keep this short: {where}."]
    rest = rest if filled.dropped else []
    if not filled.lines:
        return rest
    listing = "\n".join(filled.lines)
    if len(filled.lines) < FOLD_FROM or not filled.full:
        return [listing, *rest]
    return [github.details(f"{words.counted(len(filled.lines), 'more case')}, one line each", listing), *rest]
