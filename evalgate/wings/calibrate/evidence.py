"""What labels are about: the evidence that is asked about, or the grades that a run has stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from evalgate.wings.calibrate import labels
from evalgate.wings.calibrate.labels import Label


@frozen_dataclass
class LabelledItem:
    """What a label is about. `turn`: of the evidence, None for a verdict on all; `subject`: rubric
    or sentence."""

    label: Label
    use: CriterionUse
    judge: JudgeIdentity
    evidence: TrialView
    turn: int | None
    subject: str


@frozen_dataclass
class LabelledVerdict:
    """A label beside what the judge said of the same thing.

    `passed` None: it could not decide, and `message` says why. `word`: the judge's label.
    `cluster`: what moves together (the case). `judged_text`: the judged text, for people."""

    label: Label
    criterion_judge: CriterionJudge
    passed: bool | None
    cluster: str
    word: str = ""
    message: str = ""
    judged_text: str = ""


class LabelProblem(Exception):  # noqa: N818 - it is one of many, and told with them
    """Why a label cannot be used: a code of docs/validate.md, the message, and a hint."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


ANOTHER_ANSWER = "label-of-another-answer"
NOWHERE = "label-place-unknown"


def find_items(
    labels: Sequence[Label],
    *,
    uses: Mapping[str, Mapping[str, CriterionUse]],
    stored: Stored | None,
    deviations: Deviations,
) -> tuple[list[LabelledItem], list[Problem]]:
    """The item of each label, to be judged anew, and the problems. `uses`: the settled uses of a
    criterion by suite key, "" for those that no suite has."""
    items = list[LabelledItem]()
    problems = list[Problem]()
    for label in labels:
        try:
            evidence = label.evidence or recorded(label, stored)
            use = _use_of(label, uses[label.line.criterion], evidence)
            subject, turn, judge = _judged(label, use, evidence)
        except LabelProblem as found:
            problems.append(errors.error(found.code, str(found), label.place, found.hint))
            continue
        spec, verdicts = _row_of(use)
        if verdicts.unit == "rubric" and text_of_rubric(subject, rubrics_of(use, evidence)) is None:
            use = _with_rubrics(
                use, {"rubric_id": "labelled", "rubric_content": {"text_property": subject}}
            )
        if turn is not None and deviations.own_rubrics and Need.SCENARIO not in spec.needs:
            evidence = only_turn(evidence, turn)
            turn = 1
        items.append(
            LabelledItem(
                label=label, use=use, judge=judge, evidence=evidence, turn=turn, subject=subject
            )
        )
    return items, problems


def _judged(
    label: Label, use: CriterionUse, evidence: TrialView, *, prompt_version: str | None = None
) -> tuple[str, int | None, JudgeIdentity]:
    """The subject, the turn (None for a verdict on the whole) and the judge of a label. Raises
    LabelProblem."""
    subject = _subject(label, use, evidence)
    count = len(evidence.actual)
    turn = label.line.turn
    if _row_of(use)[1].is_of_conversation:
        turn = None
    elif count == 1:
        turn = 1
    elif turn is None or turn > count:
        message = f"the conversation has {words.counted(count, 'turn')}; set `turn`"
        raise LabelProblem(NOWHERE, message, "Turns count from 1.")
    judge = judges.judge_of(use, prompt_version=prompt_version)
    if judge is None:
        hint = 'Give the criterion the option `"judge": "llm"`, or remove the label.'
        message = f"`{use.name}` is rated by Google Cloud, not by a judge model"
        raise LabelProblem("label-without-verdict", message, hint)
    return subject, turn, judge


