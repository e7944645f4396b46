"""report.html: one self-contained page with every case and the conversations of those that broke."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate import words
from evalgate.exhibits import cases, totals
from evalgate.exhibits.cases import CaseExhibit
from evalgate.exhibits.web import cases as web_cases
from evalgate.exhibits.web import compared, overview, trends
from evalgate.markup import html, page, plain
from evalgate.markup.html import Html, element
from evalgate.model import Report, VerdictKind

LIMIT = 20 * 1000 * 1000
CONVERSATIONS_SHARE = 0.7
"""Of the room, for conversations; the rest is for the rows of all cases."""
PASSING = 200
"""So many passing cases are shown whole at most: nobody reads thousands of conversations that went well."""
LISTED = 2_000
"""So many passing cases are listed at all at most; a page of more is slow to make, to load and to read."""
ORDER = (VerdictKind.FAIL, VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE, VerdictKind.PASS)
FILTERS = (
    ("", "all"),
    ("fail", "fail"),
    ("not_measured", "not measured"),
    ("inconclusive", "inconclusive"),
    ("pass", "pass"),
)


def render(report: Report) -> str:
    """The page, at most about 20 MB: broken cases first and whole, then passing ones; those beyond the room or
    PASSING in a few lines; cases without any room, and passing ones beyond LISTED, are counted."""
    exhibits = cases.collect(report)
    main = element(
        "main",
        compared.render(report),
        overview.render_criteria(totals.by_criterion(report)),
        trends.render_trends(report.trends),
        _cases(exhibits, report),
        overview.render_judges(report),
        overview.render_problems(report.problems),
    )
    body = html.join([overview.render_header(report, totals.count(report)), main, overview.render_footer(report)])
    return page.render_page(f"{plain.label(report.title, 100)}: {report.verdict.kind.value.replace('_', ' ')}", body)


def _cases(exhibits: Sequence[CaseExhibit], report: Report) -> Html:
    if not exhibits:
        return Html("")
    shown, dropped = _within(exhibits, report, room=LIMIT)
    rest = element("p", f"...and {words.counted(dropped, 'more case')}: see results.json.") if dropped else ""
    return element(
        "section", element("h2", words.counted(len(exhibits), "case").capitalize()), _filters(), *shown, rest
    )


def _within(exhibits: Sequence[CaseExhibit], report: Report, *, room: int) -> tuple[list[Html], int]:
    ordered = [each for kind in ORDER for each in cases.worst_first(cases.of_kind(exhibits, kind))]
    conversations = int(room * CONVERSATIONS_SHARE)
    shown: list[Html] = []
    passing = 0
    for number, exhibit in enumerate(ordered, 1):
        passing += exhibit.verdict.kind is VerdictKind.PASS
        if passing > LISTED:
            return shown, len(ordered) - len(shown)
        whole = conversations > 0 and passing <= PASSING
        made = web_cases.render_case(exhibit, report, number=number, whole=whole)
        if whole and len(made.encode()) > conversations:
            whole = False
            made = web_cases.render_case(exhibit, report, number=number, whole=False)
        size = len(made.encode())
        conversations -= size if whole else 0
        room -= size
        if room < 0:
            return shown, len(ordered) - len(shown)
        shown.append(made)
    return shown, 0


def _filters() -> Html:
    options = [element("option", label, value=value) for value, label in FILTERS]
    return element(
        "form",
        element("label", "Verdict", element("select", *options, name="kind")),
        element("label", "Words in case or reason", element("input", type="search", name="words")),
        element("span", id="shown", role="status"),
        id="filters",
        class_="filters",
        hidden=True,
    )
