"""What labels are about: the conversation of a stored run that a label names, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evalgate import words
from evalgate.errors import Problem, Severity
from evalgate.judged import labelling
from evalgate.model import Case, CriterionUse, Evidence, JudgeIdentity, Label, Suite, Transcript, TrialKey
from evalgate.pipeline.stored import Stored
from evalgate.prompts import shown


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
    answers = {labelling.plain(shown.answer(each)) for each in (turns if label.turn is None else [turns[turn - 1]])}
    if label.answer is None or labelling.plain(label.answer) in answers:
        return True
    message = f"the agent's answer in {suite.key} differs from the labeled one"
    hint = "Label the new answer, or keep the old one in the line: `user` and `answer`, or `conversation`."
    finds.tell("label-of-another-answer", label, message, hint, severity=finds.stale)
    return False


def meant(name: str, names: Mapping[str, object] | Sequence[str]) -> str:
    """A hint for a name that is not among `names`."""
    close = words.nearest(name, names)
    return f"Did you mean `{close}`?" if close else f"There are {words.listed(f'`{each}`' for each in names)}."
