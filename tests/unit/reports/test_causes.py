"""Causes: one line for each way in which cases fail, whoever they are."""

from __future__ import annotations

import pytest
from builders import build
from builders.build import TOOLS, WORDS, call, case, scores, turn
from builders.scenarios import SCENARIOS, TABLE

from evalgate.reports import causes, view


@pytest.mark.parametrize("scenario", TABLE)
def test_every_case_that_does_not_pass_has_one_cause(scenario: str) -> None:
    found = view.of(SCENARIOS[scenario]()).cases
    told = causes.of(found)
    names = [case.verdict.key for cause in told for case in cause.cases]
    assert sorted(names) == sorted(case.verdict.key for case in found if case.kind.value != "pass")
    assert all(
        cause.text and "\n" not in cause.text and len(cause.text) <= causes.LIMIT for cause in told
    )
    assert len({(cause.status, cause.text) for cause in told}) == len(told)


@pytest.mark.parametrize(
    ("criteria", "values", "cause"),
    [
        # a criterion of calls fails: how they differ
        ({TOOLS: 1.0, WORDS: 0.8}, {TOOLS: [0.0], WORDS: [0.0]}, "book: different city"),
        # it passes, so that other calls are allowed
        (
            {TOOLS: 1.0, WORDS: 0.8},
            {TOOLS: [1.0], WORDS: [0.0]},
            "response_match_score below its threshold",
        ),
        # there is none: calls that differ are the best guess
        ({WORDS: 0.8}, {WORDS: [0.0]}, "book: different city"),
    ],
)
def test_what_is_told_of_calls_that_differ(
    criteria: dict[str, float], values: dict[str, list[float]], cause: str
) -> None:
    suite = build.suite(
        case("one", turn("Go.", call("book", city="Oslo"), answer="Booked.")), criteria=criteria
    )
    done = scores(turn("Go.", call("book", city="Rome"), answer="No."), **values)
    (found,) = view.of(build.run_report([suite], {(suite.key, "one"): [done]})).cases
    assert causes.cause(found) == cause


@pytest.mark.parametrize(
    ("outcomes", "is_worth"),
    [
        ("fail fail", False),  # two cases say it themselves
        ("fail wrong error", False),  # nothing in common
        ("fail fail wrong", True),
        ("fail fail fail", True),
        ("error error error", False),  # one sentence above the cases tells it
    ],
)
def test_a_list_of_causes_is_told_where_several_cases_share_one(
    outcomes: str, is_worth: bool
) -> None:
    assert causes.worth_a_list(view.of(build.report(outcomes)).causes) is is_worth
