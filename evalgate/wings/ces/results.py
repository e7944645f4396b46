"""The results of a run in the form of the API: EvaluationResult, EvaluationRun, latency report,
metrics by version, and the file with all of them beside results.json; and the outcomes of CES's
platform, of evaluations that it ran, alongside evalgate's outcomes for the same conversations.

Unknown values are omitted: a run without a status is ERROR, and no mean includes missing scores."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from evalgate.model import (
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
from evalgate.system import patterns
from evalgate.text import markdown, plain
from evalgate.values import JsonObject, frozen_dataclass, grouped, json_text, only
from . import criteria, outcomes
from .cxas import TRANSFER
from .outcomes import Check, Plan, tool_name
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
    ToolCall,
    ToolCallLatency,
    ToolCallLatencyMetrics,
    ToolLatency,
    ToolMetrics,
    TurnLatencyMetrics,
    TurnReplayResult,
)


def result_of(
    plan: Plan,
    batch: EvaluationRun,
    *,
    number: int = 1,
    status: Outcome | None = None,
    error: EvaluationErrorInfo | None = None,
    **content: Any,
) -> EvaluationResult:
    """The result of one run of a plan's evaluation, number `number` of `batch`, which has a name, a
    time and a version. `status` None: unknown, for example because a judge was unreachable; `error`
    explains it. `content`: further fields."""
    thresholds = plan.effective_thresholds
    return EvaluationResult(
        name=f"{plan.name}/results/{batch.name.rpartition('/')[2]}-{number}",
        display_name=f"{plan.evaluation.display_name} result - {batch.create_time}",
        create_time=batch.create_time,
        evaluation_status=status or Outcome(0),
        execution_state=ExecutionState.COMPLETED if status else ExecutionState.ERROR,
        error_info=error,
        evaluation_run=batch.name,
        app_version=batch.app_version,
        app_version_display_name=batch.app_version_display_name,
        evaluation_metrics_thresholds=thresholds if thresholds.json() else None,
        **content,
    )


def timed(
    content: GoldenResult | ScenarioResult, turns: Sequence[Invocation], app: str
) -> JsonObject:
    """The field of a result with the outcomes and their known times."""
    if isinstance(content, ScenarioResult):
        return {"scenario_result": content.model_copy(update=_latency_fields(turns, app))}
    replays = []
    for replay, turn in zip(content.turn_replay_results, turns, strict=False):
        latency = _seconds_text(turn.timings.total_s) if turn.timings else None
        update = {"turn_latency": latency, **_latency_fields([turn], app)}
        replays.append(replay.model_copy(update=update))
    return {"golden_result": content.model_copy(update={"turn_replay_results": tuple(replays)})}


def _latency_fields(turns: Iterable[Invocation], app: str) -> JsonObject:
    """Durations of the calls of tools and models, in order."""
    tool_calls: list[ToolCallLatency] = []
    spans: list[SpanLatency] = []
    calls = (call for turn in turns if turn.timings for call in turn.timings.calls or ())
    for call in calls:
        latency = _seconds_text(call.seconds)
        if call.kind == "model":
            model = SpanLatency(type=SpanType.LLM, model=call.name, execution_latency=latency)
            spans.append(model)
        elif call.name != TRANSFER:
            tool = tool_name(call.name, app)
            fields: JsonObject = {"display_name": call.name, "execution_latency": latency}
            tool_calls.append(ToolCallLatency(tool=tool, **fields))
            spans.append(SpanLatency(type=SpanType.TOOL, resource=tool, **fields))
    return {"tool_call_latencies": tuple(tool_calls), "span_latencies": tuple(spans)}


def _seconds_text(seconds: float) -> str:
    return f"{max(0.0, seconds):.3f}s"


# --- runs -----------------------------------------------------------------------------------------


def evaluation_of(result: EvaluationResult) -> str:
    """The name of a result's evaluation."""
    return result.name.partition("/results/")[0]


