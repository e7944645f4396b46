"""labels.jsonl: what people say of things that a judge judges, one JSON object a line; read, and drafted."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from pydantic import Field, ValidationError

from evalgate import criteria
from evalgate.criteria import judges
from evalgate.criteria.base import Verdicts
from evalgate.errors import Place, Problem, Severity
from evalgate.formats import adk_shapes, json_source
from evalgate.formats.adk_shapes import InvocationWire, RubricWire
from evalgate.formats.json_source import Problems
from evalgate.judges import prompting
from evalgate.model import (
    Case,
    Content,
    Evidence,
    Finding,
    Grade,
    GradedTrial,
    Invocation,
    Label,
    Need,
    Score,
    Suite,
    Text,
    TrialKey,
)
from evalgate.model.shapes import Wire, to_snake
from evalgate.results.file import Stored
from evalgate.text import words

COMMON: Mapping[str, bool] = {
    **dict.fromkeys(("yes", "pass", "passed", "true", "valid", "right", "correct", "good", "1"), True),
    **dict.fromkeys(("no", "fail", "failed", "false", "invalid", "wrong", "incorrect", "bad", "0"), False),
}
"""Words that are a yes or a no for every criterion, besides its judge's own."""
UNSURE = frozenset({"", "?", "unsure", "unclear", "skip"})
"""Words of a line that is not labelled (yet)."""


class LabelWire(Wire):
    """One line."""

    criterion: str
    label: str | bool | int | None = None
    suite: str = ""
    case: str = ""
    repeat: int = Field(default=0, ge=0)
    turn: int | None = Field(default=None, ge=1)
    rubric: str = ""
    sentence: str = ""
    user: str | None = None
    answer: str | None = None
    reference: str | None = None
    conversation: list[InvocationWire] | None = Field(default=None, min_length=1)
    expected: list[InvocationWire] | None = None
    rubrics: list[RubricWire] = Field(default_factory=list)
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """What a criterion's label may say and must have: see `plugins.Verdicts`.

    `from_texts`: the words of user and agent are all that is judged. `needs_reference`: an expected answer is compared.
    `only_placed`: what is judged needs its case (a scenario), so that a label must say where in results.json it is.
    """

    labels: Mapping[str, bool]
    unit: str = ""
    from_texts: bool = True
    needs_reference: bool = False
    only_placed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """What is wrong with a line."""

    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsReading:
    """The labels in the order of the file; `unlabelled`: lines that nobody has decided on."""

    labels: tuple[Label, ...]
    unlabelled: int
    problems: tuple[Problem, ...] = ()


def parse_labels(
    text: str, *, file: str, vocabularies: Mapping[str, Vocabulary], others: Collection[str] = ()
) -> LabelsReading:
    """Read a file of labels. `others`: criteria whose verdicts nobody can label. Empty lines are passed over."""
    reader = _Reader(file, vocabularies, others)
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if line.strip():
            reader.read(line.strip(), number)
    return LabelsReading(labels=tuple(reader.labels), unlabelled=reader.unlabelled, problems=tuple(reader.problems))


class _Reader:
    """Reads one line after another."""

    def __init__(self, file: str, vocabularies: Mapping[str, Vocabulary], others: Collection[str]) -> None:
        self._file = file
        self._vocabularies = vocabularies
        self._others = others
        self.labels: list[Label] = []
        self.unlabelled = 0
        self.problems: list[Problem] = []

    def read(self, line: str, number: int) -> None:
        """Keep the label of a line, or what is wrong with it."""
        wire = self._wire(line, number)
        if wire is None:
            return
        vocabulary = self._vocabularies.get(wire.criterion)
        if vocabulary is None:
            self._unknown_criterion(wire.criterion, number)
            return
        word = str(wire.label).strip() if wire.label is not None else ""
        if word.lower() in UNSURE:
            self.unlabelled += 1
            return
        human = _meaning(word, vocabulary.labels)
        found = [*self._about_word(word, human, vocabulary), *_lacks(wire, vocabulary)]
        for fault in found:
            self._error(fault.code, fault.message, number, fault.hint)
        if human is None or found:
            return
        place = Place(file=self._file, line=number)
        self.labels.append(_label(wire, vocabulary, human=human, word=word, place=place))

    def _wire(self, line: str, number: int) -> LabelWire | None:
        try:
            raw = json.loads(line)
        except (ValueError, RecursionError) as error:
            said = getattr(error, "msg", "nested too deeply")
            self._error("json-syntax", f"not JSON: {said}", number, "write one JSON object per line")
            return None
        if not isinstance(raw, dict):
            self._error("wrong-type", f"expected an object, found {json_source.described(raw)}", number)
            return None
        known = {to_snake(str(key)): key for key in raw}
        unknown = [name for name in known if name not in LabelWire.model_fields]
        for name in unknown:
            close = words.nearest(name, LabelWire.model_fields)
            hint = f"did you mean `{close}`?" if close else f"known keys: {', '.join(LabelWire.model_fields)}"
            self._error("unknown-key", f"unknown key `{name[:60]}` in a label", number, hint)
        try:
            wire = LabelWire.model_validate({known[name]: raw[known[name]] for name in known if name not in unknown})
        except ValidationError as error:
            found = Problems(line, file=self._file)
            found.validation(error, raw, path=())
            self.problems += [_at_line(problem, number) for problem in found.all()]
            return None
        return None if unknown else wire

    def _unknown_criterion(self, name: str, number: int) -> None:
        if name in self._others:
            message = f"the judge of `{name}` does not say yes or no, so it cannot be labeled"
            able = ", ".join(self._vocabularies)
            self._error("label-without-verdict", message, number, f"These can be labeled: {able}.")
            return
        close = words.nearest(name, self._vocabularies)
        hint = f"Did you mean `{close}`?" if close else f"These can be labeled: {', '.join(self._vocabularies)}."
        self._error("unknown-criterion", f"no judged criterion is called `{name[:80]}`", number, hint)

    def _about_word(self, word: str, human: bool | None, vocabulary: Vocabulary) -> list[_Fault]:  # noqa: FBT001 - yes, no, or neither
        if human is not None:
            return []
        right = [*vocabulary.labels, "yes", "no", "pass", "fail"]
        close = words.nearest(word, [*vocabulary.labels, *COMMON])
        hint = f"Did you mean `{close}`?" if close else f"Write one of {', '.join(dict.fromkeys(right))}."
        return [_Fault(code="unknown-label", message=f"`{word[:60]}` is neither a yes nor a no", hint=hint)]

    def _error(self, code: str, message: str, number: int, hint: str = "") -> None:
        place = Place(file=self._file, line=number)
        self.problems.append(Problem(severity=Severity.ERROR, code=code, message=message, place=place, hint=hint))


