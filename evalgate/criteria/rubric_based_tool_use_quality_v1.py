"""rubric_based_tool_use_quality_v1: which properties the use of tools has, by rubrics."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from evalgate.judged import asking, pieces, rubrics
from evalgate.judged.asking import Asking
from evalgate.judged.options import RubricOptions
from evalgate.judged.rubrics import Judging
from evalgate.model import CriterionUse, Evidence, Grade, Invocation, NotEvaluated, Reason, Rubric
from evalgate.plugins import Criterion, CriterionServices, CriterionSpec, Need, Panel, Verdicts
from evalgate.prompts import rubrics as prompt
from evalgate.prompts.question import Question
from evalgate.prompts.rubrics import Subject

RUBRIC_TYPE = "TOOL_USE_QUALITY"


def build(options: RubricOptions, use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion: ADK's own arithmetic under `adk_compat`."""

    def make(panel: Panel) -> Criterion:
        ask = Asking(criterion=use.name, panel=panel, options=options, adk_compat=services.adk_compat)
        render = functools.partial(_render, as_adk=services.adk_compat)
        judging = Judging(rubric_type=RUBRIC_TYPE, render=render, ask=ask, options=options)
        return functools.partial(grade_as_adk if services.adk_compat else grade, judging=judging)

    return asking.with_judge(services, make)


def grade(evidence: Evidence, *, judging: Judging) -> Grade:
    """The share of verdicts that are yes, over all turns and rubrics; unknown where no steps were recorded."""
    unready = asking.unready(evidence)
    if unready is not None:
        return unready
    blind = next((number for number, each in enumerate(evidence.actual, start=1) if each.events is None), None)
    if blind is not None:
        message = f"no steps were recorded in turn {blind}, so its tool use is unknown"
        return NotEvaluated(reason=Reason.NOTHING_RECORDED, message=message)
    return rubrics.grade_turns(evidence, judging)


def grade_as_adk(evidence: Evidence, *, judging: Judging) -> Grade:
    """ADK's rule."""
    turns = range(len(evidence.actual))
    return asking.unready(evidence) or rubrics.grade_turns_as_adk(evidence, judging, turns)


def _render(invocation: Invocation, given: Sequence[Rubric], *, as_adk: bool) -> Question:
    return prompt.render(Subject.TOOL_USE, pieces.of_tool_use(invocation), given, as_adk=as_adk)


SPEC = CriterionSpec(
    name="rubric_based_tool_use_quality_v1",
    summary="share of rubrics met by the tool use, as rated by a judge",
    options=RubricOptions,
    build=build,
    needs=frozenset({Need.JUDGE, Need.RUBRICS}),
    verdicts=Verdicts(labels=prompt.LABELS, prompt_version=prompt.VERSION, unit="rubric"),
)
