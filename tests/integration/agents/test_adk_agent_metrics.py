"""Custom metrics run beside the agent with google-adk's types; what is no score never becomes one."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.integration


def invocation(text: str) -> dict:
    return {
        "invocation_id": "i",
        "user_content": {"role": "user", "parts": [{"text": "hi"}]},
        "final_response": {"role": "model", "parts": [{"text": text}]},
        "intermediate_data": {"invocation_events": [{"author": "full", "content": {"parts": [{"text": "step"}]}}]},
        "duration": 0.5,
        "app_details": {"agent_details": {"full": {"name": "full", "instructions": "", "tool_declarations": []}}},
    }


def grade(worker, code: str, expected: list[str] | None = None) -> dict:
    worker.say(
        type="metric",
        id=code,
        code=code,
        metric={"metric_name": "mine", "threshold": 0.5, "criterion": {"threshold": 0.5, "extra": "kept"}},
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
def test_a_metric_scores(full, code: str) -> None:
    answer = grade(full, code)
    assert (answer["score"], answer["status"], answer["turns"]) == (0.5, "passed", [1.0, 0.0])
    assert "error" not in answer


def test_a_metric_that_fails_the_case_says_so(full) -> None:
    answer = grade(full, "agent.metrics.exact_answer", expected=["no", "yes"])
    assert (answer["score"], answer["status"]) == (0.0, "failed")


def test_a_metric_may_leave_it_open(full) -> None:
    answer = grade(full, "agent.metrics.undecided")
    assert (answer["score"], answer["status"]) == (None, "not_evaluated")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("agent.metrics.raising", "the metric broke"),
        ("agent.metrics.leaving", "SystemExit"),
        ("agent.metrics.nothing", "NoneType"),
        ("agent.metrics.a_number", "float"),
        ("agent.metrics.not_a_number", "nan"),
        ("agent.metrics.passed_without_score", "no overall_score"),
        ("agent.metrics.no_such_function", "no_such_function"),
        ("no_such_module.metric", "no_such_module"),
        ("metric", "dotted path"),
    ],
)
def test_a_fault_is_an_error_and_no_score(full, code: str, told: str) -> None:
    answer = grade(full, code)
    assert answer["score"] is None
    assert told in answer["error"]
    assert full.ask("say fine")[1]["type"] == "turn_end"


def test_the_users_line_is_shown(full) -> None:
    assert "metrics.py" in grade(full, "agent.metrics.raising")["error"]