def _meaning(word: str, labels: Mapping[str, bool]) -> bool | None:
    spelled = word.strip("*_`\"'. ").lower().replace("-", "_").replace(" ", "_")
    return labels.get(spelled, COMMON.get(spelled))


def _lacks(wire: LabelWire, vocabulary: Vocabulary) -> list[_Fault]:
    """What the line does not say."""
    unseen = _unseen(wire, vocabulary)
    if unseen is not None:
        return [_Fault(code="label-without-evidence", message=unseen[0], hint=unseen[1])]
    turns = wire.conversation
    if turns is not None and wire.turn is not None and wire.turn > len(turns):
        message = f"`turn` is {wire.turn}, the conversation has {words.counted(len(turns), 'turn')}"
        return [_Fault(code="label-place-unknown", message=message, hint="Turns count from 1.")]
    stray = {"rubric": wire.rubric, "sentence": wire.sentence}
    wrong = next((name for name, value in stray.items() if value and name != vocabulary.unit), None)
    if wrong:
        return [_Fault(code="label-subject-unknown", message=f"`{wire.criterion}` has no verdict on a {wrong}")]
    return []


def _unseen(wire: LabelWire, vocabulary: Vocabulary) -> tuple[str, str] | None:
    """Why the judge could not be shown what was labelled, and what to give; None where it can."""
    if wire.suite and wire.case:
        return None
    if vocabulary.only_placed:
        return "what is judged needs its scenario", "Give `suite` and `case` of results.json."
    texts = wire.user is not None and wire.answer is not None
    if wire.conversation is None and not texts:
        hint = "Give `user` and `answer`, or `conversation`, or `suite` and `case` of results.json."
        return "the line does not identify what was judged", hint
    if wire.conversation is None and not vocabulary.from_texts:
        hint = "Give `conversation`, or `suite` and `case` of results.json."
        return "`user` and `answer` do not show tool use", hint
    key, given = ("reference", wire.reference) if wire.conversation is None else ("expected", wire.expected)
    if vocabulary.needs_reference and not given and given != "":
        return "the judge needs an expected answer", f"Give it as `{key}`."
    return None


def _label(wire: LabelWire, vocabulary: Vocabulary, *, human: bool, word: str, place: Place) -> Label:
    evidence = _evidence(wire, vocabulary, f"label-{place.line}")
    where = TrialKey(suite=wire.suite, case_id=wire.case, repeat=wire.repeat) if wire.suite and wire.case else None
    return Label(
        criterion=wire.criterion,
        human=human,
        word=word,
        place=place,
        where=where,
        evidence=evidence,
        turn=wire.turn,
        subject=wire.rubric or wire.sentence,
        answer=wire.answer,
        note=wire.note,
    )


