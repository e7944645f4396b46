"""response_evaluation_score: how coherent the answers are, from 1 to 5, by Google Cloud's evaluation service."""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Sequence

from evalgate import turns
from evalgate.judged import asking, vertex
from evalgate.judged.asking import Asking
from evalgate.judged.vertex import Source, VertexOptions
from evalgate.model import CriterionUse, Evidence, Grade, NotEvaluated
from evalgate.plugins import Criterion, CriterionServices, CriterionSpec, Need, Sample
from evalgate.prompts import coherence, shown

METRIC = "coherence"


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
    """The mean of the service's scores, one a turn. A reference has to be there, as in ADK; it is not compared with."""
    pairs = turns.pair(evidence)
    if isinstance(pairs, NotEvaluated):
        return pairs
    bodies = [
        {"coherenceInput": {"metricSpec": {}, "instance": {"prediction": shown.answer(actual, with_thoughts=True)}}}
        for actual, _ in pairs
    ]
    return vertex.grade_turns(ask, bodies, METRIC)


def grade_by_model(evidence: Evidence, *, ask: Asking) -> Grade:
    """The mean over turns of the median of the samples' grades; turns without an answer are left out."""
    pairs = turns.pair(evidence)
    if isinstance(pairs, NotEvaluated):
        return pairs
    ballots = {}
    for number, (actual, _) in enumerate(pairs, start=1):
        answer = shown.answer(actual)
        if answer.strip():
            question = coherence.render(request=shown.text_of(actual.user_content), answer=answer)
            one = asking.ballot(ask, question, parse=coherence.parse)
            ballots[number] = dataclasses.replace(one, exhaustive=True)  # a median knows no early stop
    return vertex.grade_by_model(ask, ballots, turn_count=len(pairs), score=lambda samples, _: _median(samples))


def _median(samples: Sequence[Sample]) -> float:
    grades = [vote.label for sample in samples if (vote := sample.votes.get("")) and vote.passed]
    return float(statistics.median(int(grade) for grade in grades))


SPEC = CriterionSpec(
    name="response_evaluation_score",
    summary="coherence of the answers, 1 to 5",
    options=VertexOptions,
    build=build,
    lowest=1.0,
    highest=5.0,
    needs=frozenset({Need.VERTEX, Need.REFERENCE}),
)
