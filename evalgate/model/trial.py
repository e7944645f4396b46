"""Trials: one run of a case, how it ended, and its grades."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Self, TypeAlias

from pydantic import Field

from evalgate.text import plain
from evalgate.values import Json, Sentence, Wording, frozen_dataclass
from .case import Case
from .conversation import Invocation

WHY_WIDTH = 300
"""The most characters of an agent's failure message."""
_ERROR = re.compile(r"[\w.]+(Error|Exception|Exit): ")
"""The beginning of a traceback's line with the error."""

CaseKey: TypeAlias = tuple[str, str]
"""The key of a suite, and the id of a case in it."""


class Purpose(enum.StrEnum):
    """The purpose of a trial; the order, also as texts, is this one."""

    FIRST = "first"
    """One of the runs that every case has."""
    PAIR = "pair"
    """Again on both sides, because head failed; in no mean."""
    SINGLE = "single"
    """Again on head only; in no mean."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TrialKey:
    """The name of a trial."""

    suite: str
    """The key of its suite."""
    case_id: str
    purpose: Purpose = Purpose.FIRST
    number: int = 0
    """Within the purpose, from 0."""

    def __str__(self) -> str:
        """As logs and journals name it: `agent/a.test.json:case#0`."""
        return f"{self.suite}:{self.case_id}#{self.repeat}"

    def renamed(self, names: Mapping[str, str]) -> TrialKey:
        """The same trial, with the new name of its suite if `names` has one."""
        return replace(self, suite=names.get(self.suite, self.suite))

    @property
    def case(self) -> CaseKey:
        """The key of its case."""
        return self.suite, self.case_id

    @property
    def repeat(self) -> int | str:
        """Its name among the runs of its case: the number of a first run; `pair 0` and `single 0`
        for others."""
        return self.number if self.is_first else f"{self.purpose} {self.number}"

    @property
    def is_first(self) -> bool:
        """True for a run that every case has; other runs confirm failures."""
        return self.purpose is Purpose.FIRST


class Ending(enum.StrEnum):
    """How a conversation with a simulated user ended."""

    STOP_SIGNAL = "stop_signal"
    """The user reached its goal, or gave up."""
    TURN_LIMIT = "turn_limit"
    """The limit ended it."""


@frozen_dataclass
class Transcript:
    """A complete conversation."""

    invocations: tuple[Invocation, ...]
    """The actual turns, in order."""
    final_state: Json | None = None
    """None if the driver does not know it."""
    ended_by: Ending | None = None
    """None if the user's turns were scripted, or the ending was not recorded."""
    isolated: bool = False
    """True if each turn had its own session."""
    redacted: bool = False
    """True if secrets were removed, so that the transcript is only for readers: scoring it could
    give another score."""
    platform: Json | None = None
    """The result of the agent's platform, if that led the conversation and judged it; `invocations`
    may then be unknown, and empty."""


class FailureKind(enum.StrEnum):
    """Why there is no transcript: the failure of the agent, or of its simulated user."""

    INSTALL = "install"
    """Its environment could not be created."""
    START = "start"
    """Import error, missing dependency, no root agent: it never became ready."""
    RAISED = "raised"
    """An exception while it ran."""
    MODEL_ERROR = "model_error"
    """Its model answered with an error instead of content."""
    UNAUTHORIZED = "unauthorized"
    """401, 402, 403 or 407: a service rejects its credentials."""
    RATE_LIMITED = "rate_limited"
    """429 or a quota."""
    UNREACHABLE = "unreachable"
    """5xx, connection refused or reset."""
    TIMEOUT = "timeout"
    """A turn or the case took too long."""
    EXITED = "exited"
    """The process ended by itself."""
    KILLED = "killed"
    """A signal ended it (out of memory, for one)."""
    FLOODED = "flooded"
    """More output than allowed."""
    PROTOCOL = "protocol"
    """Its output is not the protocol."""
    NO_RECORDING = "no_recording"
    """A replay has nothing for this case or turn."""
    TOOL_UNMATCHED = "tool_unmatched"
    """A tool call without an answer in cassettes and mock rules."""
    SIMULATOR = "simulator"
    """The simulated user had no message: never the agent's fault."""

    def failure(self, message: str, *, detail: str = "") -> AgentFailure:
        """A failure of this kind outside any turn; `detail`: see AgentFailure."""
        return AgentFailure(kind=self, message=message, detail=detail)


