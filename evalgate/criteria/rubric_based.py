"""Criteria that judge by rubrics: properties of the final answers, of the tool use, or of the
conversation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from evalgate.judges.prompting import Pieces
from evalgate.model import (
    Grade,
    Invocation,
    Need,
    NotEvaluated,
    Reason,
    Rubric,
    TrialView,
    not_evaluated,
)
from . import judged, rubrics
from .base import CriterionSpec, Verdicts
from .judged import Inquiry, RubricOptions
from .rubrics import Subject

RUBRIC_TYPES = {
    Subject.FINAL_RESPONSE: "FINAL_RESPONSE_QUALITY",
    Subject.TOOL_USE: "TOOL_USE_QUALITY",
    Subject.CONVERSATION: "TRAJECTORY_QUALITY",
}


def grade(view: TrialView, *, subject: Subject, ask: Inquiry) -> Grade:
    """The share of yes verdicts over all turns and rubrics; unknown if any verdict is unknown. Tool
    use is unknown if no steps were recorded, except in ADK.

    ADK evaluates nothing if a turn has no rubric, and counts only the verdicts on the last turn's
    rubrics."""
    if subject is Subject.TOOL_USE and ask.deviations.steps_unrecorded:
        for number, turn in enumerate(view.actual, start=1):
            if turn.events is None:
                return not_evaluated(Reason.NOTHING_RECORDED, "tool_use_unrecorded", number)
    rubrics_of_turns = [
        _rubrics_of(view, [index], subject, ask, is_loose=ask.deviations.loose_rubrics)
        for index in range(len(view.actual))
    ]
    no_rubric_grade = rubrics.no_rubrics(RUBRIC_TYPES[subject])
    if not (ask.deviations.turn_without_rubrics or all(rubrics_of_turns)):
        return no_rubric_grade
    last_ids = {rubric.rubric_id for rubric in rubrics_of_turns[-1]}
    subjects = [
        {
            rubric.rubric_id: rubric.text
            for rubric in turn_rubrics
            if ask.deviations.own_rubrics or rubric.rubric_id in last_ids
        }
        for turn_rubrics in rubrics_of_turns
    ]
    plans = [
        rubrics.ask_rubrics(subject, _pieces(turn, subject, ask), turn_rubrics)
        if turn_rubrics
        else judged.without_score("turn_without_rubric", number)
        for number, (turn, turn_rubrics) in enumerate(
            zip(view.actual, rubrics_of_turns, strict=True), start=1
        )
    ]
    judged_turns = ask.judged(plans, subjects=subjects)
    return judged.conclude(judged_turns, nothing=no_rubric_grade, deviations=ask.deviations)


def grade_conversation(view: TrialView, *, ask: Inquiry) -> Grade:
    """The share of rubrics that the conversation meets, asked once at its end. The rubrics are
    those of every turn (in ADK of the last turn)."""
    subject = Subject.CONVERSATION
    conversation_rubrics = _rubrics_of(
        view, range(len(view.actual)), subject, ask, is_loose=ask.deviations.own_rubrics
    )
    return rubrics.grade_conversation(
        view.actual, conversation_rubrics, rubric_type=RUBRIC_TYPES[subject], ask=ask
    )


def _pieces(turn: Invocation, subject: Subject, ask: Inquiry) -> Pieces:
    if subject is Subject.TOOL_USE:
        return rubrics.tool_use_pieces(turn)
    assert isinstance(ask.options, RubricOptions)
    intermediate = ask.options.include_intermediate_responses_in_final
    return rubrics.answer_pieces(turn, intermediate=intermediate)


class RubricsDiffer(Exception):  # noqa: N818 - named after the problem
    """Two different rubrics have the same id."""


def _rubrics_of(
    view: TrialView, indexes: Sequence[int], subject: Subject, ask: Inquiry, *, is_loose: bool
) -> tuple[Rubric, ...]:
    """The rubrics of the criterion, then those of the case and of these turns that have this type
    or no type. A repeated rubric counts once. Raises RubricsDiffer.

    Not `is_loose`, as in google-adk: those of the last of these turns; rubrics without a type are
    dropped, and a repeated id is an error."""
    assert isinstance(ask.options, RubricOptions)
    criterion_rubrics = [rubric.to_model() for rubric in ask.options.rubrics]
    rubric_type = RUBRIC_TYPES[subject]
    if not is_loose:
        case_rubrics = _of_case(view, indexes[-1])
        turn_rubrics = view.actual[indexes[-1]].rubrics
        all_rubrics = [
            *(rubric for rubric in turn_rubrics if rubric not in case_rubrics),
            *case_rubrics,
        ]
        typed_rubrics = [rubric for rubric in all_rubrics if rubric.type == rubric_type]
        for group in (all_rubrics, [*criterion_rubrics, *typed_rubrics]):
            ids = [rubric.rubric_id for rubric in group]
            repeated_id = next((rubric_id for rubric_id in ids if ids.count(rubric_id) > 1), None)
            if repeated_id is not None:
                raise RubricsDiffer(f"the rubric id `{repeated_id}` is given twice")
        return (*criterion_rubrics, *typed_rubrics)
    written_rubrics = [
        rubric
        for index in indexes
        for rubric in (*_of_case(view, index), *view.actual[index].rubrics)
        if not rubric.type or re.sub("[- ]", "_", rubric.type.strip().upper()) == rubric_type
    ]
    rubrics_by_id: dict[str, Rubric] = {}
    for rubric in (*criterion_rubrics, *written_rubrics):
        earlier_rubric = rubrics_by_id.setdefault(rubric.rubric_id, rubric)
        if earlier_rubric.text != rubric.text:
            raise RubricsDiffer(f"two rubrics have the id `{rubric.rubric_id}`: rename one of them")
    return tuple(rubrics_by_id.values())


def _of_case(view: TrialView, index: int) -> tuple[Rubric, ...]:
    turn_rubrics = view.expected[index].rubrics if view.expected else ()
    return (*view.case.rubrics, *turn_rubrics)


def grade_or_refuse(view: TrialView, *, subject: Subject, ask: Inquiry) -> Grade:
    """The grade by the subject's rubrics; not evaluated if two of them have one id."""
    try:
        if subject is Subject.CONVERSATION:
            return grade_conversation(view, ask=ask)
        return grade(view, subject=subject, ask=ask)
    except RubricsDiffer as error:
        return NotEvaluated(reason=Reason.CRITERION_FAILED, message=str(error))


SPECS = tuple(
    CriterionSpec(
        name=name,
        summary=f"share of rubrics met by {part}, as rated by a judge",
        options=RubricOptions,
        build=partial(judged.with_judge, rule=partial(grade_or_refuse, subject=subject)),
        needs=frozenset({Need.JUDGE, Need.RUBRICS}),
        verdicts=Verdicts(
            labels=rubrics.LABELS,
            prompt_version=rubrics.VERSION,
            unit="rubric",
            is_of_conversation=subject is Subject.CONVERSATION,
        ),
    )
    for name, subject, part in (
        ("rubric_based_final_response_quality_v1", Subject.FINAL_RESPONSE, "the final answers"),
        ("rubric_based_tool_use_quality_v1", Subject.TOOL_USE, "the tool use"),
        (
            "rubric_based_multi_turn_trajectory_quality_v1",
            Subject.CONVERSATION,
            "the whole conversation",
        ),
    )
)
