"""conversation_ended: whether the simulated user came to its end, or the turn limit cut the conversation."""

from __future__ import annotations

from evalgate import words
from evalgate.model import CriterionUse, Ending, Evidence, Finding, Grade, NotEvaluated, Reason, Score
from evalgate.plugins import Criterion, CriterionServices, CriterionSpec
from evalgate.wire.shapes import Wire


class EndedOptions(Wire):
    """It has none."""


def build(options: EndedOptions, use: CriterionUse, services: CriterionServices) -> Criterion:  # noqa: ARG001 - the shape of a row
    """The criterion."""
    return grade


def grade(evidence: Evidence) -> Grade:
    """1.0 where the user ended the conversation, or its turns were written down; 0.0 where it was cut."""
    if evidence.case.scenario is None:
        return Score(value=1.0)
    match evidence.ended_by:
        case Ending.STOP_SIGNAL:
            return Score(value=1.0)
        case Ending.TURN_LIMIT:
            turns = words.counted(len(evidence.actual), "turn")
            text = f"the conversation reached the limit of {turns} before the user ended it"
            return Score(value=0.0, findings=(Finding(text=text, label=Ending.TURN_LIMIT.value, score=0.0),))
        case None:
            return NotEvaluated(reason=Reason.NOTHING_RECORDED, message="how the conversation ended was not recorded")


SPEC = CriterionSpec(
    name="conversation_ended",
    summary="whether the simulated user ended the conversation before the turn limit did",
    options=EndedOptions,
    build=build,
    ours=True,
)
