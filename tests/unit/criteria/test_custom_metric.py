"""Custom metrics: run elsewhere, believed only where they make sense."""

import pytest

from evalgate import criteria
from evalgate.criteria.base import CriterionServices
from evalgate.model import (
    Case,
    Content,
    CriterionUse,
    Grade,
    Invocation,
    NotEvaluated,
    Reason,
    Score,
    TrialView,
)

EVIDENCE = TrialView(
    case=Case(case_id="c"), actual=(Invocation(user_content=Content()),), expected=None
)


def grade(answer: Grade, *, threshold: float = 0.5, lower_is_better: bool = False) -> Grade:
    use = CriterionUse(
        name="response_match_score",  # a custom metric may take a built-in name over
        threshold=threshold,
        lower_is_better=lower_is_better,
        code="shop.metrics.price",
        options={"any_key": 1},
    )
    asked = []

    def run_metric(code: str, asked_use: CriterionUse, evidence: TrialView) -> Grade:
        asked.append((code, asked_use, evidence))
        return answer

    found = criteria.build(use, CriterionServices(run_metric=run_metric))(EVIDENCE)
    assert asked == [("shop.metrics.price", use, EVIDENCE)]
    return found


@pytest.mark.parametrize(
    "answer",
    [
        Score(value=0.25),
        Score(value=3.0, turns=(3.0,)),
        Score(value=0.5, passed=True),
        Score(value=0.4, passed=False),
        NotEvaluated(reason=Reason.CRITERION_FAILED, message="it raised"),
    ],
)
def test_a_sensible_answer_is_taken_as_it_is(answer: Grade) -> None:
    assert grade(answer) == answer


def test_lower_is_better_where_the_criterion_says_so() -> None:
    answer = Score(value=3.0, passed=True)
    assert grade(answer, threshold=5.0, lower_is_better=True) == answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Score(value=float("nan")), "gave nan"),
        (Score(value=-1e308), "gave -1e+308, not a valid score"),
        (Score(value=1.0, turns=(1.0, 1.0)), "scored 2 turns of 1"),
        (
            Score(value=0.4, passed=True),
            "reports that 0.4 passed, but it is worse than the threshold of 0.5",
        ),
        (
            Score(value=0.6, passed=False),
            "reports that 0.6 failed, but it is no worse than the threshold of 0.5",
        ),
    ],
)
def test_nonsense_is_no_score(answer: Grade, words: str) -> None:
    found = grade(answer)
    assert isinstance(found, NotEvaluated)
    assert found.reason is Reason.CRITERION_FAILED
    assert words in found.message


def test_a_driver_that_runs_no_metrics_gives_no_score() -> None:
    use = CriterionUse(name="price", threshold=0.5, code="shop.metrics.price")
    found = criteria.build(use, CriterionServices())(EVIDENCE)
    assert isinstance(found, NotEvaluated)
    assert found.reason is Reason.NOT_APPLICABLE