def recorded(label: Label, stored: Stored | None) -> TrialView:
    """The conversation that a label names. Raises LabelProblem if it is missing, or is not the
    labelled one."""
    trial_key = label.line.trial_key
    if stored is None or trial_key is None:
        hint = "Set `--conversations` to a results.json, or run the gate once."
        raise LabelProblem(NOWHERE, "no results.json with the conversation", hint)
    suites = {suite.key: suite for suite in stored.run.suites}
    if trial_key.suite not in suites:
        raise LabelProblem(
            NOWHERE,
            f"results.json has no suite `{trial_key.suite}`",
            name_hint(trial_key.suite, suites),
        )
    cases = {case.case_id: case for case in suites[trial_key.suite].eval_set.cases}
    if trial_key.case_id not in cases:
        raise LabelProblem(
            NOWHERE,
            f"`{trial_key.suite}` has no case `{trial_key.case_id}`",
            name_hint(trial_key.case_id, cases),
        )
    transcript = stored.outcomes.find(trial_key)
    if transcript is None:
        failed = any(trial.key == trial_key for trial in stored.run.trials)
        message = "the agent failed in it" if failed else f"it has no repeat {trial_key.number}"
        raise LabelProblem(NOWHERE, f"`{trial_key.case_id}`: {message}", "Repeats count from 0.")
    turns = transcript.invocations
    line = label.line
    case = cases[trial_key.case_id]
    if line.turn is not None and line.turn > len(turns):
        message = f"`turn` is {line.turn}, the conversation has {words.counted(len(turns), 'turn')}"
        raise LabelProblem(NOWHERE, message, "Turns count from 1.")
    judged = turns if line.turn is None else [turns[line.turn - 1]]
    if line.answer is not None and plain(line.answer) not in {
        plain(prompting.answer_of(turn)) for turn in judged
    }:
        message = f"the agent's answer in {line.suite} differs from the labeled one"
        hint = "Label the new answer, or keep the old one in the line: `user` and `answer`, or `conversation`."
        raise LabelProblem(ANOTHER_ANSWER, message, hint)
    final_state = transcript.final_state
    ended_by = transcript.ended_by
    return TrialView(
        case=case,
        actual=turns,
        expected=case.conversation,
        final_state=final_state,
        ended_by=ended_by,
        repeat=trial_key.repeat,
    )


def _use_of(label: Label, uses: Mapping[str, CriterionUse], evidence: TrialView) -> CriterionUse:
    """How the gate uses the label's criterion: in its suite, or in all that use it alike. Raises
    LabelProblem."""
    line = label.line
    if line.trial_key is not None and line.trial_key.suite in uses:
        return uses[line.trial_key.suite]
    distinct = _distinct(uses.values())
    if len(distinct) > 1 and line.subject:
        knowing = [
            use
            for use in distinct
            if text_of_rubric(line.subject, rubrics_of(use, evidence)) is not None
        ]
        distinct = _distinct(knowing or [_with_rubrics(use) for use in distinct])
    if len(distinct) != 1:
        hint = f"Name one of {words.listed(f'`{key}`' for key in uses)} as `suite`."
        raise LabelProblem(
            NOWHERE, f"the suites use `{line.criterion}` with different options", hint
        )
    return distinct[0]


def _distinct(uses: Iterable[CriterionUse]) -> list[CriterionUse]:
    return list({fingerprints.digest(dict(use.options)): use for use in uses}.values())


def _subject(label: Label, use: CriterionUse, evidence: TrialView) -> str:
    """The text of what the label names within the turn. Raises LabelProblem."""
    spec, verdicts = _row_of(use)
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
    # it has properties of its own, and no others
    if text is None and Need.RUBRICS not in spec.needs:
        message = f"`{use.name}` has no property `{subject[:80]}`"
        raise LabelProblem("label-subject-unknown", message, name_hint(subject, names))
    return text or subject


def _row_of(use: CriterionUse) -> tuple[CriterionSpec, Verdicts]:
    spec = labels.labelled_spec(use.name)
    assert spec is not None, "labels of other criteria were refused when they were read"
    assert spec.verdicts is not None, "as above"
    return spec, spec.verdicts


def name_hint(name: str, names: Mapping[str, object] | Sequence[str]) -> str:
    """A hint for a name that is not among `names`."""
    return words.did_you_mean(
        name, names, fallback=f"There are {words.listed(f'`{candidate}`' for candidate in names)}."
    )


def rubrics_of(use: CriterionUse, evidence: TrialView | None) -> tuple[Rubric, ...]:
    """Every rubric that a label of this criterion may name: its own, then those of the case and of
    its turns."""
    criterion_rubrics = [
        RubricWire.model_validate(rubric).noun() for rubric in use.options.get("rubrics") or ()
    ]
    written: list[Rubric] = []
    if evidence is not None:
        written += evidence.case.rubrics
        written += [
            rubric
            for turn in (*(evidence.expected or ()), *evidence.actual)
            for rubric in turn.rubrics
        ]
    return (*criterion_rubrics, *vertex.PROPERTIES.get(use.name, ()), *written)


def text_of_rubric(name: str, rubrics: Sequence[Rubric]) -> str | None:
    """The text of the rubric that a label names by id or by text; None if there is no such
    rubric."""
    text = next((rubric.text for rubric in rubrics if rubric.rubric_id == name), None)
    return text or next(
        (rubric.text for rubric in rubrics if plain(rubric.text) == plain(name)), None
    )


