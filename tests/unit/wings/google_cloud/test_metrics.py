"""A metric by a prompt of the repository: what the judge is asked, and what its replies score."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from builders.build import case, turn
from builders.judging import ScriptedJudge, panel

from evalgate import criteria
from evalgate.criteria.base import CriterionServices
from evalgate.model import (
    Case,
    CriterionUse,
    Grade,
    Invocation,
    NotEvaluated,
    Reason,
    Score,
    TrialView,
)
from evalgate.wings.google_cloud.eval_config import PROMPT_METRIC

CASE = dataclasses.replace(case("a"), extras={"topic": "parcels", "expected": {"route": "x"}})
TURNS = (turn("hi", answer="yes?"), turn("where is it?", answer="at home"))


def grade(
    *replies: str,
    template: str = "Grade {response}.",
    of: Case = CASE,
    actual: tuple[Invocation, ...] = TURNS,
    **options: Any,
) -> tuple[Grade, Any]:
    """The grade, and the requests of the judge. Sample n gets the n-th reply."""
    judge = ScriptedJudge(lambda request: replies[request.sample])
    use = CriterionUse(
        name="kind",
        metric=PROMPT_METRIC,
        threshold=None,
        options={
            "prompt_template": template,
            "judge_model_options": {"num_samples": len(replies)},
            **options,
        },
    )
    judges = panel(judge)
    try:
        build = criteria.build(use, CriterionServices(judge=judges))
        return build(TrialView(case=of, actual=actual, expected=None)), judge.requests
    finally:
        judges.close()


def reply(verdict: Any) -> str:
    return json.dumps({"rationale": "because", "verdict": verdict})


@pytest.mark.parametrize(
    ("replies", "score"),
    [
        ([reply("4")], 4.0),
        # the mean of the samples, all of which are asked
        ([reply("5"), reply("4"), reply("5"), reply("1")], 3.75),
        # other scales
        ([reply("0.7")], 0.7),
        ([reply(0.7)], 0.7),
        ([reply("3.5")], 3.5),
        ([reply("4.0")], 4.0),
        ([reply(4.0)], 4.0),
        ([reply("0")], 0.0),
        ([reply("100")], 100.0),
        # a sample without a score does not count
        ([reply("5"), "no idea", reply("3")], 4.0),
    ],
)
def test_the_score_is_the_mean_of_the_samples(replies: list[str], score: float) -> None:
    result, requests = grade(*replies)
    assert isinstance(result, Score)
    assert result.value == score
    assert len({request.sample for request in requests}) == len(replies)


@pytest.mark.parametrize("text", ["no idea", reply("splendid"), reply("101"), "<timeout>"])
def test_without_a_verdict_there_is_no_score(text: str) -> None:
    result, _ = grade(text)
    assert isinstance(result, NotEvaluated)
    assert "score" not in result.message


@pytest.mark.parametrize(
    ("template", "pieces", "absent"),
    [
        ("Grade {response}.", ["at home"], ["where is it?", "parcels"]),
        ("{prompt} {response}", ["where is it?", "at home"], ["parcels"]),
        ("{topic} and {expected}", ["parcels", '"route"'], ["at home"]),
        ("{agent_data}", ["yes?", "at home"], ["parcels"]),
        # other braces are no placeholders
        ('{"score": 1} {response}', ["at home"], []),
    ],
)
def test_the_judge_sees_what_the_prompt_names(
    template: str, pieces: list[str], absent: list[str]
) -> None:
    _, (request,) = grade(reply("4"), template=template)
    assert [piece for piece in pieces if piece not in request.prompt] == []
    assert [piece for piece in absent if piece in request.prompt] == []
    assert "(see the piece response)" in request.system or "{response}" not in template


def test_a_metric_in_words_is_judged_with_the_whole_case() -> None:
    _, (request,) = grade(reply("1"), template="It is kind.", whole_case=True)
    seen = ["where is it?", "at home", "parcels", '"route"', "yes?"]
    assert [piece for piece in seen if piece not in request.prompt] == []
    assert "It is kind." in request.system


def test_a_key_that_the_case_lacks_is_no_score() -> None:
    result, requests = grade(reply("4"), template="{response} {ground_truth}")
    assert isinstance(result, NotEvaluated)
    assert (result.reason, requests) == (Reason.REFERENCE_MISSING, [])
    assert "`{ground_truth}`" in result.message


@pytest.mark.parametrize("answer", [None, ""])
def test_an_agent_that_says_nothing_is_graded(answer: str | None) -> None:
    template = "Grade {response} to {prompt}."
    result, (request,) = grade(reply("1"), template=template, actual=(turn("hi", answer=answer),))
    assert isinstance(result, Score)
    assert result.value == 1.0
    assert "<<< response" in request.prompt


def test_a_case_of_turns_has_its_last_prompt() -> None:
    """A function does not get it, as in agents-cli; agents-cli's usual prompt asks for it."""
    by_turns = dataclasses.replace(CASE, extras={"agent_data": {"turns": []}})
    _, (request,) = grade(reply("4"), template="{prompt} {response}", of=by_turns)
    assert "where is it?" in request.prompt
