"""From labels to evidence and stored grades: the gate's own criteria, the right turn, and every
place that is none."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from builders.build import call, suite, turn
from builders.judging import ScriptedJudge, panel

from evalgate.errors import Problem, Severity
from evalgate.judges.base import JudgeRequest
from evalgate.model import (
    AgentFailure,
    Case,
    CriterionUse,
    FailureKind,
    Finding,
    GradedTrial,
    Run,
    Score,
    Transcript,
    TrialKey,
)
from evalgate.model.deviations import OURS
from evalgate.results.file import Stored
from evalgate.wings.calibrate import calibrate, labels
from evalgate.wings.calibrate.labels import LabelledItem

MATCH = "final_response_match_v2"
ANSWER = "rubric_based_final_response_quality_v1"
TOOLS = "rubric_based_tool_use_quality_v1"
SUCCESS = "multi_turn_task_success_v1"
KEY = "evals/desk.evalset.json"


def rubric(name: str) -> dict[str, Any]:
    return {"rubric_id": name, "rubric_content": {"text_property": f"It is {name}."}}


def use(name: str, **options: Any) -> CriterionUse:
    return CriterionUse(name=name, threshold=0.5, options=options)


USES = (
    use(MATCH),
    use(ANSWER, rubrics=[rubric("kind"), rubric("short")]),
    use(TOOLS, rubrics=[rubric("careful")]),
    use(SUCCESS, judge="llm"),
)
TURNS = (turn("one?", call("look", at="a"), answer="1"), turn("two?", answer="2"))


def verdict(label: str, score: float | None, at: int, of: str = "") -> Finding:
    return Finding(text="because", label=label, score=score, turn=at, subject=of)


GRADES = {
    MATCH: Score(value=0.5, findings=(verdict("valid", 1.0, 1), verdict("invalid", 0.0, 2))),
    ANSWER: Score(
        value=0.5,
        findings=(verdict("yes", 1.0, 1, "It is kind."), verdict("no", 0.0, 1, "It is short.")),
    ),
}


def stored(*uses: CriterionUse) -> Stored:
    own = dataclasses.replace(
        suite(Case(case_id="loan", conversation=TURNS), key=KEY), criteria=uses or USES
    )
    good, bad = TrialKey(suite=KEY, case_id="loan"), TrialKey(suite=KEY, case_id="loan", number=1)
    failure = AgentFailure(kind=FailureKind.RAISED, message="KeyError")
    transcripts = {good: Transcript(invocations=TURNS)}.get
    grades = {**GRADES, "safety_v1": Score(value=1.0, findings=(verdict("safe", 1.0, 1),))}
    trials = (
        GradedTrial(key=good, failure=None, grades=grades),
        GradedTrial(key=bad, failure=failure, grades={}),
    )
    run = Run(suites=(own,), trials=trials, transcripts=transcripts, repeats=2)
    return Stored(run=run, outcomes=SimpleNamespace(find=transcripts), version="1", criteria={})  # type: ignore[arg-type]  # finds as they do


def read(*lines: dict[str, Any]) -> tuple[Any, ...]:
    text = "\n".join(json.dumps({"label": "yes", **line}) for line in lines)
    found = labels.parse_labels(text, file="labels.jsonl")
    assert not found.problems
    return found.labels


def placed(criterion: str, **more: Any) -> dict[str, Any]:
    return {"criterion": criterion, "suite": KEY, "case": "loan", **more}


class Found(NamedTuple):
    asked: list[LabelledItem]
    problems: list[Problem]


def evidence_of(
    *lines: dict[str, Any], suites: dict[str, tuple[CriterionUse, ...]] | None = None
) -> Found:
    by_name: dict[str, dict[str, CriterionUse]] = {}
    for key, uses in (suites or {KEY: USES}).items():
        for each in uses:
            by_name.setdefault(each.name, {})[key] = each
    return Found(*labels.find_items(read(*lines), uses=by_name, stored=stored(), deviations=OURS))


def test_only_the_labelled_turn_is_asked_about() -> None:
    (asked,) = evidence_of(placed(MATCH, turn=2, answer="2")).asked
    assert (asked.evidence.actual, asked.evidence.expected, asked.turn) == (TURNS[1:], TURNS[1:], 1)


def test_a_whole_conversation_is_asked_about_whole() -> None:
    (asked,) = evidence_of(placed(SUCCESS, rubric="goals_reached")).asked
    assert (asked.evidence.actual, asked.turn) == (TURNS, None)
    assert asked.subject.startswith("Every goal")


def test_a_known_rubric_is_asked_with_the_others_and_a_new_one_alone() -> None:
    known, new = evidence_of(
        placed(ANSWER, turn=1, rubric="kind"), placed(ANSWER, turn=1, rubric="It rhymes.")
    ).asked
    assert len(known.use.options["rubrics"]) == 2  # exactly what the gate asks
    assert [each["rubric_content"]["text_property"] for each in new.use.options["rubrics"]] == [
        "It rhymes."
    ]
    assert (known.subject, new.subject) == ("It is kind.", "It rhymes.")


def test_the_only_rubric_need_not_be_named() -> None:
    (asked,) = evidence_of(placed(TOOLS, turn=1)).asked
    assert asked.subject == "It is careful."


TEXTS = {"criterion": MATCH, "user": "u", "answer": "a", "reference": "r"}


def test_texts_are_judged_as_the_suites_do_it_where_they_agree() -> None:
    alike = {"a": (use(MATCH, exhaustive=True),), "b": (use(MATCH, exhaustive=True),)}
    (asked,) = evidence_of(TEXTS, suites=alike).asked
    assert asked.use.options == {"exhaustive": True}
    differing = {"a": (use(MATCH),), "b": (use(MATCH, judge_model_options={"num_samples": 1}),)}
    (problem,) = evidence_of(TEXTS, suites=differing).problems
    assert "different options" in problem.message
    assert "`a` and `b`" in problem.hint
    for place in ({"suite": "b"}, {"suite": "b", "case": "x"}):
        (asked,) = evidence_of({**TEXTS, **place}, suites=differing).asked
        assert asked.judge.num_samples == 1


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (placed(MATCH), "label-place-unknown", "set `turn`"),
        (placed(MATCH, turn=3), "label-place-unknown", "the conversation has 2 turns"),
        (
            placed(MATCH, turn=2, answer="another"),
            "label-of-another-answer",
            "differs from the labeled one",
        ),
        (placed(MATCH, turn=1, repeat=1), "label-place-unknown", "the agent failed in it"),
        (placed(MATCH, turn=1, repeat=7), "label-place-unknown", "no repeat 7"),
        ({**placed(MATCH, turn=1), "case": "lone"}, "label-place-unknown", "Did you mean `loan`?"),
        (
            {**placed(MATCH, turn=1), "suite": "evals/desks.json"},
            "label-place-unknown",
            "Did you mean",
        ),
        (placed(ANSWER, turn=1), "label-subject-unknown", "Rubrics: kind and short"),
        (
            placed(SUCCESS, rubric="goal_reached"),
            "label-subject-unknown",
            "Did you mean `goals_reached`?",
        ),
    ],
)
def test_a_place_that_is_none(line: dict[str, Any], code: str, words: str) -> None:
    found = evidence_of(line, TEXTS)
    assert len(found.asked) == 1  # the other label is good
    (problem,) = found.problems
    assert (problem.code, problem.severity, problem.place and problem.place.line) == (
        code,
        Severity.ERROR,
        1,
    )
    assert words in f"{problem.message} {problem.hint}"


def test_google_clouds_own_judge_has_no_prompt_to_label() -> None:
    (problem,) = evidence_of(
        {"criterion": "safety_v1", "user": "u", "answer": "a"}, suites={"a": (use("safety_v1"),)}
    ).problems
    assert problem.code == "label-without-verdict"
    assert "llm" in problem.hint


# --- asking ---------------------------------------------------------------------------------------


def test_labels_of_one_question_ask_once_and_each_gets_its_verdict() -> None:
    def script(request: JudgeRequest) -> str:
        if "properties" not in request.prompt:
            return json.dumps({"rationale": "so", "verdict": "valid"})
        said = [
            {"id": f"P{n}", "rationale": "so", "verdict": word}
            for n, word in ((1, "yes"), (2, "no"))
        ]
        return json.dumps({"verdicts": said})

    judge = ScriptedJudge(script)
    held = panel(judge)
    asked = evidence_of(
        placed(ANSWER, turn=1, rubric="kind"),
        placed(ANSWER, turn=1, rubric="short"),
        placed(MATCH, turn=2),
        TEXTS,
    ).asked
    try:
        verdicts = calibrate.ask(asked, held, deviations=OURS)
    finally:
        held.close()
    assert [each.passed for each in verdicts] == [True, False, True, True]
    assert len(judge.requests) == 3 * 3  # two rubrics in one question
    assert len({each.cluster for each in verdicts}) == 2  # the case, and the one of its own
    assert [each.judged_text for each in verdicts] == ["1", "1", "2", "a"]


def test_ctrl_c_waits_for_no_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge answers when the test is over, and would keep its thread for as long."""
    asked, over = threading.Event(), threading.Event()

    def script(_: JudgeRequest) -> str:
        asked.set()
        assert over.wait(30)
        return "too late"

    def interrupted(_: object) -> None:
        assert asked.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(calibrate.futures, "wait", interrupted)
    held = panel(ScriptedJudge(script))
    began = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            calibrate.ask(evidence_of(placed(MATCH, turn=2), TEXTS).asked, held, deviations=OURS)
        assert time.monotonic() - began < 5
    finally:
        over.set()
        held.close()


