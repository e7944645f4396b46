"""What a label is about: the judge it speaks of, its rubric, and the verdict in a grade."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from builders import ces_evidence
from builders.build import call, case, turn
from builders.judging import ScriptedJudge, panel

from evalgate import criteria
from evalgate.criteria import judges
from evalgate.criteria.base import CriterionServices, Verdicts
from evalgate.model import (
    Case,
    ConversationScenario,
    CriterionUse,
    Finding,
    Invocation,
    Need,
    NotEvaluated,
    Opinion,
    Reason,
    Rubric,
    Score,
    ToolCall,
    TrialView,
)
from evalgate.model.deviations import under
from evalgate.wings.calibrate import labels as calibration_labels

GOLDEN = {"golden": {"turns": [ces_evidence.turn(ces_evidence.says("hello"))]}}
CALLED = ces_evidence.did("seven", ToolCall(name="look"))
OF_CES = {
    "ces_semantic_similarity": ces_evidence.evidence(GOLDEN, CALLED),
    "ces_hallucination": ces_evidence.evidence(
        {
            **GOLDEN,
            "evaluationMetricsThresholdOverride": {"goldenHallucinationMetricBehavior": "ENABLED"},
        },
        CALLED,
    ),
    "ces_evaluation_expectations": ces_evidence.evidence(
        {"golden": {**GOLDEN["golden"], "evaluationExpectations": ["one"]}},
        CALLED,
        prompts={"one": "Polite?"},
    ),
    "ces_user_goal": ces_evidence.evidence(
        {"scenario": {"task": "x", "userGoalBehavior": "USER_GOAL_SATISFIED"}}, CALLED
    ),
    "ces_goals": ces_evidence.evidence({"scenario": {"task": "x"}}, CALLED, goals=("a",)),
    "ces_rubrics": ces_evidence.evidence(
        {"scenario": {"task": "x", "rubrics": ["It is kind."]}}, CALLED
    ),
}
ABLE = [name for name, spec in criteria.CRITERIA.items() if spec.verdicts is not None]
WORDS = Verdicts(labels={"yes": True, "no": False}, prompt_version="1")
RUBRICS = Verdicts(labels={"yes": True, "no": False}, prompt_version="1", unit="rubric")
SENTENCES = Verdicts(labels={"supported": True}, prompt_version="1", unit="sentence")


def by_model(name: str) -> dict[str, Any]:
    rubric = {"rubric_id": "kind", "rubric_content": {"text_property": "It is kind."}}
    needs = criteria.CRITERIA[name].needs
    return {
        **({"judge": "llm"} if Need.VERTEX in needs else {}),
        **({"rubrics": [rubric]} if Need.RUBRICS in needs else {}),
        "judge_model_options": {"judge_model": "gemini-9", "num_samples": 3},
    }


@pytest.mark.parametrize("adk_compat", [False, True])
@pytest.mark.parametrize("name", ABLE)
def test_the_judge_that_is_named_is_the_one_that_is_asked(name: str, adk_compat: bool) -> None:
    """A prompt whose version changes without the criterion's saying so would inherit a
    calibration."""
    use = CriterionUse(name=name, threshold=0.5, options=by_model(name))
    judge = judges.judge_of(use)
    assert judge is not None
    scripted = ScriptedJudge(lambda _: "as it is: <sentence>seven</sentence>")
    held = panel(scripted)
    said = turn("how much?", call("look"), answer="seven")
    asked = case("c", said)
    if Need.SCENARIO in criteria.CRITERIA[name].needs:
        scenario = ConversationScenario(starting_prompt="how much?", conversation_plan="Ask.")
        asked = Case(case_id="c", scenario=scenario)
    try:
        evidence = OF_CES.get(name) or TrialView(
            case=asked, actual=(said, said), expected=None if asked.scenario else (said, said)
        )
        criteria.build(use, CriterionServices(judge=held, deviations=under(adk_compat=adk_compat)))(
            evidence
        )
    finally:
        held.close()
    assert scripted.requests
    for request in scripted.requests:
        assert request.model == judge.model == "gemini-9"
        version = judge.prompt_version
        # what else a verdict hangs on
        assert version == request.asker.version or version.startswith(f"{request.asker.version}.")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("response_match_score", {}),  # asks nobody
        ("response_evaluation_score", {"judge": "llm"}),  # one to five
        ("safety_v1", {}),  # Google Cloud's service
    ],
)
def test_without_a_yes_or_no_there_is_no_judge_to_calibrate(
    name: str, options: dict[str, Any]
) -> None:
    use = CriterionUse(name=name, threshold=0.5, options=options)
    assert judges.judge_of(use) is None
    code = dataclasses.replace(use, name="final_response_match_v2", code="my.metric", options={})
    assert judges.judge_of(code) is None


def test_every_criterion_with_a_judge_model_can_be_labelled_but_the_graded_one() -> None:
    asking = {
        name for name, spec in criteria.CRITERIA.items() if spec.needs & {Need.JUDGE, Need.VERTEX}
    }
    assert asking - set(ABLE) == {
        "response_evaluation_score",
        # grades of a scale that only their own prompt knows
        "agents_cli_prompt_metric",
        "agents_cli_service_metric",
    }
    for name in ABLE:
        verdicts = criteria.CRITERIA[name].verdicts
        assert verdicts is not None
        assert set(verdicts.labels.values()) == {True, False}


def opined(label: str, score: float | None, *, of: str = "", at: int | None = 1) -> Finding:
    opinion = Opinion(sample=0, label=label)
    return Finding(
        text="because", turn=at, label=label, score=score, subject=of, opinions=(opinion,)
    )


TWO = Score(
    value=0.5, findings=(opined("yes", 1.0, of="It is kind."), opined("no", 0.0, of="It is short."))
)

WHOLE = Score(value=1.0, findings=(opined("yes", 1.0, of="It is kind.", at=None),))
UNREAD = NotEvaluated(reason=Reason.JUDGE_UNREADABLE, message="m", findings=(opined("", None),))


@pytest.mark.parametrize(
    ("grade", "verdicts", "turn", "subject", "passed", "words"),
    [
        (Score(value=1.0, findings=(opined("valid", 1.0),)), WORDS, 1, "", True, "because"),
        (Score(value=0.0, findings=(opined("invalid", 0.0),)), WORDS, None, "", False, "because"),
        # each turn has its own
        (Score(value=0.5, findings=(opined("a", 1.0), opined("b", 0.0, at=2))), WORDS, 2, "", False, "because"),
        (Score(value=1.0, findings=(opined("valid", 1.0),)), WORDS, 2, "", None, "no verdict on it"),
        (TWO, RUBRICS, 1, "It is\n short.", False, "because"),  # blanks do not count
        (TWO, RUBRICS, 1, "", None, "must say which rubric"),
        (TWO, RUBRICS, 1, "It is blue.", None, "no verdict on it"),
        # of the whole conversation: no turn
        (WHOLE, RUBRICS, 3, "It is kind.", True, ""),
        # what could not be decided is neither
        (UNREAD, WORDS, 1, "", None, ""),
        (NotEvaluated(reason=Reason.JUDGE_UNAVAILABLE, message="it is down"), WORDS, 1, "", None, "it is down"),
        # a remark is no verdict
        (Score(value=1.0, findings=(Finding(text="no answer", turn=1),)), WORDS, 1, "", None, "no verdict on it"),
        (Score(value=1.0, findings=(opined("supported", 1.0, of="A."),)), SENTENCES, 1, "B.", None, "split the text"),
    ],
)  # fmt: skip
def test_the_verdict_in_a_grade(
    grade: Score | NotEvaluated,
    verdicts: Verdicts,
    turn: int | None,
    subject: str,
    passed: bool | None,
    words: str,
) -> None:
    found, _, message = calibration_labels.read_grade(grade, verdicts, turn=turn, subject=subject)
    assert found is passed
    assert words in message


def test_rubrics_are_known_by_id_and_by_text() -> None:
    use = CriterionUse(name=ABLE[1], threshold=0.5, options=by_model(ABLE[1]))
    own = dataclasses.replace(case("c"), rubrics=(Rubric(rubric_id="short", text="It is short."),))
    known = calibration_labels.rubrics_of(use, TrialView(case=own, actual=(), expected=None))
    assert calibration_labels.text_of_rubric("kind", known) == "It is kind."
    assert calibration_labels.text_of_rubric("It is  short.", known) == "It is short."
    assert calibration_labels.text_of_rubric("It is blue.", known) is None


def test_one_turn_is_asked_about_alone() -> None:
    first, second = turn("one", answer="1"), turn("two", answer="2")
    whole = TrialView(
        case=case("c", first, second), actual=(first, second), expected=(first, second)
    )
    only = calibration_labels.only_turn(whole, 2)
    assert (only.actual, only.expected, only.case.conversation) == ((second,), (second,), (second,))
    assert (
        calibration_labels.only_turn(dataclasses.replace(whole, expected=None), 1).expected is None
    )


def test_ids_and_times_do_not_make_another_turn() -> None:
    said = turn("how much?", call("look", of="x"), answer="seven")
    again = dataclasses.replace(said, invocation_id="e-42")
    assert calibration_labels.turn_content(said) == calibration_labels.turn_content(again)
    assert calibration_labels.turn_content(said) != calibration_labels.turn_content(
        turn("how much?", answer="seven")
    )
    assert json.dumps(calibration_labels.turn_content(Invocation(user_content=said.user_content)))
