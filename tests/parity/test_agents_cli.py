"""Metrics of an eval_config.yaml score as under `agents-cli eval run`: functions get the same
input, and the service the same request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import evaluation_service
from builders.evaluation_service import EvaluationService

from evalgate import formats
from evalgate.formats import adk_shapes, repair
from evalgate.formats.json_source import Problems, Spot
from evalgate.model import AgentDetails, Score, TrialView
from evalgate.wings.google_cloud import datasets
from evalgate.wings.google_cloud.eval_config import parse_eval_config
from evalgate.worker import metrics as worker_metrics

pytestmark = pytest.mark.parity

ECHO = """
import json

def evaluate(instance):
    return {"score": len(instance["response"]["parts"][0]["text"]), "explanation": json.dumps(instance)}
"""


AGENT = {"agent_id": "bot", "agent_type": "LlmAgent", "instruction": "Be.", "tools": []}


def message(text: str, role: str = "model") -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


def event(author: str, *parts: dict[str, Any], role: str = "model") -> dict[str, Any]:
    return {"author": author, "content": {"role": role, "parts": list(parts)}}


CALL = event("bot", {"function_call": {"name": "find", "args": {"id": 7}}})
RESULT = event(
    "bot", {"function_response": {"name": "find", "response": {"at": "home"}}}, role="user"
)
ANSWER = event("bot", {"text": "At home."})
PROMPT = {"eval_case_id": "a", "prompt": message("Where is it?", "user")}
EARLIER = [{"author": "user", "content": message("Hi", "user")}, event("bot", {"text": "Yes?"})]
LAST = {"author": "user", "content": message("Where is it?", "user")}
TRIALS = {
    "an answer": (PROMPT, [ANSWER]),
    "calls": (PROMPT, [CALL, RESULT, ANSWER]),
    "other keys of the case": (
        {
            **PROMPT,
            "topic": "t",
            "expected": {"route": "x"},
            "expected_tool_use": [{"name": "find"}],
        },
        [CALL, RESULT, ANSWER],
    ),
    "a reference": ({**PROMPT, "reference": {"response": message("home")}}, [ANSWER]),
    "an answer in parts": (PROMPT, [event("bot", {"text": "At "}, {"text": "home."})]),
    "a text beside a call": (
        PROMPT,
        [event("bot", {"text": "Let me see."}, *CALL["content"]["parts"]), RESULT],
    ),
    "agents that take turns": (PROMPT, [event("desk", {"text": "Wait."}), CALL, RESULT, ANSWER]),
    "turns before": (
        {
            "eval_case_id": "a",
            "agent_data": {
                "turns": [
                    {"turn_index": 0, "turn_id": "turn_0", "events": EARLIER},
                    {"turn_index": 1, "turn_id": "turn_1", "events": [LAST]},
                ]
            },
        },
        [CALL, RESULT, ANSWER],
    ),
}


def view_of(case: dict[str, Any], events: list[dict[str, Any]]) -> TrialView:
    """The trial in which the agent did this."""
    reading = formats.parse_eval_set(json.dumps({"eval_cases": [case]}), file="d-dataset.json")
    assert reading.eval_set is not None
    (read_case,) = reading.eval_set.cases
    *earlier, last = read_case.conversation or ()
    user_event = {"author": "user", "content": adk_shapes.content_json(last.user_content)}
    problems = Problems("", file="d")
    wires = [repair.read_event(each, Spot(problems)) for each in (user_event, *events)]
    turn = adk_shapes.turn_of([wire for wire in wires if wire], invocation_id="i")
    agents = (AgentDetails(name="bot", instructions="Be."),)
    turns = tuple(replace(each, agents=agents) for each in (*earlier, turn))
    return TrialView(case=read_case, actual=turns, expected=None)


def function_result(source: str, view: TrialView) -> dict[str, Any]:
    """What our worker says of a function."""
    message = {
        "code": "e.yaml:m",
        "metric": {"source": source, "file": "e.yaml"},
        "instance": datasets.instance_json(view),
    }
    return asyncio.run(worker_metrics.run(message, ""))


@pytest.fixture(scope="module")
def theirs(ask_agents_cli: Callable[..., Any]) -> dict[str, Any]:
    requests = [
        {"case": case, "events": events, "agents": {"bot": AGENT}, "functions": {"m": ECHO}}
        for case, events in TRIALS.values()
    ]
    return dict(zip(TRIALS, ask_agents_cli(requests), strict=True))


@pytest.mark.parametrize("trial", TRIALS)
def test_a_function_gets_the_same_instance(trial: str, theirs: dict[str, Any]) -> None:
    result = theirs[trial]["m"]
    ours = function_result(ECHO, view_of(*TRIALS[trial]))
    assert json.loads(ours["explanation"]) == json.loads(result["explanation"])
    assert ours["score"] == result["score"]


RESULTS = {
    "a number": "1.5",
    "a whole number": "3",
    "an object": "{'score': 0.5, 'explanation': 'why'}",
    "a score of nothing": "{'score': None, 'explanation': 'why'}",
    "true": "True",
    "a true score": "{'score': True}",
    "a score as text": "{'score': '4'}",
    # no score
    "nothing": "None",
    "a text": "'4'",
    "an object without a score": "{'value': 1}",
    "an error": "1 / 0",
    "a key that the case lacks": "instance['absent']",
}


def test_a_function_gives_the_same_score(ask_agents_cli: Callable[..., Any]) -> None:
    case, events = TRIALS["an answer"]
    functions = {
        name: f"def evaluate(instance):\n    return {result}\n" for name, result in RESULTS.items()
    }
    # a class needs the module that it is in
    functions["a dataclass"] = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\n"
        "class Verdict:\n    score: int\ndef evaluate(instance):\n    return Verdict(4).score\n"
    )
    (answers,) = ask_agents_cli(
        [{"case": case, "events": events, "agents": {"bot": AGENT}, "functions": functions}]
    )
    view = view_of(case, events)
    ours = {name: function_result(source, view) for name, source in functions.items()}
    assert {name: answer["score"] for name, answer in ours.items()} == {
        name: answers[name]["score"] for name in functions
    }


@pytest.fixture
def service() -> Iterator[EvaluationService]:
    double = EvaluationService()
    double.answers = [(200, {"metricResults": [{"score": 4.0, "explanation": "good"}]})]
    yield double
    double.close()


def test_the_service_gets_the_same_request(
    service: EvaluationService, ask_agents_cli: Callable[..., Any], tmp_path: Path
) -> None:
    built_in = ["final_response_quality", "multi_turn_general_quality", "hallucination_v2"]
    request = {"agents": {"bot": AGENT}, "built_in": built_in, "url": service.url}
    trials = TRIALS.values()
    answers = ask_agents_cli(
        [{**request, "case": case, "events": events} for case, events in trials]
    )
    theirs = [body for _, _, body in service.seen]
    service.seen.clear()
    config = f"metrics_to_run: {json.dumps(built_in)}"
    uses = parse_eval_config(config, file="e.yaml").criteria
    environment = service.environment(tmp_path)
    grades = [
        evaluation_service.grade(use, view_of(case, events), environment)
        for case, events in trials
        for use in uses
    ]
    ours = [body for _, _, body in service.seen]
    assert sorted(map(_as_text, ours)) == sorted(map(_as_text, theirs))
    scores = [answer["score"] for trial in answers for answer in trial.values()]
    assert [grade.value for grade in grades if isinstance(grade, Score)] == scores


def _as_text(body: dict[str, Any]) -> str:
    (metric,) = body["metrics"]
    spec = metric.get("predefinedMetricSpec") or metric.get("predefined_metric_spec")
    name = spec.get("metricSpecName") or spec["metric_spec_name"]
    return json.dumps({"name": name, "instance": body["instance"]}, sort_keys=True)
