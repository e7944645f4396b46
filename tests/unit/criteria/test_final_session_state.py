"""The final session state against the expected one."""

from typing import Any

import pytest

from evalgate import criteria
from evalgate.criteria.base import CriterionServices
from evalgate.model import Case, CriterionUse, Grade, NotEvaluated, Reason, Score, TrialView


def grade(actual: Any, expected: Any, **options: Any) -> Grade:
    use = CriterionUse(name="final_session_state", threshold=1.0, options=options)
    evidence = TrialView(
        case=Case(case_id="c", expects_state=expected), actual=(), expected=(), final_state=actual
    )
    return criteria.build(use, CriterionServices())(evidence)


@pytest.mark.parametrize(
    ("actual", "expected", "options", "score"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, {}, 1.0),
        ({"a": 2}, {"a": 1}, {}, 0.0),
        ({}, {"a": 1}, {}, 0.0),
        ({"a": 1, "b": 2, "c": 3, "d": 0}, {"a": 1, "b": 2, "c": 3, "d": 4}, {}, 0.75),
        # free at every depth
        ({"cart": {"items": [1], "id": "x"}}, {"cart": {"items": [1]}}, {}, 1.0),
        ({"cart": {"items": [1, 2]}}, {"cart": {"items": [1]}}, {}, 0.0),
        ({"a": 1, "b": 2}, {"a": 1}, {"match": "exact"}, 0.5),
        ({"a": 1, "b": 2}, {"a": 1}, {"match": "exact", "ignore": ["b"]}, 1.0),
        ({"a": 1, "temp:x": 2}, {"a": 1, "temp:x": 3}, {"ignore": ["temp:*"]}, 1.0),
        ({}, {}, {"match": "exact"}, 1.0),
        ({"id": "ORD-17"}, {}, {"matchers": {"id": {"regex": "^ORD-"}}}, 1.0),
        ({"id": "17"}, {"id": "ORD-1"}, {"matchers": {"id": {"regex": "^ORD-"}}}, 0.0),
    ],
)
def test_the_score_is_the_share_of_keys_that_hold(
    actual: Any, expected: Any, options: Any, score: float
) -> None:
    found = grade(actual, expected, **options)
    assert isinstance(found, Score)
    assert found.value == score
    assert bool(found.findings) == (score < 1)


def test_findings_name_the_key_and_both_values() -> None:
    found = grade(
        {"a": 2, "z": 1}, {"a": 1, "b": "x"}, match="exact", matchers={"id": {"any": True}}
    )
    assert isinstance(found, Score)
    assert {finding.label: finding.text for finding in found.findings} == {
        "a": "expected 1, got 2",
        "b": 'expected "x", got nothing',
        "id": 'expected {"any": true}, got nothing',
        "z": "expected nothing, got 1",
    }


@pytest.mark.parametrize(
    ("actual", "expected", "options", "reason"),
    [
        ({"a": 1}, None, {}, Reason.REFERENCE_MISSING),
        ({"a": 1}, {}, {}, Reason.REFERENCE_MISSING),  # an empty subset asserts nothing: no pass
        ({"a": 1}, {"a": 1}, {"ignore": ["*"]}, Reason.REFERENCE_MISSING),
        (None, {"a": 1}, {}, Reason.NOTHING_RECORDED),
    ],
)
def test_no_score_where_nothing_is_asserted_or_known(
    actual: Any, expected: Any, options: Any, reason: Reason
) -> None:
    found = grade(actual, expected, **options)
    assert isinstance(found, NotEvaluated)
    assert found.reason is reason
