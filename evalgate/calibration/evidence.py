"""What labels are about: the evidence that is asked about, or the grades that a run has stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evalgate import criteria
from evalgate.calibration.labels import Vocabulary
from evalgate.criteria import judges, vertex
from evalgate.criteria.base import CriterionSpec, Verdicts
from evalgate.errors import Problem, Severity
from evalgate.formats import fingerprints
from evalgate.formats.adk_shapes import RubricWire
from evalgate.judges import prompting
from evalgate.model import (
    Case,
    CriterionUse,
    Evidence,
    Finding,
    Grade,
    Invocation,
    Json,
    JudgeIdentity,
    Label,
    LabelledVerdict,
    Need,
    NotEvaluated,
    Rubric,
    Suite,
    Transcript,
    TrialKey,
)
from evalgate.results.file import Stored
from evalgate.text import words


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a grade says of one thing: yes, no, or None with the reason in `text`; `word` is the judge's label."""

    passed: bool | None
    word: str = ""
    text: str = ""


def rubrics_of(use: CriterionUse, evidence: Evidence | None) -> tuple[Rubric, ...]:
    """Every rubric that a label of this criterion may name: its own, then those of the case and of its turns."""
    own = [RubricWire.model_validate(each).noun() for each in use.options.get("rubrics") or ()]
    fixed = vertex.PROPERTIES.get(use.name, ())
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


def said_of(grade: Grade, verdicts: Verdicts, *, turn: int | None, subject: str) -> Said:
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
        "user": prompting.text_of(invocation.user_content),
        "calls": [[call.name, call.args] for call in invocation.tool_calls],
        "answer": prompting.answer_of(invocation),
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


def recorded(label: Label, stored: Stored | None, finds: Finds) -> Evidence | None:
    """The conversation that a label names; None where it names none, or where there is none, which is told."""
    where = label.where
    if where is None:
        return None
    if stored is None:
        hint = "Set `--conversations` to a results.json, or run the gate once."
        finds.error("label-place-unknown", label, "no results.json with the conversation", hint)
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
            "label-place-unknown", label, f"results.json has no suite `{where.suite}`", meant(where.suite, suites)
        )
        return None
    cases = {case.case_id: case for case in suite.eval_set.cases}
    if where.case_id not in cases:
        message = f"`{where.suite}` has no case `{where.case_id}`"
        finds.error("label-place-unknown", label, message, meant(where.case_id, cases))
        return None
    return suite, cases[where.case_id]


def _is_what_was_labelled(label: Label, transcript: Transcript, suite: Suite, finds: Finds) -> bool:
    turns = transcript.invocations
    turn = label.turn or len(turns)
    if turn > len(turns):
        message = f"`turn` is {turn}, the conversation has {words.counted(len(turns), 'turn')}"
        finds.error("label-place-unknown", label, message, "Turns count from 1.")
        return False
    answers = {plain(prompting.answer_of(each)) for each in (turns if label.turn is None else [turns[turn - 1]])}
    if label.answer is None or plain(label.answer) in answers:
        return True
    message = f"the agent's answer in {suite.key} differs from the labeled one"
    hint = "Label the new answer, or keep the old one in the line: `user` and `answer`, or `conversation`."
    finds.tell("label-of-another-answer", label, message, hint, severity=finds.stale)
    return False


def meant(name: str, names: Mapping[str, object] | Sequence[str]) -> str:
    """A hint for a name that is not among `names`."""
    close = words.nearest(name, names)
    return f"Did you mean `{close}`?" if close else f"There are {words.listed(f'`{each}`' for each in names)}."


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
        evidence = label.evidence if label.evidence is not None else recorded(label, stored, finds)
        use = _use_of(label, uses, evidence, finds) if evidence is not None else None
        if evidence is None or use is None:
            continue
        spec, verdicts = _spec_of(use)
        subject = _subject(label, use, evidence, verdicts, finds)
        judge = judges.judge_of(use, spec)
        turn = _turn(label, evidence, verdicts, finds)
        if subject is None or turn == 0:
            continue
        if judge is None:
            hint = 'Give the criterion the option `"judge": "llm"`, or remove the label.'
            finds.error(
                "label-without-verdict", label, f"`{use.name}` is rated by Google Cloud, not by a judge model", hint
            )
            continue
        known = text_of_rubric(subject, rubrics_of(use, evidence)) if subject else subject
        if verdicts.unit == "rubric" and known is None:
            use = alone(use, subject)
        if turn is not None and not adk_compat and Need.SCENARIO not in spec.needs:
            evidence, turn = only_turn(evidence, turn), 1
        finds.asked.append(
            Asked(label=label, use=use, judge=judge, evidence=evidence, turn=turn, subject=known or subject)
        )
    return finds


