"""The file with the results of CES evaluations in the form of the API, beside results.json, for
readers of EvaluationResult."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from evalgate.model import (
    Case,
    FailureKind,
    GradedTrial,
    NotEvaluated,
    Report,
    Run,
    Transcript,
    TrialView,
    cases_of,
)
from evalgate.reports import Renderer
from evalgate.values import JsonObject, grouped
from evalgate.wings.ces import cases, criteria as ces, outcomes, read, results
from evalgate.wings.ces.outcomes import Plan
from evalgate.wings.ces.results import Batch, Measured
from evalgate.wings.ces.shapes import EvaluationResult, EvaluationRun, GoldenRunMethod, Outcome

FILE = "ces-results.json"


def render(report: Report) -> str:
    """The file; "" if no CES evaluation ran. It has the runs of both sides with all results, and
    the metrics of each evaluation by version."""
    if not has_any(report.run):
        return ""
    return json.dumps(of_runs(report.run, report.base), ensure_ascii=False, indent=1) + "\n"


def has_any(run: Run) -> bool:
    """True if CES evaluations ran."""
    return any(case.ces is not None for suite in run.suites for case in suite.eval_set.cases)


def of_runs(head: Run, base: Run | None) -> JsonObject:
    """The runs, results and aggregated metrics, each as protobuf's JSON."""
    document: JsonObject = {"evaluationRuns": [], "evaluationResults": [], "aggregatedMetrics": {}}
    pairs: list[tuple[str, tuple[str, EvaluationResult]]] = []
    for side, run in [*([("base", base)] if base is not None else []), ("head", head)]:
        for evaluation_run, evaluation_results in _of_run(run, side):
            document["evaluationRuns"].append(evaluation_run.json())
            document["evaluationResults"] += [
                evaluation_result.json() for evaluation_result in evaluation_results
            ]
            version = _version(run, side)
            pairs += [
                (results.evaluation_of(result), (version, result)) for result in evaluation_results
            ]
    document["aggregatedMetrics"] = {
        name: results.aggregated(grouped(by_version)).json()
        for name, by_version in grouped(pairs).items()
    }
    return document


def _of_run(run: Run, side: str) -> Iterator[tuple[EvaluationRun, list[EvaluationResult]]]:
    """A run of the API for each app."""
    by_app = grouped((plan.app, measurement) for plan, _, _, measurement in measurements(run))
    for app, measured in by_app.items():
        created = run.started_at.replace("+00:00", "Z")
        batch = Batch(
            app=app,
            run_id=f"run-{re.sub(r'[^0-9]', '', created)[:14]}-{side}",
            created_at=created,
            version=_version(run, side),
            version_title=run.commit,
        )
        yield results.run_of(measured, batch)


def measurements(run: Run) -> Iterator[tuple[Plan, GradedTrial, Transcript | None, Measured]]:
    """Each first trial of a CES evaluation, with its outcomes."""
    cases_by_key = cases_of(run.suites)
    for trial in run.trials:
        case = cases_by_key.get(trial.key.case)
        if case is not None and case.ces is not None and trial.key.is_first:  # reruns only confirm
            plan = Plan.model_validate(case.ces)
            transcript = run.transcripts(trial.key)
            yield plan, trial, transcript, _measured(case, plan, trial, transcript)


def _version(run: Run, side: str) -> str:
    """The name of a version: the commit, with a mark if files differed from it, or the side if the
    commit is unknown."""
    return f"git-{run.commit[:12]}{'-changed' if run.dirty else ''}" if run.commit else side


def _measured(
    case: Case, plan: Plan, trial: GradedTrial, transcript: Transcript | None
) -> Measured:
    """A trial with its outcomes by turn and expectation."""
    evaluation = plan.evaluation
    if not evaluation.name:
        file_name = read.file_name(evaluation.display_name or case.case_id)
        evaluation = evaluation.model_copy(update={"name": f"{plan.app}/evaluations/{file_name}"})
    thresholds = plan.effective_thresholds
    common_fields: JsonObject = {
        "evaluation": evaluation,
        "number": trial.key.number + 1,
        "thresholds": thresholds if thresholds.json() else None,
    }
    if trial.failure is not None or transcript is None:
        lost = FailureKind.PROTOCOL.failure("the conversation was not kept")
        return Measured(**common_fields, failure=trial.failure or lost)
    evidence = TrialView.of(case, transcript, repeat=trial.key.repeat)
    result = ces.result_of(plan, evidence, ces.StoredVerdicts(trial.grades))
    deciding_names = (case.criteria or frozenset()) - {cases.RUBRICS, cases.PLATFORM}
    grades = [grade for name, grade in trial.grades.items() if name in deciding_names]
    lacking = [str(grade.message) for grade in grades if isinstance(grade, NotEvaluated)]
    status = outcomes.status(outcomes.checks(plan, result))
    if lacking and status is not Outcome.SKIPPED:  # a skipped evaluation lacks nothing
        status = None
    if evaluation.golden is not None:  # a single turn has no turn before it
        is_stable = transcript.isolated or len(evaluation.golden.turns) == 1
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
