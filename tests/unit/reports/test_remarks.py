"""What is said beside the lines of cases and of weakened rules."""

from __future__ import annotations

import pytest
from builders import build, comparing
from builders.compared_scenarios import COMPARED

from evalgate.errors import Severity
from evalgate.model import Policy, ThresholdRule
from evalgate.reports import annotations as reports_annotations


@pytest.mark.parametrize(
    ("words", "levels"),
    [
        ("pass", []),
        ("fail", [Severity.ERROR]),
        ("error", [Severity.WARNING]),  # a broken agent is no failing one
        ("skipped", []),  # the user's own choice
        ("error fail", [Severity.ERROR, Severity.WARNING]),
    ],
)
def test_levels(words: str, levels: list[Severity]) -> None:
    assert [each.level for each in reports_annotations.remarks(build.report(words))] == levels


def test_what_the_base_fails_too_is_a_warning_after_what_is_new() -> None:
    found = reports_annotations.remarks(
        comparing.report("fail fail", "fail pass", policy=Policy(threshold=ThresholdRule.ALL))
    )
    assert [(each.level, each.line) for each in found] == [
        (Severity.ERROR, 20),
        (Severity.WARNING, 10),
    ]
    assert found[0].message.endswith("new failure")
    assert found[1].message.endswith("fails on the base too")


@pytest.mark.parametrize(
    ("head", "base", "policy", "level", "said"),
    [
        (
            "fail",
            "pass",
            Policy(advisory=frozenset({build.SUITE})),
            Severity.WARNING,
            "new failure, advisory (non-blocking)",
        ),
        (
            "fail pass",
            "fail pass",
            Policy(pass_rate=0.5),
            Severity.WARNING,
            "fails on the base too, within the required pass rate",
        ),
        (
            "pass/fail",
            "pass/fail",
            Policy(threshold=ThresholdRule.NEW),
            Severity.WARNING,
            "fails on the base too",
        ),
        ("fail pass", "pass pass", Policy(), Severity.ERROR, "not confirmed"),
        # enough pass, and yet it is what made the criterion worse
        (
            "fail*5 " * 8 + "pass*5 " * 8,
            "pass*5 " * 16,
            Policy(pass_rate=0.5),
            Severity.ERROR,
            "new failure",
        ),
    ],
)
def test_what_decides_nothing_is_a_warning(
    head: str, base: str, policy: Policy, level: Severity, said: str
) -> None:
    found = reports_annotations.remarks(comparing.report(head, base, policy=policy))
    assert {each.level for each in found} == {level}
    assert said in found[0].message


def test_what_does_not_decide_yet_is_a_warning_that_says_so() -> None:
    waiting = frozenset({(build.SUITE, "case_1")})
    found = reports_annotations.remarks(comparing.report("fail fail", "pass pass", waiting=waiting))
    assert [(each.level, each.line) for each in found] == [
        (Severity.ERROR, 20),
        (Severity.WARNING, 10),
    ]
    assert found[1].message.endswith("\nquarantined (non-blocking)")


def test_a_weakened_rule_is_told_at_its_line_where_that_is_known() -> None:
    (found,) = reports_annotations.remarks(COMPARED["base_relaxed"]())
    assert (found.level, found.file, found.line) == (
        Severity.WARNING,
        "agents/travel/test_config.json",
        4,
    )
    assert (
        found.message
        == "passes only because this change relaxes the rules: response_match_score 0.80 \u2192 0.50"
    )


def test_remarks_are_bounded() -> None:
    found = reports_annotations.remarks(COMPARED["base_hostile"]())
    assert found
    assert all(len(each.message) < 1_100 and len(each.title) < 200 for each in found)
