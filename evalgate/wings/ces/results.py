"""The results of a run in the form of the API: EvaluationResult, EvaluationRun, latency report,
metrics by version, and the file with all of them beside results.json.

Unknown values are omitted: a run without a status is ERROR, and no mean includes missing scores."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evalgate.model import (
    AgentFailure,
    Case,
    FailureKind,
    GradedTrial,
    Invocation,
    NotEvaluated,
    Report,
    Run,
    Transcript,
    TrialView,
    cases_of,
)
from evalgate.reports import Renderer
from evalgate.values import JsonObject, frozen_dataclass, grouped
from . import criteria, outcomes
from .cxas import TRANSFER
from .outcomes import Plan, tool_name
from .shapes import (
    AggregatedMetrics,
    ErrorType,
    EvaluationErrorInfo,
    EvaluationResult,
    EvaluationRun,
    EvaluationRunState,
    EvaluationRunSummary,
    EvaluationType,
    ExecutionState,
    GoldenResult,
    GoldenRunMethod,
    HallucinationMetrics,
    LatencyMetrics,
    LatencyReport,
    LlmCallLatency,
    MetricsByAppVersion,
    Outcome,
    Progress,
    ScenarioResult,
    SemanticSimilarityMetrics,
    SpanLatency,
    SpanType,
    ToolCallLatency,
    ToolCallLatencyMetrics,
    ToolLatency,
    ToolMetrics,
    TurnLatencyMetrics,
    TurnReplayResult,
)

_ERRORS = {
    FailureKind.RATE_LIMITED: ErrorType.QUOTA_EXHAUSTED,
    FailureKind.SIMULATOR: ErrorType.USER_SIMULATION_FAILURE,
}
"""All other failures are runtime failures."""


@frozen_dataclass
class Measured:
    """One run of a plan's evaluation: the agent's turns, and the evaluation's result.

    `status` None: unknown, for example because a judge was unreachable; `reason` explains it.
    `number` counts the runs of one evaluation from 1."""

    plan: Plan
    result: GoldenResult | ScenarioResult | None = None
    status: Outcome | None = None
    turns: tuple[Invocation, ...] = ()
    failure: AgentFailure | None = None
    reason: str = ""
    number: int = 1
    method: GoldenRunMethod = GoldenRunMethod.GOLDEN_RUN_METHOD_UNSPECIFIED


# --- results --------------------------------------------------------------------------------------


def result_of(measured: Measured, batch: EvaluationRun) -> EvaluationResult:
    """The result of one run of one evaluation. `batch`: its run, with name, time and version."""
    plan = measured.plan
    failure = measured.failure
    status = measured.status if failure is None else None
    error_type = ErrorType.METRIC_CALCULATION_FAILURE
    message = measured.reason or "an outcome is unknown"
    if failure is not None:
        error_type = _ERRORS.get(failure.kind, ErrorType.RUNTIME_FAILURE)
        message = failure.message
    error = EvaluationErrorInfo(error_type=error_type, error_message=message)
    thresholds = plan.effective_thresholds
    return EvaluationResult(
        name=f"{plan.name}/results/{batch.name.rpartition('/')[2]}-{measured.number}",
        display_name=f"{plan.evaluation.display_name} result - {batch.create_time}",
        create_time=batch.create_time,
        evaluation_status=status or Outcome(0),
        execution_state=ExecutionState.COMPLETED if status else ExecutionState.ERROR,
        error_info=None if status else error,
        evaluation_run=batch.name,
        app_version=batch.app_version,
        app_version_display_name=batch.app_version_display_name,
        evaluation_metrics_thresholds=thresholds if thresholds.json() else None,
        golden_run_method=measured.method,
        **_outcomes(measured),
    )


def _outcomes(measured: Measured) -> JsonObject:
    """The field of the result with the outcomes and their known times."""
    outcomes = measured.result
    app = measured.plan.app
    if outcomes is None:
        return {}
    if isinstance(outcomes, ScenarioResult):
        return {"scenario_result": outcomes.model_copy(update=_latency_fields(measured.turns, app))}
    replays = list(outcomes.turn_replay_results)
    for number, turn in enumerate(measured.turns[: len(replays)]):
        latency = _seconds_text(turn.timings.total_s) if turn.timings else None
        update = {"turn_latency": latency, **_latency_fields([turn], app)}
        replays[number] = replays[number].model_copy(update=update)
    all_replays = {"turn_replay_results": tuple(replays)}
    return {"golden_result": outcomes.model_copy(update=all_replays)}


def _latency_fields(turns: Sequence[Invocation], app: str) -> JsonObject:
    tool_calls: list[ToolCallLatency] = []
    spans: list[SpanLatency] = []
    for kind, name, seconds in _call_seconds(turns):
        latency = _seconds_text(seconds)
        span = SpanLatency(type=SpanType.LLM, model=name, execution_latency=latency)
        if kind == "tool":
            tool = tool_name(name, app)
            fields: JsonObject = {"display_name": name, "execution_latency": latency}
            tool_calls.append(ToolCallLatency(tool=tool, **fields))
            span = SpanLatency(type=SpanType.TOOL, resource=tool, **fields)
        spans.append(span)
    return {"tool_call_latencies": tuple(tool_calls), "span_latencies": tuple(spans)}


def _call_seconds(turns: Iterable[Invocation]) -> Iterator[tuple[str, str, float]]:
    """Durations of the calls of tools and models, in order: kind, name, seconds."""
    for turn in turns:
        for call in turn.timings.calls if turn.timings else ():
            if call.name != TRANSFER:
                yield call.kind, call.name, call.seconds


def _seconds_text(seconds: float) -> str:
    return f"{max(0.0, seconds):.3f}s"


def _seconds(duration: str | None) -> float | None:
    return float(duration.removesuffix("s")) if duration else None


# --- runs -----------------------------------------------------------------------------------------


def evaluation_of(result: EvaluationResult) -> str:
    """The name of a result's evaluation."""
    return result.name.partition("/results/")[0]


