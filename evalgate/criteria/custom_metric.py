"""A custom metric of the repository (ADK's `custom_metrics`), run in the agent's environment."""

from __future__ import annotations

from functools import partial

from pydantic import BaseModel, ConfigDict

from evalgate.agents.base import MetricRunner
from evalgate.formats import agents_cli
from evalgate.model import (
    CriterionUse,
    Grade,
    NotEvaluated,
    Reason,
    Scale,
    Score,
    TrialView,
    not_evaluated,
)
from evalgate.values import Sentence, Wording
from .base import Criterion, CriterionServices, CriterionSpec


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
        return not_evaluated(Reason.NOT_APPLICABLE, "no_metric_runner")
    if use.options.get("takes") == "instance" and not agents_cli.has_response(view):
        return not_evaluated(Reason.NOTHING_RECORDED, "no_instance_answer")
    metric_grade = run_metric(code, use, view)
    if isinstance(metric_grade, NotEvaluated):
        return metric_grade
    problem = _problem(metric_grade, use, code=code, turns=len(view.actual))
    return (
        NotEvaluated(reason=Reason.CRITERION_FAILED, message=problem) if problem else metric_grade
    )


def _problem(score: Score, use: CriterionUse, *, code: str, turns: int) -> Wording:
    if not score.is_number:
        return Sentence("score_invalid", code, score.value)
    if score.turns and len(score.turns) != turns:
        return Sentence("metric_turns", code, len(score.turns), turns)
    if score.passed is None or use.threshold is None:
        return ""
    is_met = score.value <= use.threshold if use.lower_is_better else score.value >= use.threshold
    return (
        "" if score.passed == is_met else Sentence("metric_direction", code, score, use.threshold)
    )


SPEC = CriterionSpec(
    name="custom_metric",
    summary="a custom metric of the repository",
    options=MetricOptions,
    build=build,
    scale=Scale(lowest=None, highest=None),
)
