"""report.html: one self-contained page with every case and the conversations of those that broke."""

from __future__ import annotations

import functools
from typing import Any

from evalgate.model import CriterionVerdict, Report, VerdictKind, call_diff
from evalgate.reports import cases, moved, trends, turns, view, wording
from evalgate.reports.cases import CaseView
from evalgate.reports.view import View
from evalgate.text import diff, html, plain, templates, words
from evalgate.text.templates import Safe

LIMIT = 20 * 1000 * 1000
CONVERSATIONS_SHARE = 0.7
"""Of the room, for conversations; the rest is for the rows of all cases."""
PASSING = 200
"""So many passing cases are shown whole at most: nobody reads thousands of conversations that went well."""
LISTED = 2_000
"""So many passing cases are listed at all at most; a page of more is slow to make, to load and to read."""
ORDER = ("fail", "flaky", "not_measured", "inconclusive", "pass")
RELAXED_ROOM = 1_000_000
"""Characters: thousands of rules."""
NAMED, NAME = 1_000, 200
DETAIL_LIMIT = 20_000


def render(report: Report) -> str:
    """The page, at most about 20 MB: broken cases first and whole, then passing ones; those beyond the room or
    PASSING in a few lines; cases without any room, and passing ones beyond LISTED, are counted."""
    v = view.of(report)
    shown, dropped = _within(v, room=LIMIT)
    comparison = report.comparison
    relaxed = view.relaxed(
        comparison.relaxed if comparison is not None else (),
        mark=lambda text: plain.label(text, NAME),
        named=NAMED,
        room=RELAXED_ROOM,
        size=len,
    )
    style, script = (templates.source(name, package=__package__) for name in ("report.css", "report.js"))
    policy = html.policy(style=style, script=script)
    page = str(_page().page(v, shown, dropped, relaxed, style, script, policy))
    return page.strip("\n") + "\n"


def _within(v: View, *, room: int) -> tuple[list[Safe], int]:
    """The cases that find room, and how many do not."""
    ordered = [each for group in ORDER for each in cases.worst_first([case for case in v.cases if case.group == group])]
    conversations = int(room * CONVERSATIONS_SHARE)
    shown: list[Safe] = []
    passing = 0
    for number, case in enumerate(ordered, 1):
        passing += case.kind is VerdictKind.PASS
        if passing > LISTED:
            return shown, len(ordered) - len(shown)
        whole = conversations > 0 and passing <= PASSING
        made = _page().case(v, case, number, whole)
        size = len(made.encode())
        if whole and size > conversations:
            whole = False
            made = _page().case(v, case, number, whole)
            size = len(made.encode())
        conversations -= size if whole else 0
        room -= size
        if room < 0:
            return shown, len(ordered) - len(shown)
        shown.append(made)
    return shown, 0


@functools.cache
def _page() -> Any:
    return templates.load("report.html.j2", package=__package__, known=_KNOWN)


@functools.lru_cache(maxsize=1024)
def values(criteria: tuple[CriterionVerdict, ...]) -> Safe:
    """The table of values; thousands of cases have the same."""
    made: Safe = _page().values(criteria)
    return made


@functools.lru_cache(maxsize=1024)
def values_line(criteria: tuple[CriterionVerdict, ...]) -> str:
    """The values in a line."""
    return ", ".join(f"{plain.label(each.name, 100)} {cases.number(each.value, each)}" for each in criteria)


def detail(text: str) -> str:
    """What a broken agent left behind, bounded."""
    return plain.ends(plain.visible(plain.clip(text, DETAIL_LIMIT)), lines=200, limit=DETAIL_LIMIT)


def sign(case: CaseView) -> Safe:
    """In ASCII: one wide character would make every copy of a page of megabytes twice as large in memory."""
    return Safe(wording.case_mark(case).encode("ascii", "xmlcharrefreplace").decode())


_KNOWN = {
    "values_line": values_line,
    "call_diff": call_diff,
    "cases": cases,
    "detail": detail,
    "diff": diff,
    "moved_cases": moved,
    "sign": sign,
    "trends": trends,
    "turns": turns,
    "values_of": values,
    "view": view,
    "wording": wording,
    "words": words,
}
