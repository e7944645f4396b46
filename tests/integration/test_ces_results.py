"""What `evalgate run` says of CES evaluations in the API's own words: valid, and of one mind with
its verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import mcp
import pytest
from builders import repositories
from google.cloud import ces_v1beta as library
from google.protobuf import json_format

from evalgate.wings.assistant import server
from evalgate.wings.assistant.resources import ServerResources
from tests.integration import test_ces_run
from tests.integration.test_ces_run import GOLDEN, SCENARIO, Judge, repository, run

pytestmark = pytest.mark.integration

judge = test_ces_run.judge
SIMILAR = {
    "goldenEvaluationMetricsThresholds": {
        "turnLevelMetricsThresholds": {"semanticSimilaritySuccessThreshold": 4}
    }
}
STATES = {
    "pass": ("COMPLETED", "PASS"),
    "fail": ("COMPLETED", "FAIL"),
    "not_measured": ("ERROR", None),
}


def valid(shape: Any, content: dict[str, Any]) -> dict[str, Any]:
    json_format.ParseDict(content, shape.pb(shape()))
    return content


# the judge, each evaluation's verdict, the exit code
WAYS: list[tuple[dict[str, Any], dict[str, str], int]] = [
    ({}, {GOLDEN: "pass", SCENARIO: "pass"}, 0),
    ({"worst": "one piece of information"}, {GOLDEN: "fail", SCENARIO: "fail"}, 1),
    (
        {"broken": "one piece of information", "deadline_s": 2},
        {GOLDEN: "not_measured", SCENARIO: "not_measured"},
        3,
    ),
]


@pytest.mark.parametrize(("set_up", "verdicts", "exit_code"), WAYS, ids=["pass", "fail", "error"])
def test_results_are_valid_and_say_what_the_gate_says(
    tmp_path: Path, judge: Judge, set_up: dict[str, Any], verdicts: dict[str, str], exit_code: int
) -> None:
    for name, value in set_up.items():
        setattr(judge, name, value)
    root = repository(tmp_path, judge, names=(GOLDEN, SCENARIO))
    code, said = run(
        root, "--runs", "2", "--threshold", "all", "--fail-on", "threshold,not_measured"
    )
    assert code == exit_code, said
    found = json.loads((root / "evalgate-report/ces-results.json").read_text())
    own = json.loads((root / "evalgate-report/results.json").read_text())
    kinds = {case["case_id"]: case["verdict"] for suite in own["suites"] for case in suite["cases"]}
    assert kinds == verdicts
    results = [valid(library.EvaluationResult, each) for each in found["evaluationResults"]]
    assert len(results) == 4
    for each in results:
        title = each["displayName"].partition(" result - ")[0]
        state = (each["executionState"], each.get("evaluationStatus"))
        assert state == STATES[verdicts[title]], each.get("errorInfo")
        outcomes = each["goldenResult" if title == GOLDEN else "scenarioResult"]
        assert outcomes["evaluationExpectationResults"][0].get("outcome") == each.get(
            "evaluationStatus"
        )
        turns = each.get("goldenResult", {}).get("turnReplayResults", ())
        assert all(float(turn["turnLatency"].rstrip("s")) >= 0 for turn in turns)
    (evaluation_run,) = [valid(library.EvaluationRun, each) for each in found["evaluationRuns"]]
    assert evaluation_run["evaluationResults"] == [each["name"] for each in results]
    assert len({each["name"] for each in results}) == 4
    completed = [each for each in results if each["executionState"] == "COMPLETED"]
    assert evaluation_run["progress"].get("completedCount", 0) == len(completed)
    assert (evaluation_run["evaluationType"], evaluation_run["runCount"]) == ("MIXED", 2)
    assert evaluation_run["latencyReport"]["sessionCount"] == 4
    for metrics in found["aggregatedMetrics"].values():
        valid(library.AggregatedMetrics, metrics)
        (version,) = metrics["metricsByAppVersion"]
        assert version.get("passCount", 0) + version.get("failCount", 0) == len(completed) / 2


def test_both_sides_are_versions_of_an_evaluation(tmp_path: Path) -> None:
    root = test_ces_run.desk_repository(tmp_path, test_ces_run.desk_golden())
    (root / ".gitignore").write_text("evalgate-report/\ncache/\n")
    repositories.git(root, "init", "-q", "-b", "main")
    repositories.git(root, "add", "-A")
    repositories.git(root, "commit", "-qm", "base")
    desk = (root / "desk.py").read_text()
    assert "else 3" in desk
    # not committed: the commit is that of the base
    (root / "desk.py").write_text(desk.replace("else 3", "else 2"))
    code, said = run(root, "--base", "HEAD", "--runs", "2")
    assert code == 1, said
    found = json.loads((root / "evalgate-report/ces-results.json").read_text())
    results = [valid(library.EvaluationResult, each) for each in found["evaluationResults"]]
    assert [each["evaluationStatus"] for each in results] == ["PASS", "PASS", "FAIL", "FAIL"]
    assert len({each["name"] for each in results}) == 4
    runs = [valid(library.EvaluationRun, each) for each in found["evaluationRuns"]]
    assert [each["evaluationResults"] for each in runs] == [
        [each["name"] for each in results[at : at + 2]] for at in (0, 2)
    ]
    (metrics,) = (
        valid(library.AggregatedMetrics, each) for each in found["aggregatedMetrics"].values()
    )
    base, head = metrics["metricsByAppVersion"]
    assert head["appVersionId"] == f"{base['appVersionId']}-changed"
    assert (base["passCount"], head["failCount"]) == (2, 2)
    assert {each["goldenRunMethod"] for each in (*results, *runs)} == {"STABLE"}


METHODS = [  # what the app says, the fault of the agent, what is said of the run
    (test_ces_run.NAIVE, "", "NAIVE"),
    (None, "no history", "NAIVE"),  # what was done, not what was asked for
    (None, "", "STABLE"),
]


@pytest.mark.parametrize(("app", "fault", "method"), METHODS, ids=range(len(METHODS)))
def test_how_a_golden_was_run_is_told(tmp_path: Path, app: Any, fault: str, method: str) -> None:
    asked = test_ces_run.without_loan(
        test_ces_run.desk_golden(evaluationMetricsThresholdOverride=SIMILAR)
    )
    root = test_ces_run.desk_repository(
        tmp_path, asked, app={**(app or {}), **test_ces_run.THRESHOLDS}
    )
    code, said = run(root, fault=fault)
    assert code == 0, said
    (found,) = json.loads((root / "evalgate-report/ces-results.json").read_text())[
        "evaluationResults"
    ]
    assert found["goldenRunMethod"] == method
    # the thresholds are those that count: the evaluation's before the app's, one by one
    both = {
        **test_ces_run.LENIENT["goldenEvaluationMetricsThresholds"],
        **SIMILAR["goldenEvaluationMetricsThresholds"],
    }
    assert found["evaluationMetricsThresholds"] == {"goldenEvaluationMetricsThresholds": both}


def test_each_call_of_a_tool_and_of_a_model_has_its_latency(tmp_path: Path, judge: Judge) -> None:
    root = repository(tmp_path, judge, agent="adk", names=(GOLDEN, SCENARIO))
    code, said = run(root)
    assert code == 0, said
    content = json.loads((root / "evalgate-report/ces-results.json").read_text())
    of_scenario, of_golden = (
        valid(library.EvaluationResult, each) for each in content["evaluationResults"]
    )
    assert [each["displayName"] for each in of_scenario["scenarioResult"]["toolCallLatencies"]] == [
        "block_card"
    ]
    turn = of_golden["goldenResult"]["turnReplayResults"][1]
    # the desk asks its model and transfers, the loans ask theirs, call the tool and ask again
    assert [each["type"] for each in turn["spanLatencies"]] == ["LLM", "LLM", "TOOL", "LLM"]
    assert [each["displayName"] for each in turn["toolCallLatencies"]] == ["find_loan"]
    (evaluation_run,) = (valid(library.EvaluationRun, each) for each in content["evaluationRuns"])
    assert [each["model"] for each in evaluation_run["latencyReport"]["llmCallLatencies"]] == [
        "desk"
    ]


def test_an_assistant_runs_an_evaluation_and_reads_its_result(
    tmp_path: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "repository", judge, names=(GOLDEN, SCENARIO))
    for name in ("GITHUB_ACTIONS", "CI", "GITHUB_EVENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MY_JUDGE_KEY", "a-key")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    judge.worst = "You lost your library card"

    async def talk() -> None:
        async with mcp.Client(server.server_of(ServerResources(root))) as client:

            async def call(tool: str, **given: Any) -> Any:
                done = await client.call_tool(tool, given)
                assert not done.is_error, done.content
                return done.structured_content

            listed = (await call("list_evaluations"))["evaluations"]
            names = {each["displayName"]: each["name"] for each in listed}
            operation = await call("run_evaluation", evaluations=list(names.values()), wait=True)
            assert operation["done"], operation
            assert "response" in operation, operation
            evaluation_run = await call(
                "get_evaluation_run", name=operation["response"]["evaluationRun"]
            )
            assert evaluation_run["progress"]["totalCount"] == 2
            assert [
                each["name"] for each in (await call("list_evaluation_runs"))["evaluationRuns"]
            ] == [evaluation_run["name"]]
            for title, status in ((GOLDEN, "PASS"), (SCENARIO, "FAIL")):
                found = (await call("list_evaluation_results", parent=names[title]))["results"]
                assert [each["evaluationStatus"] for each in found] == [status]
                assert found[0]["name"] in evaluation_run["evaluationResults"]
            await call("delete_evaluation_result", name=found[0]["name"])
            gone = await client.call_tool("get_evaluation_result", {"name": found[0]["name"]})
            assert gone.is_error
            await call("delete_evaluation_run", name=evaluation_run["name"])
            assert (await call("list_evaluation_runs"))["evaluationRuns"] == []
            # the run is no file of the repository: what git ignores
            assert (root / ".evalgate/ces/.gitignore").read_text() == "*\n"

    anyio.run(talk)