def _with_rubrics(use: CriterionUse, *rubrics: Json) -> CriterionUse:
    options = {name: value for name, value in use.options.items() if name != "rubrics"}
    return replace(use, options={**options, **({"rubrics": list(rubrics)} if rubrics else {})})


def only_turn(evidence: TrialView, turn: int) -> TrialView:
    """The evidence with one turn, counted from 1: a criterion that judges turn by turn asks about
    no other then."""
    expected = evidence.expected[turn - 1 : turn] if evidence.expected is not None else None
    case = replace(evidence.case, conversation=expected)
    return TrialView(case=case, actual=evidence.actual[turn - 1 : turn], expected=expected)


def verdict_of(item: LabelledItem, grade: Grade) -> LabelledVerdict:
    """The label beside what the grade says of the same thing."""
    passed, word, message = read_grade(
        grade, _row_of(item.use)[1], turn=item.turn, subject=item.subject
    )
    actual = item.evidence.actual
    judged = actual if item.turn is None else actual[item.turn - 1 : item.turn]
    trial_key = item.label.line.trial_key
    cluster = (
        f"{trial_key.suite}:{trial_key.case_id}"
        if trial_key
        else fingerprints.digest([content(turn) for turn in judged])
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
    """What a grade says of a turn (None: of any), a rubric or a sentence: yes, no or None, its
    label, and why."""
    findings = [
        finding
        for finding in grade.findings
        if (finding.score is not None or finding.opinions)
        and (turn is None or finding.turn is None or finding.turn == turn)
        and (not subject or plain(finding.subject) == plain(subject))
    ]
    if not findings:
        if isinstance(grade, NotEvaluated):
            return None, "", grade.message
        is_sentence = verdicts.unit == "sentence" and subject
        return (
            None,
            "",
            "the judge split the text into different sentences"
            if is_sentence
            else "there is no verdict on it",
        )
    if len(findings) > 1 and not subject and verdicts.unit:
        return (
            None,
            "",
            f"there are {len(findings)} verdicts: the label must say which {verdicts.unit} it is about",
        )
    verdict = findings[0]
    if verdict.score is None:
        return None, verdict.label, verdict.text or "no verdict"
    return verdict.score > 0, verdict.label, verdict.text


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


def find_verdicts(
    labels: Sequence[Label], stored: Stored
) -> tuple[list[LabelledVerdict], list[Problem]]:
    """The stored run's verdict for each label that names a place in it, and the problems. A label
    for another answer than the run's is left out and reported."""
    verdicts = list[LabelledVerdict]()
    problems = list[Problem]()
    uses = {(suite.key, use.name): use for suite in stored.run.suites for use in suite.criteria}
    graded = {trial.key: trial for trial in (*stored.run.trials, *stored.run.confirmations)}
    for label in labels:
        trial_key = label.line.trial_key
        name = label.line.criterion
        if trial_key is None:
            continue
        try:
            evidence = recorded(label, stored)
            use = uses.get((trial_key.suite, name))
            grade = graded[trial_key].grades.get(name)
            if use is None or grade is None:
                raise LabelProblem(NOWHERE, f"the run has no `{name}` in this suite")
            subject, turn, judge = _judged(label, use, evidence, prompt_version=use.prompt_version)
        except LabelProblem as found:
            tell = errors.warning if found.code == ANOTHER_ANSWER else errors.error
            problems.append(tell(found.code, str(found), label.place, found.hint))
            continue
        item = LabelledItem(
            label=label, use=use, judge=judge, evidence=evidence, turn=turn, subject=subject
        )
        verdicts.append(verdict_of(item, grade))
    return verdicts, problems


def other_prompts(verdicts: Sequence[LabelledVerdict]) -> list[str]:
    """What a reader must know of verdicts of a stored run that today's prompts did not ask for, a
    sentence each."""
    notes = []
    for name, version in dict.fromkeys(
        (verdict.criterion_judge.criterion, verdict.criterion_judge.judge.prompt_version)
        for verdict in verdicts
    ):
        spec = labels.labelled_spec(name)
        current_version = (
            "" if spec is None or spec.verdicts is None else spec.verdicts.prompt_version
        )
        if not version:
            notes.append(f"the results lack the prompt version of `{name}`")
        elif version != current_version:
            message = f"the results of `{name}` were judged with prompt {version}, the current one is {current_version}"
            notes.append(f"{message}: this calibration applies only to the former")
    return notes