def run_of(
    measured: Sequence[Measured], batch: EvaluationRun
) -> tuple[EvaluationRun, list[EvaluationResult]]:
    """The run of some evaluations, and the result of each. `batch`: its name, time and version."""
    results = [result_of(measurement, batch) for measurement in measured]
    by_evaluation = grouped((evaluation_of(result), result) for result in results)
    kinds = frozenset(measurement.plan.evaluation.golden is not None for measurement in measured)
    counts = _counts(results)
    methods = {measurement.method for measurement in measured} - {GoldenRunMethod(0)}
    evaluation_run = EvaluationRun(
        name=batch.name,
        display_name=f"run - {batch.create_time}",
        create_time=batch.create_time,
        evaluation_results=tuple(evaluation_result.name for evaluation_result in results),
        evaluations=tuple(by_evaluation),
        evaluation_type=_TYPES.get(kinds, EvaluationType.MIXED),
        state=EvaluationRunState.COMPLETED,
        progress=Progress(
            total_count=len(results), completed_count=len(results) - counts["error_count"], **counts
        ),
        evaluation_run_summaries={
            name: EvaluationRunSummary(**_counts(group)) for name, group in by_evaluation.items()
        },
        app_version=batch.app_version,
        app_version_display_name=batch.app_version_display_name,
        golden_run_method=methods.pop() if len(methods) == 1 else GoldenRunMethod(0),
        run_count=max((measurement.number for measurement in measured), default=0),
        latency_report=latency_report(measured, batch.name.partition("/evaluationRuns/")[0]),
    )
    return evaluation_run, results


_TYPES = {frozenset({True}): EvaluationType.GOLDEN, frozenset({False}): EvaluationType.SCENARIO}
"""The type of a run by whether its evaluations are goldens."""


def _counts(results: Sequence[EvaluationResult]) -> dict[str, int]:
    """The numbers of results that passed, failed, and had an error."""
    done = [
        result.evaluation_status
        for result in results
        if result.execution_state is ExecutionState.COMPLETED
    ]
    errors = [result for result in results if result.execution_state is ExecutionState.ERROR]
    return {
        "passed_count": done.count(Outcome.PASS),
        "failed_count": done.count(Outcome.FAIL),
        "error_count": len(errors),
    }


