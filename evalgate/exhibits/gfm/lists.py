"""Many cases in GitHub's Markdown, within the room there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from evalgate import words
from evalgate.exhibits import sentences
from evalgate.exhibits.cases import CaseExhibit
from evalgate.exhibits.gfm import cases
from evalgate.markup import budget, github, plain
from evalgate.model import Report

ID_WIDTH = 100
FOLD_FROM = 10
GROUP_FROM = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """How much is told where room is no question: at most so many whole cases, so many turns of each."""

    cases: int
    turns: int


def render_cases(
    title: str, exhibits: Sequence[CaseExhibit], report: Report, *, room: int, depth: Depth, where: str
) -> str:
    """A section of cases: whole ones, then lines, then a count with `where` the rest can be read; "" without any."""
    items = [
        budget.Item(
            line=cases.render_line(exhibit, report),
            full=partial(cases.render_details, exhibit, report, turns=depth.turns),
        )
        for exhibit in exhibits
    ]
    return _section(title, items, room=room, depth=depth, where=where)


def render_unmeasured(
    title: str, exhibits: Sequence[CaseExhibit], report: Report, *, room: int, depth: Depth, where: str
) -> str:
    """As `render_cases`, with GROUP_FROM and more cases of one and the same reason told as one, largest group first."""
    groups: dict[str, list[CaseExhibit]] = {}
    for exhibit in exhibits:
        groups.setdefault(sentences.why_unmeasured(exhibit), []).append(exhibit)
    large = sorted((group for group in groups.values() if len(group) >= GROUP_FROM), key=len, reverse=True)
    alone = [exhibit for group in groups.values() if len(group) < GROUP_FROM for exhibit in group]
    items = [
        budget.Item(line=cases.render_group_line(group), full=partial(cases.render_group, group, report))
        for group in large
    ]
    items += [
        budget.Item(
            line=cases.render_line(exhibit, report),
            full=partial(cases.render_details, exhibit, report, turns=depth.turns),
        )
        for exhibit in alone
    ]
    return _section(title, items, room=room, depth=depth, where=where)


def _section(title: str, items: Sequence[budget.Item], *, room: int, depth: Depth, where: str) -> str:
    if not items:
        return ""
    heading = f"### {title}"
    filled = budget.fill(items, room=room - budget.length(heading) - 300, most=depth.cases)
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
    rest = [f"...and **{words.counted(filled.dropped, 'more', 'more')}**, left out to keep this short: {where}."]
    rest = rest if filled.dropped else []
    if not filled.lines:
        return rest
    listing = "\n".join(filled.lines)
    if len(filled.lines) < FOLD_FROM or not filled.full:
        return [listing, *rest]
    return [github.details(f"{words.counted(len(filled.lines), 'more', 'more')}, one line each", listing), *rest]
