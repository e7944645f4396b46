"""The evidence of labels, for questions to the judge, and the verdicts in its grades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evalgate import errors
from evalgate.criteria import judges, vertex
from evalgate.criteria.base import CriterionSpec, Verdicts
from evalgate.errors import Problem
from evalgate.formats import fingerprints
from evalgate.formats.adk_shapes import RubricWire
from evalgate.judges import prompting
from evalgate.model import (
    CriterionJudge,
    CriterionUse,
    Grade,
    Invocation,
    JudgeIdentity,
    Need,
    NotEvaluated,
    Rubric,
    TrialView,
)
from evalgate.model.deviations import Deviations
from evalgate.results.file import Stored
from evalgate.text import words
from evalgate.values import Json, frozen_dataclass
from . import labels
from .labels import PLACE_UNKNOWN, Label, LabelLine, LabelProblem


@frozen_dataclass
class LabelledItem:
    """A label with its evidence. `turn`: its number in the evidence, None for a verdict on all.
    `subject`: a rubric or a sentence."""

    label: Label
    use: CriterionUse
    judge: JudgeIdentity
    evidence: TrialView
    turn: int | None
    subject: str


@frozen_dataclass
class LabelledVerdict:
    """A label and the judge's verdict on the same evidence.

    `passed` None: the judge could not decide; `message` has the reason. `word`: the judge's label.
    `cluster`: the case, whose labels are not independent. `judged_text`: the judged text, for
    people."""

    label: Label
    criterion_judge: CriterionJudge
    passed: bool | None
    cluster: str
    word: str = ""
    message: str = ""
    judged_text: str = ""


def find_items(
    labels: Sequence[Label],
    *,
    uses: Mapping[str, Mapping[str, CriterionUse]],
    stored: Stored | None,
    deviations: Deviations,
) -> tuple[list[LabelledItem], list[Problem]]:
    """The item of each label, for a question to the judge, and the problems.

    `uses`: the settled uses of a criterion by suite key."""
    items = list[LabelledItem]()
    problems = list[Problem]()
    for label in labels:
        try:
            evidence = label.evidence or labelled_evidence(label, stored)
            use = _use_of(label.line, uses.get(label.line.criterion, {}))
            subject, turn, judge = _label_target(label, use, evidence)
        except LabelProblem as problem:
            problems.append(errors.error(problem.code, str(problem), label.place, problem.hint))
            continue
        spec, verdicts = _spec_of(use)
        if verdicts.unit == "rubric" and text_of_rubric(subject, rubrics_of(use, evidence)) is None:
            rubric = {"rubric_id": "labelled", "rubric_content": {"text_property": subject}}
            use = replace(use, options={**use.options, "rubrics": [rubric]})
        if turn is not None and deviations.own_rubrics and Need.SCENARIO not in spec.needs:
            evidence = only_turn(evidence, turn)
            turn = 1
        items.append(
            LabelledItem(
                label=label, use=use, judge=judge, evidence=evidence, turn=turn, subject=subject
            )
        )
    return items, problems


def _label_target(
    label: Label, use: CriterionUse, evidence: TrialView
) -> tuple[str, int | None, JudgeIdentity]:
    """The subject, the turn (None for a verdict on all turns) and the judge of a label. Raises
    LabelProblem."""
    subject = _subject(label, use, evidence)
    count = len(evidence.actual)
    turn = label.line.turn
    if _spec_of(use)[1].is_of_conversation:
        turn = None
    elif count == 1:
        turn = 1
    elif turn is None or turn > count:
        message = f"the conversation has {words.counted(count, 'turn')}; set `turn`"
        raise LabelProblem(PLACE_UNKNOWN, message, "Turns count from 1.")
    judge = judges.judge_of(use)
    if judge is None:
        hint = 'Give the criterion the option `"judge": "llm"`, or remove the label.'
        message = f"`{use.name}` is rated by Google Cloud, not by a judge model"
        raise LabelProblem("label-without-verdict", message, hint)
    return subject, turn, judge


def labelled_evidence(label: Label, stored: Stored | None) -> TrialView:
    """The conversation of a label. Raises LabelProblem if it is missing, or differs from the
    labelled one."""
    trial_key = label.line.trial_key
    if stored is None or trial_key is None:
        hint = "Set `--conversations` to a results.json, or run the gate once."
        raise LabelProblem(PLACE_UNKNOWN, "no results.json with the conversation", hint)
    suites = {suite.key: suite for suite in stored.run.suites}
    if trial_key.suite not in suites:
        message = f"results.json has no suite `{trial_key.suite}`"
        raise LabelProblem(PLACE_UNKNOWN, message, name_hint(trial_key.suite, suites))
    cases = {case.case_id: case for case in suites[trial_key.suite].eval_set.cases}
    if trial_key.case_id not in cases:
        message = f"`{trial_key.suite}` has no case `{trial_key.case_id}`"
        raise LabelProblem(PLACE_UNKNOWN, message, name_hint(trial_key.case_id, cases))
    transcript = stored.outcomes.find(trial_key)
    if transcript is None:
        has_failed = any(trial.key == trial_key for trial in stored.run.trials)
        message = "the agent failed in it" if has_failed else f"it has no repeat {trial_key.number}"
        raise LabelProblem(
            PLACE_UNKNOWN, f"`{trial_key.case_id}`: {message}", "Repeats count from 0."
        )
    turns = transcript.invocations
    line = label.line
    case = cases[trial_key.case_id]
    line.check_turn(len(turns))
    labelled_turns = turns if line.turn is None else [turns[line.turn - 1]]
    if line.answer is not None and one_line(line.answer) not in {
        one_line(prompting.answer_of(turn)) for turn in labelled_turns
    }:
        message = f"the agent's answer in {line.suite} differs from the labeled one"
        hint = "Label the new answer, or keep the old one in the line: `user` and `answer`, or `conversation`."
        raise LabelProblem("label-of-another-answer", message, hint)
    return TrialView.of(case, transcript, repeat=trial_key.repeat)


def _use_of(line: LabelLine, uses: Mapping[str, CriterionUse]) -> CriterionUse:
    """The gate's use of the label's criterion: in the label's suite, or in all suites if they
    agree. Raises LabelProblem."""
    if line.suite in uses:
        return uses[line.suite]
    options = {fingerprints.digest(dict(use.options)): use for use in uses.values()}
    if len(options) != 1:
        hint = f"Name one of {words.listed(f'`{key}`' for key in uses)} as `suite`."
        raise LabelProblem(
            PLACE_UNKNOWN, f"the suites use `{line.criterion}` with different options", hint
        )
    return next(iter(options.values()))


def _subject(label: Label, use: CriterionUse, evidence: TrialView) -> str:
    """The text of the label's subject within the turn. Raises LabelProblem."""
    spec, verdicts = _spec_of(use)
    subject = label.line.subject
    if verdicts.unit != "rubric":
        return subject
    rubrics = rubrics_of(use, evidence)
    names = [rubric.rubric_id for rubric in rubrics]
    if not subject:
        if len(rubrics) == 1:
            return rubrics[0].text
        hint = f"Rubrics: {words.listed(names)}." if names else "Write its text."
        raise LabelProblem("label-subject-unknown", "`rubric` is missing", hint)
    text = text_of_rubric(subject, rubrics)
    # Google's criterion has fixed properties
    if text is None and Need.RUBRICS not in spec.needs:
        message = f"`{use.name}` has no property `{subject[:80]}`"
        raise LabelProblem("label-subject-unknown", message, name_hint(subject, names))
    return text or subject


