"""The platform's outcomes beside evalgate's own, of the same conversations."""

from __future__ import annotations

from typing import Any

import pytest
from builders.ces_evidence import did, evidence, says, suite_of, turn

from evalgate.model import (
    AgentFailure,
    FailureKind,
    Finding,
    Grade,
    GradedTrial,
    NotEvaluated,
    Reason,
    Run,
    Score,
    Transcript,
    TrialKey,
)
from evalgate.wings.ces import outcomes, results

KEY = TrialKey(suite="s", case_id="e")
GOLDEN = {"golden": {"turns": [turn(says("You have one loan."))]}}


def run(platform: dict[str, Any] | None, **grades: Grade) -> Run:
    """A run of a golden of one turn, in which the agent says something."""
    view = evidence(GOLDEN, did("One loan."))
    transcript = Transcript(invocations=view.actual, platform=platform)
    failure = None if platform else AgentFailure(kind=FailureKind.UNREACHABLE, message="no")
    trial = GradedTrial(key=KEY, failure=failure, grades=grades)
    transcripts = ({KEY: transcript} if platform else {}).get
    return Run(
        suites=(suite_of(view.case),),
        trials=(trial,),
        transcripts=transcripts,
        started_at="2027-02-01T10:00:00Z",
    )


def result(outcome: str, score: int) -> dict[str, Any]:
    similarity = {"score": score, "outcome": outcome, "explanation": "of CES"}
    expectation = says("You have one loan.")["expectation"]
    scored = {
        "expectation": expectation,
        "outcome": outcome,
        "semanticSimilarityResult": similarity,
    }
    turns = [{"expectationOutcome": [scored]}]
    return {
        "displayName": "r",
        "executionState": "COMPLETED",
        "evaluationStatus": outcome,
        "goldenResult": {"turnReplayResults": turns},
    }


def rated(label: str) -> Grade:
    finding = Finding(text="of the judge", turn=1, label=label, score=1.0)
    return Score(value=1.0, findings=(finding,))


SILENT = NotEvaluated(reason=Reason.SKIPPED, message="`skip-judged` is set")
# the platform's outcome and score, what our judge says; the columns of the evaluation, the answer
ROWS: list[tuple[str, int, Grade, str, str]] = [
    ("PASS", 4, rated("fully_consistent"), "both pass", "both pass"),
    ("FAIL", 1, rated("contradictory"), "both fail", "both fail"),
    ("PASS", 3, rated("contradictory"), "only CES passes", "only CES passes"),
    ("FAIL", 2, rated("mostly_consistent"), "only evalgate passes", "only evalgate passes"),
    ("PASS", 4, SILENT, "undecided", "undecided"),  # nobody was asked: no agreement
]


@pytest.mark.parametrize(("outcome", "score", "grade", "whole", "answer"), ROWS)
def test_two_outcomes(outcome: str, score: int, grade: Grade, whole: str, answer: str) -> None:
    found = list(results.pairs(run(result(outcome, score), **{outcomes.SIMILARITY: grade}), "head"))
    columns = {pair.row: pair.column for pair in found}
    assert columns["evaluations"] == whole
    assert columns["answers by meaning"] == answer


def test_what_the_platform_did_not_finish_agrees_with_nothing() -> None:
    assert list(results.pairs(run(None), "head")) == []
