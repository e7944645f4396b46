"""From labels to what they are about: the evidence that is asked about, or the grades that a run has stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from evalgate import criteria, words
from evalgate.errors import Severity
from evalgate.judged import identity, labelling
from evalgate.model import (
    CriterionUse,
    Evidence,
    Grade,
    Invocation,
    JudgeIdentity,
    Label,
    LabelledVerdict,
)
from evalgate.pipeline import fingerprints
from evalgate.pipeline.stored import Stored
from evalgate.plugins import CriterionSpec, Need, Verdicts
from evalgate.prompts import shown
from evalgate.wire.labels import Vocabulary
from evalgate.wiring import label_places
from evalgate.wiring.label_places import Asked, Finds

SHOWS_STEPS = frozenset({"rubric_based_tool_use_quality_v1", "multi_turn_tool_use_quality_v1"})
"""Criteria that judge what two texts do not show."""


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
        evidence = label.evidence if label.evidence is not None else label_places.recorded(label, stored, finds)
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
            hint = 'Give the criterion the option `"judge": "llm"`, or remove the label.'
            finds.error(
                "label-without-verdict", label, f"`{use.name}` is rated by Google Cloud, not by a judge model", hint
            )
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
        evidence = label_places.recorded(label, stored, finds)
        if evidence is None:
            continue
        use = uses.get((label.where.suite, label.criterion))
        grade = graded[label.where].grades.get(label.criterion)
        if use is None or grade is None:
            finds.error("label-place-unknown", label, f"the run has no `{label.criterion}` in this suite")
            continue
        spec, verdicts = _spec_of(use)
        judge = _as_stored(identity.judge_of(use, spec, adk_compat=stored.adk_compat), label, stored)
        turn, subject = _turn(label, evidence, verdicts, finds), _subject(label, use, evidence, verdicts, finds)
        if judge is None:
            finds.error("label-without-verdict", label, f"`{use.name}` is rated by Google Cloud, not by a judge model")
        if judge is None or subject is None or turn == 0:
            continue
        subject = labelling.text_of_rubric(subject, labelling.rubrics_of(use, evidence)) or subject
        finds.asked.append(Asked(label=label, use=use, judge=judge, evidence=evidence, turn=turn, subject=subject))
        grades.append(grade)
    return finds, grades, elsewhere


def _as_stored(judge: JudgeIdentity | None, label: Label, stored: Stored) -> JudgeIdentity | None:
    """With the version of the prompt that the run asked with, "" where its file does not tell."""
    if judge is None or label.where is None:
        return judge
    asked = stored.prompts.get((label.where.suite, label.criterion), "")
    return dataclasses.replace(judge, prompt_version=asked)


def other_prompts(asked: Sequence[Asked], *, adk_compat: bool) -> list[str]:
    """What a reader must know of verdicts of a stored run that today's prompts did not ask for, a sentence each."""
    notes: dict[str, None] = {}
    for each in asked:
        spec, _ = _spec_of(each.use)
        today = identity.judge_of(each.use, spec, adk_compat=adk_compat)
        then, now = each.judge.prompt_version, "" if today is None else today.prompt_version
        if not then:
            notes[f"the results lack the prompt version of `{each.use.name}`"] = None
        elif then != now:
            said = f"the results of `{each.use.name}` were judged with prompt {then}, the current one is {now}"
            notes[f"{said}: this calibration applies only to the former"] = None
    return list(notes)


# --- one label ------------------------------------------------------------------------------------


def _spec_of(use: CriterionUse) -> tuple[CriterionSpec, Verdicts]:
    spec = criteria.CRITERIA[use.name]
    assert spec.verdicts is not None, "labels of other criteria were refused when they were read"
    return spec, spec.verdicts


def _turn(label: Label, evidence: Evidence, verdicts: Verdicts, finds: Finds) -> int | None:
    """The turn of the evidence; None for a verdict on the conversation, 0 where the label does not say it."""
    if verdicts.whole:
        return None
    if len(evidence.actual) == 1:
        return 1
    if label.turn is None or label.turn > len(evidence.actual):
        message = f"the conversation has {words.counted(len(evidence.actual), 'turn')}; set `turn`"
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
        finds.error("label-subject-unknown", label, "`rubric` is missing", hint)
        return None
    fixed = Need.RUBRICS not in criteria.CRITERIA[use.name].needs
    if fixed and labelling.text_of_rubric(label.subject, known) is None:
        message = f"`{use.name}` has no property `{label.subject[:80]}`"
        finds.error("label-subject-unknown", label, message, label_places.meant(label.subject, names))
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