def run_of(
    measured: Sequence[tuple[Plan, EvaluationResult]], batch: EvaluationRun
) -> EvaluationRun:
    """The run of some evaluations with these results. `batch`: its name, time and version."""
    results = [result for _, result in measured]
    by_evaluation = grouped((evaluation_of(result), result) for result in results)
    kinds = frozenset(plan.evaluation.golden is not None for plan, _ in measured)
    counts = _counts(results)
    methods = {result.golden_run_method for result in results} - {GoldenRunMethod(0)}
    # two evaluations of the same title have the same names of results
    run_counts = (len({result.name for result in group}) for group in by_evaluation.values())
    return EvaluationRun(
        name=batch.name,
        display_name=f"run - {batch.create_time}",
        create_time=batch.create_time,
        evaluation_results=tuple(result.name for result in results),
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
        run_count=max(run_counts, default=0),
        latency_report=latency_report(results),
    )


_TYPES = {frozenset({True}): EvaluationType.GOLDEN, frozenset({False}): EvaluationType.SCENARIO}
"""The type of a run by whether its evaluations are goldens."""


def _counts(results: Sequence[EvaluationResult]) -> dict[str, int]:
    """The numbers of results that passed, failed, and had an error."""
    done = [
        result.evaluation_status
        for result in results
        if result.execution_state is ExecutionState.COMPLETED
    ]
    return {
        "passed_count": done.count(Outcome.PASS),
        "failed_count": done.count(Outcome.FAIL),
        "error_count": sum(result.execution_state is ExecutionState.ERROR for result in results),
    }


def _parts_of(results: Iterable[EvaluationResult]) -> list[TurnReplayResult | ScenarioResult]:
    """The parts of results that have durations: the turns of goldens, and scenarios."""
    parts: list[TurnReplayResult | ScenarioResult] = []
    for result in results:
        if result.golden_result is not None:
            parts += result.golden_result.turn_replay_results
        elif result.scenario_result is not None:
            parts.append(result.scenario_result)
    return parts


def latency_report(results: Iterable[EvaluationResult]) -> LatencyReport:
    """The percentiles of durations over all sessions."""
    sessions = [parts for result in results if (parts := _parts_of([result]))]
    spans = [span for parts in sessions for part in parts for span in part.span_latencies]
    tools = _grouped(
        ((span.display_name, span.resource), span.execution_latency)
        for span in spans
        if span.resource is not None
    )
    models = _grouped(
        ((span.model,), span.execution_latency) for span in spans if span.model is not None
    )
    return LatencyReport(
        tool_latencies=tuple(
            ToolLatency(
                tool=tool, tool_display_name=name, latency_metrics=_latency_metrics(durations)
            )
            for (name, tool), durations in tools.items()
        ),
        llm_call_latencies=tuple(
            LlmCallLatency(model=model, latency_metrics=_latency_metrics(durations))
            for (model,), durations in models.items()
        ),
        session_count=len(sessions),
    )


def _grouped(
    durations: Iterable[tuple[tuple[str, ...], str | None]],
) -> dict[tuple[str, ...], list[float]]:
    """The known durations in seconds by the names of what took them."""
    pairs = ((key, float(duration.removesuffix("s"))) for key, duration in durations if duration)
    return dict(sorted(grouped(pairs).items()))