def _spec_of(use: CriterionUse) -> tuple[CriterionSpec, Verdicts]:
    labelled = labels.labelled_spec(use.name)
    assert labelled is not None, "labels of other criteria were refused when they were read"
    return labelled


def name_hint(name: str, names: Mapping[str, object] | Sequence[str]) -> str:
    """A hint for a name that is not among `names`."""
    return words.did_you_mean(
        name, names, fallback=f"There are {words.listed(f'`{candidate}`' for candidate in names)}."
    )


def rubrics_of(use: CriterionUse, evidence: TrialView) -> tuple[Rubric, ...]:
    """Every rubric that a label of this criterion may name: the criterion's, then those of the case
    and its turns."""
    criterion_rubrics = [
        RubricWire.model_validate(rubric).to_model() for rubric in use.options.get("rubrics") or ()
    ]
    turns = (*(evidence.expected or ()), *evidence.actual)
    evidence_rubrics = (
        *evidence.case.rubrics,
        *(rubric for turn in turns for rubric in turn.rubrics),
    )
    return (*criterion_rubrics, *vertex.PROPERTIES.get(use.name, ()), *evidence_rubrics)


def text_of_rubric(name: str, rubrics: Sequence[Rubric]) -> str | None:
    """The text of a rubric by its id or its text, or None if there is no such rubric."""
    text = next((rubric.text for rubric in rubrics if rubric.rubric_id == name), None)
    return text or next(
        (rubric.text for rubric in rubrics if one_line(rubric.text) == one_line(name)), None
    )


