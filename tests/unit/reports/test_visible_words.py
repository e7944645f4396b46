"""The comment is read in ten seconds: the words outside of closed sections, in every scenario."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import cmarkgfm
import pytest
from builders import build, comparing
from builders.scenarios import KINDS, SCENARIOS
from cmarkgfm.cmark import Options

from evalgate.model import Report
from evalgate.reports import comment

MOST = 250
HOSTILE = {"base_hostile": 400}
"""Where every name of a file, a case and a criterion is a sentence."""


class Visible(HTMLParser):
    """The text that a reader sees before opening anything; titles of closed sections count."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.sections: list[bool] = []
        self.in_title = False
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "details":
            self.sections.append("open" in dict(attrs))
        self.in_title = self.in_title or tag == "summary"

    def handle_endtag(self, tag: str) -> None:
        if tag == "details":
            self.sections.pop()
        self.in_title = self.in_title and tag != "summary"

    def handle_data(self, data: str) -> None:
        around = self.sections[:-1] if self.in_title else self.sections
        if all(around):
            self.texts.append(data)


def visible_text(report: Report) -> str:
    page = cmarkgfm.github_flavored_markdown_to_html(
        comment.render(report), Options.CMARK_OPT_UNSAFE
    )
    return "".join(Visible(page).texts)


def words(text: str) -> list[str]:
    return [word for word in text.split() if re.search(r"\w", word)]


def six_of_forty() -> Report:
    return comparing.report("fail " * 6 + "pass " * 34, "pass " * 40)


@pytest.mark.parametrize("scenario", KINDS)
def test_every_scenario_is_short(scenario: str) -> None:
    assert len(words(visible_text(SCENARIOS[scenario]()))) <= HOSTILE.get(scenario, MOST)


def test_six_failures_of_forty() -> None:
    text = visible_text(six_of_forty())
    assert len(words(text)) <= MOST
    order = [
        "evalgate: fail.",
        "6 of 40 cases failed",
        "evidence",
        "Why cases do not pass",
        '- book(city="Oslo")\n+ book(city="Rome")',
        "evalgate run agents/travel/travel.evalset.json --base",
        "evalgate run --failed",
        "evalgate accept case_1",
        "5 more cases failed",
        "Criteria and evidence",
        "report.html",
    ]
    places = [text.find(part) for part in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)


def test_an_id_that_a_shell_would_read_is_not_in_a_command() -> None:
    evil = build.case("x; rm -rf ~", build.turn("x", build.call("a")))
    bad = build.turn("x", build.call("b"))
    report = build.run_report(
        [build.suite(evil)],
        {
            (build.SUITE, evil.case_id): [
                build.scores(bad, **{build.TOOLS: [0.0], build.WORDS: 1.0})
            ]
        },
    )
    text = comment.render(report)
    assert "evalgate accept --failed" in text
    assert "accept x;" not in text
