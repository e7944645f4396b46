"""labels.jsonl: people's verdicts on what a judge judges, one JSON object per line. Reads and
drafts it, finds the evidence of each label for questions to the judge, and the verdicts in the
judge's grades."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import NoReturn

from pydantic import Field

from evalgate import criteria, errors
from evalgate.criteria import judges
from evalgate.criteria.base import CriterionSpec, Verdicts
from evalgate.errors import Place, Problem
from evalgate.formats import adk_shapes, fingerprints
from evalgate.formats.adk_shapes import InvocationWire, RubricWire
from evalgate.formats.json_source import Problems, Spot
from evalgate.judges import prompting
from evalgate.model import (
    Case,
    Content,
    CriterionJudge,
    CriterionUse,
    Finding,
    Grade,
    GradedTrial,
    Invocation,
    JudgeIdentity,
    Need,
    NotEvaluated,
    Rubric,
    Score,
    Suite,
    Text,
    TrialKey,
    TrialView,
)
from evalgate.model.deviations import Deviations
from evalgate.model.shapes import Wire
from evalgate.results.file import Stored
from evalgate.text import plain, words
from evalgate.values import Json, JsonObject, frozen_dataclass, grouped

COMMON_LABELS = {
    **dict.fromkeys(
        ("yes", "pass", "passed", "true", "valid", "right", "correct", "good", "1"), True
    ),
    **dict.fromkeys(
        ("no", "fail", "failed", "false", "invalid", "wrong", "incorrect", "bad", "0"), False
    ),
}
"""Words that mean yes or no for every criterion, in addition to its judge's own."""
UNSURE_LABELS = ("", "?", "unsure", "unclear", "skip")
"""Words for a line that has no label yet."""
NEEDS_STEPS = ("rubric_based_tool_use_quality_v1", "multi_turn_tool_use_quality_v1")
"""Criteria whose evidence is more than two texts."""
TEXT_ONLY = ("final_response_match_v2", "safety_v1")
"""Criteria that judge only the texts of user, agent and reference."""


PLACE_UNKNOWN = "label-place-unknown"
WITHOUT_EVIDENCE = "label-without-evidence"


class LabelProblem(Exception):  # noqa: N818 - it is one of many, and told with them
    """The reason why a label cannot be used: a code of docs/validate.md, the message, and a
    hint."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


class LabelPlace(Wire):
    """The trial of results.json that a line refers to. Empty if the line has the evidence."""

    suite: str = ""
    case: str = ""
    repeat: int = Field(default=0, ge=0)
    """From 0."""
    turn: int | None = Field(default=None, ge=1)
    """From 1; None: all turns, or the only one."""

    @property
    def trial_key(self) -> TrialKey | None:
        """The trial."""
        if not self.suite or not self.case:
            return None
        return TrialKey(suite=self.suite, case_id=self.case, number=self.repeat)

    def check_turn(self, count: int) -> None:
        """Raise LabelProblem if a conversation of `count` turns does not have this one."""
        if self.turn is not None and self.turn > count:
            message = f"`turn` is {self.turn}, the conversation has {words.counted(count, 'turn')}"
            raise LabelProblem(PLACE_UNKNOWN, message, "Turns count from 1.")


class LabelEvidence(Wire):
    """The judged evidence in the line itself: two texts, or the conversation."""

    user: str | None = None
    answer: str | None = None
    reference: str | None = None
    conversation: list[InvocationWire] | None = Field(default=None, min_length=1)
    expected: list[InvocationWire] | None = None
    rubrics: list[RubricWire] = Field(default_factory=list)

    def evidence(self, spec: CriterionSpec, *, name: str) -> TrialView:
        """The evidence as a case named `name`. Raises LabelProblem if the line lacks a part."""
        if Need.SCENARIO in spec.needs:
            raise LabelProblem(
                WITHOUT_EVIDENCE,
                "what is judged needs its scenario",
                "Give `suite` and `case` of results.json.",
            )
        if self.conversation is not None:
            key = "expected"
            actual = tuple(turn.to_model() for turn in self.conversation)
            expected = tuple(turn.to_model() for turn in self.expected or ())
        elif self.user is None or self.answer is None:
            message = "the line does not identify what was judged"
            hint = "Give `user` and `answer`, or `conversation`, or `suite` and `case` of results.json."
            raise LabelProblem(WITHOUT_EVIDENCE, message, hint)
        elif spec.name in NEEDS_STEPS:
            hint = "Give `conversation`, or `suite` and `case` of results.json."
            raise LabelProblem(WITHOUT_EVIDENCE, "`user` and `answer` do not show tool use", hint)
        else:
            key = "reference"
            actual = (_turn(self.user, self.answer),)
            expected = () if self.reference is None else (_turn(self.user, self.reference),)
        if not expected and Need.REFERENCE in spec.needs:
            message = "the judge needs an expected answer"
            raise LabelProblem(WITHOUT_EVIDENCE, message, f"Give it as `{key}`.")
        case = Case(
            case_id=name,
            conversation=expected or None,
            rubrics=tuple(rubric.to_model() for rubric in self.rubrics),
        )
        return TrialView(case=case, actual=actual, expected=expected or None)


class LabelLine(LabelEvidence, LabelPlace):
    """One line. Its subject is `rubric` or `sentence`; neither is needed if the criterion gives one
    verdict."""

    criterion: str
    label: str | bool | int | None = None
    rubric: str = ""
    """Id or text."""
    sentence: str = ""
    note: str = ""

    @property
    def word(self) -> str:
        """The label as written."""
        return "" if self.label is None else str(self.label).strip()

    @property
    def subject(self) -> str:
        """The rubric or the sentence."""
        return self.rubric or self.sentence


@frozen_dataclass
class Label:
    """A person's yes or no on something that a judge can answer with yes or no."""

    line: LabelLine
    human: bool
    """True for yes."""
    place: Place
    evidence: TrialView | None = None
    """The judged texts, if the line has them; otherwise the line names a trial of results.json."""


