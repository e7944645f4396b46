"""junit.xml, against the Jenkins schema and an independent reader."""

from __future__ import annotations

import functools
from pathlib import Path

import junitparser
import pytest
from builders import build, comparing
from builders.scenarios import SCENARIOS, TABLE
from lxml import etree

from evalgate.model import Policy
from evalgate.model.deviations import ADKS
from evalgate.reports import junit, view

XSD = Path(__file__).parents[2] / "data" / "junit-10.xsd"


@functools.cache
def schema() -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(XSD))


def read(words: str, **more: object) -> junitparser.TestSuite:
    (suite,) = junitparser.JUnitXml.fromstring(junit.render(build.report(words, **more)).encode())
    return suite


@pytest.mark.parametrize("scenario", TABLE)
def test_every_scenario_fits_the_schema(scenario: str) -> None:
    tree = etree.fromstring(junit.render(SCENARIOS[scenario]()).encode())
    schema().assertValid(tree)


@pytest.mark.parametrize("scenario", TABLE)
def test_its_counts_are_those_of_all_reports(scenario: str) -> None:
    report = SCENARIOS[scenario]()
    tree = junitparser.JUnitXml.fromstring(junit.render(report).encode())
    counts = view.view_of(report).counts
    test_cases = [case for suite in tree if suite.name != "evalgate" for case in suite]
    broken_files = len(view.view_of(report).broken)
    assert len(test_cases) == counts["total"] + broken_files
    red = [
        case
        for case in test_cases
        if any(type(r) in (junitparser.Failure, junitparser.Error) for r in case.result)
    ]
    assert len(red) <= counts["failed"] + counts["not_measured"] + broken_files
    assert tree.tests == len(test_cases) or (not red and tree.tests - len(test_cases) in (1, 2))


@pytest.mark.parametrize(
    ("words", "result", "kind"),
    [
        ("pass", None, None),
        ("fail", junitparser.Failure, "fail"),
        ("error", junitparser.Error, "agent.raised"),  # a broken agent is an error, never a failure
        ("timeout", junitparser.Error, "agent.timeout"),
        ("unjudged", junitparser.Error, "criterion.criterion_failed"),
        # it was to run and did not: no choice of the user's
        ("never", junitparser.Error, "criterion.skipped"),
        ("skipped", junitparser.Skipped, "skipped"),
        ("fail/error", junitparser.Failure, "fail"),
    ],
)
def test_outcomes_stay_apart(words: str, result: type | None, kind: str | None) -> None:
    (case,) = read(words)
    if result is None:
        assert case.result == []
    else:
        (found,) = case.result
        assert (type(found), found.type) == (result, kind)
        assert found.message


def test_a_broken_agent_is_no_failure_under_adk_compat_either() -> None:
    (case,) = read("error", policy=Policy(deviations=ADKS))
    assert isinstance(case.result[0], junitparser.Error)


ADVISORY = Policy(advisory=frozenset({build.SUITE}))


@pytest.mark.parametrize(
    ("words", "policy", "counts", "said"),
    [
        (
            "fail pass",
            Policy(pass_rate=0.5),
            (0, 0, 1),
            "allowed: within the required pass rate; tool_trajectory_avg",
        ),
        # too many
        (
            "fail fail pass",
            Policy(pass_rate=0.5),
            (2, 0, 0),
            "tool_trajectory_avg_score 0.00 < 1.00",
        ),
        (
            "error pass",
            Policy(min_measured=0.5),
            (0, 0, 1),
            "allowed: within `min-measured`; The agent",
        ),
        ("error pass", Policy(), (0, 1, 0), "The agent raised"),
        ("fail pass", ADVISORY, (0, 0, 1), "allowed: advisory (non-blocking); tool_trajectory_avg"),
        ("error pass", ADVISORY, (0, 0, 1), "allowed: advisory (non-blocking); The agent"),
    ],
)
def test_what_decides_nothing_is_skipped_with_its_reason(
    words: str, policy: Policy, counts: tuple[int, int, int], said: str
) -> None:
    suite = read(words, policy=policy)
    assert (suite.failures, suite.errors, suite.skipped) == counts
    assert next(iter(suite)).result[0].message.startswith(said)


def test_a_gate_that_asks_of_advisory_suites_alone_turns_no_reader_red() -> None:
    report = comparing.report("fail pass", "pass pass", policy=ADVISORY)
    tree = junitparser.JUnitXml.fromstring(junit.render(report).encode())
    assert (tree.failures, tree.errors) == (0, 0)


def test_inconclusive_is_skipped() -> None:
    (suite,) = junitparser.JUnitXml.fromstring(junit.render(SCENARIOS["inconclusive"]()).encode())
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (2, 0, 0, 1)


def test_counts_names_places_and_times() -> None:
    report = build.report("pass fail error skipped")
    document = junitparser.JUnitXml.fromstring(junit.render(report).encode())
    (suite,) = document
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (4, 1, 1, 1)
    assert (document.tests, document.failures, document.errors) == (4, 1, 1)
    assert suite.name == build.SUITE
    assert suite.timestamp == "2026-01-02T03:04:05"
    case = list(suite)[1]
    assert (case.name, case.classname) == ("case_2", "agents/travel/travel")
    assert case._elem.get("time") == "1.500"
    assert case.result[0].text.startswith(f"{build.SUITE}:20\n")


