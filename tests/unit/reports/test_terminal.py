"""What a terminal shows: what broke first and what differed in it, within its width, nothing told
twice."""

from __future__ import annotations

import re

import pytest
from builders import build, comparing
from builders.scenarios import SCENARIOS, TABLE

from evalgate import reports
from evalgate.model import Content, FailureKind, Invocation, Policy, Text, ThresholdRule
from evalgate.reports.turns import Turn
from evalgate.text import plain

COLOR = re.compile(r"\x1b\[(?:\d+)m")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        # equal reasons are one, with how often
        ("skipped skipped skipped", ["not measured: 3 cases: case_1, case_2 and case_3"]),
        # as many names as can be read
        (
            " ".join(["never"] * 12),
            ["not measured: 12 cases: case_1, case_2, case_3, case_4, case_5, case_6, case_7"],
        ),
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
    assert all(header.startswith(start) for header, start in zip(headers, shown, strict=True)), (
        headers
    )


def test_it_begins_with_what_broke_and_ends_with_the_verdict() -> None:
    shown = reports.render_terminal(build.report("pass fail error")).splitlines()
    assert shown[:3] == [
        "- expected, + actual",
        f"fail: case_2 ({build.SUITE}:20)",
        "    tool_trajectory_avg_score 0.00 < 1.00",
    ]
    (counts,) = (line for line in shown if line.startswith("3 cases: "))
    assert counts.startswith("3 cases: 1 passed, 1 failed, 1 not measured, 1 run per case")
    assert shown[shown.index(counts) + 1].startswith("FAIL: 1 of 3 cases")


def test_last_words_are_quoted_once() -> None:
    cases = [build.case(name, build.turn("hi", answer="yes")) for name in ("one", "two")]
    suite = build.suite(*cases)
    done = {
        (suite.key, case.case_id): [
            build.failed(FailureKind.RAISED, case.case_id, detail="KeyError: 'KEY'")
        ]
        for case in cases
    }
    shown = reports.render_terminal(build.run_report([suite], done))
    assert (shown.count("not measured: "), shown.count("| KeyError: 'KEY'")) == (2, 1)


def test_it_is_short_for_many() -> None:
    assert len(reports.render_terminal(SCENARIOS["many"]()).splitlines()) < 150


@pytest.mark.parametrize("scenario", TABLE)
def test_colors_are_all_that_they_add(scenario: str) -> None:
    report = SCENARIOS[scenario]()
    colored = reports.render_terminal(report, color=True)
    assert COLOR.sub("", colored) == reports.render_terminal(report)
    assert all(COLOR.findall(line)[1:] in ([], ["\x1b[0m"]) for line in colored.splitlines())


@pytest.mark.parametrize("width", [70, 80, 132])
@pytest.mark.parametrize(
    "scenario", ["fail", "base_regressed", "base_origins", "not_measured", "judged"]
)
def test_all_keeps_to_the_width(scenario: str, width: int) -> None:
    text = reports.render_terminal(SCENARIOS[scenario](), width=width)
    for line in text.splitlines():
        told_whole = (
            line.startswith(("    | ", "fail: 2 cases", "    final_response")) or ": $" in line
        )
        assert told_whole or plain.columns(line) <= width, line


def test_informational_criteria_are_shown_when_asked_for() -> None:
    report = SCENARIOS["fail"]()
    usual = reports.render_terminal(report)
    assert "token_usage_v1" not in usual
    assert "...and 1 informational criterion (--all)\n" in usual
    assert re.search(
        r"^  token_usage_v1 +435 ", reports.render_terminal(report, all_criteria=True), re.MULTILINE
    )
    compared = SCENARIOS["base_regressed"]()
    assert reports.render_terminal(compared, all_criteria=True).count("token_usage_v1") == 2


@pytest.mark.parametrize(
    ("words", "style"),
    [
        ("pass pass", "\x1b[32m"),
        # the mean reaches the threshold, and yet a case fails
        ("fail pass", "\x1b[31m"),
        # nothing failed, and not all is known
        ("pass error", ""),
    ],
)
def test_a_number_is_green_where_all_of_its_cases_pass(words: str, style: str) -> None:
    text = reports.render_terminal(build.report(words), color=True)
    row = next(
        line
        for line in text.splitlines()
        if "  tool_trajectory_avg_score" in line and "<" not in line
    )
    assert row.startswith(style)
    assert row.startswith("\x1b") is bool(style)


def test_a_new_failure_shows_the_base() -> None:
    text = reports.render_terminal(
        comparing.report("fail fail", "pass fail", policy=Policy(threshold=ThresholdRule.ALL))
    )
    new, old = text.split("fail: ")[1:3]
    assert "new failure" in new
    assert "    = the expected calls\n" in new
    assert "    = " not in old.split("\n\n")[0]


def test_the_place_of_a_case_is_a_link() -> None:
    text = reports.render_terminal(build.report("pass fail"), folder="/work/a repo")
    link = f"\x1b]8;;file:///work/a%20repo/{build.SUITE}\x1b\\{build.SUITE}"
    assert f"fail: case_2 ({link}:20\x1b]8;;\x1b\\)\n" in text
    assert text.count("\x1b]8;;file://") == 2  # of the suite, too
    assert re.sub("\x1b]8;;[^\x1b]*\x1b\\\\", "", text) == reports.render_terminal(
        build.report("pass fail")
    )


@pytest.mark.parametrize(
    ("files", "shown"), [({}, "more cases\n"), ({"html": "x"}, "more cases: see report.html\n")]
)
def test_only_a_file_that_is_there_is_named(files: dict[str, str], shown: str) -> None:
    report = build.report(" ".join(f"0.{number:02}" for number in range(1, 72)))
    assert shown in reports.render_terminal(build.changed(report, files=files))


def test_an_accepted_answer_without_an_expected_one_is_shown_once() -> None:
    question = Content(parts=(Text(text="q"),), role="user")
    answer = Content(parts=(Text(text="the answer"),), role="model")
    turn = Turn(
        number=1,
        expected=Invocation(user_content=question, final_response=None),
        actual=Invocation(user_content=question, final_response=answer),
    )
    for calls, called in ((False, ""), (True, "    + (no tool call)\n")):
        shown = reports.render_change(turn, calls=calls, answer=True)
        assert COLOR.sub("", shown) == f"{called}    + the answer\n"
