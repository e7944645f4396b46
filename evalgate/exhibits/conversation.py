"""The turns of the trial of a case that shows what went wrong, expected beside actual."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evalgate.exhibits import cases
from evalgate.exhibits.cases import CaseExhibit
from evalgate.model import Content, CriterionUse, Finding, GradedTrial, Invocation, Text, ToolCall, Transcripts


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnScore:
    """What one criterion gave one turn; `met` None where it has no threshold or no value."""

    name: str
    value: float | None
    threshold: float | None
    met: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn, expected beside actual; None where that side has no such turn or does not say. `unmarked`: the agent
    has no answer, because none of what it said is marked as final."""

    number: int
    user: str
    expected_calls: tuple[ToolCall, ...] | None
    actual_calls: tuple[ToolCall, ...] | None
    expected_answer: str | None
    actual_answer: str | None
    happened: bool
    asked: bool
    unmarked: bool = False
    scores: tuple[TurnScore, ...] = ()
    findings: tuple[tuple[str, Finding], ...] = ()

    @property
    def broken(self) -> bool:
        """Whether a reader should look here: below a threshold, missing, or never asked for."""
        return not self.happened or not self.asked or any(score.met is False for score in self.scores)


def turns(exhibit: CaseExhibit, transcripts: Transcripts) -> tuple[Turn, ...]:
    """The turns of the trial that is shown, as far as they are known; a broken agent's up to where it broke."""
    trial = exhibit.shown
    expected = (exhibit.case.conversation if exhibit.case else None) or ()
    if trial is None:
        return tuple(_turn(number, asked, None) for number, asked in enumerate(expected, 1))
    if trial.failure is not None:
        actual: tuple[Invocation, ...] = trial.failure.partial
    else:
        transcript = transcripts.find(trial.key)
        if transcript is None:
            return ()
        actual = transcript.invocations
    led = exhibit.case is None or exhibit.case.conversation is None
    return tuple(_pair_turns(expected, actual, trial=trial, exhibit=exhibit, led=led))


def answer_text(content: Content | None) -> str | None:
    """What a message says aloud: its texts without thoughts; None where it has none."""
    if content is None:
        return None
    texts = [part.text for part in content.parts if isinstance(part, Text) and not part.thought and part.text]
    return "\n".join(texts) if texts else None


def _pair_turns(
    expected: Sequence[Invocation],
    actual: Sequence[Invocation],
    *,
    trial: GradedTrial,
    exhibit: CaseExhibit,
    led: bool,
) -> Iterator[Turn]:
    """`led`: a simulated user led the conversation, so that every turn was asked for."""
    for index in range(max(len(expected), len(actual))):
        yield _turn(
            index + 1,
            expected[index] if index < len(expected) else None,
            actual[index] if index < len(actual) else None,
            scores=tuple(_turn_scores(index, trial=trial, uses=exhibit.suite.criteria)),
            findings=tuple(_turn_findings(index + 1, trial=trial)),
            led=led,
        )


def _turn(
    number: int,
    expected: Invocation | None,
    actual: Invocation | None,
    *,
    scores: tuple[TurnScore, ...] = (),
    findings: tuple[tuple[str, Finding], ...] = (),
    led: bool = False,
) -> Turn:
    user = expected or actual
    answer = answer_text(actual.final_response) if actual else None
    return Turn(
        number=number,
        user=(answer_text(user.user_content) or "") if user else "",
        expected_calls=expected.tool_calls if expected and expected.events is not None else None,
        actual_calls=actual.tool_calls if actual else None,
        expected_answer=answer_text(expected.final_response) if expected else None,
        actual_answer=answer,
        happened=actual is not None,
        asked=expected is not None or led,
        unmarked=answer is None and any(answer_text(each.content) for each in (actual and actual.events) or ()),
        scores=scores,
        findings=findings,
    )


def _turn_scores(index: int, *, trial: GradedTrial, uses: Sequence[CriterionUse]) -> Iterator[TurnScore]:
    for use in uses:
        grade = trial.grades.get(use.name)
        value = grade.turns[index] if grade is not None and index < len(grade.turns) else None
        if value is None:
            continue
        decides = not use.informational and use.threshold is not None
        yield TurnScore(
            name=use.name,
            value=value,
            threshold=use.threshold if decides else None,
            met=cases.meets(value, use) if decides else None,
        )


def _turn_findings(number: int | None, *, trial: GradedTrial) -> Iterator[tuple[str, Finding]]:
    for name, grade in trial.grades.items():
        yield from ((name, finding) for finding in grade.findings if finding.turn == number)


def findings(exhibit: CaseExhibit) -> tuple[tuple[str, Finding], ...]:
    """What criteria found of the whole conversation in the trial that is shown."""
    return tuple(_turn_findings(None, trial=exhibit.shown)) if exhibit.shown else ()
