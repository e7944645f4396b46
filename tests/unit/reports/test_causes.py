"""Causes: one line for each way in which cases fail, whoever they are."""

from __future__ import annotations

import json

import pytest
from builders import build
from builders.build import TOOLS, WORDS, call, case, scores, turn
from builders.scenarios import SCENARIOS, TABLE

from evalgate.model import FailureKind, ToolCall
from evalgate.reports import causes, view


@pytest.mark.parametrize("scenario", TABLE)
def test_every_case_that_does_not_pass_has_one_cause(scenario: str) -> None:
    found = view.view_of(SCENARIOS[scenario]()).cases
    told = view.causes_of(found)
    names = [key for cause in told for key in cause.cases]
    assert sorted(names) == sorted(case.verdict.key for case in found if case.kind.value != "pass")
    assert all(
        cause.cause and "\n" not in cause.cause and len(cause.cause) <= causes.LIMIT
        for cause in told
    )
    assert len({(cause.status, cause.cause) for cause in told}) == len(told)


@pytest.mark.parametrize(
    ("criteria", "values", "cause"),
    [
        # a criterion of calls fails: how they differ
        (
            {TOOLS: 1.0, WORDS: 0.8},
            {TOOLS: [0.0], WORDS: [0.0]},
            "book was called with another city",
        ),
        # it passes, so that other calls are allowed
        (
            {TOOLS: 1.0, WORDS: 0.8},
            {TOOLS: [1.0], WORDS: [0.0]},
            "response_match_score below its threshold",
        ),
        # there is none: calls that differ are the best guess
        ({WORDS: 0.8}, {WORDS: [0.0]}, "book was called with another city"),
    ],
)
def test_what_is_told_of_calls_that_differ(
    criteria: dict[str, float], values: dict[str, list[float]], cause: str
) -> None:
    suite = build.suite(
        case("one", turn("Go.", call("book", city="Oslo"), answer="Booked.")), criteria=criteria
    )
    done = scores(turn("Go.", call("book", city="Rome"), answer="No."), **values)
    (found,) = view.view_of(build.run_report([suite], {(suite.key, "one"): [done]})).cases
    assert causes.cause(found) == cause


@pytest.mark.parametrize(
    ("expected", "actual", "sentence"),
    [
        ("find hold renew", "find renew", "`hold` was not called before `renew`"),
        ("find renew", "find", "`renew` was not called"),
        ("find hold", "find renew", "`renew` was called instead of `hold`"),
        ("find", "find renew", "`renew` was called and is not expected"),
        ("find hold", "hold find", "`hold`: called in a different order"),
        ("find:1", "find:2", "`find` was called with `at` `2`, not `1`"),
        ("find", "find:2", "`find` was called with `at`, which is not expected"),
        ("find:1", "find", "`find` was called without `at`"),
        # equal in Python, not in JSON
        ("find:1", "find:1.0", "`find` was called with `at` `1.0`, not `1`"),
        # the others are counted
        ("find hold renew", "renew", "`find` was not called before `renew`; 1 other call differs"),
        # equal calls: the answer
        ("find", "find", f"the answer differs: `{WORDS}` 0.00 < 0.80"),
    ],
)
def test_the_difference_of_a_case_is_one_sentence(
    expected: str, actual: str, sentence: str
) -> None:
    def calls(text: str) -> list[ToolCall]:
        pairs = (word.partition(":") for word in text.split())
        return [call(name, **({"at": json.loads(at)} if at else {})) for name, _, at in pairs]

    is_same = expected == actual
    values = {WORDS: [0.0]} if is_same else {TOOLS: [0.0], WORDS: [0.0]}
    criteria = {WORDS: 0.8} if is_same else {TOOLS: 1.0, WORDS: 0.8}
    suite = build.suite(
        case("one", turn("Go.", *calls(expected), answer="Done.")), criteria=criteria
    )
    done = scores(turn("Go.", *calls(actual), answer="No."), **values)
    (found,) = view.view_of(build.run_report([suite], {(suite.key, "one"): [done]})).cases
    assert causes.difference(found) == f"Turn 1: {sentence}"


@pytest.mark.parametrize("scenario", TABLE)
def test_every_case_that_does_not_pass_has_a_difference(scenario: str) -> None:
    cases = view.view_of(SCENARIOS[scenario]()).cases
    sentences = [causes.difference(case) for case in cases if case.kind.value != "pass"]
    assert all(text and "\n" not in text and len(text) <= 2 * causes.LIMIT for text in sentences)


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
    assert bool(view.view_of(build.report(outcomes)).shared_causes) is is_worth


def test_numbers_that_vary_make_one_cause_and_names_of_criteria_keep_theirs() -> None:
    suite = build.suite(*(case(f"c{number}", turn("Go.")) for number in (3, 4)))
    done = {
        (suite.key, f"c{number}"): [
            build.failed(FailureKind.RAISED, f"the agent gave up after {number} s of safety_v1")
        ]
        for number in (3, 4)
    }
    (found,) = view.causes_of(view.view_of(build.run_report([suite], done)).cases)
    assert found.cause == "the agent gave up after # s of safety_v1"