def labelled_spec(name: str) -> tuple[CriterionSpec, Verdicts] | None:
    """The spec of a criterion whose verdicts people can label, because its judge model answers yes
    or no, and these verdicts."""
    spec = criteria.CRITERIA.get(name)
    return (spec, spec.verdicts) if spec is not None and spec.verdicts is not None else None


def parse_labels(text: str, *, file: str) -> LabelsReading:
    """Read a file of labels. Empty lines are skipped."""
    reading = LabelsReading(file)
    for number, line_text in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if line_text.strip():
            reading.add(line_text.strip(), number)
    # lines with the same evidence and subject
    first_labels: dict[str, Label] = {}
    for label in reading.labels:
        line = label.line
        judged = line.trial_key or (
            label.evidence and (label.evidence.actual, label.evidence.expected)
        )
        # repr of frozen values: evidence holds JSON, which cannot be hashed
        key = repr((line.criterion, judged, line.turn, line.subject, line.answer))
        first_label = first_labels.setdefault(key, label)
        if first_label is label:
            continue
        report = errors.warning
        relation = "says the same as"
        hint = "Delete one: it counts twice."
        if first_label.human is not label.human:
            report = errors.error
            relation = "contradicts"
            hint = "Keep the correct one, or neither."
        message = f"the label {relation} line {first_label.place.line} on the same item"
        reading.problems.append(report("label-twice", message, label.place, hint))
    return reading


class LabelsReading:
    """The labels in the order of the file. `unlabelled`: the number of lines without a label."""

    def __init__(self, file: str) -> None:
        self.labels: list[Label] = []
        self.unlabelled = 0
        self.problems: list[Problem] = []
        self._place = Place(file)

    def add(self, text: str, number: int) -> None:
        """Keep the label of a line, or its problems."""
        self._place = Place(self._place.file, number)
        try:
            self._add(self._line(text), f"label-{number}")
        except LabelProblem as problem:
            self._error(problem.code, str(problem), problem.hint)

    def _add(self, line: LabelLine | None, name: str) -> None:
        if line is None:
            return
        spec, verdicts = labelled_spec(line.criterion) or _refuse_criterion(line.criterion)
        if line.word.lower() in UNSURE_LABELS:
            self.unlabelled += 1
            return
        normalized_word = line.word.strip("*_`\"'. ").lower().replace("-", "_").replace(" ", "_")
        human = verdicts.labels.get(normalized_word, COMMON_LABELS.get(normalized_word))
        if human is None:
            valid_words = ", ".join(dict.fromkeys([*verdicts.labels, "yes", "no", "pass", "fail"]))
            hint = words.did_you_mean(
                line.word,
                [*verdicts.labels, *COMMON_LABELS],
                fallback=f"Write one of {valid_words}.",
            )
            self._error("unknown-label", f"`{line.word[:60]}` is neither a yes nor a no", hint)
        evidence = None
        try:
            evidence = line.evidence(spec, name=name)
        except LabelProblem:
            if line.trial_key is None:
                raise
        if line.conversation is not None:
            line.check_turn(len(line.conversation))
        for key, value in (("rubric", line.rubric), ("sentence", line.sentence)):
            if value and key != verdicts.unit:
                message = f"`{line.criterion}` has no verdict on a {key}"
                raise LabelProblem("label-subject-unknown", message)
        if human is not None:
            self.labels.append(Label(line=line, human=human, place=self._place, evidence=evidence))

    def _line(self, text: str) -> LabelLine | None:
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", "nested too deeply")
            hint = "write one JSON object per line"
            raise LabelProblem("json-syntax", f"not JSON: {reason}", hint) from None
        problems = Problems(text, file=self._place.file)
        problems.use_places(lambda _: self._place)
        line = Spot(problems).validated(LabelLine, raw)
        self.problems += problems.all()
        return line

    def _error(self, code: str, message: str, hint: str) -> None:
        self.problems.append(errors.error(code, message, self._place, hint))


