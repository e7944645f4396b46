"""Custom metrics run without the agent, with google-adk's types; what is no score never becomes
one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration


def invocation(text: str) -> dict:
    silent = {
        "author": "full",
        "usage_metadata": {"total_token_count": 3},
        "model_version": "m",
    }  # old versions know no usage
    step = {**silent, "content": {"parts": [{"text": "step"}]}}
    return {
        "invocation_id": "i",
        "user_content": {"role": "user", "parts": [{"text": "hi"}]},
        "final_response": {"role": "model", "parts": [{"text": text}]},
        "intermediate_data": {"invocation_events": [step, silent]},
        "duration": 0.5,
        "app_details": {
            "agent_details": {"full": {"name": "full", "instructions": "", "tool_declarations": []}}
        },
    }


def grade(worker, code: str, expected: list[str] | None = None) -> dict:
    worker.say(
        type="metric",
        id=code,
        code=code,
        metric={
            "metric_name": "mine",
            "threshold": 0.5,
            "criterion": {"threshold": 0.5, "extra": "kept"},
        },
        actual=[invocation("yes"), invocation("no")],
        expected=[invocation(text) for text in expected or ["yes", "yes"]],
        scenario=None,
    )
    return worker.hear("metric_result")


@pytest.mark.parametrize(
    "code",
    [
        # as under `adk eval`, which calls the package `agent`
        "agent.metrics.exact_answer",
        # by its own name, which fails there
        "adk_full.metrics.exact_answer",
        # not waiting and waiting, with and without the scenario
        "agent.metrics.exact_answer_async",
        "agent.metrics.three_arguments",
    ],
)
def test_a_metric_scores(metrics, code: str) -> None:
    answer = grade(metrics, code)
    assert (answer["score"], answer["status"], answer["turns"]) == (0.5, "passed", [1.0, 0.0])
    assert "error" not in answer


def test_a_metric_that_fails_the_case_says_so(metrics) -> None:
    answer = grade(metrics, "agent.metrics.exact_answer", expected=["no", "yes"])
    assert (answer["score"], answer["status"]) == (0.0, "failed")


def test_a_score_without_a_status_leaves_the_verdict_to_the_threshold(metrics) -> None:
    answer = grade(metrics, "agent.metrics.score_alone")
    assert (answer["score"], answer["status"]) == (0.25, None)


def test_a_metric_may_leave_it_open(metrics) -> None:
    answer = grade(metrics, "agent.metrics.undecided")
    assert (answer["score"], answer["status"]) == (None, "not_evaluated")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("agent.metrics.raising", "the metric broke"),
        ("agent.metrics.leaving", "SystemExit"),
        # before Python 3.12, a future that got it never ended
        ("agent.metrics.exhausted", "StopIteration"),
        ("agent.metrics.nothing", "NoneType"),
        ("agent.metrics.a_number", "float"),
        ("agent.metrics.not_a_number", "nan"),
        ("agent.metrics.passed_without_score", "no overall_score"),
        ("agent.metrics.no_such_function", "no_such_function"),
        ("no_such_module.metric", "no_such_module"),
        ("metric", "dotted path"),
    ],
)
def test_a_fault_is_an_error_and_no_score(metrics, code: str, told: str) -> None:
    answer = grade(metrics, code)
    assert answer["score"] is None
    assert told in answer["error"]
    assert grade(metrics, "agent.metrics.exact_answer")["score"] == 0.5, "the next one is graded"


def test_the_users_line_is_shown(metrics) -> None:
    error = grade(metrics, "agent.metrics.raising")["error"]
    assert re.fullmatch(r"\w+: the metric broke \([\w/.]*metrics\.py:\d+\)", error)
    # no line is the user's
    absent = grade(metrics, "agent.metrics.no_such_function")["error"]
    assert absent.endswith("has no function 'no_such_function'")


RIGHT = """
from google.adk.evaluation.eval_metrics import EvalStatus
from google.adk.evaluation.evaluator import EvaluationResult
from . import limits


def exact(metric, actual, expected, scenario=None):
    same = actual[0].final_response.parts[0].text == expected[0].final_response.parts[0].text
    status = EvalStatus.PASSED if same else EvalStatus.FAILED
    return EvaluationResult(overall_score=limits.MOST * same, overall_eval_status=status)


def greeted(metric, actual, expected, scenario=None):
    from . import GREETING
"""
REPLACING = """
from google.adk.evaluation.eval_metrics import EvalStatus
from google.adk.evaluation.evaluator import EvaluationResult
from . import metrics

GREETING = "hello"
metrics.exact = lambda *_: EvaluationResult(overall_score=1.0, overall_eval_status=EvalStatus.PASSED)
"""


@pytest.mark.parametrize("kind", ["adk", "python"])
def test_the_agents_package_cannot_replace_its_metric(spawn, tmp_path: Path, kind: str) -> None:
    package = tmp_path / "teams" / "desk" if kind == "adk" else tmp_path / "desk"
    package.mkdir(parents=True)
    for name, text in (
        ("__init__.py", REPLACING),
        ("agent.py", "root_agent = None\n"),
        ("metrics.py", RIGHT),
    ):
        (package / name).write_text(text, encoding="utf-8")
    (package / "limits.py").write_text("MOST = 1.0\n", encoding="utf-8")
    if kind == "adk":  # the folders that the package lies in are the agent's too
        (tmp_path / "teams" / "__init__.py").write_text("from . import desk\n", encoding="utf-8")
    (tmp_path / "pydantic.py").write_text(
        "raise RuntimeError('not the installed one')\n", encoding="utf-8"
    )
    options = (
        {"path": "teams/desk"} if kind == "adk" else {"path": ".", "call": "desk.agent:root_agent"}
    )
    worker = spawn(options, kind="metrics", which="new", cwd=tmp_path)

    names = ["agent.metrics", "desk.metrics", *(["teams.desk.metrics"] if kind == "adk" else [])]
    for name in names:
        assert grade(worker, f"{name}.exact", expected=["no", "no"])["score"] == 0.0, name
        assert grade(worker, f"{name}.exact", expected=["yes", "no"])["score"] == 1.0, name
    error = grade(worker, "agent.metrics.greeted")["error"]
    assert "desk/__init__.py is not run for a metric" in error
    assert "import the name from its own module" in error
