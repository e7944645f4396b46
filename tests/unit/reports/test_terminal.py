"""What a terminal shows: what broke first and what differed in it, within its width, nothing told twice."""

from __future__ import annotations

import dataclasses
import re

import pytest
from builders import build
from builders.scenarios import SCENARIOS

from evalgate import reports
from evalgate.model import FailureKind
from evalgate.text import plain

COLOR = re.compile(r"\x1b\[(?:\d+)m")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        # equal reasons are one, with how often
        ("skipped skipped skipped", ["not measured: 3 cases: case_1, case_2 and case_3"]),
        # as many names as can be read
        (" ".join(["never"] * 12), ["not measured: 12 cases: case_1, case_2, case_3, case_4, case_5, case_6, case_7"]),
        # failures first, whatever their place
        ("skipped pass fail", ["fail: case_3", "not measured: case_1"]),
        # so many failures are told whole, the rest by their reason
        (" ".join(["fail"] * 12), ["fail: 10 cases: case_1", "fail: 2 cases: case_11 and case_12"]),
    ],
)
def test_cases_that_say_the_same_are_one(words: str, shown: list[str]) -> None:
    text = reports.render_terminal(build.report(words))
    headers = [line for line in text.splitlines() if re.match(r"fail: |not measured: ", line)]
    assert len(headers) == len(shown), text
    assert all(header.startswith(start) for header, start in zip(headers, shown, strict=True)), headers


def test_it_begins_with_what_broke_and_ends_with_the_verdict() -> None:
    shown = reports.render_terminal(build.report("pass fail error")).splitlines()
    assert shown[:3] == [
        "- expected, + actual",
        f"fail: case_2 ({build.SUITE}:20)",
        "    tool_trajectory_avg_score 0.00 < 1.00",
    ]
    assert shown[-3].startswith("3 cases: 1 passed, 1 failed, 1 not measured, 1 run per case")
    assert shown[-2].startswith("FAIL: 1 of 3 cases")


def test_last_words_are_quoted_once() -> None:
    cases = [build.case(name, build.turn("hi", answer="yes")) for name in ("one", "two")]
    suite = build.suite(*cases)
    done = {
        (suite.key, case.case_id): [build.failed(FailureKind.RAISED, case.case_id, detail="KeyError: 'KEY'")]
        for case in cases
    }
    shown = reports.render_terminal(build.run_report([suite], done))
    assert (shown.count("not measured: "), shown.count("| KeyError: 'KEY'")) == (2, 1)


def test_it_is_short_for_many() -> None:
    assert len(reports.render_terminal(SCENARIOS["many"]()).splitlines()) < 150


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_colors_are_all_that_they_add(scenario: str) -> None:
    report = SCENARIOS[scenario]()
    colored = reports.render_terminal(report, color=True)
    assert COLOR.sub("", colored) == reports.render_terminal(report)
    assert all(COLOR.findall(line)[1:] in ([], ["\x1b[0m"]) for line in colored.splitlines())


@pytest.mark.parametrize("width", [70, 80, 132])
@pytest.mark.parametrize("scenario", ["fail", "base_regressed", "not_measured", "judged"])
def test_cases_and_criteria_keep_to_the_width(scenario: str, width: int) -> None:
    text = reports.render_terminal(SCENARIOS[scenario](), width=width)
    cases_and_criteria = text.split("\n\n")[:2]
    for line in "\n".join(cases_and_criteria).splitlines():
        told_whole = line.startswith(("    | ", "fail: 2 cases", "    final_response")) or ": $" in line
        assert told_whole or plain.columns(line) <= width, line


@pytest.mark.parametrize(("files", "shown"), [({}, "more cases\n"), ({"html": "x"}, "more cases: see report.html\n")])
def test_only_a_file_that_is_there_is_named(files: dict[str, str], shown: str) -> None:
    report = build.report(" ".join(f"0.{number:02}" for number in range(1, 72)))
    assert shown in reports.render_terminal(dataclasses.replace(report, files=files))