def _refuse_criterion(name: str) -> NoReturn:
    labelled_names = [criterion for criterion in criteria.CRITERIA if labelled_spec(criterion)]
    hint = f"These can be labeled: {', '.join(labelled_names)}."
    if name in criteria.CRITERIA and not criteria.CRITERIA[name].informational:
        message = f"the judge of `{name}` does not answer yes or no, so it cannot be labeled"
        raise LabelProblem("label-without-verdict", message, hint)
    message = f"no judged criterion is called `{name[:80]}`"
    hint = words.did_you_mean(name, labelled_names, fallback=hint)
    raise LabelProblem("unknown-criterion", message, hint)


def _turn(user: str, answer: str) -> Invocation:
    question = Content.of(user, "user")
    return Invocation(user_content=question, final_response=Content.of(answer, "model"))


def draft(stored: Stored, *, most: int, seed: int) -> list[str]:
    """Lines of a labels file with empty labels: a random sample of at most `most` per criterion.

    The judge's verdict is left out, because people who see it tend to agree with it. It does not
    influence the sample, so that TPR and TNR stay unbiased."""
    random = Random(seed)  # noqa: S311 - which verdicts to label, no secret
    suites = {suite.key: suite for suite in stored.run.suites}
    by_criterion = grouped(
        (line["criterion"], line)
        for trial in stored.run.trials
        for line in _draft_lines(trial, suites[trial.key.suite], stored)
    )
    return [
        json.dumps(line, ensure_ascii=False)
        for lines in by_criterion.values()
        for line in random.sample(lines, min(most, len(lines)))
    ]


def _draft_lines(trial: GradedTrial, suite: Suite, stored: Stored) -> Iterator[JsonObject]:
    transcript = stored.outcomes.find(trial.key)
    case = next((case for case in suite.cases if case.case_id == trial.key.case_id), None)
    if transcript is None or case is None:
        return
    evidence = TrialView.of(case, transcript)
    for use in suite.criteria:
        labelled = labelled_spec(use.name)
        grade = trial.grades.get(use.name)
        if labelled is None or not isinstance(grade, Score) or judges.judge_of(use) is None:
            continue
        spec, verdicts = labelled
        unit = verdicts.unit
        for finding in grade.findings:
            if finding.score is None or bool(finding.subject) is not bool(unit):
                continue  # no verdict, or no name for a line
            subject = {unit: finding.subject} if unit else {}
            yield {
                "label": "",
                "criterion": use.name,
                **subject,
                **_evidence_fields(trial, spec, verdicts, evidence, finding),
            }


def _evidence_fields(
    trial: GradedTrial,
    spec: CriterionSpec,
    verdicts: Verdicts,
    evidence: TrialView,
    finding: Finding,
) -> JsonObject:
    """The texts that a person reads first, then their source, then the judge's other evidence."""
    turn_number = len(evidence.actual)
    if finding.turn is not None and not verdicts.is_of_conversation:
        turn_number = finding.turn
    judged = evidence.actual[turn_number - 1]
    line: JsonObject = {
        "user": prompting.text_of(judged.user_content),
        "answer": prompting.answer_of(judged),
    }
    for expected in (evidence.expected or ())[turn_number - 1 : turn_number]:
        if prompting.answer_of(expected).strip():
            line["reference"] = prompting.answer_of(expected)
    line |= {
        "suite": trial.key.suite,
        "case": trial.key.case_id,
        "repeat": trial.key.number,
        "turn": turn_number,
    }
    final_parts = judged.final_response.parts if judged.final_response else ()
    is_text_only = all(
        isinstance(part, Text) for part in (*judged.user_content.parts, *final_parts)
    )
    if Need.SCENARIO in spec.needs or (spec.name in TEXT_ONLY and is_text_only):
        return line
    line["conversation"] = [adk_shapes.invocation_json(turn) for turn in evidence.actual]
    if evidence.expected is not None:
        line["expected"] = [adk_shapes.invocation_json(turn) for turn in evidence.expected]
    if evidence.case.rubrics:
        line["rubrics"] = [adk_shapes.rubric_json(rubric) for rubric in evidence.case.rubrics]
    return line