INFRASTRUCTURE: frozenset[FailureKind] = frozenset(
    {FailureKind.RATE_LIMITED, FailureKind.UNREACHABLE}
)
"""Kinds for which a retry may succeed. A wrong answer is never retried."""
UNANSWERED = frozenset({FailureKind.UNREACHABLE, FailureKind.UNAUTHORIZED})
"""Kinds of a service that does not answer, or not with these credentials."""


@frozen_dataclass
class AgentFailure:
    """Why there is no transcript: never a score, never a pass."""

    kind: FailureKind
    message: str
    turn: int | None = None
    """From 1; None: before the first, or after the last."""
    detail: str = ""
    """The end of the agent's own output (stderr or traceback), without secrets."""
    partial: tuple[Invocation, ...] = ()
    """The turns before the failure."""
    retry_after_s: float | None = None
    """The wait in seconds that its provider asks for, if any."""
    trace: tuple[Json, ...] = field(default=(), compare=False)
    """Of the failed turn, as in an Invocation."""

    @property
    def summary(self) -> str:
        """One line, limited in length, without a full stop, such as `ModuleNotFoundError: No module
        named 'foo'`."""
        reason = self.message
        error = next(
            (line for line in reversed(self.detail.splitlines()) if _ERROR.match(line)), ""
        )
        if self.kind is FailureKind.START and "cannot be loaded: " in reason:
            # the remaining message is advice about an agent that the author of the change need not
            # repair
            reason = error or reason.partition("cannot be loaded: ")[2]
        elif self.kind in (FailureKind.START, FailureKind.EXITED) and error:
            reason = f"{reason}: {error}"
        return plain.clip_end(plain.one_line(reason).rstrip("."), WHY_WIDTH)


Outcome: TypeAlias = Transcript | AgentFailure
"""How a trial ends."""


def turns_of(outcome: Outcome) -> tuple[Invocation, ...]:
    """The turns that were answered."""
    return outcome.partial if isinstance(outcome, AgentFailure) else outcome.invocations


def models_of(outcome: Outcome) -> set[str]:
    """The models that answered."""
    steps = (event for turn in turns_of(outcome) for event in turn.steps)
    return {event.model_version for event in steps if event.model_version}


@frozen_dataclass
class Trial:
    """One run of one case."""

    key: TrialKey
    outcome: Outcome
    seconds: float = 0.0
    """The agent's time for its turns, over all attempts."""
    attempts: int = 1
    """The number of times that it was tried."""


@frozen_dataclass
class TrialView:
    """Everything that a criterion may see."""

    case: Case
    actual: tuple[Invocation, ...]
    """The turns of the conversation."""
    expected: tuple[Invocation, ...] | None
    """None for scenarios."""
    final_state: Json | None = None
    """The session state at the end; None if it was not recorded."""
    ended_by: Ending | None = None
    """As in `Transcript`."""
    repeat: int | str = 0
    """The trial's name, so that judges are asked again for each repeat."""
    platform: Json | None = None
    """See `Transcript.platform`."""

    @classmethod
    def of(cls, case: Case, transcript: Transcript, *, repeat: int | str = 0) -> Self:
        """The view of a trial of a case."""
        return cls(
            case=case,
            actual=transcript.invocations,
            expected=case.conversation,
            final_state=transcript.final_state,
            ended_by=transcript.ended_by,
            repeat=repeat,
            platform=transcript.platform,
        )


MOST = 1e100
"""The largest absolute score: the squares of a million such numbers can still be added."""