def verdict_of(asked: Asked, grade: Grade) -> LabelledVerdict:
    """The label beside what the grade says of the same thing."""
    _, verdicts = _spec_of(asked.use)
    said = said_of(grade, verdicts, turn=asked.turn, subject=asked.subject)
    turns = [content(turn) for turn in _turns_judged(asked.evidence, asked.turn)]
    where = asked.label.where
    return LabelledVerdict(
        label=asked.label,
        judge=said.passed,
        said=said.word,
        message=said.text,
        cluster=f"{where.suite}:{where.case_id}" if where else fingerprints.digest(turns),
        shown=prompting.answer_of(asked.evidence.actual[(asked.turn or 0) - 1]),
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
        evidence = recorded(label, stored, finds)
        if evidence is None:
            continue
        use = uses.get((label.where.suite, label.criterion))
        grade = graded[label.where].grades.get(label.criterion)
        if use is None or grade is None:
            finds.error("label-place-unknown", label, f"the run has no `{label.criterion}` in this suite")
            continue
        spec, verdicts = _spec_of(use)
        judge = _as_stored(judges.judge_of(use, spec), label, stored)
        turn, subject = _turn(label, evidence, verdicts, finds), _subject(label, use, evidence, verdicts, finds)
        if judge is None:
            finds.error("label-without-verdict", label, f"`{use.name}` is rated by Google Cloud, not by a judge model")
        if judge is None or subject is None or turn == 0:
            continue
        subject = text_of_rubric(subject, rubrics_of(use, evidence)) or subject
        finds.asked.append(Asked(label=label, use=use, judge=judge, evidence=evidence, turn=turn, subject=subject))
        grades.append(grade)
    return finds, grades, elsewhere


def _as_stored(judge: JudgeIdentity | None, label: Label, stored: Stored) -> JudgeIdentity | None:
    """With the version of the prompt that the run asked with, "" where its file does not tell."""
    if judge is None or label.where is None:
        return judge
    asked = stored.prompt_of(label.where.suite, label.criterion)
    return dataclasses.replace(judge, prompt_version=asked)


def other_prompts(asked: Sequence[Asked]) -> list[str]:
    """What a reader must know of verdicts of a stored run that today's prompts did not ask for, a sentence each."""
    notes: dict[str, None] = {}
    for each in asked:
        spec, _ = _spec_of(each.use)
        today = judges.judge_of(each.use, spec)
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
    known = rubrics_of(use, evidence)
    names = [rubric.rubric_id for rubric in known]
    if not label.subject:
        if len(known) == 1:
            return known[0].text
        hint = f"Rubrics: {words.listed(names)}." if names else "Write its text."
        finds.error("label-subject-unknown", label, "`rubric` is missing", hint)
        return None
    fixed = Need.RUBRICS not in criteria.CRITERIA[use.name].needs
    if fixed and text_of_rubric(label.subject, known) is None:
        message = f"`{use.name}` has no property `{label.subject[:80]}`"
        finds.error("label-subject-unknown", label, message, meant(label.subject, names))
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
        knowing = [use for use in distinct if text_of_rubric(label.subject, rubrics_of(use, evidence)) is not None]
        distinct = knowing or [_without_rubrics(use) for use in distinct]
        distinct = list({fingerprints.digest(dict(use.options)): use for use in distinct}.values())
    if len(distinct) == 1:
        return distinct[0]
    hint = f"Name one of {words.listed(f'`{key}`' for key in found)} as `suite`."
    finds.error("label-place-unknown", label, f"the suites use `{label.criterion}` with different options", hint)
    return None


def _without_rubrics(use: CriterionUse) -> CriterionUse:
    return dataclasses.replace(use, options={name: value for name, value in use.options.items() if name != "rubrics"})


def _turns_judged(evidence: Evidence, turn: int | None) -> tuple[Invocation, ...]:
    return evidence.actual if turn is None else evidence.actual[turn - 1 : turn]