def _evidence(wire: LabelWire, vocabulary: Vocabulary, name: str) -> Evidence | None:
    """What was judged, where the line itself holds all of it."""
    if vocabulary.only_placed:
        return None
    rubrics = tuple(rubric.noun() for rubric in wire.rubrics)
    if wire.conversation is not None:
        if vocabulary.needs_reference and wire.expected is None:
            return None
        actual = tuple(turn.noun() for turn in wire.conversation)
        expected = None if wire.expected is None else tuple(turn.noun() for turn in wire.expected)
        case = Case(case_id=name, conversation=expected, rubrics=rubrics)
        return Evidence(case=case, actual=actual, expected=expected)
    if wire.user is None or wire.answer is None or not vocabulary.from_texts:
        return None
    if vocabulary.needs_reference and wire.reference is None:
        return None
    turn = Invocation(user_content=_text(wire.user, "user"), final_response=_text(wire.answer, "model"))
    answered = None if wire.reference is None else _text(wire.reference, "model")
    expected = None if answered is None else (dataclasses.replace(turn, final_response=answered),)
    return Evidence(case=Case(case_id=name, conversation=expected, rubrics=rubrics), actual=(turn,), expected=expected)


def _text(text: str, role: str) -> Content:
    return Content(parts=(Text(text=text),), role=role)


def _at_line(problem: Problem, number: int) -> Problem:
    place = problem.place or Place(file="")
    return dataclasses.replace(problem, place=dataclasses.replace(place, line=number))


TEXTS_ARE_ALL = frozenset({"final_response_match_v2", "safety_v1"})
"""Criteria that judge the words of user, agent and reference, and nothing else."""


def draft(stored: Stored, *, most: int, seed: int) -> list[str]:
    """Lines of a labels file with empty labels, at most `most` of each criterion, drawn at random.

    What the judge said is left out: who sees it agrees with it. Nor does it weigh in the draw: a sample that favours
    what the judge rejects distorts TPR and TNR.
    """
    random = Random(seed)  # noqa: S311 - which verdicts to label, no secret
    by_criterion: dict[str, list[dict[str, Any]]] = {}
    suites = {suite.key: suite for suite in stored.run.suites}
    for trial in stored.run.trials:
        for line in _draft_lines(trial, suites[trial.key.suite], stored):
            by_criterion.setdefault(line["criterion"], []).append(line)
    chosen = [line for lines in by_criterion.values() for line in random.sample(lines, min(most, len(lines)))]
    return [json.dumps(line, ensure_ascii=False) for line in chosen]


def _draft_lines(trial: GradedTrial, suite: Suite, stored: Stored) -> Iterator[dict[str, Any]]:
    transcript = stored.outcomes.find(trial.key)
    case = next((case for case in suite.eval_set.cases if case.case_id == trial.key.case_id), None)
    if transcript is None or case is None:
        return
    evidence = Evidence(case=case, actual=transcript.invocations, expected=case.conversation)
    for use in suite.criteria:
        spec = criteria.CRITERIA.get(use.name)
        grade = trial.grades.get(use.name)
        if spec is None or spec.verdicts is None or not isinstance(grade, Score):
            continue
        if judges.judge_of(use, spec) is None:
            continue
        for finding in _findings(grade, spec.verdicts):
            turn = finding.turn if finding.turn is not None and not spec.verdicts.whole else None
            subject = {spec.verdicts.unit: finding.subject} if spec.verdicts.unit else {}
            yield {"label": "", "criterion": use.name, **subject, **_about(trial, use.name, evidence, turn)}


def _findings(grade: Grade, verdicts: Verdicts) -> list[Finding]:
    """The verdicts that a line can name: with the subject that its unit is, or with none."""
    return [each for each in grade.findings if each.score is not None and bool(each.subject) is bool(verdicts.unit)]


def _about(trial: GradedTrial, criterion: str, evidence: Evidence, turn: int | None) -> dict[str, Any]:
    """The texts that a person reads first, then where they come from, then what else the judge sees."""
    at = len(evidence.actual) if turn is None else turn
    judged = evidence.actual[at - 1]
    line: dict[str, Any] = {"user": prompting.text_of(judged.user_content), "answer": prompting.answer_of(judged)}
    expected = evidence.expected[at - 1] if evidence.expected and at <= len(evidence.expected) else None
    if expected is not None and prompting.answer_of(expected).strip():
        line["reference"] = prompting.answer_of(expected)
    line |= {"suite": trial.key.suite, "case": trial.key.case_id, "repeat": trial.key.repeat, "turn": at}
    if Need.SCENARIO in criteria.CRITERIA[criterion].needs:
        return line
    if criterion not in TEXTS_ARE_ALL or not _is_plain(judged):
        line |= _whole(evidence)
    return line


def _whole(evidence: Evidence) -> dict[str, Any]:
    written: dict[str, Any] = {"conversation": [adk_shapes.invocation_json(each) for each in evidence.actual]}
    if evidence.expected is not None:
        written["expected"] = [adk_shapes.invocation_json(each) for each in evidence.expected]
    if evidence.case.rubrics:
        written["rubrics"] = [adk_shapes.rubric_json(each) for each in evidence.case.rubrics]
    return written


def _is_plain(invocation: Invocation) -> bool:
    """Whether the texts are all there is to the turn's two messages."""
    final = invocation.final_response.parts if invocation.final_response else ()
    return all(isinstance(part, Text) for part in (*invocation.user_content.parts, *final))