def only_turn(evidence: TrialView, turn: int) -> TrialView:
    """The evidence with one turn, counted from 1, so that a criterion which judges turn by turn
    asks about this turn only."""
    expected = evidence.expected[turn - 1 : turn] if evidence.expected is not None else None
    case = replace(evidence.case, conversation=expected)
    return TrialView(case=case, actual=evidence.actual[turn - 1 : turn], expected=expected)


def verdict_of(item: LabelledItem, grade: Grade) -> LabelledVerdict:
    """A label and the grade's verdict on the same evidence."""
    passed, word, message = read_grade(
        grade, _spec_of(item.use)[1], turn=item.turn, subject=item.subject
    )
    actual = item.evidence.actual
    judged_turns = actual if item.turn is None else actual[item.turn - 1 : item.turn]
    trial_key = item.label.line.trial_key
    cluster = (
        f"{trial_key.suite}:{trial_key.case_id}"
        if trial_key
        else fingerprints.digest([turn_content(turn) for turn in judged_turns])
    )
    return LabelledVerdict(
        label=item.label,
        criterion_judge=CriterionJudge(criterion=item.use.name, judge=item.judge),
        passed=passed,
        word=word,
        message=message,
        cluster=cluster,
        judged_text=prompting.answer_of(actual[(item.turn or 0) - 1]),
    )


def read_grade(
    grade: Grade, verdicts: Verdicts, *, turn: int | None, subject: str
) -> tuple[bool | None, str, str]:
    """A grade's verdict on a turn (None: any), a rubric or a sentence: yes, no or None, then its
    label and its reason."""
    findings = [
        finding
        for finding in grade.findings
        if (finding.score is not None or finding.opinions)
        and (turn is None or finding.turn is None or finding.turn == turn)
        and (not subject or one_line(str(finding.subject)) == one_line(subject))
    ]
    reason = ""
    if not findings and isinstance(grade, NotEvaluated):
        reason = str(grade.message)
    elif not findings and verdicts.unit == "sentence" and subject:
        reason = "the judge split the text into different sentences"
    elif not findings:
        reason = "there is no verdict on it"
    elif len(findings) > 1 and not subject and verdicts.unit:
        reason = f"there are {len(findings)} verdicts: the label must say which {verdicts.unit} it is about"
    if reason:
        return None, "", reason
    verdict = findings[0]
    if verdict.score is None:
        return None, verdict.label, str(verdict.text) or "no verdict"
    return verdict.score > 0, verdict.label, str(verdict.text)


def one_line(text: str) -> str:
    """A text for comparison, with single spaces."""
    return " ".join(text.split())


def turn_content(invocation: Invocation) -> Json:
    """The content of a turn for comparison, without ids and times."""
    return {
        "user": prompting.text_of(invocation.user_content),
        "calls": [[call.name, call.args] for call in invocation.tool_calls],
        "answer": prompting.answer_of(invocation),
    }
