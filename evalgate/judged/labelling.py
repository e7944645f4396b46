"""What a person's label is about: the evidence as a criterion is given it, and the verdict in the grade it gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from evalgate.model import CriterionUse, Evidence, Finding, Grade, Invocation, Json, NotEvaluated, Rubric
from evalgate.plugins import Verdicts
from evalgate.prompts import conversation, shown
from evalgate.wire.invocations import RubricWire


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a grade says of one thing: yes, no, or None with the reason in `text`; `word` is the judge's label."""

    passed: bool | None
    word: str = ""
    text: str = ""


def rubrics_of(use: CriterionUse, evidence: Evidence | None) -> tuple[Rubric, ...]:
    """Every rubric that a label of this criterion may name: its own, then those of the case and of its turns."""
    own = [RubricWire.model_validate(each).noun() for each in use.options.get("rubrics") or ()]
    fixed = conversation.PROPERTIES.get(use.name, ())
    written: list[Rubric] = []
    if evidence is not None:
        written += evidence.case.rubrics
        written += [rubric for turn in (*(evidence.expected or ()), *evidence.actual) for rubric in turn.rubrics]
    return (*own, *fixed, *written)


def text_of_rubric(named: str, rubrics: Sequence[Rubric]) -> str | None:
    """The text of the rubric that a label names by id or by text; None where there is no such rubric."""
    by_id = next((rubric.text for rubric in rubrics if rubric.rubric_id == named), None)
    return by_id or next((rubric.text for rubric in rubrics if plain(rubric.text) == plain(named)), None)


def alone(use: CriterionUse, rubric: str) -> CriterionUse:
    """The use with one rubric of the label's own, asked for by itself."""
    only = {"rubric_id": "labelled", "rubric_content": {"text_property": rubric}}
    return dataclasses.replace(use, options={**use.options, "rubrics": [only]})


def only_turn(evidence: Evidence, turn: int) -> Evidence:
    """The evidence with one turn, counted from 1: a criterion that judges turn by turn asks about no other then."""
    expected = evidence.expected[turn - 1 : turn] if evidence.expected is not None else None
    case = dataclasses.replace(evidence.case, conversation=expected)
    return Evidence(case=case, actual=evidence.actual[turn - 1 : turn], expected=expected)


def said(grade: Grade, verdicts: Verdicts, *, turn: int | None, subject: str) -> Said:
    """What a grade says of a turn, or of one rubric or sentence of it; `turn` None: of whichever turn there is."""
    found = [each for each in grade.findings if _is_verdict(each) and _is_at(each, turn)]
    if subject:
        found = [each for each in found if plain(each.subject) == plain(subject)]
    if not found:
        return Said(passed=None, text=_why_nothing(grade, verdicts, subject))
    if len(found) > 1 and not subject and verdicts.unit:
        return Said(passed=None, text=f"there are {len(found)} verdicts: the label must name its {verdicts.unit}")
    verdict = found[0]
    if verdict.score is None:
        return Said(passed=None, word=verdict.label, text=verdict.text or "no verdict")
    return Said(passed=verdict.score > 0, word=verdict.label, text=verdict.text)


def plain(text: str) -> str:
    """A text as two are compared: blanks do not count."""
    return " ".join(text.split())


def content(invocation: Invocation) -> Json:
    """What makes a turn the same turn for whoever labels it: no ids and no times."""
    return {
        "user": shown.text_of(invocation.user_content),
        "calls": [[call.name, call.args] for call in invocation.tool_calls],
        "answer": shown.answer(invocation),
    }


def _is_verdict(finding: Finding) -> bool:
    return finding.score is not None or bool(finding.opinions)


def _is_at(finding: Finding, turn: int | None) -> bool:
    return turn is None or finding.turn is None or finding.turn == turn


def _why_nothing(grade: Grade, verdicts: Verdicts, subject: str) -> str:
    if isinstance(grade, NotEvaluated):
        return grade.message
    if verdicts.unit == "sentence" and subject:
        return "the judge took the text apart into other sentences"
    return "there is no verdict on it"
