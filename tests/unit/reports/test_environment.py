"""What the numbers depend on is told of both sides, and only as far as it is known."""

from __future__ import annotations

import dataclasses

import pytest
from builders import build, compared_scenarios, comparing

from evalgate.model import (
    BaseOrigin,
    BaseSource,
    Case,
    Comparison,
    ConversationScenario,
    CriterionJudge,
    JudgeIdentity,
    Report,
    SimulatorUse,
)
from evalgate.reports import comment, view


def reproduce(report: Report) -> str:
    return comment._draw("environment", view.view_of(report))


def told(report: Report) -> dict[str, tuple[str, str]]:
    return {fact["of"] or fact["name"]: (fact["head"], fact["base"]) for fact in view.facts(report)}


def test_both_sides_are_told_and_what_is_the_same_is_said_once() -> None:
    found = told(compared_scenarios.with_fingerprints(comparing.report("pass fail", "pass pass")))
    assert found["environment"] == (
        "google-adk 2.13.0, Python 3.11.9, packages 9e107d9d372bb682",
        "google-adk 2.12.1, Python 3.11.9, packages e4d909c290d0fb1c",
    )
    assert found["agent's models"] == ("gemini-2.5-pro", "the same")
    assert found["final_response_match_v2"] == ("gemini-2.5-flash, 5 samples, prompt 3", "the same")
    head, base = found["statistics"]
    assert "alpha 0.05" in head
    assert base == "the same"


def test_nothing_is_made_up() -> None:
    bare = build.report("pass")
    assert bare.run.commit, "which is told anyway"
    assert told(bare) == {}
    assert "Environment" not in reproduce(build.changed(bare, reproduce="evalgate run"))
    failed = comparing.without(
        "pass", Comparison(origin=BaseOrigin(source=BaseSource.RERUN), problem="no such commit")
    )
    assert all(base == "" for _, base in told(failed).values())


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({}, ""),
        ({"framework": "google-adk"}, "google-adk"),
        ({"python": "3.12.1", "requirements": "ab"}, "Python 3.12.1, packages ab"),
        ({"url": "http://somewhere"}, ""),  # what is behind it is not known
    ],
)
def test_an_environment_as_far_as_its_worker_told(about: dict[str, str], said: str) -> None:
    report = build.report("pass")
    report = dataclasses.replace(report, run=dataclasses.replace(report.run, agents={"a": about}))
    assert told(report).get("environment", ("", ""))[0] == said


def test_only_one_side_knows_its_models() -> None:
    report = comparing.report("pass", "pass")
    report = dataclasses.replace(
        report, run=dataclasses.replace(report.run, models=frozenset({"b", "a"}))
    )
    assert told(report)["agent's models"] == ("a and b", "-")


def test_who_plays_the_users_is_told_where_there_are_any() -> None:
    report = build.report("pass")
    (suite,) = report.run.suites
    assert "simulated user" not in told(report)
    scenario = Case(
        case_id="s", scenario=ConversationScenario(starting_prompt="x", conversation_plan="y")
    )
    led = dataclasses.replace(
        suite,
        eval_set=dataclasses.replace(suite.eval_set, cases=(scenario,)),
        simulator=SimulatorUse(model="gemini-2.5-flash-lite"),
    )
    report = dataclasses.replace(report, run=dataclasses.replace(report.run, suites=(led,)))
    assert told(report)["simulated user"] == ("gemini-2.5-flash-lite", "")


def test_what_others_wrote_cannot_break_out_of_the_table() -> None:
    report = comparing.report("pass", "pass")
    evil = JudgeIdentity(model="a|b`c\n| d", prompt_version="<script>")
    run = dataclasses.replace(report.run, models=frozenset({"x|y\n<b>"}))
    report = build.changed(
        report, run=run, criterion_judges=(CriterionJudge(criterion="m|1\n| x", judge=evil),)
    )
    table = reproduce(report).split("| Environment |")[1]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    assert len(lines) == 1 + len(told(report))
    assert all(len(line.replace("\\|", "").split("|")) == 5 for line in lines[1:])


def test_a_table_of_many_judges_ends() -> None:
    judge = JudgeIdentity(model="m", prompt_version="1")
    asked = tuple(CriterionJudge(criterion=f"m{at}", judge=judge) for at in range(view.JUDGES + 3))
    facts = view.facts(build.changed(build.report("pass"), criterion_judges=asked))
    judges = [fact for fact in facts if fact["name"] == "judge"]
    assert len(judges) == view.JUDGES + 1
    assert judges[-1]["head"] == "of 3 more criteria"
