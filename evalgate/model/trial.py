"""What happened: one run of a case, and how it ended."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from evalgate.model.case import Case
from evalgate.model.conversation import Invocation, Json


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TrialKey:
    """Names one trial: suite key, case id, repeat (from 0)."""

    suite: str
    case_id: str
    repeat: int = 0

    def __str__(self) -> str:
        return f"{self.suite}:{self.case_id}#{self.repeat}"


class Ending(enum.StrEnum):
    """How a conversation with a simulated user came to its end."""

    STOP_SIGNAL = "stop_signal"  # the user had what it wanted, or gave up
    TURN_LIMIT = "turn_limit"  # it might have gone on, and was cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A conversation that came to its end; `final_state` None where the driver cannot know it.

    `ended_by` None: the user's turns were written down, or nobody kept how it ended.
    """

    invocations: tuple[Invocation, ...]
    final_state: Json | None = None
    ended_by: Ending | None = None


class FailureKind(enum.StrEnum):
    """Why there is no transcript: how the agent failed, or the simulated user that talked to it."""

    INSTALL = "install"  # its environment could not be made
    START = "start"  # import error, missing dependency, no root agent: it never said that it is ready
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


INFRASTRUCTURE: frozenset[FailureKind] = frozenset({FailureKind.RATE_LIMITED, FailureKind.UNREACHABLE})
"""Kinds that a retry may cure; a wrong answer is never retried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFailure:
    """Why there is no transcript: never a score, never a pass.

    `turn` counts from 1 (None: before the first, or after the last); `detail` is the tail of the agent's own words
    (stderr or traceback), redacted. `retry_after_s`: seconds that its provider asks to wait, where it said so.
    """

    kind: FailureKind
    message: str
    turn: int | None = None
    detail: str = ""
    partial: tuple[Invocation, ...] = ()
    retry_after_s: float | None = None


Outcome: TypeAlias = Transcript | AgentFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of one case. `seconds`: what the agent took for its turns, in all attempts together."""

    key: TrialKey
    outcome: Outcome
    seconds: float = 0.0
    attempts: int = 1
    agent: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that a criterion may see. `expected` is None for scenarios."""

    case: Case
    actual: tuple[Invocation, ...]
    expected: tuple[Invocation, ...] | None
    final_state: Json | None = None
    ended_by: Ending | None = None