def _latency_metrics(seconds: Sequence[float]) -> LatencyMetrics:
    """By nearest rank."""
    ordered = sorted(seconds)
    p50, p90, p99 = (
        _seconds_text(ordered[-(-share * len(ordered) // 100) - 1]) for share in (50, 90, 99)
    )
    return LatencyMetrics(
        p50_latency=p50, p90_latency=p90, p99_latency=p99, call_count=len(ordered)
    )


# --- metrics by version ---------------------------------------------------------------------------


def version_metrics(by_version: Mapping[str, Sequence[EvaluationResult]]) -> AggregatedMetrics:
    """The metrics of one evaluation's or one dataset's results, by version of the app."""
    metrics = tuple(_metrics(version, results) for version, results in by_version.items())
    return AggregatedMetrics(metrics_by_app_version=metrics)


def _metrics(version: str, results: Sequence[EvaluationResult]) -> MetricsByAppVersion:
    counts = _counts(results)
    parts = _parts_of(results)
    turns = [part for part in parts if isinstance(part, TurnReplayResult)]
    ratings = [turn.hallucination_result for turn in turns]
    for part in parts:
        ratings += part.hallucination_result if isinstance(part, ScenarioResult) else ()
    claims = [rating.score for rating in ratings if rating and rating.score in (0, 1)]
    similarities = [
        outcome.semantic_similarity_result.score
        for turn in turns
        for outcome in turn.expectation_outcome
        if outcome.semantic_similarity_result
        and outcome.semantic_similarity_result.score is not None
    ]
    by_tool = _grouped(
        ((latency.tool,), latency.execution_latency)
        for part in parts
        for latency in part.tool_call_latencies
    )
    durations = [float(turn.turn_latency.removesuffix("s")) for turn in turns if turn.turn_latency]
    return MetricsByAppVersion(
        app_version_id=version,
        pass_count=counts["passed_count"],
        fail_count=counts["failed_count"],
        tool_metrics=tuple(_tool_metrics(turns)),
        semantic_similarity_metrics=tuple(
            SemanticSimilarityMetrics(score=mean) for mean in _mean(similarities)
        ),
        hallucination_metrics=tuple(HallucinationMetrics(score=mean) for mean in _mean(claims)),
        tool_call_latency_metrics=tuple(
            ToolCallLatencyMetrics(tool=tool, average_latency=_seconds_text(mean))
            for (tool,), seconds in by_tool.items()
            for mean in _mean(seconds)
        ),
        turn_latency_metrics=tuple(
            TurnLatencyMetrics(average_latency=_seconds_text(mean)) for mean in _mean(durations)
        ),
    )


def _mean(values: Sequence[float]) -> list[float]:
    """The mean; empty without values."""
    return [statistics.fmean(values)] if values else []


def _tool_metrics(turns: Iterable[TurnReplayResult]) -> Iterator[ToolMetrics]:
    by_tool = grouped(
        (_tool_of(expected.tool_call), result.outcome)
        for turn in turns
        for outcome in turn.expectation_outcome
        if (expected := outcome.expectation) and expected.tool_call
        if (result := outcome.tool_invocation_result)
    )
    for tool, outcomes_of_tool in sorted(by_tool.items()):
        passed, failed = map(outcomes_of_tool.count, (Outcome.PASS, Outcome.FAIL))
        if passed or failed:
            yield ToolMetrics(tool=tool, pass_count=passed, fail_count=failed)


def _tool_of(call: ToolCall) -> str:
    toolset = call.toolset_tool
    return call.tool or (f"{toolset.toolset}/tools/{toolset.tool_id}" if toolset else "")


# --- the file ---


def render(report: Report) -> str:
    """The file; "" if no CES evaluation ran. It has the runs of both sides with all results, and
    the metrics of each evaluation by version."""
    if all(case.ces is None for case in cases_of(report.run.suites).values()):
        return ""
    document: JsonObject = {"evaluationRuns": [], "evaluationResults": [], "aggregatedMetrics": {}}
    pairs: list[tuple[str, tuple[str, EvaluationResult]]] = []
    for side, run in (("base", report.compared.base), ("head", report.run)):
        if run is None:
            continue
        results = [measure(run, side, *parts) for parts in trials_of(run)]
        by_app = grouped((plan.app, (plan, result)) for plan, result in results)
        for app, results_of_app in by_app.items():
            evaluation_run = run_of(results_of_app, _run_of_app(run, side, app))
            document["evaluationRuns"].append(evaluation_run.json())
            for _, result in results_of_app:
                document["evaluationResults"].append(result.json())
                pairs.append((evaluation_of(result), (_version(run, side), result)))
    document["aggregatedMetrics"] = {
        name: version_metrics(grouped(by_version)).json()
        for name, by_version in grouped(pairs).items()
    }
    return json_text(document, indent=1)


def _run_of_app(run: Run, side: str, app: str) -> EvaluationRun:
    """The name, the time and the version of a run of an app."""
    created = run.started_at.replace("+00:00", "Z")
    run_id = f"run-{re.sub(r'[^0-9]', '', created)[:14]}-{side}"
    return EvaluationRun(
        name=f"{app}/evaluationRuns/{run_id}",
        create_time=created,
        app_version=f"{app}/versions/{_version(run, side)}",
        app_version_display_name=run.commit,
    )


def trials_of(run: Run) -> Iterator[tuple[Case, GradedTrial, Transcript | None]]:
    """The trials of CES evaluations, without reruns."""
    cases_by_key = cases_of(run.suites)
    for trial in run.trials:
        case = cases_by_key.get(trial.key.case)
        if case is not None and case.ces is not None and trial.key.is_first:  # reruns only confirm
            yield case, trial, run.transcripts(trial.key)


def _version(run: Run, side: str) -> str:
    """The name of a version: the commit, with a mark if files differed from it, or the side if the
    commit is unknown."""
    return f"git-{run.commit[:12]}{'-changed' if run.dirty else ''}" if run.commit else side


def measure(
    run: Run, side: str, case: Case, trial: GradedTrial, transcript: Transcript | None
) -> tuple[Plan, EvaluationResult]:
    """The evaluation of a trial, and its result by turn and expectation."""
    plan = Plan.model_validate(case.ces)
    batch = _run_of_app(run, side, plan.app)
    number = trial.key.number + 1
    if trial.failure is not None or transcript is None:
        failure = trial.failure or FailureKind.PROTOCOL.failure("the conversation was not kept")
        error_type = outcomes.ERRORS.get(failure.kind, ErrorType.RUNTIME_FAILURE)
        error = EvaluationErrorInfo(error_type=error_type, error_message=failure.message)
        return plan, result_of(plan, batch, number=number, error=error)
    evidence = TrialView.of(case, transcript, repeat=trial.key.repeat)
    status: Outcome | None = None
    fields = JsonObject()
    with suppress(patterns.SearchFailed):  # as for the grades, which say so
        content = criteria.result_of(plan, evidence, criteria.stored_verdicts(trial.grades))
        status = outcomes.status(outcomes.checks(plan, content))
        fields = timed(content, transcript.invocations, plan.app)
    deciding_names = (case.criteria or frozenset()) - {outcomes.RUBRICS, outcomes.PLATFORM}
    grades = only(trial.grades, deciding_names).values()
    lacking = [str(grade.message) for grade in grades if isinstance(grade, NotEvaluated)]
    if lacking and status is not Outcome.SKIPPED:  # a skipped evaluation lacks nothing
        status = None
    method = GoldenRunMethod(0)
    if plan.turns:  # a single turn has no turn before it
        is_stable = transcript.isolated or len(plan.turns) == 1
        method = GoldenRunMethod.STABLE if is_stable else GoldenRunMethod.NAIVE
    error = EvaluationErrorInfo(
        error_type=ErrorType.METRIC_CALCULATION_FAILURE,
        error_message="; ".join(lacking) or "an outcome is unknown",
    )
    return plan, result_of(
        plan,
        batch,
        number=number,
        status=status,
        error=None if status else error,
        golden_run_method=method,
        **fields,
    )


# --- evalgate's outcomes beside the platform's ---------------------------------------------------

MOST = 50
"""The most differences in the list."""
_EVALUATION = "evaluations"
_ROWS = {
    outcomes.EXPECTATIONS: "calls, transfers, variables, literal answers",
    outcomes.SIMILARITY: "answers by meaning",
    outcomes.HALLUCINATION: "claims of a turn",
    outcomes.NAMED: "evaluation expectations",
    outcomes.GOAL: "goals of users",
}
_AGREE = ("both pass", "both fail")
_DIFFER = ("only CES passes", "only evalgate passes")
_OPEN = "undecided"
_COLUMNS = {
    (Outcome.PASS, Outcome.PASS): _AGREE[0],
    (Outcome.FAIL, Outcome.FAIL): _AGREE[1],
    (Outcome.PASS, Outcome.FAIL): _DIFFER[0],
    (Outcome.FAIL, Outcome.PASS): _DIFFER[1],
}


@frozen_dataclass
class OutcomePair:
    """The outcomes of the platform and of evalgate for one check. `row`, `column`: in the table;
    `where`: the trial, turn and subject; `reasons`: in the order of the sides."""

    row: str
    where: str
    column: str
    reasons: tuple[str, str] = ("", "")


def pairs(run: Run, side: str) -> Iterator[OutcomePair]:
    """The outcomes of one side, without evaluations that the platform did not finish."""
    for case, trial, transcript in trials_of(run):
        if transcript is None or transcript.platform is None:
            continue
        plan, own_result = measure(run, side, case, trial, transcript)
        result = EvaluationResult.model_validate(transcript.platform)
        statuses = (result.evaluation_status, own_result.evaluation_status)
        yield OutcomePair(
            row=_EVALUATION, where=str(trial.key), column=_COLUMNS.get(statuses, _OPEN)
        )
        own_checks = _by_subject(plan, own_result) if transcript.invocations else {}
        # no search of a pattern fails that did not fail in `measure`
        for key, check in _by_subject(plan, result).items() if own_checks else ():
            if own_check := own_checks.get(key):
                yield OutcomePair(
                    row=_ROWS[check.criterion],
                    where=f"{trial.key}, turn {check.turn or 'any'}: {check.subject}",
                    column=_COLUMNS.get((check.outcome, own_check.outcome), _OPEN),
                    reasons=(check.explanation, own_check.explanation),
                )


def _by_subject(
    plan: Plan, result: EvaluationResult
) -> dict[tuple[str, int | None, str, int], Check]:
    """The checks of a result by their subject; equal subjects get a number."""
    content = result.golden_result or result.scenario_result or GoldenResult()
    by_subject = grouped(
        ((check.criterion, check.turn, str(check.subject)), check)
        for check in outcomes.checks(plan, content)
    )
    return {
        (*subject, number): check
        for subject, checks in by_subject.items()
        for number, check in enumerate(checks)
    }


def render_agreement(report: Report) -> str:
    """The table of outcomes and the list of differences; "" if the platform judged nothing."""
    sides = (("head", report.run), ("base", report.compared.base))
    all_pairs = [(side, pair) for side, run in sides if run for pair in pairs(run, side)]
    if not all_pairs:
        return ""
    columns = (*_AGREE, *_DIFFER, _OPEN)
    lines = ["", f"| CES and evalgate | {' | '.join(columns)} | agree |", "| --- |" + " ---: |" * 6]
    for row in (_EVALUATION, *_ROWS.values()):
        counts = Counter(pair.column for _, pair in all_pairs if pair.row == row)
        if counts:
            cells = [str(counts[column]) for column in columns]
            agreeing = sum(counts[column] for column in _AGREE)
            decided_count = counts.total() - counts[_OPEN]
            share = f"{agreeing / decided_count:.0%}" if decided_count else ""
            lines.append(f"| {' | '.join((row, *cells, share))} |")
    differing = [(side, pair) for side, pair in all_pairs if pair.column in _DIFFER]
    lines.append("")
    for side, pair in differing[:MOST]:
        reasons = [
            f"{who}: {plain.clip(plain.one_line(reason), 200)}"
            for who, reason in zip(("CES", "evalgate"), pair.reasons, strict=True)
            if reason
        ]
        where = markdown.code(plain.clip(plain.one_line(pair.where), 200))
        lines.append(f"- {side} {where}: {markdown.prose('. '.join([pair.column, *reasons]))}")
    if len(differing) > MOST:
        lines.append(f"- and {len(differing) - MOST} more")
    return "\n".join(lines).rstrip() + "\n"
