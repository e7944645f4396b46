"""The turns of the trial that reports show of a case: expected, actual, and those of the base."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from evalgate.comparison import threshold
from evalgate.model import (
    Content,
    CriterionUse,
    CriterionVerdict,
    Finding,
    GradedTrial,
    Invocation,
    ToolCall,
    TrialKey,
    VerdictKind,
    call_diff,
    divergence,
    turn_score,
)
from evalgate.text import diff, plain
from evalgate.values import frozen_dataclass
from .cases import CaseView
from .phrases import phrase

QUOTE_WIDTH = 160
"""Characters of a model's error."""
TRAJECTORY = "tool_trajectory_avg_score"
"""The criterion by which a file that mentions no calls expects none."""


@frozen_dataclass
class Turn:
    """One turn, expected and actual."""

    number: int
    """From 1."""
    expected: Invocation | None
    """None if the evaluation file does not have it."""
    actual: Invocation | None
    """None if the agent did not reach it."""
    is_planned: bool = True
    """True if the evaluation file has it, or a simulated user led to it."""
    of: int = 1
    """The number of turns of its run, if it is shown without the others."""
    base: Invocation | None = None
    """The base's turn, for new failures."""
    scores: tuple[CriterionVerdict, ...] = ()
    """Of the criteria that score each turn."""
    findings: tuple[tuple[str, Finding], ...] = ()
    """Each with the name of its criterion."""

    @property
    def user(self) -> str:
        """The user's message."""
        turn = self.expected or self.actual
        return (answer_text(turn.user_content) or "") if turn else ""

    @property
    def expected_calls(self) -> tuple[ToolCall, ...] | None:
        """The calls in the evaluation file. If it does not mention calls: (), if a criterion of
        calls fails, else None."""
        if self.expected is None or (
            self.expected.events is None
            and all(score.name != TRAJECTORY for score in self.missed_scores)
        ):
            return None
        return self.expected.tool_calls

    @property
    def actual_calls(self) -> tuple[ToolCall, ...] | None:
        """The agent's calls; None if the turn did not happen."""
        return self.actual.tool_calls if self.actual else None

    @property
    def calls_differ(self) -> bool:
        """True if the calls are not those of the evaluation file."""
        expected_calls = self.expected_calls
        return expected_calls is not None and not call_diff.same(expected_calls, self.actual_calls)

    @property
    def expected_answer(self) -> str | None:
        """The answer in the evaluation file, None if it has none."""
        return answer_text(self.expected.final_response) if self.expected else None

    @property
    def actual_answer(self) -> str | None:
        """The agent's answer, None if it gave none."""
        return answer_text(self.actual.final_response) if self.actual else None

    @property
    def model_error(self) -> str:
        """The model's error in place of an answer, such as `SAFETY: blocked`; "" without one."""
        stop = self.actual.stop if self.actual else None
        return plain.clip_end(plain.flat(stop.error), QUOTE_WIDTH) if stop else ""

    @property
    def base_answer(self) -> str | None:
        """The base's answer; None if it gave none, or if its turn is not shown."""
        return answer_text(self.base.final_response) if self.base else None

    @property
    def has_no_final_answer(self) -> bool:
        """True if the agent has no answer because none of its texts is marked as final."""
        events = (self.actual and self.actual.events) or ()
        return (
            self.actual_answer is None
            and not self.model_error
            and any(answer_text(event.content) for event in events)
        )

    @property
    def missed_scores(self) -> tuple[CriterionVerdict, ...]:
        """The scores below their thresholds."""
        return tuple(score for score in self.scores if score.kind is VerdictKind.FAIL)

    @property
    def compares_answers(self) -> bool:
        """True if the answer's words matter; False if only criteria of tool calls fail."""
        return not self.missed_scores or not all(
            "tool" in score.name for score in self.missed_scores
        )

    @property
    def is_notable(self) -> bool:
        """True if this turn is worth a look: below a threshold, missing, or unplanned."""
        return self.actual is None or not self.is_planned or bool(self.missed_scores)


@frozen_dataclass
class Conversation:
    """The conversation of a trial."""

    turns: tuple[Turn, ...] = ()
    """All known ones, expected or actual."""
    findings: tuple[tuple[str, Finding], ...] = ()
    """Those on the whole conversation, each with the name of its criterion."""
    divergence: str = ""
    """How the base's conversation diverges, in a sentence; "" if that is unknown."""

    @property
    def notable(self) -> tuple[Turn, ...]:
        """The notable turns; all turns if none is notable."""
        return tuple(turn for turn in self.turns if turn.is_notable) or self.turns


