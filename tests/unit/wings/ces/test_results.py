"""Results and runs as google-cloud-ces reads them, and what is counted in them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from builders.build import turn
from builders.ces_evidence import did, evidence, says, suite_of, turn as turn_of
from google.cloud import ces_v1beta as library
from google.protobuf import json_format

from evalgate.model import (
    CallTime,
    FailureKind,
    GradedTrial,
    NotEvaluated,
    Run,
    Timings,
    ToolCall,
    Transcript,
    TrialKey,
)
from evalgate.runner import session
from evalgate.system import patterns
from evalgate.wings.ces import criteria, results
from evalgate.wings.ces.outcomes import Plan
from evalgate.wings.ces.shapes import (
    ErrorType,
    Evaluation,
    EvaluationErrorInfo,
    EvaluationResult,
    EvaluationRun,
    GoldenRunMethod,
    Outcome,
    Proto,
)

DATA = Path(__file__).parents[3] / "data/ces"
APP = "projects/local/locations/local/apps/library-desk"
RENEW, LOST = f"{APP}/evaluations/renew-loan-happy-path", f"{APP}/evaluations/lost-card-scenario"
TOOL = f"{APP}/tools/renew_loan"
BATCH = EvaluationRun(
    name=f"{APP}/evaluationRuns/run-7",
    create_time="2027-02-01T10:00:00Z",
    app_version=f"{APP}/versions/git-4f2a9c1",
)
STABLE, NAIVE = GoldenRunMethod.STABLE, GoldenRunMethod.NAIVE


def read(shape: type[Proto], name: str) -> Any:
    return shape.model_validate(json.loads((DATA / name).read_text()))


GOLDEN, SCENARIO = (
    read(Evaluation, "golden_library_renewal.json"),
    read(Evaluation, "scenario_lost_card.json"),
)
OF_GOLDEN = read(EvaluationResult, "result_golden.json").golden_result
OF_SCENARIO = read(EvaluationResult, "result_scenario.json").scenario_result


def asked(*tools: str, tool: float = 0.5, calls: tuple[CallTime, ...] | None = None) -> Any:
    """A turn with these calls, and how long it took."""
    made = turn("renew", *(ToolCall(name=name) for name in tools), answer="done")
    if calls is None:
        times = [CallTime(kind="tool", name=name, at=0.0, seconds=tool) for name in tools]
        calls = (*times, CallTime(kind="model", name="m", at=0.5, seconds=0.25))
    timings = Timings(total_s=1.25, tool_s=tool, model_s=0.25, calls=calls)
    return dataclasses.replace(made, timings=timings)


Measured: TypeAlias = tuple[Plan, EvaluationResult]


def golden(
    status: Outcome | None = Outcome.PASS,
    error: ErrorType | None = None,
    *,
    turns: tuple[Any, ...] = (),
    method: GoldenRunMethod = STABLE,
    number: int = 1,
) -> Measured:
    plan = Plan(evaluation=GOLDEN)
    content = {} if error else results.timed(OF_GOLDEN, turns or (asked("renew_loan"),), APP)
    info = EvaluationErrorInfo(error_type=error, error_message="why") if error else None
    fields = {"golden_run_method": method, "number": number, **content}
    return plan, results.result_of(plan, BATCH, status=status, error=info, **fields)


def scenario(status: Outcome | None = Outcome.PASS) -> Measured:
    plan = Plan(evaluation=SCENARIO)
    content = results.timed(OF_SCENARIO, (asked("renew_loan"), asked()), APP)
    return plan, results.result_of(plan, BATCH, status=status, **content)


def valid(message: Proto) -> dict[str, Any]:
    """As google-cloud-ces reads it, strictly, and the same again."""
    shape = getattr(library, type(message).__name__)
    content = message.json()
    parsed = json_format.ParseDict(content, shape.pb(shape()))
    again = json_format.ParseDict(json_format.MessageToDict(parsed), shape.pb(shape()))
    assert parsed == again
    return content


STATES: list[Any] = [  # state, status
    (golden(Outcome.PASS), "COMPLETED", "PASS"),
    (golden(Outcome.FAIL), "COMPLETED", "FAIL"),
    (golden(Outcome.SKIPPED), "COMPLETED", "SKIPPED"),
    (scenario(Outcome.FAIL), "COMPLETED", "FAIL"),
    # what cannot be told has no status: a judge was out of reach
    (golden(None, ErrorType.METRIC_CALCULATION_FAILURE), "ERROR", None),
]


@pytest.mark.parametrize(("measured", "state", "status"), STATES, ids=range(len(STATES)))
def test_states(measured: Measured, state: str, status: str | None) -> None:
    plan, result = measured
    found = valid(result)
    assert (found["executionState"], found.get("evaluationStatus")) == (state, status)
    error = None if status else "METRIC_CALCULATION_FAILURE"
    assert found.get("errorInfo", {}).get("errorType") == error
    assert found["name"] == f"{plan.evaluation.name}/results/run-7-1"
    assert found["evaluationRun"] == f"{APP}/evaluationRuns/run-7"
    assert found["appVersion"] == f"{APP}/versions/git-4f2a9c1"
    assert found.get("goldenRunMethod") == ("STABLE" if plan.evaluation.golden else None)


FAILURES = [
    (FailureKind.RAISED, "RUNTIME_FAILURE"),
    (FailureKind.RATE_LIMITED, "QUOTA_EXHAUSTED"),
    (FailureKind.SIMULATOR, "USER_SIMULATION_FAILURE"),
]


@pytest.mark.parametrize(("kind", "error"), FAILURES)
def test_a_failed_trial_has_no_status(kind: FailureKind, error: str) -> None:
    view = evidence({"golden": {"turns": [turn_of(says("Hi."))]}}, did("Hi."))
    key = TrialKey(suite="s", case_id="e")
    trials = (
        GradedTrial(key=key, grades={}, failure=kind.failure("why")),
        # and one whose conversation was not kept
        GradedTrial(key=TrialKey(suite="s", case_id="e", number=1), grades={}, failure=None),
    )
    run = Run(
        suites=(suite_of(view.case),),
        trials=trials,
        transcripts={}.get,
        started_at=BATCH.create_time,
    )
    (_, first), (_, lost) = (
        results.measure(run, "head", *parts) for parts in results.trials_of(run)
    )
    for result, kind_of_error in ((first, error), (lost, "RUNTIME_FAILURE")):
        found = valid(result)
        assert (found["executionState"], found.get("evaluationStatus")) == ("ERROR", None)
        assert found["errorInfo"]["errorType"] == kind_of_error
    assert first.name.endswith("-head-1")
    assert lost.name.endswith("-head-2")


def test_a_pattern_that_is_searched_too_long_leaves_no_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def search(*_: object) -> list[bool]:
        raise patterns.SearchFailed("too long")

    monkeypatch.setattr(patterns, "search", search)
    matcher = {"$matchType": "regexp", "$originalValue": "(?:.?){90}!"}
    call = {"expectation": {"toolCall": {"tool": f"{APP}/tools/find", "args": {"x": matcher}}}}
    view = evidence(
        {"golden": {"turns": [turn_of(call)]}}, did("Hi.", ToolCall(name="find", args={"x": "y"}))
    )
    key = TrialKey(suite="s", case_id="e")
    grade = criteria.grade_expectations
    unknown = session.grade_one("ces_expectations", grade, view)
    assert isinstance(unknown, NotEvaluated)
    case = dataclasses.replace(view.case, criteria=frozenset({"ces_expectations"}))
    platform = results.result_of(Plan(evaluation=GOLDEN), BATCH, status=Outcome.PASS).json()
    transcript = Transcript(invocations=view.actual, platform=platform)
    run = Run(
        suites=(suite_of(case),),
        trials=(GradedTrial(key=key, grades={"ces_expectations": unknown}, failure=None),),
        transcripts={key: transcript}.get,
        started_at=BATCH.create_time,
    )
    ((_, result),) = (results.measure(run, "head", *parts) for parts in results.trials_of(run))
    found = valid(result)
    assert (found["executionState"], found.get("evaluationStatus")) == ("ERROR", None)
    assert found["errorInfo"]["errorType"] == "METRIC_CALCULATION_FAILURE"
    assert "too long" in found["errorInfo"]["errorMessage"]
    (pair,) = results.pairs(run, "head")
    assert pair.column == "undecided"


CALLS = (
    CallTime(kind="model", name="m", at=0.0, seconds=0.5),
    CallTime(kind="tool", name="transfer_to_agent", at=0.5, seconds=0.0),
    CallTime(kind="tool", name="renew_loan", at=0.5, seconds=0.125),
    CallTime(kind="tool", name="find", at=0.5, seconds=0.25),
)
# a turn, the latencies of tools, the kinds of spans
LATENCIES: list[tuple[Any, list[str], list[str]]] = [
    (asked("renew_loan"), ["0.500s"], ["TOOL", "LLM"]),
    (asked("renew_loan", calls=()), [], []),  # only sums are known
    (asked(), [], ["LLM"]),
    # a transfer is no call
    (asked("renew_loan", "find", calls=CALLS), ["0.125s", "0.250s"], ["LLM", "TOOL", "TOOL"]),
]


@pytest.mark.parametrize(("made", "tools", "spans"), LATENCIES, ids=range(len(LATENCIES)))
def test_latencies_of_a_turn(made: Any, tools: list[str], spans: list[str]) -> None:
    found = valid(golden(turns=(made,))[1])
    replay = found["goldenResult"]["turnReplayResults"][0]
    assert replay["turnLatency"] == "1.250s"
    assert [each["executionLatency"] for each in replay.get("toolCallLatencies", ())] == tools
    assert [each["type"] for each in replay.get("spanLatencies", ())] == spans
    # what the agent did is as it was given
    assert (
        replay["expectationOutcome"]
        == OF_GOLDEN.json()["turnReplayResults"][0]["expectationOutcome"]
    )


def test_a_run_counts_each_state_once() -> None:
    measured = [
        golden(Outcome.PASS),
        golden(Outcome.FAIL, number=2),
        golden(None, ErrorType.RUNTIME_FAILURE, number=3),
        scenario(),
    ]
    found = valid(results.run_of(measured, BATCH))
    assert found["progress"] == {
        "totalCount": 4, "completedCount": 3, "passedCount": 2, "failedCount": 1, "errorCount": 1,
    }  # fmt: skip
    assert found["evaluationRunSummaries"] == {
        RENEW: {"passedCount": 1, "failedCount": 1, "errorCount": 1},
        LOST: {"passedCount": 1},
    }
    assert (found["evaluationType"], found["state"], found["runCount"]) == ("MIXED", "COMPLETED", 3)
    assert found["evaluationResults"] == [result.name for _, result in measured]
    assert found["evaluations"] == [RENEW, LOST]
    assert found["goldenRunMethod"] == "STABLE"
    mixed = results.run_of([golden(), golden(method=NAIVE), scenario()], BATCH)
    assert "goldenRunMethod" not in valid(mixed)  # of two none is that of the run
    # the two goldens are evaluations of the same title: each ran once
    assert valid(mixed)["runCount"] == 1


def test_percentiles_are_by_nearest_rank() -> None:
    sessions = [golden(turns=(asked("renew_loan", tool=number / 10),)) for number in range(1, 11)]
    measured = [*sessions, golden(None, ErrorType.RUNTIME_FAILURE)]
    report = valid(results.latency_report(result for _, result in measured))
    assert report["sessionCount"] == 10
    (tool,) = report["toolLatencies"]
    assert tool["tool"] == TOOL
    assert tool["latencyMetrics"] == {
        "p50Latency": "0.500s", "p90Latency": "0.900s", "p99Latency": "1.000s", "callCount": 10,
    }  # fmt: skip
    assert report["llmCallLatencies"][0]["latencyMetrics"]["callCount"] == 10


def test_metrics_by_version() -> None:
    def made(*measured: Measured) -> list[EvaluationResult]:
        return [result for _, result in measured]

    versions = {
        "base": made(golden(Outcome.PASS), golden(None)),  # an error is neither passed nor failed
        "head": made(golden(Outcome.FAIL), scenario(Outcome.FAIL)),
        "none": [],
    }
    base, head, none = valid(results.version_metrics(versions))["metricsByAppVersion"]
    assert (base["appVersionId"], base["passCount"], base.get("failCount")) == ("base", 1, None)
    assert (head.get("passCount"), head["failCount"]) == (None, 2)
    assert base["toolMetrics"] == [{"tool": TOOL, "failCount": 2}]
    assert base["semanticSimilarityMetrics"] == [{"score": 4.0}]
    assert base["turnLatencyMetrics"] == [{"averageLatency": "1.250s"}]
    assert base["toolCallLatencyMetrics"] == [{"tool": TOOL, "averageLatency": "0.500s"}]
    # -1, no claim, is in no mean
    claims = [each.score for each in OF_SCENARIO.hallucination_result if each.score != -1]
    (mean,) = head["hallucinationMetrics"]
    assert mean["score"] == pytest.approx(sum([1, *claims]) / len([1, *claims]))
    assert none == {"appVersionId": "none"}
