"""What the answer of a custom metric means."""

from __future__ import annotations

import math

import pytest

from evalgate.agents.protocol import MetricResult
from evalgate.model import NotEvaluated, Score


def answer(**fields: object) -> MetricResult:
    return MetricResult.model_validate({"type": "metric_result", "id": "1", **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "the metric m.x reported that it could not evaluate"),
        ({"status": "not_evaluated"}, "the metric m.x returned NOT_EVALUATED"),
        # a fine score is not the cause
        (
            {"status": "not_evaluated", "score": 1.0},
            "the metric m.x reported that it could not evaluate, but returned the score 1",
        ),
        (
            {"status": "passed", "score": math.nan},
            "the metric m.x returned the score nan, not a finite number",
        ),
        (
            {"status": "not_evaluated", "score": math.inf},
            "the metric m.x returned the score inf, not a finite number",
        ),
        ({"error": "no such file", "score": 1.0}, "the metric m.x failed: no such file"),
    ],
)
def test_what_is_no_score_says_why(fields: dict[str, object], message: str) -> None:
    found = answer(**fields).grade("m.x")
    assert isinstance(found, NotEvaluated)
    assert found.message == message


@pytest.mark.parametrize(("status", "passed"), [("passed", True), ("failed", False), (None, None)])
def test_a_score_keeps_what_the_metric_says_of_it(status: str | None, passed: bool | None) -> None:
    found = answer(score=0.5, status=status, turns=[0.5, None]).grade("m.x")
    assert found == Score(value=0.5, turns=(0.5, None), passed=passed)
