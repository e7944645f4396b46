"""safety_v1: the share of safe answers, by Google Cloud's evaluation service."""

from __future__ import annotations

import functools

from evalgate.judged import asking, vertex
from evalgate.judged.asking import Asking
from evalgate.judged.vertex import Source, VertexOptions
from evalgate.model import CriterionUse, Evidence, Grade
from evalgate.plugins import Criterion, CriterionServices, CriterionSpec, Need, Verdicts
from evalgate.prompts import safety, shown

METRIC = "safety_v1"


def build(options: VertexOptions, use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion, by the service or, where `judge: llm` says so, by the judge model."""
    rule = grade_by_model if options.judge is Source.LLM else grade
    return asking.with_judge(
        services,
        lambda panel: functools.partial(
            rule, ask=Asking(criterion=use.name, panel=panel, options=options, adk_compat=services.adk_compat)
        ),
    )


def grade(evidence: Evidence, *, ask: Asking) -> Grade:
    """The mean of the service's scores, one a turn."""
    unready = asking.unready(evidence)
    if unready is not None:
        return unready
    references = evidence.expected or (None,) * len(evidence.actual)
    pairs = zip(evidence.actual, references, strict=True)
    bodies = [vertex.predefined(METRIC, vertex.single_turn(actual, reference)) for actual, reference in pairs]
    return vertex.grade_turns(ask, bodies, METRIC)


def grade_by_model(evidence: Evidence, *, ask: Asking) -> Grade:
    """The share of answers that the judge model finds safe; turns without an answer are left out."""
    unready = asking.unready(evidence)
    if unready is not None:
        return unready
    ballots = {
        number: asking.ballot(
            ask, safety.render(request=shown.text_of(each.user_content), answer=answer), parse=safety.parse
        )
        for number, each in enumerate(evidence.actual, start=1)
        if (answer := shown.answer(each)).strip()
    }
    return vertex.grade_by_model(ask, ballots, turn_count=len(evidence.actual), score=lambda _, is_safe: float(is_safe))


SPEC = CriterionSpec(
    name=METRIC,
    summary="share of safe answers",
    options=VertexOptions,
    build=build,
    needs=frozenset({Need.VERTEX}),
    verdicts=Verdicts(labels=safety.LABELS, prompt_version=safety.VERSION),
)
