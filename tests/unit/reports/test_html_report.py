"""report.html: self-contained, whole where there is room."""

from __future__ import annotations

import re

import lxml.html
import pytest
from builders import build
from builders.scenarios import HOSTILE, SCENARIOS

from evalgate.reports import html_report

PARTS = {
    *("html", "head", "meta", "title", "style", "script", "body", "header", "main", "footer", "section", "div", "h1"),
    *("h2", "h3", "p", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "code", "pre", "span", "strong"),
    *(
        "em",
        "ul",
        "li",
        "a",
        "bdi",
        "details",
        "summary",
        "form",
        "label",
        "select",
        "option",
        "input",
        "del",
        "ins",
        "q",
    ),
    *("svg", "polyline", "circle"),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_nothing_is_loaded_and_nothing_but_ours_is_made(scenario: str) -> None:
    tree = lxml.html.fromstring(html_report.render(SCENARIOS[scenario]()))
    assert {each.tag for each in tree.iter()} <= PARTS
    assert len(tree.xpath("//script")) == len(tree.xpath("//style")) == 1
    assert not tree.xpath("//@src | //@srcset | //@style | //@onerror | //@onclick | //link")
    assert all(address.startswith("https://github.com/example/travel/") for address in tree.xpath("//@href"))


def test_the_policy_lets_nothing_in() -> None:
    tree = lxml.html.fromstring(html_report.render(build.report("pass")))
    (policy,) = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert policy.startswith("default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_hostile_text_is_text() -> None:
    tree = lxml.html.fromstring(html_report.render(SCENARIOS["hostile"]()))
    assert "<img src=x onerror=alert(1)>" in tree.text_content()
    assert not set(tree.text_content()) & set("\u202e\u2066\u200b\x1b\x00\ufffe")
    assert HOSTILE not in tree.text_content()


def case_kinds(tree: lxml.html.HtmlElement) -> list[str]:
    return [each.get("class").split()[1] for each in tree.xpath("//details")]


def test_broken_cases_come_first() -> None:
    tree = lxml.html.fromstring(html_report.render(build.report("pass error fail pass")))
    assert case_kinds(tree) == ["fail", "not_measured", "pass", "pass"]


def test_every_turn_is_there_with_its_difference() -> None:
    tree = lxml.html.fromstring(html_report.render(SCENARIOS["fail"]()))
    assert tree.xpath("string(//details[1]//*[contains(@class, 'gone')])").startswith("-")
    assert tree.xpath("//del/text()")
    assert tree.xpath("//ins/text()")


def test_passing_cases_lose_their_conversations_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_report, "LIMIT", 6_000)
    tree = lxml.html.fromstring(html_report.render(build.report("pass " * 10 + "fail")))
    first, *rest = tree.xpath("//details")
    assert "left out for size." not in first.text_content()
    assert any("left out for size." in each.text_content() for each in rest)
    (more,) = re.findall(r"\.\.\.and (\d+) more cases?", tree.text_content())
    assert int(more) + len(rest) + 1 == 11


def test_thousands_of_passing_cases_are_told_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_report, "PASSING", 3)
    tree = lxml.html.fromstring(html_report.render(build.report("pass " * 5 + "fail")))
    whole = ["left out for size" not in each.text_content() for each in tree.xpath("//details")]
    assert whole == [True, True, True, True, False, False]


def test_it_reads_without_script() -> None:
    tree = lxml.html.fromstring(html_report.render(build.report("pass fail")))
    (form,) = tree.xpath("//form")
    assert form.get("hidden") is not None  # filters are nothing without script
    assert not tree.xpath("//details[@hidden]")
