"""Annotations, outputs and the terminal's text."""

from __future__ import annotations

import dataclasses
import json

from builders import build, sides
from builders.scenarios import SCENARIOS

from evalgate.errors import Place, Problem, Severity
from evalgate.model import PlanPart, Policy
from evalgate.model.deviations import ADKS
from evalgate.reports import annotations as reports_annotations, terminal


def test_a_passing_run_annotates_nothing() -> None:
    assert reports_annotations.render(build.report("pass pass skipped")) == ()


def test_failures_are_errors_and_broken_agents_warnings() -> None:
    error, warning = reports_annotations.render(build.report("error pass fail"))
    assert error == (
        f"::error file={build.SUITE},line=30,title=fail%3A case_3::tool_trajectory_avg_score 0.00 < 1.00"
    )
    assert warning.startswith(
        f"::warning file={build.SUITE},line=10,title=not measured%3A case_1::The agent raised"
    )


def test_a_broken_agent_is_no_error_under_adk_compat_either() -> None:
    (line,) = reports_annotations.render(build.report("error", policy=Policy(deviations=ADKS)))
    assert line.startswith("::warning ")


def test_no_more_than_github_shows_worst_first() -> None:
    lines = reports_annotations.render(
        build.report(" ".join(["0.7"] * 12 + ["0.1"] + ["error"] * 14))
    )
    assert [line.split(" ")[0] for line in lines] == ["::error"] * 10 + ["::warning"] * 10 + [
        "::notice"
    ]
    assert "case_13" in lines[0]
    assert (
        "3 more failing cases and 4 more warnings about cases and rules: see the job summary"
        in lines[-1]
    )
    assert "the log" not in lines[-1]


def problem(severity: Severity, number: int = 1) -> Problem:
    return Problem(
        severity=severity,
        code="nothing-expected",
        message=f"odd thing {number}",
        place=Place(file="evalgate.yml", line=number),
        hint="Mend it.",
    )


def test_problems_stand_at_their_line_in_a_passing_run_too() -> None:
    told = (problem(Severity.WARNING), problem(Severity.NOTE, 2))
    assert reports_annotations.render(dataclasses.replace(build.report("pass"), problems=told)) == (
        "::warning file=evalgate.yml,line=1::odd thing 1 [nothing-expected]%0AMend it.",
        "::notice file=evalgate.yml,line=2::odd thing 2 [nothing-expected]%0AMend it.",
    )


def test_problems_take_the_room_that_cases_leave() -> None:
    told = tuple(problem(kind, number) for kind in Severity for number in range(1, 13))
    report = dataclasses.replace(
        build.report(" ".join(["fail"] * 2 + ["error"] * 9)), problems=told
    )
    lines = reports_annotations.render(report)
    assert [line.split(" ")[0] for line in lines] == ["::error"] * 10 + ["::warning"] * 10 + [
        "::notice"
    ] * 10
    assert ["odd thing" in line for line in lines[:20]] == [False] * 2 + [True] * 8 + [
        False
    ] * 9 + [True]
    assert (
        "4 more errors, 11 more warnings and 3 more notices: see the log of this step" in lines[-1]
    )


def test_each_is_said_to_be_where_it_is() -> None:
    told = (problem(Severity.WARNING),)
    (*_, last) = reports_annotations.render(
        dataclasses.replace(build.report(" ".join(["error"] * 12)), problems=told)
    )
    assert last.endswith(
        "2 more warnings about cases and rules: see the job summary and report.html. "
        "1 more warning: see the log of this step."
    )


def test_a_part_tells_its_errors_and_leaves_the_rest_to_what_joins_the_parts() -> None:
    report = build.report("fail error")
    part = dataclasses.replace(report.run, part=PlanPart(index=1, of=2))
    told = tuple(problem(severity) for severity in Severity)
    (line,) = reports_annotations.render(dataclasses.replace(report, run=part, problems=told))
    assert line.startswith("::error file=evalgate.yml,line=1::odd thing 1")


def test_hostile_text_makes_no_command_of_its_own() -> None:
    for line in reports_annotations.render(SCENARIOS["hostile"]()):
        assert len(line.splitlines()) == 1
    for line in terminal.render(SCENARIOS["hostile"]()).splitlines():
        assert not line.lstrip().startswith("::")
        assert "##[" not in line


def test_outputs() -> None:
    found = reports_annotations.render_outputs(build.report("pass fail error"))
    assert json.loads(found.pop("scores")) == {build.TOOLS: 0.5, build.WORDS: 1.0}
    assert found == {
        "verdict": "fail",
        "reason": f"1 of 3 cases failed in {build.SUITE}; 1 could not be evaluated.",
        "relaxed": "",
        "passed": "1",
        "failed": "1",
        "flaky": "0",
        "quarantined": "0",
        "inconclusive": "0",
        "not-measured": "1",
        "total": "3",
        "delta": "{}",
        "evidence": "",
        "judge-calls": "0",
        "judge-cost-usd": "0",
    }


def test_the_delta_of_a_criterion_is_that_of_the_cases_that_decide() -> None:
    last = sides.waiving(2)  # quarantined: the criterion has a second row
    report = dataclasses.replace(
        build.report("pass"), comparison=sides.compare("F/P F/P P/P", policy=last)
    )
    assert json.loads(reports_annotations.render_outputs(report)["delta"]) == {"m": -1.0}


def test_unknown_scores_are_null() -> None:
    found = reports_annotations.render_outputs(build.report("error"))
    assert json.loads(found["scores"]) == {build.TOOLS: None, build.WORDS: None}


def test_outputs_are_single_lines() -> None:
    assert all(
        len(value.splitlines()) <= 1
        for value in reports_annotations.render_outputs(SCENARIOS["hostile"]()).values()
    )