# --- drafting -------------------------------------------------------------------------------------


def test_a_draft_holds_what_a_person_needs_and_nothing_that_the_judge_said() -> None:
    lines = [json.loads(line) for line in labels.draft(stored(), most=50, seed=0)]
    assert len(lines) == 4
    assert all(line["label"] == "" for line in lines)
    assert "because" not in json.dumps(lines)
    match = next(line for line in lines if line["criterion"] == MATCH and line["turn"] == 2)
    assert (match["user"], match["answer"], match["reference"]) == ("two?", "2", "2")
    assert "conversation" not in match  # the texts are all that this judge sees
    quality = next(line for line in lines if line["criterion"] == ANSWER)
    assert len(quality["conversation"]) == 2
    filled = [{**line, "label": "no"} for line in lines]
    assert len(evidence_of(*filled).asked) == 4


def test_a_draft_is_a_plain_sample() -> None:
    first, again = (labels.draft(stored(), most=1, seed=3) for _ in range(2))
    assert first == again
    assert sorted(json.loads(line)["criterion"] for line in first) == [MATCH, ANSWER]
    drawn = {labels.draft(stored(), most=1, seed=seed)[0] for seed in range(20)}
    assert len(drawn) == 2


def test_a_judge_that_gives_no_yes_or_no_is_not_drafted() -> None:
    assert (
        labels.draft(
            stored(use("safety_v1"), use("response_evaluation_score", judge="llm")), most=5, seed=0
        )
        == []
    )
