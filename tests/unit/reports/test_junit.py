"""junit.xml, against the Jenkins schema and an independent reader."""

from __future__ import annotations

import copy
from pathlib import Path

import junitparser
import pytest
from builders import build
from builders.scenarios import SCENARIOS
from lxml import etree

from evalgate.model import Policy
from evalgate.reports import junit

XSD = Path(__file__).parents[2] / "data" / "junit-10.xsd"
XS = "{http://www.w3.org/2001/XMLSchema}"


def schema() -> etree.XMLSchema:
    """Jenkins' schema, plus the two attributes that annotating readers look for and it does not know."""
    tree = etree.parse(XSD)
    testcase = tree.find(f"{XS}element[@name='testcase']/{XS}complexType")
    for name in ("file", "line"):
        etree.SubElement(testcase, f"{XS}attribute", name=name, type="xs:string")
    return etree.XMLSchema(tree)


def read(words: str, **more: object) -> junitparser.TestSuite:
    (suite,) = junitparser.JUnitXml.fromstring(junit.render(build.report(words, **more)).encode())
    return suite


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_fits_the_schema(scenario: str) -> None:
    tree = etree.fromstring(junit.render(SCENARIOS[scenario]()).encode())
    schema().assertValid(copy.deepcopy(tree))


@pytest.mark.parametrize(
    ("words", "result", "kind"),
    [
        ("pass", None, None),
        ("fail", junitparser.Failure, "fail"),
        ("error", junitparser.Error, "agent.raised"),  # a broken agent is an error, never a failure
        ("timeout", junitparser.Error, "agent.timeout"),
        ("unjudged", junitparser.Error, "criterion.criterion_failed"),
        ("never", junitparser.Error, "criterion.skipped"),  # it was to run and did not: no choice of the user's
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
    (case,) = read("error", policy=Policy(adk_compat=True))
    assert isinstance(case.result[0], junitparser.Error)


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
    assert (case._elem.get("file"), case._elem.get("line"), case._elem.get("time")) == (build.SUITE, "20", "1.500")


def test_the_body_says_what_was_expected_and_what_came() -> None:
    (case,) = read("fail")
    (failure,) = case.result
    assert failure.message == "tool_trajectory_avg_score 0.00 < 1.00"
    assert 'expected call: book(city="Oslo")' in failure.text
    assert 'actual call:   book(city="Rome")' in failure.text


def test_repeats_are_one_test_case() -> None:
    (case,) = read("pass/fail/pass")
    assert "tool_trajectory_avg_score: fail 0.67 (threshold 1.00; runs: 1.00, 0.00, 1.00)" in case.system_out


def test_informational_criteria_never_fail() -> None:
    suite = build.suite(build.case("c", build.turn("x")), criteria={build.TOOLS: 1.0, "token_usage_v1": None})
    done = {(suite.key, "c"): [build.scores(build.turn("x"), **{build.TOOLS: 1.0, "token_usage_v1": 0.0})]}
    (read_back,) = junitparser.JUnitXml.fromstring(junit.render(build.run_report([suite], done)).encode())
    assert (read_back.failures, read_back.errors, read_back.skipped) == (0, 0, 0)


def test_thousands_of_cases_are_all_there_in_their_order() -> None:
    words = "pass fail error skipped" + " pass" * junit.CHUNK + " fail"  # more than are made at once
    text = junit.render(build.report(words))
    (suite,) = junitparser.JUnitXml.fromstring(text.encode())
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (junit.CHUNK + 5, 2, 1, 1)
    assert [case.name for case in suite] == [f"case_{number}" for number in range(1, junit.CHUNK + 6)]
    schema().assertValid(etree.fromstring(text.encode()))


def test_a_suite_without_cases_is_there() -> None:
    text = junit.render(build.run_report([build.suite(criteria={build.TOOLS: 1.0})], {}))
    (suite,) = junitparser.JUnitXml.fromstring(text.encode())
    assert (suite.tests, suite.name) == (0, build.SUITE)
