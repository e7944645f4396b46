"""What happened: one run of a case, how it ended, and what the criteria say of it."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from evalgate.model.case import Case
from evalgate.model.conversation import Invocation
from evalgate.text import plain
from evalgate.values import Json, frozen_dataclass

WHY_WIDTH: Final = 300
"""Of what an agent said when it failed."""
_ERROR = re.compile(r"[\w.]+(Error|Exception|Exit): ")
"""How the line of a traceback begins that has the error."""
_NO_FILE = re.compile(r"No such file or directory|unable to open database file")
"""The messages of Python and SQLite for a missing file."""

CaseKey: TypeAlias = tuple[str, str]
"""The key of a suite, and the id of a case in it."""


class Purpose(enum.StrEnum):
    """Why a trial is run; in this order, as texts too."""

    FIRST = "first"  # one of the runs that every case has
    PAIR = "pair"  # once more on both sides, since head failed; in no mean
    SINGLE = "single"  # once more on head alone; in no mean


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TrialKey:
    """Names one trial: suite key, case id, purpose, and its number among those of the purpose (from
    0)."""

    suite: str
    case_id: str
    purpose: Purpose = Purpose.FIRST
    number: int = 0

    def __str__(self) -> str:
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
        """Names it among the runs of its case: the number of a first run, `pair 0` and `single 0`
        of others."""
        return self.number if self.is_first else f"{self.purpose} {self.number}"

    @property
    def is_first(self) -> bool:
        """True if every case has such a run; others confirm a failure."""
        return self.purpose is Purpose.FIRST


class Ending(enum.StrEnum):
    """How a conversation with a simulated user came to its end."""

    STOP_SIGNAL = "stop_signal"  # the user had what it wanted, or gave up
    TURN_LIMIT = "turn_limit"  # it might have gone on, and was cut


@frozen_dataclass
class Transcript:
    """A conversation that came to its end; `final_state`: None if the driver cannot know it.

    `ended_by`: None if the user's turns were scripted, or the ending was not recorded. `isolated`:
    each turn had its own session. `redacted`: secrets were removed, so it is only for readers:
    scoring it could give another score. `platform`: the result of the agent's platform, if that led
    the conversation and judged it; `invocations` may then be unknown, and empty."""

    invocations: tuple[Invocation, ...]
    final_state: Json | None = None
    ended_by: Ending | None = None
    isolated: bool = False
    redacted: bool = False
    platform: Json | None = None


class FailureKind(enum.StrEnum):
    """Why there is no transcript: how the agent failed, or the simulated user that talked to it."""

    INSTALL = "install"  # its environment could not be made
    # import error, missing dependency, no root agent: it never said that it is ready
    START = "start"
    RAISED = "raised"  # an exception while it ran
    MODEL_ERROR = "model_error"  # its model answered with an error instead of content
    RATE_LIMITED = "rate_limited"  # 429 or a quota
    UNREACHABLE = "unreachable"  # 5xx, connection refused or reset
    TIMEOUT = "timeout"  # a turn or the case took too long
    EXITED = "exited"  # the process ended by itself
    KILLED = "killed"  # a signal ended it (out of memory, for one)
    FLOODED = "flooded"  # more output than allowed
    PROTOCOL = "protocol"  # what it said is not the protocol
    NO_RECORDING = "no_recording"  # a replay has nothing for this case or turn
    TOOL_UNMATCHED = "tool_unmatched"  # it called a tool that no cassette and no mock rule answers
    SIMULATOR = "simulator"  # the simulated user gave no message: never the agent's fault


INFRASTRUCTURE: frozenset[FailureKind] = frozenset(
    {FailureKind.RATE_LIMITED, FailureKind.UNREACHABLE}
)
"""Kinds that a retry may cure; a wrong answer is never retried."""


@frozen_dataclass
class AgentFailure:
    """Why there is no transcript: never a score, never a pass.

    `turn` counts from 1 (None: before the first, or after the last); `detail` is the tail of the
    agent's own output (stderr or traceback), redacted. `retry_after_s`: seconds that its provider
    asks to wait, if it does. `trace`: of the failed turn, as in an Invocation."""

    kind: FailureKind
    message: str
    turn: int | None = None
    detail: str = ""
    partial: tuple[Invocation, ...] = ()
    retry_after_s: float | None = None
    trace: tuple[Json, ...] = field(default=(), compare=False)

    @property
    def summary(self) -> str:
        """`ModuleNotFoundError: No module named 'foo'`: one line, bounded, without a full stop. For
        a missing file, it adds the likely reason on the base: an earlier step made the file in
        head's checkout only."""
        reason = self.message
        error = next(
            (line for line in reversed(self.detail.splitlines()) if _ERROR.match(line)), ""
        )
        if self.kind is FailureKind.START and "cannot be loaded: " in reason:
            # what follows in the message is advice on an agent that the author of the change does
            # not have to mend
            reason = error or reason.partition("cannot be loaded: ")[2]
        elif self.kind in (FailureKind.START, FailureKind.EXITED) and error:
            reason = f"{reason}: {error}"
        text = plain.clip_end(plain.one_line(reason).rstrip("."), WHY_WIDTH)
        return (
            f"{text} (its checkout has only committed files)" if _NO_FILE.search(reason) else text
        )


