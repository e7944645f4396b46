"""One case as a reader meets it: its verdict, its trials, and the turns of the trial that shows what went wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evalgate.exhibits import compared, excuses
from evalgate.model import (
    AgentFailure,
    Case,
    CaseComparison,
    CaseVerdict,
    Content,
    CriterionUse,
    CriterionVerdict,
    FailureOrigin,
    Finding,
    GradedTrial,
    Invocation,
    NotEvaluated,
    Reason,
    Report,
    Score,
    Suite,
    Text,
    ToolCall,
    Transcripts,
    VerdictKind,
)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseExhibit:
    """A case with its verdict, its place in the user's files, and all its trials in order of repeats; `compared`: how
    it stands beside the base, None where it does not. `excuse`: why it decides nothing although it does not pass, ""
    where that lies in whose failure it is; None where it decides."""

    verdict: CaseVerdict
    suite: Suite
    case: Case | None
    trials: tuple[GradedTrial, ...]
    compared: CaseComparison | None = None
    excuse: str | None = None

    @property
    def file(self) -> str:
        """The file that the case stands in."""
        return self.case.place.file if self.case and self.case.place else self.suite.key

    @property
    def line(self) -> int | None:
        """The line of that file, from 1."""
        return self.case.place.line if self.case and self.case.place else None

    @property
    def failing(self) -> tuple[CriterionVerdict, ...]:
        """The criteria that failed."""
        return tuple(each for each in self.verdict.criteria if each.kind is VerdictKind.FAIL)

    @property
    def unmeasured(self) -> tuple[CriterionVerdict, ...]:
        """The deciding criteria without a verdict."""
        undecided = (VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE)
        return tuple(each for each in self.verdict.criteria if each.kind in undecided)

    @property
    def agent_failed(self) -> bool:
        """Whether an agent that broke, and no criterion, made this case what it is."""
        return not self.failing and self.failure is not None

    @property
    def failure(self) -> AgentFailure | None:
        """The first failure of the agent in any of its runs."""
        return next((trial.failure for trial in self.trials if trial.failure is not None), None)

    @property
    def skipped(self) -> bool:
        """Whether the user asked to leave out all that is unmeasured here."""
        return bool(self.unmeasured) and bool(self.trials) and all(_was_skipped(each) for each in self.unmeasured)

    @property
    def shortfall(self) -> float:
        """How far the worst criterion is from its threshold, in units of the threshold's size; 0.0 where none fails."""
        return max((_shortfall(each) for each in self.failing), default=0.0)

    @property
    def shown(self) -> GradedTrial | None:
        """The trial to look at: most criteria below their thresholds, else a broken agent, else the first."""
        uses = {use.name: use for use in self.suite.criteria}
        return max(
            self.trials,
            key=lambda trial: (_below(trial, uses=list(uses.values())), trial.failure is not None, -trial.key.repeat),
            default=None,
        )

    @property
    def whose(self) -> str:
        """Whose failure it is, where there is a base to tell, and why it decides nothing, where that is so."""
        excuse = self.excuse if self.verdict.admitted else excuses.WAITING
        return ", ".join(each for each in (compared.whose(self.compared), excuse) if each)

    @property
    def flaky(self) -> tuple[CriterionVerdict, ...]:
        """The deciding criteria that reached their threshold in some repeats and not in others."""
        if len(self.trials) < 2:
            return ()
        uses = {use.name: use for use in self.suite.criteria}
        return tuple(each for each in self.verdict.criteria if each.name in uses and _is_flaky(each, uses[each.name]))


def collect(report: Report) -> tuple[CaseExhibit, ...]:
    """All cases of a report in the order of its verdict. The last report's are kept: renderers ask one by one."""
    global _last  # noqa: PLW0603 - one value, replaced whole
    if _last is None or _last[0] is not report:
        _last = report, tuple(_collected(report))
    return _last[1]


_last: tuple[Report, tuple[CaseExhibit, ...]] | None = None


def _collected(report: Report) -> Iterator[CaseExhibit]:
    suites = {suite.key: suite for suite in report.run.suites}
    beside = compared.by_case(report.comparison)
    excused = excuses.find(report)
    trials: defaultdict[tuple[str, str], list[GradedTrial]] = defaultdict(list)
    for trial in report.run.trials:
        trials[trial.key.suite, trial.key.case_id].append(trial)
    for suite in report.verdict.suites:
        if suite.suite in suites:
            known = {case.case_id: case for case in suites[suite.suite].eval_set.cases}
            for verdict in suite.cases:
                name = (verdict.suite, verdict.case_id)
                yield CaseExhibit(
                    verdict=verdict,
                    suite=suites[verdict.suite],
                    case=known.get(verdict.case_id),
                    trials=tuple(trials.get(name, ())),
                    compared=beside.get(name),
                    excuse=excused.get(name),
                )


def worst_first(exhibits: Sequence[CaseExhibit]) -> tuple[CaseExhibit, ...]:
    """What the change broke first, then the furthest below its threshold; equals keep their order."""
    return tuple(sorted(exhibits, key=lambda each: (_whose(each), -each.shortfall)))


def _whose(exhibit: CaseExhibit) -> int:
    origin = exhibit.compared.origin if exhibit.compared is not None else None
    new = (FailureOrigin.NEW, FailureOrigin.UNCONFIRMED, FailureOrigin.UNKNOWN)
    order = (*new, None, FailureOrigin.FLAKY, FailureOrigin.KNOWN)
    return order.index(origin)


def of_kind(exhibits: Sequence[CaseExhibit], *kinds: VerdictKind) -> tuple[CaseExhibit, ...]:
    """Those that ended as one of `kinds`."""
    return tuple(each for each in exhibits if each.verdict.kind in kinds)


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


def meets(value: float, use: CriterionUse) -> bool:
    """ADK's rule for one value: at least the threshold, at most where lower is better."""
    if use.threshold is None:
        return True
    return value <= use.threshold if use.lower_is_better else value >= use.threshold


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
            met=meets(value, use) if decides else None,
        )


def _turn_findings(number: int | None, *, trial: GradedTrial) -> Iterator[tuple[str, Finding]]:
    for name, grade in trial.grades.items():
        yield from ((name, finding) for finding in grade.findings if finding.turn == number)


def conversation_findings(exhibit: CaseExhibit) -> tuple[tuple[str, Finding], ...]:
    """What criteria found of the whole conversation in the trial that is shown."""
    return tuple(_turn_findings(None, trial=exhibit.shown)) if exhibit.shown else ()


def reasons_missing(trial: GradedTrial) -> tuple[tuple[str, NotEvaluated], ...]:
    """The criteria without a score in one trial, each with its reason."""
    return tuple((name, grade) for name, grade in trial.grades.items() if isinstance(grade, NotEvaluated))


def _below(trial: GradedTrial, *, uses: Sequence[CriterionUse]) -> int:
    grades = [(use, trial.grades.get(use.name)) for use in uses if not use.informational]
    return sum(1 for use, grade in grades if isinstance(grade, Score) and not meets(grade.value, use))


def _is_flaky(verdict: CriterionVerdict, use: CriterionUse) -> bool:
    known = [meets(value, use) for value in verdict.values if value is not None]
    return verdict.kind is not None and any(known) and not all(known)


def _shortfall(verdict: CriterionVerdict) -> float:
    if verdict.value is None or verdict.threshold is None:
        return 0.0
    return abs(verdict.threshold - verdict.value) / max(abs(verdict.threshold), 1e-9)


def _was_skipped(verdict: CriterionVerdict) -> bool:
    return verdict.reason is Reason.SKIPPED
