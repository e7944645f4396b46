"""The multi-turn metrics of Google Cloud's evaluation service, and the properties that a judge model checks instead."""

from __future__ import annotations

import functools
from typing import Final

from evalgate.judged import asking, pieces, rubrics, vertex
from evalgate.judged.asking import Asking
from evalgate.judged.options import RubricOptions
from evalgate.judged.rubrics import Judging
from evalgate.judged.vertex import Source, VertexOptions
from evalgate.model import CriterionUse, Evidence, Grade
from evalgate.plugins import Criterion, CriterionServices, Verdicts
from evalgate.prompts import conversation
from evalgate.prompts import rubrics as prompt
from evalgate.prompts.rubrics import Subject

VERDICTS: Final = Verdicts(
    labels=prompt.LABELS, prompt_version=f"{prompt.VERSION}.{conversation.VERSION}", unit="rubric", whole=True
)
"""What the judge model says of each property; the version counts the question and the properties."""


def build(options: VertexOptions, use: CriterionUse, services: CriterionServices, *, metric: str) -> Criterion:
    """The criterion on whole conversations, by the service or, where `judge: llm` says so, by the judge model."""
    rule = grade_by_model if options.judge is Source.LLM else grade
    return asking.with_judge(
        services,
        lambda panel: functools.partial(
            rule,
            ask=Asking(criterion=use.name, panel=panel, options=options, adk_compat=services.adk_compat),
            metric=metric,
        ),
    )


def grade(evidence: Evidence, *, ask: Asking, metric: str) -> Grade:
    """The service's score of the conversation."""
    unready = asking.unready(evidence)
    if unready is not None:
        return unready
    body = vertex.predefined(metric, vertex.conversation(evidence.actual))
    return vertex.grade_whole(ask, body, metric, turns_before=len(evidence.actual) - 1)


def grade_by_model(evidence: Evidence, *, ask: Asking, metric: str) -> Grade:
    """The share of the metric's properties that the judge model finds in the conversation."""
    unready = asking.unready(evidence)
    if unready is not None:
        return unready
    shown = pieces.of_conversation(evidence.actual)
    judging = Judging(
        rubric_type=metric,
        render=lambda _, given: prompt.render(Subject.CONVERSATION, shown, given),
        ask=ask,
        options=RubricOptions(),
    )
    given = conversation.PROPERTIES[metric]
    grade = rubrics.grade_whole(evidence.actual[-1], given, judging, turns_before=len(evidence.actual) - 1)
    return vertex.labelled(grade, ask)
