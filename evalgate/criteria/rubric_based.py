"""Criteria that judge by rubrics: properties of the final answers, of the tool use, or of the
conversation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from evalgate.criteria import judged, rubrics
from evalgate.criteria.base import CriterionSpec, Verdicts
from evalgate.criteria.judged import Inquiry, RubricOptions
from evalgate.criteria.rubrics import RubricsDiffer, Subject
from evalgate.judges.prompting import Question
from evalgate.model import (
    Grade,
    Invocation,
    Need,
    Reason,
    Rubric,
    TrialView,
    not_evaluated,
)

RUBRIC_TYPES = {
    Subject.FINAL_RESPONSE: "FINAL_RESPONSE_QUALITY",
    Subject.TOOL_USE: "TOOL_USE_QUALITY",
    Subject.CONVERSATION: "TRAJECTORY_QUALITY",
}


def grade(view: TrialView, *, subject: Subject, ask: Inquiry) -> Grade:
    """The share of yes verdicts over all turns and rubrics. Tool use is unknown if no steps were
    recorded, except in ADK."""
    options = ask.options
    assert isinstance(options, RubricOptions)
    intermediate = options.include_intermediate_responses_in_final
    unrecorded_turn = next(
        (number for number, turn in enumerate(view.actual, start=1) if turn.events is None), None
    )
    if (
        subject is Subject.TOOL_USE
        and unrecorded_turn is not None
        and ask.deviations.steps_unrecorded
    ):
        return not_evaluated(Reason.NOTHING_RECORDED, "tool_use_unrecorded", unrecorded_turn)

    def render(invocation: Invocation, turn_rubrics: Sequence[Rubric]) -> Question:
        if subject is Subject.TOOL_USE:
            return rubrics.ask_rubrics(subject, rubrics.tool_use_pieces(invocation), turn_rubrics)
        return rubrics.ask_rubrics(
            subject, rubrics.answer_pieces(invocation, intermediate=intermediate), turn_rubrics
        )

    criterion_rubrics = [rubric.to_model() for rubric in options.rubrics]
    return rubrics.grade_turns(
        view, criterion_rubrics, rubric_type=RUBRIC_TYPES[subject], render=render, ask=ask
    )


def grade_conversation(view: TrialView, *, ask: Inquiry) -> Grade:
    """The share of rubrics that the conversation meets, asked once at its end. The rubrics are
    those of every turn (in ADK of the last turn)."""
    assert isinstance(ask.options, RubricOptions)
    criterion_rubrics = [rubric.to_model() for rubric in ask.options.rubrics]
    rubric_type = RUBRIC_TYPES[Subject.CONVERSATION]
    try:
        if ask.deviations.own_rubrics:
            conversation_rubrics = rubrics.rubrics_of_turns(
                rubric_type, criterion_rubrics, view, range(len(view.actual))
            )
        else:
            conversation_rubrics = rubrics.rubrics_of_turn_as_adk(
                rubric_type, criterion_rubrics, view, len(view.actual) - 1
            )
    except RubricsDiffer as error:
        return rubrics.rubrics_differ(error)
    return rubrics.grade_conversation(
        view.actual, conversation_rubrics, rubric_type=rubric_type, ask=ask
    )


def _spec(name: str, subject: Subject, summary: str) -> CriterionSpec:
    is_of_conversation = subject is Subject.CONVERSATION
    rule = grade_conversation if is_of_conversation else partial(grade, subject=subject)
    return CriterionSpec(
        name=name,
        summary=summary,
        options=RubricOptions,
        build=partial(judged.with_judge, rule=rule),
        needs=frozenset({Need.JUDGE, Need.RUBRICS}),
        verdicts=Verdicts(
            labels=rubrics.LABELS,
            prompt_version=rubrics.VERSION,
            unit="rubric",
            is_of_conversation=is_of_conversation,
        ),
    )


SPECS = (
    _spec(
        "rubric_based_final_response_quality_v1",
        Subject.FINAL_RESPONSE,
        "share of rubrics met by the final answers, as rated by a judge",
    ),
    _spec(
        "rubric_based_tool_use_quality_v1",
        Subject.TOOL_USE,
        "share of rubrics met by the tool use, as rated by a judge",
    ),
    _spec(
        "rubric_based_multi_turn_trajectory_quality_v1",
        Subject.CONVERSATION,
        "share of rubrics met by the whole conversation, as rated by a judge",
    ),
)
