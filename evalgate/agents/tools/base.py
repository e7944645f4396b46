"""The shapes of simulated tools: what a worker asks before a tool runs, and what it is answered."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from evalgate.model import Case, Json, TrialKey


class ToolFile(BaseModel):
    """A part of a cassette or of a mock file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ErrorWire(ToolFile):
    """What a tool raises, as files say it."""

    type: str = Field(min_length=1, description="The exception's name.")
    message: str = ""

    def noun(self) -> ToolError:
        """The error."""
        return ToolError(type=self.type, message=self.message)


class ToolMode(enum.StrEnum):
    """Where the answers of an agent's tools come from."""

    LIVE = "live"  # the tools run, nothing is asked
    RECORD = "record"  # the tools run, and what they answer is written to cassettes
    REPLAY = "replay"  # cassettes answer, nothing runs
    MOCK = "mock"  # the rules of the mock file answer, nothing runs


class DriverTools(enum.StrEnum):
    """What a driver does about an agent's tools."""

    ASKS = "asks"  # its workers can ask before a tool runs
    RUNS_NONE = "runs none"  # nothing runs at all
    UNSEEN = "unseen"  # the tools run where nobody can ask


class CallKind(enum.StrEnum):
    """What is about to run."""

    TOOL = "tool"
    AGENT = "agent"  # a part of the agent itself (another agent, a transfer): it runs unless a rule answers
    LISTING = "listing"  # the tools that a remote toolset has, recorded like any call


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCall:
    """A call that waits for an answer; `number` counts the calls of its conversation from 1."""

    number: int
    tool: str
    args: Json = field(default_factory=dict)
    kind: CallKind = CallKind.TOOL


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolError:
    """What a tool raised: `type` is the exception's name as its language writes it (`httpx.ConnectError`)."""

    type: str = "RuntimeError"
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReply:
    """What a call came to: any JSON, or an error.

    `effects`: what else it did to the session (ADK: `state_delta` and other actions), for the worker alone to read.
    """

    response: Any = None
    error: ToolError | None = None
    effects: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replied:
    """The tool does not run: this is what it would have given, `delay_s` seconds from now."""

    reply: ToolReply
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTool:
    """The tool runs; with `report` the worker tells what came of it."""

    report: bool
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmatched:
    """Nothing answers this call, and it must not run."""

    message: str


ToolAnswer: TypeAlias = Replied | RunTool | Unmatched


class TrialTools(Protocol):
    """The tools of one conversation; used by one thread. `is_optional`: nothing but what the case says answers in their
    stead, so that they may just run where it says nothing."""

    is_optional: bool

    def turn(self, number: int) -> None:
        """A turn begins, counted from 0."""

    def answer(self, call: AskedCall) -> ToolAnswer:
        """What becomes of the call."""

    def keep(self, call: AskedCall, reply: ToolReply) -> None:
        """What came of a call that was run with `report`."""

    def finish(self) -> None:
        """The conversation came to its end: what it recorded is kept. Raises UnavailableError."""


class ToolSource(Protocol):
    """Answers the tool calls of every trial; safe to use from many threads."""

    @property
    def mode(self) -> ToolMode:
        """LIVE: nothing but what cases say of their tools."""

    def open(self, key: TrialKey, case: Case) -> TrialTools:
        """The tools of one trial of a case."""
