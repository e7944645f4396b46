"""rubric_based_multi_turn_trajectory_quality_v1: which properties a whole conversation has, by rubrics."""

from __future__ import annotations

import functools

from evalgate.judged import asking, pieces, rubrics
from evalgate.judged.asking import Asking
from evalgate.judged.options import RubricOptions
from evalgate.judged.rubrics import Judging, RubricsClash
from evalgate.model import CriterionUse, Evidence, Grade
from evalgate.plugins import Criterion, CriterionServices, CriterionSpec, Need, Panel, Verdicts
from evalgate.prompts import rubrics as prompt
from evalgate.prompts.rubrics import Subject

RUBRIC_TYPE = "TRAJECTORY_QUALITY"


def build(options: RubricOptions, use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion: ADK's own arithmetic under `adk_compat`."""

    def make(panel: Panel) -> Criterion:
        ask = Asking(criterion=use.name, panel=panel, options=options, adk_compat=services.adk_compat)
        return functools.partial(grade_as_adk if services.adk_compat else grade, options=options, ask=ask)

    return asking.with_judge(services, make)


def grade(evidence: Evidence, *, options: RubricOptions, ask: Asking) -> Grade:
    """The share of rubrics, those of every turn, that the conversation meets; asked once, at its end."""
    unready = asking.unready(evidence)
    if unready is not None:
        return unready
    own = [rubric.noun() for rubric in options.rubrics]
    try:
        given = rubrics.of_conversation(RUBRIC_TYPE, own, evidence)
    except RubricsClash as clash:
        return rubrics.lack_of(clash)
    judging = _judging(evidence, options, ask)
    return rubrics.grade_whole(evidence.actual[-1], given, judging, turns_before=len(evidence.actual) - 1)


def grade_as_adk(evidence: Evidence, *, options: RubricOptions, ask: Asking) -> Grade:
    """ADK's rule: only the last turn's rubrics count."""
    unready = asking.unready(evidence)
    if unready is not None:
        return unready
    return rubrics.grade_turns_as_adk(evidence, _judging(evidence, options, ask), [len(evidence.actual) - 1])


def _judging(evidence: Evidence, options: RubricOptions, ask: Asking) -> Judging:
    as_adk = ask.adk_compat
    shown = pieces.of_conversation(evidence.actual, with_thoughts=as_adk)
    return Judging(
        rubric_type=RUBRIC_TYPE,
        render=lambda _, given: prompt.render(Subject.CONVERSATION, shown, given, as_adk=as_adk),
        ask=ask,
        options=options,
    )


SPEC = CriterionSpec(
    name="rubric_based_multi_turn_trajectory_quality_v1",
    summary="share of rubrics met by the whole conversation, as rated by a judge",
    options=RubricOptions,
    build=build,
    needs=frozenset({Need.JUDGE, Need.RUBRICS}),
    verdicts=Verdicts(labels=prompt.LABELS, prompt_version=prompt.VERSION, unit="rubric", whole=True),
)
