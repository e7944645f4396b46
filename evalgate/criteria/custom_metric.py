"""A custom metric of the repository (ADK's `custom_metrics`), run in the agent's environment."""

from __future__ import annotations

from functools import partial

from pydantic import BaseModel, ConfigDict

from evalgate.agents.base import MetricRunner
from evalgate.criteria.base import Criterion, CriterionServices, CriterionSpec
from evalgate.formats import agents_cli
from evalgate.model import CriterionUse, Grade, NotEvaluated, Reason, Scale, Score, TrialView
from evalgate.text import words


class MetricOptions(BaseModel):
    """The criterion's entry as written: the metric reads it."""

    model_config = ConfigDict(extra="allow", frozen=True)


def build(_options: MetricOptions, use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion for the function at `use.code`. Raises nothing; if the driver runs no metrics,
    there is no score."""
    return partial(grade, use=use, code=use.code or "", run_metric=services.run_metric)


def grade(
    view: TrialView, *, use: CriterionUse, code: str, run_metric: MetricRunner | None
) -> Grade:
    """The metric's score, if it is a number, has scores for all turns or for none, and agrees with
    the threshold. A metric that passes a score below the threshold has another direction of
    better."""
    if run_metric is None:
        message = "the agent's driver cannot run custom metrics"
        return NotEvaluated(reason=Reason.NOT_APPLICABLE, message=message)
    if use.options.get("takes") == "instance" and not agents_cli.has_response(view):
        message = "the agent gave no answer; like agents-cli, evalgate does not grade such cases"
        return NotEvaluated(reason=Reason.NOTHING_RECORDED, message=message)
    metric_grade = run_metric(code, use, view)
    if isinstance(metric_grade, NotEvaluated):
        return metric_grade
    problem = _problem(metric_grade, use, turns=len(view.actual))
    return (
        NotEvaluated(reason=Reason.CRITERION_FAILED, message=f"{code} {problem}")
        if problem
        else metric_grade
    )


def _problem(score: Score, use: CriterionUse, *, turns: int) -> str:
    if not score.is_number:
        return f"gave {score.value}, not a valid score"
    if score.turns and len(score.turns) != turns:
        return f"scored {words.counted(len(score.turns), 'turn')} of {turns}"
    if score.passed is None or use.threshold is None:
        return ""
    is_met = score.value <= use.threshold if use.lower_is_better else score.value >= use.threshold
    if score.passed == is_met:
        return ""
    verdict, side = ("passed", "worse") if score.passed else ("failed", "no worse")
    return (
        f"reports that {score.value:g} {verdict}, but it is {side} than the threshold of {use.threshold:g}: "
        "does `lower_is_better` belong in its criterion?"
    )


SPEC = CriterionSpec(
    name="custom_metric",
    summary="a custom metric of the repository",
    options=MetricOptions,
    build=build,
    scale=Scale(lowest=None, highest=None),
)
