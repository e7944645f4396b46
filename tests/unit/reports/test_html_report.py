"""report.html: self-contained, whole where there is room."""

from __future__ import annotations

import dataclasses
from typing import Any

import lxml.html
import pytest
from builders import build, report_page
from builders.scenarios import HOSTILE, SCENARIOS, TABLE

from evalgate.model import Invocation
from evalgate.reports import html_report, page_data, turns

PARTS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "script",
    "noscript",
    "body",
    "header",
    "main",
    "footer",
    "section",
    "div",
    "h1",
    "h2",
    "h3",
    "p",
    "dl",
    "dt",
    "dd",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "code",
    "pre",
    "span",
    "strong",
    "em",
    "ul",
    "li",
    "a",
    "bdi",
    "details",
    "summary",
    "svg",
    "polyline",
    "aside",
    "del",
    "ins",
    "circle",
    "figure",
    "figcaption",
    "g",
    "line",
}


@pytest.mark.parametrize("scenario", TABLE)
def test_nothing_is_loaded_and_nothing_but_ours_is_made(scenario: str) -> None:
    tree = lxml.html.fromstring(html_report.render(SCENARIOS[scenario]()))
    assert {each.tag for each in tree.iter()} <= PARTS
    assert len(tree.xpath("//script[not(@type='text/plain')]")) == len(tree.xpath("//style")) == 1
    assert not tree.xpath("//@src | //@srcset | //@style | //@onerror | //@onclick | //link")
    assert all(
        address.startswith("https://github.com/example/travel/")
        for address in tree.xpath("//@href")
    )


@pytest.mark.parametrize(
    ("outcomes", "number", "title"),
    [
        ("fail fail pass", "12", "2 \u2718 example/travel#12"),
        ("pass pass", "12", "\u2714 example/travel#12"),
        ("error", "", "\u26a0 example/travel"),
    ],
)
def test_a_tab_of_the_browser_says_how_it_ended(outcomes: str, number: str, title: str) -> None:
    links = dataclasses.replace(build.LINKS, pull_request=number)
    tree = lxml.html.fromstring(html_report.render(build.report(outcomes, links=links)))
    assert tree.xpath("//title")[0].text == title


def test_the_policy_lets_nothing_in() -> None:
    tree = lxml.html.fromstring(html_report.render(build.report("pass")))
    (policy,) = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert policy.startswith(
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; media-src data:; style-src 'sha256-"
    )
    assert "unsafe" not in policy


def test_hostile_text_is_text() -> None:
    page = html_report.render(SCENARIOS["hostile"]())
    outside = report_page.read(page).text
    assert not set(outside) & set("\u202e\u2066\u200b\x1b\x00\ufffe")
    assert HOSTILE not in outside
    assert "<img" not in outside


def test_broken_cases_come_first() -> None:
    found = report_page.read(html_report.render(build.report("pass error fail pass")))
    assert [each["kind"] for each in found.index["cases"]] == [
        "fail",
        "not_measured",
        "pass",
        "pass",
    ]


def test_passing_cases_lose_their_conversations_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_report, "LIMIT", 1)
    monkeypatch.setattr(page_data, "PART_BYTES", 1)
    found = report_page.read(html_report.render(build.report("pass " * 10 + "fail")))
    assert [("part" in each) for each in found.index["cases"]] == [True, *[False] * 10]
    assert [each["kind"] for each in found.index["cases"]].count("pass") == 10, (
        "all of them are listed"
    )


@pytest.mark.parametrize(
    "scenario", ["base_regressed", "languages", "judged", "flaky", "base_conversation"]
)
def test_all_of_a_case_is_in_it(scenario: str) -> None:
    """Every run of either side, with what was called, returned and said, and every word of a
    judge."""
    report = SCENARIOS[scenario]()
    found = report_page.read(html_report.render(report))
    sides = [
        report.run,
        *([report.comparison.base] if report.comparison and report.comparison.base else []),
    ]
    for run in sides:
        for trial in run.trials:
            strings = set(report_page.strings(found.cases[trial.key.case_id]))
            transcript = run.transcripts(trial.key)
            for turn in transcript.invocations if transcript else ():
                assert set(report_page.strings(build_strings(turn))) <= strings
            told = (each for grade in trial.grades.values() for each in grade.findings)
            assert {opinion.text for each in told for opinion in each.opinions} <= strings


def build_strings(turn: Invocation) -> list[Any]:
    answers = [turns.answer_text(each) for each in (turn.user_content, turn.final_response)]
    calls = [[each.name, each.args] for each in turn.tool_calls]
    return [
        *(each for each in answers if each),
        calls,
        [each.response for each in turn.tool_responses],
    ]


def test_it_reads_without_script() -> None:
    text = report_page.read(html_report.render(SCENARIOS["base_regressed"]())).text
    tree = lxml.html.fromstring(text)
    assert "renew_loan was called instead of waiting_readers" in tree.text_content()
    assert "need JavaScript" in tree.xpath("string(//noscript)")