# --- the evidence of labels, and the judge's verdicts on it ---------------------------------------


@frozen_dataclass
class LabelledItem:
    """A label with its evidence."""

    label: Label
    use: CriterionUse
    """The criterion as the gate uses it."""
    judge: JudgeIdentity
    evidence: TrialView
    turn: int | None
    """Its number in the evidence, from 1; None for a verdict on all."""
    subject: str
    """The text of a rubric, or a sentence; "" for the only verdict."""


@frozen_dataclass
class LabelledVerdict:
    """A label and the judge's verdict on the same evidence."""

    label: Label
    criterion_judge: CriterionJudge
    passed: bool | None
    """None if the judge could not decide."""
    cluster: str
    """The case, whose labels are not independent."""
    word: str
    """The judge's label."""
    message: str
    """The judge's reason, or why it could not decide."""
    judged_text: str
    """For people."""


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
            spec, verdicts = _spec_of(use)
            rubrics = rubrics_of(use, evidence)
            subject = _subject(label.line, use, rubrics)
            count = len(evidence.actual)
            turn = label.line.turn
            if verdicts.is_of_conversation:
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
            if verdicts.unit == "rubric" and text_of_rubric(subject, rubrics) is None:
                rubric = {"rubric_id": "labelled", "rubric_content": {"text_property": subject}}
                use = replace(use, options={**use.options, "rubrics": [rubric]})
            if turn is not None and deviations.own_rubrics and Need.SCENARIO not in spec.needs:
                evidence = only_turn(evidence, turn)
                turn = 1
            item = LabelledItem(
                label=label, use=use, judge=judge, evidence=evidence, turn=turn, subject=subject
            )
            items.append(item)
        except LabelProblem as problem:
            problems.append(errors.error(problem.code, str(problem), label.place, problem.hint))
    return items, problems


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
    answers = {plain.one_line(prompting.answer_of(turn)) for turn in labelled_turns}
    if line.answer is not None and plain.one_line(line.answer) not in answers:
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
        hint = f"Name one of {words.listed_names(uses)} as `suite`."
        raise LabelProblem(
            PLACE_UNKNOWN, f"the suites use `{line.criterion}` with different options", hint
        )
    return next(iter(options.values()))


def _subject(line: LabelLine, use: CriterionUse, rubrics: Sequence[Rubric]) -> str:
    """The text of the label's subject within the turn. Raises LabelProblem."""
    spec, verdicts = _spec_of(use)
    subject = line.subject
    if verdicts.unit != "rubric":
        return subject
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
    labelled = labelled_spec(use.name)
    assert labelled is not None, "labels of other criteria were refused when they were read"
    return labelled


def name_hint(name: str, names: Mapping[str, object] | Sequence[str]) -> str:
    """A hint for a name that is not among `names`."""
    return words.did_you_mean(name, names, fallback=f"There are {words.listed_names(names)}.")


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
    return (*criterion_rubrics, *_spec_of(use)[1].rubrics, *evidence_rubrics)


def text_of_rubric(name: str, rubrics: Sequence[Rubric]) -> str | None:
    """The text of a rubric by its id or its text, or None if there is no such rubric."""
    texts = {plain.one_line(rubric.text): rubric.text for rubric in reversed(rubrics)}
    by_id = {rubric.rubric_id: rubric.text for rubric in reversed(rubrics)}
    return by_id.get(name) or texts.get(plain.one_line(name))


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
        and (not subject or plain.one_line(str(finding.subject)) == plain.one_line(subject))
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


def turn_content(invocation: Invocation) -> Json:
    """The content of a turn for comparison, without ids and times."""
    return {
        "user": prompting.text_of(invocation.user_content),
        "calls": [[call.name, call.args] for call in invocation.tool_calls],
        "answer": prompting.answer_of(invocation),
    }
