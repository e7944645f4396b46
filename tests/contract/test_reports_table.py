"""Every row of the reports' table: it renders whatever happens, the same each time, with nothing
live in it."""

from __future__ import annotations

import functools
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import cmarkgfm
import pytest
from builders import build
from builders.scenarios import MADE, SCENARIOS, TABLE
from cmarkgfm.cmark import Options

import evalgate.reports
from evalgate import reports
from evalgate.model import Report
from evalgate.reports import view
from evalgate.text import markdown

MARKDOWN = ("comment", "summary")
NO_FILES = {"annotations", "terminal"}
ROWS = {
    name: row
    for name, row in reports.RENDERERS.items()
    if row.render.__module__.startswith(reports.__name__)
}
"""The room's own; a wing has its own tests."""
SHARED = {
    "agent_changes",
    "cases",
    "causes",
    "edits",
    "page_data",
    "phrases",
    "turns",
    "view",
    "wording",
}


def test_every_file_of_the_family_stands_in_its_table() -> None:
    files = {path.stem for path in Path(evalgate.reports.__file__).parent.glob("*.py")} - {
        "__init__"
    }
    rows = {row.render.__module__.rpartition(".")[2] for row in ROWS.values()}
    assert files == rows | NO_FILES | SHARED
    assert all(name == row.name for name, row in reports.RENDERERS.items())


def test_every_row_stands_in_the_docs() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "reports.md").read_text(encoding="utf-8")
    assert all(f"`{row.file_name}`" in docs for row in reports.RENDERERS.values())


@functools.cache
def rendered(row: str, scenario: str) -> str:
    return reports.RENDERERS[row].render(SCENARIOS[scenario]())


@functools.cache
def made_again(scenario: str) -> Report:
    return MADE[scenario]()


@pytest.mark.parametrize("scenario", TABLE)
@pytest.mark.parametrize("row", ROWS)
def test_it_renders_the_same_each_time_and_can_be_written(row: str, scenario: str) -> None:
    text = rendered(row, scenario)
    assert text == reports.RENDERERS[row].render(made_again(scenario))
    assert text.encode().decode() == text
    assert text.endswith("\n")


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("words", ["pass", "never", "error", "skipped"])
def test_it_renders_runs_without_anything(row: str, words: str) -> None:
    empty = build.run_report([build.suite()], {}, links=build.Links(), reproduce="", complete=False)
    assert reports.RENDERERS[row].render(empty)
    assert reports.RENDERERS[row].render(build.report(words, links=build.Links()))


class Page(HTMLParser):
    """What a page is made of, and its text outside `code` and `pre`, where GitHub's filters
    look."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()
        self.addresses: list[str] = []
        self.live = ""
        self.rows: list[int] = []
        self.opaque = 0
        self.feed(html)

    def handle_starttag(self, tag, attrs) -> None:
        self.elements[tag] += 1
        self.addresses += [value for name, value in attrs if name == "href"]
        self.opaque += tag in ("code", "pre")
        if tag == "tr":
            self.rows.append(0)
        if tag in ("td", "th"):
            self.rows[-1] += 1
        self.live += " "

    def handle_endtag(self, tag) -> None:
        self.closed[tag] += 1
        self.opaque -= tag in ("code", "pre")
        self.live += " "

    def handle_data(self, data) -> None:
        self.live += "" if self.opaque else data


@functools.cache
def page_of(row: str, scenario: str) -> Page:
    return Page(
        cmarkgfm.github_flavored_markdown_to_html(rendered(row, scenario), Options.CMARK_OPT_UNSAFE)
    )


OURS = {
    *(
        "blockquote",
        "p",
        "strong",
        "code",
        "a",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "h3",
        "details",
    ),
    *("summary", "pre", "sub", "ul", "li", "em", "del", "ins", "span", "b", "br"),
}


@pytest.mark.parametrize("row", MARKDOWN)
@pytest.mark.parametrize("scenario", TABLE)
def test_nothing_pings_links_or_renders(row: str, scenario: str) -> None:
    page = page_of(row, scenario)
    assert set(page.elements) <= OURS
    assert all(
        address.startswith("https://github.com/example/travel/") for address in page.addresses
    )
    assert not re.search(
        r"@\w|#\d|GH-\d|(?<![0-9a-z])[0-9a-f]{7,40}(?![0-9a-z])|https?://|www\.", page.live
    )


def tables(report: Report, *, summary: bool) -> Counter[int]:
    """Columns to rows, headers included, of all tables that ought to be there."""
    found = view.view_of(report).cases
    expected: Counter[int] = Counter()
    rows = report.comparison.criteria if report.comparison is not None else ()
    for family in (
        [row for row in rows if row.rule.gating],
        [row for row in rows if not row.rule.gating],
    ):
        expected[6] += 1 + len(family) if family else 0
    if summary or not rows:
        known = view.view_of(report).criteria
        for family in (
            [each for each in known if each.threshold is None],
            [each for each in known if each.threshold],
        ):
            expected[5] += 1 + len(family) if family else 0
    mixed = sum(len(case.mixed) for case in found)
    expected[4] += 1 + mixed if mixed else 0
    facts = view.facts(report)
    if facts:
        expected[3 if any(fact["base"] for fact in facts) else 2] += 1 + len(facts)
    if summary:
        expected[5] += 1 + len(report.facts.trends) if report.facts.trends else 0
        expected[4] += 1 + len(found)
        expected[9] += 1 + len(report.run.judges) if report.run.judges else 0
    return +expected


@pytest.mark.parametrize("row", MARKDOWN)
@pytest.mark.parametrize("scenario", TABLE)
def test_no_table_and_no_fold_breaks(row: str, scenario: str) -> None:
    report = SCENARIOS[scenario]()
    text, page = rendered(row, scenario), page_of(row, scenario)
    assert Counter(page.rows) == tables(report, summary=row == "summary")
    assert page.elements["details"] == page.elements["summary"] == page.closed["details"]
    assert "<!--" not in text


LIMIT = 500_000
LIMITS = {"comment": 65_536 - 1_536, "summary": 1024 * 1024 - 1024, "html": 52_000_000}


@pytest.mark.parametrize("scenario", TABLE)
@pytest.mark.parametrize("row", ROWS)
def test_it_stays_within_its_limit(row: str, scenario: str) -> None:
    text = rendered(row, scenario)
    size = markdown.length(text) if row == "comment" else len(text.encode())
    assert size <= LIMITS.get(row, LIMIT)


@functools.cache
def megabytes() -> Report:
    blob = "@octocat | `x` \u202e\n" * 60_000
    asked = build.case("blob", build.turn(blob, build.call("t", x=blob), answer=blob))
    suite = build.suite(asked)
    done = build.scores(
        build.turn(blob, build.call("t", y=blob), answer=blob[::-1]),
        **{build.TOOLS: 0.0, build.WORDS: 0.0},
    )
    return build.run_report(
        [suite],
        {(suite.key, "blob"): [done, build.failed(build.FailureKind.RAISED, blob, detail=blob)]},
    )


@pytest.mark.parametrize("row", ROWS)
def test_megabytes_are_bounded(row: str) -> None:
    assert len(reports.RENDERERS[row].render(megabytes())) < LIMIT