@lru_cache(maxsize=256)  # views are equal only to themselves; several renderers ask for each
def conversation_of(case: CaseView) -> Conversation:
    """The conversation of the shown trial; if its agent failed, the turns until then."""
    trial = case.main_trial
    expected = case.eval_case.turns
    is_simulated = case.eval_case.scenario is not None
    if trial is None:
        unrun_turns = (
            Turn(number=index, expected=invocation, actual=None)
            for index, invocation in enumerate(expected, 1)
        )
        return Conversation(turns=tuple(unrun_turns))
    # a failed trial has turns in its failure; the base of a scenario is compared with its recording
    recorded_turns = case.head.turns(trial.key) if trial.failure is None or is_simulated else None
    actual = recorded_turns if trial.failure is None else trial.failure.partial
    base, divergence_text = _beside_base(
        case, trial, actual if recorded_turns is None else recorded_turns
    )
    findings = tuple(_findings(None, trial=trial))
    if actual is None:
        return Conversation(findings=findings, divergence=divergence_text)
    uses = case.suite.criteria_of(case.eval_case)
    # with default options, the criterion's findings repeat the difference of the calls
    repeated_names = {
        use.name
        for use in uses
        if use.name == TRAJECTORY and not use.options.keys() - {"threshold"}
    }
    turns = (
        Turn(
            number=index + 1,
            expected=expected[index] if index < len(expected) else None,
            actual=actual[index] if index < len(actual) else None,
            is_planned=index < len(expected) or is_simulated,
            base=base[index] if index < len(base) else None,
            scores=tuple(scores(index, trial=trial, uses=uses)),
            findings=tuple(
                pair for pair in _findings(index + 1, trial=trial) if pair[0] not in repeated_names
            ),
        )
        for index in range(max(len(expected), len(actual)))
    )
    return Conversation(turns=tuple(turns), findings=findings, divergence=divergence_text)


def answer_text(content: Content | None) -> str | None:
    """The texts of a message without thoughts; None if it has none."""
    return (content.text() or None) if content is not None else None


def tally(finding: Finding) -> str:
    """`3 samples: 2 valid, 1 no verdict; 2 not needed`; empty if no judge was asked."""
    if not finding.opinions:
        return ""
    counts = Counter(opinion.label for opinion in finding.opinions)
    return phrase("samples", dict(counts.most_common()), finding.spared)


def call_lines(
    left_calls: Sequence[ToolCall], right_calls: Sequence[ToolCall], *, width: int, most: int
) -> tuple[Sequence[call_diff.CallLine], int]:
    """The difference of calls in lines of `width` characters: at most `most` lines, from shortly
    before the first change, and the number of other lines."""
    lines = [
        call_diff.CallLine(mark=line.mark, text=text)
        for line in call_diff.difference(call_diff.pair(left_calls, right_calls))
        for text in plain.wrap(
            plain.flat(line.text or f"    {phrase('equal_arguments', line.equal)}"), width
        )
    ]
    first_change = next((index for index, line in enumerate(lines) if line.mark != " "), 0)
    start = max(min(first_change - diff.CONTEXT_LINES, len(lines) - most), 0)
    return lines[start : start + most], max(len(lines) - most, 0)


def visible_findings(findings: Sequence[tuple[str, Finding]]) -> list[tuple[str, Finding]]:
    """The findings that have a text or opinions."""
    return [
        (name, finding)
        for name, finding in findings
        if str(finding.text).strip() or finding.opinions
    ]


def scores(
    index: int, *, trial: GradedTrial, uses: Iterable[CriterionUse]
) -> Iterator[CriterionVerdict]:
    """The scores of the turn with this index, from 0. Criteria that did not score it are
    omitted."""
    for use in uses:
        grade = trial.grades.get(use.name)
        value = turn_score(grade, index)
        if value is None:
            continue
        kind = None
        if not use.informational and use.threshold is not None:
            kind = VerdictKind.PASS if threshold.reaches(value, use) else VerdictKind.FAIL
        limit = use.threshold if kind else None
        yield CriterionVerdict(name=use.name, kind=kind, value=value, threshold=limit)


def _findings(number: int | None, *, trial: GradedTrial) -> Iterator[tuple[str, Finding]]:
    """The findings on a turn, or on the whole conversation (None), each with its criterion."""
    for name, grade in trial.grades.items():
        yield from ((name, finding) for finding in grade.findings if finding.turn == number)


def _beside_base(
    case: CaseView, trial: GradedTrial, head: Sequence[Invocation] | None
) -> tuple[Sequence[Invocation], str]:
    """The base's turns to show beside those of head, for new failures; and where a simulated
    conversation diverges from the base's, "" if that is unknown."""
    is_simulated = case.eval_case.scenario is not None
    if case.base is None or head is None or not (is_simulated or case.is_new):
        return (), ""
    # the trial with the same number, else the first that was kept
    other_numbers = () if is_simulated else range(case.base.run.repeats)
    all_turns = (
        case.base.turns(TrialKey(suite=case.verdict.suite, case_id=case.case_id, number=number))
        for number in (trial.key.number, *other_numbers)
    )
    base = next((turns for turns in all_turns if turns is not None), None)
    if base is None:
        return (), ""
    text = ""
    if is_simulated:
        difference = divergence(base, head, hears_calls=case.suite.simulator.include_function_calls)
        text = phrase("divergence", difference, len(base), len(head))
        # later turns of the same number are no longer comparable
        if difference is not None and difference.users is not None:
            base = base[: difference.users - 1]
    return base if case.is_new else (), text
