"""A custom metric of the repository (ADK's `custom_metrics`), run in the agent's environment."""

from __future__ import annotations

from functools import partial

from pydantic import BaseModel, ConfigDict

from evalgate.agents.base import MetricRunner
from evalgate.formats import FORMATS, Dialect
from evalgate.model import (
    CriterionUse,
    Grade,
    NotEvaluated,
    Reason,
    Scale,
    TrialView,
    not_evaluated,
)
from evalgate.values import Sentence, Wording
from .base import CriterionSpec


class MetricOptions(BaseModel):
    """The criterion's entry as written: the metric reads it."""

    model_config = ConfigDict(extra="allow", frozen=True)


def grade(view: TrialView, *, use: CriterionUse, run_metric: MetricRunner | None) -> Grade:
    """The score of the function at `use.code`, if it is a number, has scores for all turns or for
    none, and agrees with the threshold. A metric that passes a score below the threshold has
    another direction of better. If the driver runs no metrics, there is no score."""
    if run_metric is None:
        return not_evaluated(Reason.NOT_APPLICABLE, "no_metric_runner")
    dataset = FORMATS[Dialect.AGENTS_CLI]
    if use.options.get("takes") == "instance" and "response" not in dataset.instance(view):
        calls = [call.name for turn in view.actual for call in turn.tool_calls]
        return not_evaluated(Reason.NOTHING_RECORDED, "no_instance_answer", *calls[-1:])
    code = use.code or ""
    score = run_metric(code, use, view)
    if isinstance(score, NotEvaluated):
        return score
    count = len(view.actual)
    threshold = use.threshold
    problem: Wording = ""
    if not score.is_number:
        problem = Sentence("score_invalid", code, score.value)
    elif score.turns and len(score.turns) != count:
        problem = Sentence("metric_turns", code, len(score.turns), count)
    elif score.passed is not None and threshold is not None:
        is_met = score.value <= threshold if use.lower_is_better else score.value >= threshold
        if score.passed != is_met:
            problem = Sentence("metric_direction", code, score, threshold)
    return NotEvaluated(reason=Reason.CRITERION_FAILED, message=problem) if problem else score


SPEC = CriterionSpec(
    name="custom_metric",
    summary="a custom metric of the repository",
    options=MetricOptions,
    build=lambda _options, use, services: partial(grade, use=use, run_metric=services.run_metric),
    scale=Scale(lowest=None, highest=None),
)