Outcome: TypeAlias = Transcript | AgentFailure


@frozen_dataclass
class Trial:
    """One run of one case. `seconds`: what the agent took for its turns, in all attempts
    together."""

    key: TrialKey
    outcome: Outcome
    seconds: float = 0.0
    attempts: int = 1
    agent: Mapping[str, str] | None = None


@frozen_dataclass
class TrialView:
    """All that a criterion may see. `expected` is None for scenarios; `repeat`: the trial's, to ask
    about it afresh; `platform`: the transcript's."""

    case: Case
    actual: tuple[Invocation, ...]
    expected: tuple[Invocation, ...] | None
    final_state: Json | None = None
    ended_by: Ending | None = None
    repeat: int | str = 0
    platform: Json | None = None


MOST: Final = 1e100
"""No score is further from 0: the squares of a million such numbers can still be added."""


class Reason(enum.StrEnum):
    """Why a criterion could not be evaluated."""

    AGENT_FAILED = "agent_failed"
    REFERENCE_MISSING = "reference_missing"
    NOT_APPLICABLE = "not_applicable"
    # the evidence lacks what the criterion measures (no usage, no timings)
    NOTHING_RECORDED = "nothing_recorded"
    TURNS_MISSING = "turns_missing"  # the agent gave fewer or more turns than the case has
    ABSTAINED = "abstained"  # a custom metric said so: it does not decide this case, as in ADK
    CRITERION_FAILED = "criterion_failed"  # the criterion itself raised or answered nonsense
    # the judge gave no reply: out of reach, refused, budget spent
    JUDGE_UNAVAILABLE = "judge_unavailable"
    # the judge is replayed, and has no reply for this question or this run
    JUDGE_NOT_RECORDED = "judge_not_recorded"
    JUDGE_UNREADABLE = "judge_unreadable"  # it replied, but with none of the labels
    # the judge refused whoever asked, or cannot be asked at all
    CREDENTIALS_MISSING = "credentials_missing"
    RUBRICS_MISSING = "rubrics_missing"  # there is no rubric to judge by
    SIMULATOR_FAILED = "simulator_failed"  # the simulated user gave no message
    TEST_BROKEN = "test_broken"  # the simulated user did not do what the scenario says
    SKIPPED = "skipped"  # the user asked for it


@frozen_dataclass
class Opinion:
    """What one sample of a judge, counted from 0, said of a finding's subject.

    `label` empty: nothing that could be read; `text` then says what went wrong. `cached`: it was
    not asked anew."""

    sample: int
    label: str = ""
    text: str = ""
    cached: bool = False


@frozen_dataclass
class Finding:
    """One explanation behind a score; `turn` counts from 1, None speaks of the whole conversation.

    `subject`: what it speaks of within the turn, as a rubric or a sentence; empty: all of it.
    `opinions`: the samples that a judge was asked for; `spared`: further ones that could not have
    changed the outcome."""

    text: str
    turn: int | None = None
    label: str = ""
    score: float | None = None
    subject: str = ""
    opinions: tuple[Opinion, ...] = ()
    spared: int = 0


@frozen_dataclass
class Score:
    """A number on the criterion's own scale; `turns` one value an invocation, None where not
    evaluated.

    `breakdown` holds named parts (token kinds, seconds by phase). `passed`: what a custom metric
    said of its own score; the gate compares scores, and the criterion refuses one that contradicts
    its own word. `lacking`: why a part was not judged and does not count, as in ADK; else there is
    no score then."""

    value: Annotated[float, Field(ge=-MOST, le=MOST)]
    turns: tuple[float | None, ...] = ()
    breakdown: Mapping[str, float] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    passed: bool | None = None
    lacking: str = ""

    @property
    def is_number(self) -> bool:
        """True if a mean can include it; a metric or a file may call anything a score."""
        return -MOST <= self.value <= MOST


@frozen_dataclass
class NotEvaluated:
    """There is no score, and this is why; neither 0.0 nor a pass. `turns`, `findings`: what is
    known all the same."""

    reason: Reason
    message: str
    turns: tuple[float | None, ...] = ()
    findings: tuple[Finding, ...] = ()


Grade: TypeAlias = Score | NotEvaluated
