"""labels.jsonl: people's verdicts on what a judge judges, one JSON object per line. Reads and
drafts it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from random import Random
from typing import NoReturn

from pydantic import Field

from evalgate import criteria, errors
from evalgate.criteria import judges
from evalgate.criteria.base import CriterionSpec, Verdicts
from evalgate.errors import Place, Problem
from evalgate.formats import adk_shapes
from evalgate.formats.adk_shapes import InvocationWire, RubricWire
from evalgate.formats.json_source import Problems, Spot
from evalgate.judges import prompting
from evalgate.model import (
    Case,
    Content,
    Finding,
    GradedTrial,
    Invocation,
    Need,
    Score,
    Suite,
    Text,
    TrialKey,
    TrialView,
)
from evalgate.model.shapes import Wire
from evalgate.results.file import Stored
from evalgate.text import words
from evalgate.values import JsonObject, frozen_dataclass, grouped

COMMON_LABELS = {
    **dict.fromkeys(
        ("yes", "pass", "passed", "true", "valid", "right", "correct", "good", "1"), True
    ),
    **dict.fromkeys(
        ("no", "fail", "failed", "false", "invalid", "wrong", "incorrect", "bad", "0"), False
    ),
}
"""Words that mean yes or no for every criterion, in addition to its judge's own."""
UNSURE_LABELS = frozenset({"", "?", "unsure", "unclear", "skip"})
"""Words for a line that has no label yet."""
NEEDS_STEPS = frozenset({"rubric_based_tool_use_quality_v1", "multi_turn_tool_use_quality_v1"})
"""Criteria whose evidence is more than two texts."""
TEXT_ONLY = frozenset({"final_response_match_v2", "safety_v1"})
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
    turn: int | None = Field(default=None, ge=1)

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
    """One line. `rubric` (id or text) or `sentence`: its subject. Neither is needed if the
    criterion gives one verdict."""

    criterion: str
    label: str | bool | int | None = None
    rubric: str = ""
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
    """A person's yes or no on something that a judge can answer with yes or no.

    `evidence`: the judged texts, if the line has them; otherwise the line names a trial of
    results.json."""

    line: LabelLine
    human: bool
    place: Place
    evidence: TrialView | None = None


def labelled_spec(name: str) -> tuple[CriterionSpec, Verdicts] | None:
    """The spec of a criterion whose verdicts people can label, because its judge model answers yes
    or no, and these verdicts."""
    spec = criteria.CRITERIA.get(name)
    return (spec, spec.verdicts) if spec is not None and spec.verdicts is not None else None


def parse_labels(text: str, *, file: str) -> LabelsReading:
    """Read a file of labels. Empty lines are skipped."""
    reading = LabelsReading(file)
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if line.strip():
            reading.add(line.strip(), number)
    reading.problems += _duplicate_labels(reading.labels)
    return reading


def _duplicate_labels(labels: Iterable[Label]) -> Iterator[Problem]:
    """Lines with the same evidence and subject: an error if they contradict each other, else a
    warning."""
    first_labels: dict[str, Label] = {}
    for label in labels:
        line = label.line
        evidence = label.evidence
        evidence_key = (
            None if evidence is None or line.trial_key else (evidence.actual, evidence.expected)
        )
        # repr of frozen values: evidence holds JSON, which cannot be hashed
        key = repr(
            (line.criterion, line.trial_key, line.turn, line.subject, line.answer, evidence_key)
        )
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
        yield report("label-twice", message, label.place, hint)


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
        line = Spot(problems).validated(LabelLine, raw)
        for problem in problems.all():
            self._error(problem.code, str(problem.message), str(problem.hint))
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
    question, reply = (
        Content(parts=(Text(text=text),), role=role)
        for role, text in (("user", user), ("model", answer))
    )
    return Invocation(user_content=question, final_response=reply)


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