class Reason(enum.StrEnum):
    """Why a criterion could not be evaluated."""

    AGENT_FAILED = "agent_failed"
    """There is no transcript."""
    REFERENCE_MISSING = "reference_missing"
    """The case has no expected turns, or not what the criterion compares."""
    NOT_APPLICABLE = "not_applicable"
    """The criterion has nothing to measure in this case."""
    NOTHING_RECORDED = "nothing_recorded"
    """The trial lacks data for the criterion (no usage, no timings)."""
    TURNS_MISSING = "turns_missing"
    """The agent gave fewer or more turns than the case has."""
    ABSTAINED = "abstained"
    """A custom metric reported that it does not decide this case, as in ADK."""
    CRITERION_FAILED = "criterion_failed"
    """The criterion itself raised, or returned an invalid score."""
    JUDGE_UNAVAILABLE = "judge_unavailable"
    """No reply from the judge: unreachable, refused, budget spent."""
    JUDGE_NOT_RECORDED = "judge_not_recorded"
    """The judge is replayed, and has no reply for this question or this run."""
    JUDGE_UNREADABLE = "judge_unreadable"
    """It replied, but with none of the labels."""
    CREDENTIALS_MISSING = "credentials_missing"
    """The judge rejected the credentials, or cannot be asked at all."""
    RUBRICS_MISSING = "rubrics_missing"
    """There are no rubrics."""
    SIMULATOR_FAILED = "simulator_failed"
    """The simulated user gave no message."""
    TEST_BROKEN = "test_broken"
    """The simulated user did not follow the scenario."""
    SKIPPED = "skipped"
    """The user skips it."""


@frozen_dataclass
class Opinion:
    """The opinion of one sample of a judge on a finding's subject."""

    sample: int
    """Its number, from 0."""
    label: str = ""
    """Empty if the reply could not be read; `text` then describes the error."""
    text: Wording = ""
    """The judge's explanation."""
    cached: bool = False
    """True if the reply comes from the cache."""


@frozen_dataclass
class Finding:
    """One explanation of a score."""

    text: Wording
    turn: int | None = None
    """From 1; None: the whole conversation."""
    label: str = ""
    """The judge's answer, such as `valid`."""
    score: float | None = None
    """The score of its subject, if it has one."""
    subject: Wording = ""
    """Its subject within the turn, such as a rubric or a sentence; empty: the whole turn."""
    opinions: tuple[Opinion, ...] = ()
    """The judge's samples."""
    spared: int = 0
    """Further samples that could not have changed the result."""


@frozen_dataclass
class Score:
    """A number on the criterion's own scale."""

    value: Annotated[float, Field(ge=-MOST, le=MOST)]
    """Files and custom metrics may hold any, see `is_number`."""
    turns: tuple[float | None, ...] = ()
    """One value per invocation, None if not evaluated."""
    breakdown: Mapping[str, float] = field(default_factory=dict)
    """Named parts (token kinds, seconds by phase)."""
    findings: tuple[Finding, ...] = ()
    passed: bool | None = None
    """A custom metric's own verdict on its score; the gate compares scores, and the criterion
    rejects a score that contradicts this verdict."""
    lacking: Wording = ""
    """Why a part was not judged and does not count, as in ADK; otherwise there would be no
    score."""

    @property
    def is_number(self) -> bool:
        """True if a mean can include it; metrics and files may hold any value."""
        return -MOST <= self.value <= MOST


@frozen_dataclass
class NotEvaluated:
    """Why there is no score; this is neither 0.0 nor a pass."""

    reason: Reason
    """Its kind, for programs; `message` has it in words."""
    message: Wording
    turns: tuple[float | None, ...] = ()
    """Partial results, as in a score."""
    findings: tuple[Finding, ...] = ()
    """What was learned before it failed."""


Grade: TypeAlias = Score | NotEvaluated
"""The result of one criterion for one trial."""


def turn_score(grade: Grade | None, index: int) -> float | None:
    """The score that a grade gives a turn, counted from 0; None without one."""
    return grade.turns[index] if grade is not None and index < len(grade.turns) else None


def not_evaluated(
    reason: Reason,
    sentence: str,
    *facts: object,
    turns: tuple[float | None, ...] = (),
    findings: tuple[Finding, ...] = (),
) -> NotEvaluated:
    """The grade with the sentence of reports' templates for these facts."""
    message = Sentence(sentence, *facts)
    return NotEvaluated(reason=reason, message=message, turns=turns, findings=findings)