def latency_report(measured: Iterable[Measured], app: str) -> LatencyReport:
    """The percentiles of durations over all sessions."""
    sessions = [measurement.turns for measurement in measured if measurement.turns]
    turns = [turn for session in sessions for turn in session]
    calls = list(_call_seconds(turns))
    tools, models = (
        _grouped((name, seconds) for call_kind, name, seconds in calls if call_kind == kind)
        for kind in ("tool", "model")
    )
    return LatencyReport(
        tool_latencies=tuple(
            ToolLatency(
                tool=tool_name(name, app),
                tool_display_name=name,
                latency_metrics=_latency_metrics(seconds),
            )
            for name, seconds in tools.items()
        ),
        llm_call_latencies=tuple(
            LlmCallLatency(model=model, latency_metrics=_latency_metrics(seconds))
            for model, seconds in models.items()
        ),
        session_count=len(sessions),
    )


def _grouped(pairs: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    return dict(sorted(grouped(pairs).items()))


def _latency_metrics(seconds: Sequence[float]) -> LatencyMetrics:
    """By nearest rank."""
    ordered = sorted(seconds)
    ranked = [
        _seconds_text(ordered[max(0, -(-share * len(ordered) // 100) - 1)])
        for share in (50, 90, 99)
    ]
    return LatencyMetrics(
        p50_latency=ranked[0], p90_latency=ranked[1], p99_latency=ranked[2], call_count=len(ordered)
    )


# --- metrics by version ---------------------------------------------------------------------------


def version_metrics(by_version: Mapping[str, Sequence[EvaluationResult]]) -> AggregatedMetrics:
    """The metrics of one evaluation's or one dataset's results, by version of the app."""
    metrics = []
    for version, results in by_version.items():
        counts = _counts(results)
        turns = [
            turn
            for result in results
            if result.golden_result is not None
            for turn in result.golden_result.turn_replay_results
        ]
        scenarios = [
            result.scenario_result for result in results if result.scenario_result is not None
        ]
        metrics.append(
            MetricsByAppVersion(
                app_version_id=version,
                pass_count=counts["passed_count"],
                fail_count=counts["failed_count"],
                **_metrics(turns, scenarios),
            )
        )
    return AggregatedMetrics(metrics_by_app_version=tuple(metrics))


def _metrics(turns: Sequence[TurnReplayResult], scenarios: Sequence[ScenarioResult]) -> JsonObject:
    """The lists in the metrics of a version."""
    ratings = [turn.hallucination_result for turn in turns if turn.hallucination_result is not None]
    ratings += [rating for scenario in scenarios for rating in scenario.hallucination_result]
    claims = [rating.score for rating in ratings if rating.score in (0, 1)]  # -1: no claim
    similarities = [
        outcome.semantic_similarity_result.score
        for turn in turns
        for outcome in turn.expectation_outcome
        if outcome.semantic_similarity_result
        and outcome.semantic_similarity_result.score is not None
    ]
    calls = [latency for turn in turns for latency in turn.tool_call_latencies]
    calls += [latency for scenario in scenarios for latency in scenario.tool_call_latencies]
    by_tool = _grouped(
        (latency.tool, seconds)
        for latency in calls
        if (seconds := _seconds(latency.execution_latency)) is not None
    )
    durations = [seconds for turn in turns if (seconds := _seconds(turn.turn_latency)) is not None]
    return {
        "tool_metrics": tuple(_tool_metrics(turns)),
        "semantic_similarity_metrics": (
            SemanticSimilarityMetrics(score=statistics.fmean(similarities)),
        )
        if similarities
        else (),
        "hallucination_metrics": (HallucinationMetrics(score=statistics.fmean(claims)),)
        if claims
        else (),
        "tool_call_latency_metrics": tuple(
            ToolCallLatencyMetrics(
                tool=tool, average_latency=_seconds_text(statistics.fmean(seconds))
            )
            for tool, seconds in by_tool.items()
        ),
        "turn_latency_metrics": (
            TurnLatencyMetrics(average_latency=_seconds_text(statistics.fmean(durations))),
        )
        if durations
        else (),
    }


def _tool_metrics(turns: Iterable[TurnReplayResult]) -> Iterable[ToolMetrics]:
    counts: dict[str, list[int]] = {}
    for turn in turns:
        for outcome in turn.expectation_outcome:
            call = outcome.expectation.tool_call if outcome.expectation is not None else None
            result = outcome.tool_invocation_result
            if call is None or result is None or result.outcome not in (Outcome.PASS, Outcome.FAIL):
                continue
            toolset = call.toolset_tool
            tool = call.tool or (f"{toolset.toolset}/tools/{toolset.tool_id}" if toolset else "")
            counts.setdefault(tool, [0, 0])[result.outcome is Outcome.FAIL] += 1
    for tool, (passed, failed) in sorted(counts.items()):
        yield ToolMetrics(tool=tool, pass_count=passed, fail_count=failed)


# --- the file ---

FILE = "ces-results.json"


def render(report: Report) -> str:
    """The file; "" if no CES evaluation ran. It has the runs of both sides with all results, and
    the metrics of each evaluation by version."""
    cases_of_run = cases_of(report.run.suites).values()
    if all(case.ces is None for case in cases_of_run):
        return ""
    document: JsonObject = {"evaluationRuns": [], "evaluationResults": [], "aggregatedMetrics": {}}
    pairs: list[tuple[str, tuple[str, EvaluationResult]]] = []
    for side, run in (("base", report.base), ("head", report.run)):
        if run is None:
            continue
        for evaluation_run, evaluation_results in _of_run(run, side):
            document["evaluationRuns"].append(evaluation_run.json())
            for result in evaluation_results:
                document["evaluationResults"].append(result.json())
                pairs.append((evaluation_of(result), (_version(run, side), result)))
    document["aggregatedMetrics"] = {
        name: version_metrics(grouped(by_version)).json()
        for name, by_version in grouped(pairs).items()
    }
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _of_run(run: Run, side: str) -> Iterator[tuple[EvaluationRun, list[EvaluationResult]]]:
    """A run of the API for each app."""
    by_app = grouped(
        (measurement.plan.app, measurement) for _, _, measurement in measured_trials(run)
    )
    for app, measured in by_app.items():
        created = run.started_at.replace("+00:00", "Z")
        run_id = f"run-{re.sub(r'[^0-9]', '', created)[:14]}-{side}"
        batch = EvaluationRun(
            name=f"{app}/evaluationRuns/{run_id}",
            create_time=created,
            app_version=f"{app}/versions/{_version(run, side)}",
            app_version_display_name=run.commit,
        )
        yield run_of(measured, batch)


def measured_trials(run: Run) -> Iterator[tuple[GradedTrial, Transcript | None, Measured]]:
    """Each first trial of a CES evaluation, with its outcomes."""
    cases_by_key = cases_of(run.suites)
    for trial in run.trials:
        case = cases_by_key.get(trial.key.case)
        if case is not None and case.ces is not None and trial.key.is_first:  # reruns only confirm
            transcript = run.transcripts(trial.key)
            yield trial, transcript, _measured(case, trial, transcript)


def _version(run: Run, side: str) -> str:
    """The name of a version: the commit, with a mark if files differed from it, or the side if the
    commit is unknown."""
    return f"git-{run.commit[:12]}{'-changed' if run.dirty else ''}" if run.commit else side


def _measured(case: Case, trial: GradedTrial, transcript: Transcript | None) -> Measured:
    """A trial with its outcomes by turn and expectation."""
    plan = Plan.model_validate(case.ces)
    common_fields: JsonObject = {"plan": plan, "number": trial.key.number + 1}
    if trial.failure is not None or transcript is None:
        lost = FailureKind.PROTOCOL.failure("the conversation was not kept")
        return Measured(**common_fields, failure=trial.failure or lost)
    evidence = TrialView.of(case, transcript, repeat=trial.key.repeat)
    result = criteria.result_of(plan, evidence, criteria.stored_verdicts(trial.grades))
    deciding_names = (case.criteria or frozenset()) - {outcomes.RUBRICS, outcomes.PLATFORM}
    grades = [grade for name, grade in trial.grades.items() if name in deciding_names]
    lacking = [str(grade.message) for grade in grades if isinstance(grade, NotEvaluated)]
    status = outcomes.status(outcomes.checks(plan, result))
    if lacking and status is not Outcome.SKIPPED:  # a skipped evaluation lacks nothing
        status = None
    if plan.turns:  # a single turn has no turn before it
        is_stable = transcript.isolated or len(plan.turns) == 1
        common_fields["method"] = GoldenRunMethod.STABLE if is_stable else GoldenRunMethod.NAIVE
    return Measured(
        **common_fields,
        result=result,
        status=status,
        turns=transcript.invocations,
        reason="; ".join(lacking),
    )


RENDERER = Renderer(
    name="ces",
    file_name=FILE,
    summary="runs, results and metrics of CES evaluations, as CES's API has them",
    render=render,
)
