"""From labels to what they are about: the evidence that is asked about, or the grades that a run has stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evalgate import criteria, words
from evalgate.errors import Problem, Severity
from evalgate.judged import identity, labelling
from evalgate.model import (
    Case,
    CriterionUse,
    Evidence,
    Grade,
    Invocation,
    JudgeIdentity,
    Label,
    LabelledVerdict,
    Suite,
    Transcript,
    TrialKey,
)
from evalgate.pipeline import fingerprints
from evalgate.pipeline.stored import Stored
from evalgate.plugins import CriterionSpec, Need, Verdicts
from evalgate.prompts import shown
from evalgate.wire.labels import Vocabulary

SHOWS_STEPS = frozenset({"rubric_based_tool_use_quality_v1", "multi_turn_tool_use_quality_v1"})
"""Criteria that judge what two texts do not show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A label with the criterion that is asked and the evidence it is asked about.

    `turn`: of the evidence, None where the verdict is about the conversation. `subject`: the rubric's text.
    """

    label: Label
    use: CriterionUse
    judge: JudgeIdentity
    evidence: Evidence
    turn: int | None
    subject: str


@dataclass(slots=True)
class Finds:
    """What labels are about, and what stands in the way."""

    asked: list[Asked] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    stale: Severity = Severity.ERROR

    def error(self, code: str, label: Label, message: str, hint: str = "") -> None:
        """The label cannot be used."""
        self.tell(code, label, message, hint, severity=Severity.ERROR)

    def tell(self, code: str, label: Label, message: str, hint: str, *, severity: Severity) -> None:
        """The label is not used."""
        self.problems.append(Problem(severity=severity, code=code, message=message, place=label.place, hint=hint))


def vocabularies() -> dict[str, Vocabulary]:
    """What labels of each criterion may say."""
    return {
        name: Vocabulary(
            labels=spec.verdicts.labels,
            unit=spec.verdicts.unit,
            from_texts=name not in SHOWS_STEPS,
            needs_reference=Need.REFERENCE in spec.needs,
            only_placed=Need.SCENARIO in spec.needs,
        )
        for name, spec in criteria.CRITERIA.items()
        if spec.verdicts is not None
    }


def find_evidence(
    labels: Sequence[Label], *, uses: Mapping[str, Mapping[str, CriterionUse]], stored: Stored | None, adk_compat: bool
) -> Finds:
    """What each label is about, to be asked anew. `uses`: the settled uses of a criterion by suite key, "" for those
    that no suite has."""
    finds = Finds()
    for label in labels:
        evidence = label.evidence if label.evidence is not None else _recorded(label, stored, finds)
        use = _use_of(label, uses, evidence, finds) if evidence is not None else None
        if evidence is None or use is None:
            continue
        spec, verdicts = _spec_of(use)
        subject = _subject(label, use, evidence, verdicts, finds)
        judge = identity.judge_of(use, spec, adk_compat=adk_compat)
        turn = _turn(label, evidence, verdicts, finds)
        if subject is None or turn == 0:
            continue
        if judge is None:
            hint = 'Give the criterion the option `"judge": "llm"`, or leave the label out.'
            finds.error("label-without-verdict", label, f"`{use.name}` is Google Cloud's, no judge model's", hint)
            continue
        known = labelling.text_of_rubric(subject, labelling.rubrics_of(use, evidence)) if subject else subject
        if verdicts.unit == "rubric" and known is None:
            use = labelling.alone(use, subject)
        if turn is not None and not adk_compat and Need.SCENARIO not in spec.needs:
            evidence, turn = labelling.only_turn(evidence, turn), 1
        finds.asked.append(
            Asked(label=label, use=use, judge=judge, evidence=evidence, turn=turn, subject=known or subject)
        )
    return finds


def verdict_of(asked: Asked, grade: Grade) -> LabelledVerdict:
    """The label beside what the grade says of the same thing."""
    _, verdicts = _spec_of(asked.use)
    said = labelling.said(grade, verdicts, turn=asked.turn, subject=asked.subject)
    turns = [labelling.content(turn) for turn in _judged(asked.evidence, asked.turn)]
    where = asked.label.where
    about = [asked.label.criterion, labelling.plain(asked.subject), turns]
    return LabelledVerdict(
        label=asked.label,
        judge=said.passed,
        said=said.word,
        message=said.text,
        address=fingerprints.digest(about),
        cluster=f"{where.suite}:{where.case_id}" if where else fingerprints.digest(turns),
        shown=shown.answer(asked.evidence.actual[(asked.turn or 0) - 1]),
    )


def find_grades(labels: Sequence[Label], stored: Stored) -> tuple[Finds, list[Grade], int]:
    """What the run that was stored says of each label: the labels, their grades, and how many have no place in it.

    Another answer than the one that was labelled is what a run may well have: the label is left out, and that is told.
    """
    finds = Finds(stale=Severity.WARNING)
    grades: list[Grade] = []
    uses = {(suite.key, use.name): use for suite in stored.run.suites for use in suite.criteria}
    graded = {trial.key: trial for trial in (*stored.run.trials, *stored.run.confirmations)}
    elsewhere = 0
    for label in labels:
        if label.where is None:
            elsewhere += 1
            continue
        evidence = _recorded(label, stored, finds)
        if evidence is None:
            continue
        use = uses.get((label.where.suite, label.criterion))
        grade = graded[label.where].grades.get(label.criterion)
        if use is None or grade is None:
            finds.error("label-place-unknown", label, f"the run did not grade `{label.criterion}` in this suite")
            continue
        spec, verdicts = _spec_of(use)
        judge = identity.judge_of(use, spec, adk_compat=stored.adk_compat)
        turn, subject = _turn(label, evidence, verdicts, finds), _subject(label, use, evidence, verdicts, finds)
        if judge is None:
            finds.error("label-without-verdict", label, f"`{use.name}` is Google Cloud's, no judge model's")
        if judge is None or subject is None or turn == 0:
            continue
        subject = labelling.text_of_rubric(subject, labelling.rubrics_of(use, evidence)) or subject
        finds.asked.append(Asked(label=label, use=use, judge=judge, evidence=evidence, turn=turn, subject=subject))
        grades.append(grade)
    return finds, grades, elsewhere


# --- one label ------------------------------------------------------------------------------------


def _spec_of(use: CriterionUse) -> tuple[CriterionSpec, Verdicts]:
    spec = criteria.CRITERIA[use.name]
    assert spec.verdicts is not None, "labels of other criteria were refused when they were read"
    return spec, spec.verdicts


def _recorded(label: Label, stored: Stored | None, finds: Finds) -> Evidence | None:
    where = label.where
    if where is None:
        return None
    if stored is None:
        hint = "Name the results.json with `--conversations`, or run the gate once."
        finds.error("label-place-unknown", label, "there is no results.json to find the conversation in", hint)
        return None
    case = _case_of(label, where, stored, finds)
    if case is None:
        return None
    suite, found = case
    transcript = stored.outcomes.find(where)
    if transcript is None:
        run = [trial for trial in stored.run.trials if trial.key == where]
        message = "the agent failed in it" if run else f"it has no repeat {where.repeat}"
        finds.error("label-place-unknown", label, f"`{where.case_id}`: {message}", "Repeats count from 0.")
        return None
    evidence = Evidence(
        case=found,
        actual=transcript.invocations,
        expected=found.conversation,
        final_state=transcript.final_state,
        ended_by=transcript.ended_by,
    )
    return evidence if _is_what_was_labelled(label, transcript, suite, finds) else None


def _case_of(label: Label, where: TrialKey, stored: Stored, finds: Finds) -> tuple[Suite, Case] | None:
    suites = {suite.key: suite for suite in stored.run.suites}
    suite = suites.get(where.suite)
    if suite is None:
        finds.error(
            "label-place-unknown", label, f"results.json has no suite `{where.suite}`", _meant(where.suite, suites)
        )
        return None
    cases = {case.case_id: case for case in suite.eval_set.cases}
    if where.case_id not in cases:
        message = f"`{where.suite}` has no case `{where.case_id}`"
        finds.error("label-place-unknown", label, message, _meant(where.case_id, cases))
        return None
    return suite, cases[where.case_id]


def _is_what_was_labelled(label: Label, transcript: Transcript, suite: Suite, finds: Finds) -> bool:
    turns = transcript.invocations
    turn = label.turn or len(turns)
    if turn > len(turns):
        message = f"`turn` is {turn}, the conversation has {words.counted(len(turns), 'turn')}"
        finds.error("label-place-unknown", label, message, "Turns count from 1.")
        return False
    answers = {labelling.plain(shown.answer(each)) for each in (turns if label.turn is None else [turns[turn - 1]])}
    if label.answer is None or labelling.plain(label.answer) in answers:
        return True
    message = f"the agent's answer in {suite.key} is another one than the one that was labelled"
    hint = "Label the new answer, or keep the old one in the line: `user` and `answer`, or `conversation`."
    finds.tell("label-of-another-answer", label, message, hint, severity=finds.stale)
    return False


def _turn(label: Label, evidence: Evidence, verdicts: Verdicts, finds: Finds) -> int | None:
    """The turn of the evidence; None for a verdict on the conversation, 0 where the label does not say it."""
    if verdicts.whole:
        return None
    if len(evidence.actual) == 1:
        return 1
    if label.turn is None or label.turn > len(evidence.actual):
        message = f"the conversation has {words.counted(len(evidence.actual), 'turn')}: `turn` must say which is meant"
        finds.error("label-place-unknown", label, message, "Turns count from 1.")
        return 0
    return label.turn


def _subject(label: Label, use: CriterionUse, evidence: Evidence, verdicts: Verdicts, finds: Finds) -> str | None:
    """What the label names within the turn; None where that cannot be, which is told."""
    if verdicts.unit != "rubric":
        return label.subject
    known = labelling.rubrics_of(use, evidence)
    names = [rubric.rubric_id for rubric in known]
    if not label.subject:
        if len(known) == 1:
            return known[0].text
        hint = f"Rubrics: {words.listed(names)}." if names else "Write its text."
        finds.error("label-subject-unknown", label, "`rubric` is missing: which one is labelled?", hint)
        return None
    fixed = Need.RUBRICS not in criteria.CRITERIA[use.name].needs
    if fixed and labelling.text_of_rubric(label.subject, known) is None:
        message = f"`{use.name}` has no property `{label.subject[:80]}`"
        finds.error("label-subject-unknown", label, message, _meant(label.subject, names))
        return None
    return label.subject


def _use_of(
    label: Label, uses: Mapping[str, Mapping[str, CriterionUse]], evidence: Evidence, finds: Finds
) -> CriterionUse | None:
    """How the gate uses the label's criterion: in its suite, or in whichever suites use it alike."""
    found = uses[label.criterion]
    if label.where is not None and label.where.suite in found:
        return found[label.where.suite]
    distinct = list({fingerprints.digest(dict(use.options)): use for use in found.values()}.values())
    if len(distinct) > 1 and label.subject:
        knowing = [
            use
            for use in distinct
            if labelling.text_of_rubric(label.subject, labelling.rubrics_of(use, evidence)) is not None
        ]
        distinct = knowing or [_without_rubrics(use) for use in distinct]
        distinct = list({fingerprints.digest(dict(use.options)): use for use in distinct}.values())
    if len(distinct) == 1:
        return distinct[0]
    hint = f"Name one of {words.listed(f'`{key}`' for key in found)} as `suite`."
    finds.error("label-place-unknown", label, f"the suites use `{label.criterion}` with different options", hint)
    return None


def _without_rubrics(use: CriterionUse) -> CriterionUse:
    return dataclasses.replace(use, options={name: value for name, value in use.options.items() if name != "rubrics"})


def _judged(evidence: Evidence, turn: int | None) -> tuple[Invocation, ...]:
    return evidence.actual if turn is None else evidence.actual[turn - 1 : turn]


def _meant(name: str, names: Mapping[str, object] | Sequence[str]) -> str:
    close = words.nearest(name, names)
    return f"Did you mean `{close}`?" if close else f"There are {words.listed(f'`{each}`' for each in names)}."