def test_the_body_says_what_was_expected_and_what_came() -> None:
    (case,) = read("fail")
    (failure,) = case.result
    assert failure.message == "tool_trajectory_avg_score 0.00 < 1.00"
    assert 'expected call: book(city="Oslo")' in failure.text
    assert 'actual call:   book(city="Rome")' in failure.text


def test_repeats_are_one_test_case() -> None:
    (case,) = read("pass/fail/pass")
    assert (
        "tool_trajectory_avg_score: fail 0.67 (threshold 1.00; runs: 1.00, 0.00, 1.00)"
        in case.system_out
    )


def test_informational_criteria_never_fail() -> None:
    suite = build.suite(
        build.case("c", build.turn("x")), criteria={build.TOOLS: 1.0, "token_usage_v1": None}
    )
    done = {
        (suite.key, "c"): [
            build.scores(build.turn("x"), **{build.TOOLS: 1.0, "token_usage_v1": 0.0})
        ]
    }
    (read_back,) = junitparser.JUnitXml.fromstring(
        junit.render(build.run_report([suite], done)).encode()
    )
    assert (read_back.failures, read_back.errors, read_back.skipped) == (0, 0, 0)


def test_thousands_of_cases_are_all_there_in_their_order() -> None:
    # more than are made at once
    words = "pass fail error skipped" + " pass" * 500 + " fail"
    text = junit.render(build.report(words))
    (suite,) = junitparser.JUnitXml.fromstring(text.encode())
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (500 + 5, 2, 1, 1)
    assert [case.name for case in suite] == [f"case_{number}" for number in range(1, 500 + 6)]
    schema().assertValid(etree.fromstring(text.encode()))


def test_a_suite_without_cases_is_there() -> None:
    text = junit.render(build.run_report([build.suite(criteria={build.TOOLS: 1.0})], {}))
    (suite,) = junitparser.JUnitXml.fromstring(text.encode())
    assert (suite.tests, suite.name) == (0, build.SUITE)


def gates_of(scenario: str) -> tuple[dict[str, str], dict[str, type]]:
    tree = junitparser.JUnitXml.fromstring(junit.render(SCENARIOS[scenario]()).encode())
    (suite,) = [each for each in tree if each.name == "evalgate"]
    answers = {line.name: line.value.partition(":")[0] for line in suite.properties()}
    return answers, {case.name: type(case.result[0]) for case in suite}


@pytest.mark.parametrize(
    ("scenario", "threshold", "regression", "red"),
    [
        ("base_regressed", "fail", "fail", {}),  # cases bear it
        ("base_unchanged", "pass", "pass", {}),
        ("base_inconclusive", "pass", "pass", {}),
        # the comparison was to be, and is not
        ("base_broken", "pass", "not measured", {"regression": junitparser.Error}),
        ("base_failed", "pass", "inconclusive", {}),  # not head's fault
        ("base_no_agent", "pass", "pass", {}),  # nobody's fault
        ("base_cut_short", "inconclusive", "inconclusive", {}),
    ],
)
def test_beside_a_base_the_gates_answers_can_be_read(
    scenario: str, threshold: str, regression: str, red: dict[str, type]
) -> None:
    assert gates_of(scenario) == ({"threshold": threshold, "regression": regression}, red)


def test_without_a_base_every_test_case_is_one_of_the_users() -> None:
    assert "evalgate" not in {
        suite.name
        for suite in junitparser.JUnitXml.fromstring(junit.render(build.report("fail")).encode())
    }


def test_a_regression_without_any_failing_case_is_a_failure() -> None:
    report = comparing.report("0.85*5 " * 40, "pass*5 " * 40)
    tree = junitparser.JUnitXml.fromstring(junit.render(report).encode())
    assert (tree.tests, tree.failures) == (41, 1)
    (failed,) = [case for suite in tree for case in suite if case.result]
    assert (failed.name, failed.classname) == ("regression", "evalgate")
    assert "dropped from 1.00 to 0.85" in failed.result[0].message


def test_what_the_gate_lets_pass_turns_no_reader_red() -> None:
    tree = junitparser.JUnitXml.fromstring(junit.render(SCENARIOS["base_known"]()).encode())
    assert (tree.failures, tree.errors) == (0, 0)
    (skipped,) = [case for suite in tree for case in suite if case.result]
    assert (skipped.name, type(skipped.result[0])) == ("case_2", junitparser.Skipped)
    assert skipped.result[0].message.startswith(
        "allowed: fails on the base too (non-blocking); tool_trajectory_avg_score 0.00 < 1.00"
    )
    counted = junitparser.JUnitXml.fromstring(junit.render(SCENARIOS["base_origins"]()).encode())
    # of five failures the new one and the one nobody knows of
    assert counted.failures == 2


def test_what_does_not_decide_yet_turns_no_reader_red() -> None:
    report = comparing.report(
        "fail pass", "pass pass", waiting=frozenset({(build.SUITE, "case_1")})
    )
    tree = junitparser.JUnitXml.fromstring(junit.render(report).encode())
    assert (tree.failures, tree.errors) == (0, 0)
    (message,) = [
        case.result[0].message for suite in tree for case in suite if case.name == "case_1"
    ]
    assert message.startswith("allowed: quarantined (non-blocking); ")
