"""rubric_based_final_response_quality_v1: which properties the final answers have, by rubrics."""

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

RUBRIC_TYPE = "FINAL_RESPONSE_QUALITY"


def build(options: RubricOptions, use: CriterionUse, services: CriterionServices) -> Criterion:
    """The criterion: ADK's own arithmetic under `adk_compat`."""

    def make(panel: Panel) -> Criterion:
        ask = Asking(criterion=use.name, panel=panel, options=options, adk_compat=services.adk_compat)
        render = functools.partial(_render, options=options, as_adk=services.adk_compat)
        judging = Judging(rubric_type=RUBRIC_TYPE, render=render, ask=ask, options=options)
        return functools.partial(grade_as_adk if services.adk_compat else grade, judging=judging)

    return asking.with_judge(services, make)


def grade(evidence: Evidence, *, judging: Judging) -> Grade:
    """The share of verdicts that are yes, over all turns and rubrics."""
    return asking.unready(evidence) or rubrics.grade_turns(evidence, judging)


def grade_as_adk(evidence: Evidence, *, judging: Judging) -> Grade:
    """ADK's rule; an answer by an agent that the recording does not know is not evaluated there."""
    unready = asking.unready(evidence)
    if unready is not None:
        return unready
    stranger = next((name for each in evidence.actual if (name := _stranger(each)) is not None), None)
    if stranger is not None:
        message = f"the agent `{stranger}` answered, but is not in the recording"
        return NotEvaluated(reason=Reason.NOTHING_RECORDED, message=message)
    return rubrics.grade_turns_as_adk(evidence, judging, range(len(evidence.actual)))


def _render(invocation: Invocation, given: Sequence[Rubric], *, options: RubricOptions, as_adk: bool) -> Question:
    intermediate = options.include_intermediate_responses_in_final
    shown = pieces.of_answer(invocation, intermediate=intermediate, with_thoughts=as_adk)
    return prompt.render(Subject.FINAL_RESPONSE, shown, given, as_adk=as_adk)


def _stranger(invocation: Invocation) -> str | None:
    if not invocation.agents or not invocation.itemized or not invocation.events:
        return None
    author = invocation.events[0].author
    return None if not author or any(agent.name == author for agent in invocation.agents) else author


SPEC = CriterionSpec(
    name="rubric_based_final_response_quality_v1",
    summary="share of rubrics met by the final answers, as rated by a judge",
    options=RubricOptions,
    build=build,
    needs=frozenset({Need.JUDGE, Need.RUBRICS}),
    verdicts=Verdicts(labels=prompt.LABELS, prompt_version=prompt.VERSION, unit="rubric"),
)
