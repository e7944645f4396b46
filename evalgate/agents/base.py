"""The types of an agent driver, of the agents that it opens, and of the answers to their tool
calls; and the turns of a conversation: their number, their time and their failures."""

from __future__ import annotations

import dataclasses
import enum
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from evalgate.config.gate_file import RuleShape
from evalgate.config.variables import AgentVariables
from evalgate.model import (
    AgentDescription,
    AgentFailure,
    Case,
    Content,
    CriterionUse,
    FailureKind,
    Grade,
    Invocation,
    Reason,
    Transcript,
    TrialKey,
    TrialView,
    TurnSetup,
    not_evaluated,
)
from evalgate.system.files import top_of
from evalgate.system.python_env import InstallSetup
from evalgate.text import plain, words
from evalgate.values import Json, JsonObject, Redactor, frozen_dataclass
from evalgate.worker import errors

LABEL_WIDTH = 100
"""Characters of a command or an address that are shown."""


# --- tools: the calls that a worker asks about, and the answers ---


class ToolFile(RuleShape):
    """A part of a cassette or of a mock file; unknown keys are errors."""


class ToolMode(enum.StrEnum):
    """The source of the answers of an agent's tools."""

    LIVE = "live"
    """The tools run, and evalgate is not asked."""
    RECORD = "record"
    """The tools run, and their answers are written to cassettes."""
    REPLAY = "replay"
    """Cassettes answer, no tool runs."""
    MOCK = "mock"
    """The rules of the mock file answer, no tool runs."""


class DriverTools(enum.StrEnum):
    """How a driver handles an agent's tools."""

    ASKS = "asks"
    """Its workers can ask before a tool runs."""
    NO_AGENT = "runs none"
    """No agent runs."""
    UNSEEN = "unseen"
    """The tools run without asking evalgate."""


class CallKind(enum.StrEnum):
    """The kind of a call."""

    TOOL = "tool"
    AGENT = "agent"
    """A part of the agent itself (another agent, a transfer): it runs unless a rule answers."""
    LISTING = "listing"
    """The tools that a remote toolset has, recorded like any call."""


@frozen_dataclass
class PendingCall:
    """A call that waits for an answer."""

    number: int
    """Counts the calls of its conversation from 1."""
    tool: str
    args: Json = field(default_factory=dict)
    kind: CallKind = CallKind.TOOL


@frozen_dataclass
class ToolError:
    """The exception of a tool."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    type: Annotated[str, Field(min_length=1)] = "RuntimeError"
    """Its name as its language writes it (`httpx.ConnectError`)."""
    message: str = ""


class ToolReply(BaseModel):
    """The result of a call, also among the fields of a file or a message."""

    response: Any = None
    """Any JSON; it does not count if there is an error."""
    error: ToolError | None = None
    effects: JsonObject | None = None
    """Other effects on the session (ADK: `state_delta` and other actions), which only the worker
    reads."""

    def outcome(self) -> JsonObject:
        """The response or the error, and effects if there are any, as JSON."""
        if self.error is not None:
            outcome: JsonObject = {"error": dataclasses.asdict(self.error)}
        else:
            outcome = {"response": self.response}
        return {**outcome, "effects": self.effects} if self.effects else outcome


@frozen_dataclass
class CallAnswer:
    """The answer to a call. Without a reply and a refusal the tool runs."""

    reply: ToolReply | None = None
    """What the call gets, without the tool."""
    refusal: str = ""
    """The reason why it must not run, since nothing answers it."""
    report: bool = False
    """The worker reports the result of a tool that runs."""
    delay_s: float = 0.0

    def outcome(self) -> JsonObject:
        """The answer as fields of a message."""
        if self.refusal:
            return {"refused": self.refusal}
        return self.reply.outcome() if self.reply else {"run": True, "report": self.report}


class TrialTools(Protocol):
    """The tools of one conversation; used by one thread."""

    is_optional: bool
    """Only the case can answer their calls, so the tools may run if it has no answer."""

    def turn(self, number: int) -> None:
        """Begin a turn; turns are counted from 0."""

    def answer(self, call: PendingCall) -> CallAnswer:
        """The answer to a call."""

    def keep(self, call: PendingCall, reply: ToolReply) -> None:
        """Store the result of a call that ran with `report`."""

    def finish(self) -> None:
        """End the conversation and save its recording. Raises UnavailableError."""


class ToolSource(Protocol):
    """Answers the tool calls of all trials. Thread-safe."""

    @property
    def mode(self) -> ToolMode:
        """The mode; with LIVE only cases answer tool calls."""

    def open(self, key: TrialKey, case: Case) -> TrialTools:
        """The tools of one trial of a case."""


# --- agents ---


class AgentFailed(Exception):  # noqa: N818 - named after the failure that it carries
    """An agent could not answer a turn; the trial ends with `failure`."""

    def __init__(self, failure: AgentFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Conversation(Protocol):
    """One session with an agent: turns go in, invocations come out."""

    takes_history: bool
    """The session begins after the turns in `Case.history`, if any; otherwise the agent does not
    know them."""

    def send(self, user_content: Content) -> Invocation:
        """Run one turn. Raises AgentFailed."""

    def finish(self) -> Json | None:
        """End the session. Returns its final state, or None if unknown. Raises AgentFailed."""


class Stopwatch:
    """Adds up the seconds that the agent takes. Use it as a context manager around each wait for
    the agent.

    `clock`: seconds since any fixed moment."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before = 0.0
        self._began: float | None = None

    def __enter__(self) -> None:
        self._began = self._clock()

    def __exit__(self, *_: object) -> None:
        self._before = self.seconds
        self._began = None

    @property
    def seconds(self) -> float:
        """The seconds measured so far."""
        return self._before + (0.0 if self._began is None else self._clock() - self._began)


class Turns:
    """The turns of a conversation: counts them, measures their time, and makes their failures."""

    def __init__(self, case: Case, limits: AgentLimits, redact: Redactor) -> None:
        self._case = case
        self.done: list[Invocation] = []
        self.turn: int | None = None
        self.watch = Stopwatch()
        self._limits = limits
        self._redact = redact

    def begin(self) -> TurnSetup:
        """Begin the next turn, and return what the case sets for it."""
        self.turn = len(self.done) + 1
        return self._case.setup_of(len(self.done))

    def limit(self) -> tuple[float, str]:
        """The timeout of a request in seconds, and the message for a timeout."""
        turn_s, all_s = self._limits.turn_timeout_s, self._limits.case_timeout_s
        case_s = max(all_s - self.watch.seconds, 0.0)
        if case_s < turn_s:
            return case_s, f"the case timed out after {words.seconds(all_s)} (`case-timeout`)"
        return turn_s, f"the agent timed out after {words.seconds(turn_s)} (`turn-timeout`)"

    def failed(
        self,
        kind: FailureKind,
        message: str,
        *,
        detail: str = "",
        retry_after_s: float | None = None,
        trace: tuple[Json, ...] = (),
    ) -> AgentFailed:
        """A failure in the current turn, as an exception to raise."""
        failure = AgentFailure(
            kind=kind,
            message=self._redact(message),
            turn=self.turn,
            detail=self._redact(detail),
            partial=tuple(self.done),
            retry_after_s=retry_after_s,
            trace=trace,
        )
        return AgentFailed(failure)


def kind_of(status: int) -> FailureKind:
    """The failure kind for an HTTP status other than success."""
    return FailureKind(errors.kind_of_status(status) or errors.RAISED)


MetricRunner: TypeAlias = Callable[[str, CriterionUse, TrialView], Grade]
"""Runs a custom metric (ADK's `code_config.name`) in the agent's environment: grades the trial with
the function at a dotted path. Never raises for errors in it."""


@frozen_dataclass
class Surroundings:
    """The models and variables of a loaded agent."""

    models: tuple[str, ...] = ()
    """Names of the models that it calls with keys of its environment."""
    variables: frozenset[str] = frozenset()
    """Names of the variables that are set there to values other than 0 and false."""


class Agent(Protocol):
    """An opened agent: a pool of workers, or an endpoint. Thread-safe. Drivers inherit defaults
    that suit most."""

    def converse(self, case: Case, key: TrialKey) -> AbstractContextManager[Conversation]:
        """A fresh session for one trial, isolated from every other. Raises AgentFailed on entry."""

    def play(self, case: Case, key: TrialKey) -> Transcript | None:  # noqa: ARG002 - for others
        """A whole trial, if the agent's platform leads the conversation; None: evalgate's user
        talks to it (`converse`). Raises AgentFailed."""
        return None

    def run_metric(self, code: str, use: CriterionUse, evidence: TrialView) -> Grade:  # noqa: ARG002 - for others
        """See `MetricRunner`. Drivers without Python return NotEvaluated(NOT_APPLICABLE)."""
        return not_evaluated(Reason.NOT_APPLICABLE, "metric_without_python", code)

    def start(self) -> None:
        """Start everything that can start without a conversation, so that `about` is known. Raises
        AgentFailed."""
        return  # an empty method of a protocol would be abstract

    def about(self) -> Mapping[str, str]:
        """Framework, versions and interpreter of the agent; empty before the first start."""
        return {}

    def description(self) -> AgentDescription | None:
        """The description of the agent's parts; None before the first start, or if unknown."""
        return None

    def surroundings(self) -> Surroundings | None:
        """The agent's models and variables; None before the first start, or if unknown."""
        return None

    def inputs(self) -> frozenset[str] | None:
        """The questions that its processes and metrics asked about the checkout so far
        (`evalgate.system.inputs`), with `names` if one started a child process, or loaded a
        library, that reports none; None if none was reported. Those of a turn that timed out or
        whose worker died may be missing."""
        return None

    def close(self) -> None:
        """End all workers and their process groups. Never raises."""
        return  # as above


@frozen_dataclass
class AgentLimits:
    """Limits of one agent."""

    turn_timeout_s: float = 300.0
    case_timeout_s: float = 1800.0
    """Of a trial, for all that the agent takes."""
    start_timeout_s: float = 300.0
    output_bytes: int = 16 * 1024 * 1024
    """Of one line, of one turn, and of all messages for conversations that have ended."""
    memory_bytes: int | None = None
    """Of a process; None: unlimited."""
    workers: int = 1
    """The most processes at once."""
    sessions: int = 4
    """The most conversations at once in a process."""
    isolate_cases: bool = False
    """A new process for each trial."""


Meeting: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Entered while an agent starts for the first time; its exit waits until the agents of other sides
have started too."""


@frozen_dataclass
class AgentSetting:
    """The surroundings of an agent."""

    root: str
    """The absolute path of the checkout."""
    world: InstallSetup
    """Its environment is that of the child, already reduced to allowed variables."""
    limits: AgentLimits = AgentLimits()
    seed: int = 0
    """For everything random in a trial."""
    tools: ToolSource | None = None
    """Answers the agent's tool calls; None: its tools run."""
    trace: bool = False
    """Record each turn in detail, if the driver can."""
    meeting: Meeting = nullcontext
    variables: AgentVariables | None = None
    """Those that the agent gets, to explain failures for lack of one; None: they are not."""

    def top(self) -> str:
        """The absolute top of the checkout, whose inputs workers report. To be asked before the
        agent runs, since it could move the top."""
        return str(top_of(Path(self.root)))

    def why_absent(self, name: str) -> str:
        """Why a variable is not in the environment, and what to do, in words that follow a
        colon."""
        return self.variables.why_absent(name) if self.variables else f"{name} is not set"


class DriverOptions(RuleShape):
    """The options of an agent as a user writes them; unknown keys are errors."""


class AgentDriver(ABC):
    """One row of `evalgate.agents.DRIVERS`, with the defaults of most drivers."""

    name: str
    """The word that a user writes."""
    options: type[BaseModel]
    """Validates `AgentUse.options`; paths in it are relative to the checkout's root. A driver with
    options named `python` and `requirements` gets the settings of these names."""
    argument: ClassVar[str] = "path"
    """The option for the text after the colon of `agent: name:text`."""
    default: ClassVar[str] = ""
    """The text if that option is missing."""
    tools: ClassVar[DriverTools] = DriverTools.UNSEEN
    runs_metrics: ClassVar[bool] = False
    """It runs custom metrics, which are Python code of the repository."""
    is_asked: ClassVar[bool] = True
    """There is a process or an endpoint to wait for."""
    modules: AbstractSet[str] = frozenset()
    """A framework's modules, by which `evalgate init` finds agents that a Python module makes."""
    makers: AbstractSet[str] = frozenset()
    """The framework's functions and classes that make an agent."""
    parts: AbstractSet[str] = frozenset()
    """What an agent can be made of, in a module that makes none."""
    package: str = ""
    """The framework's name in the package index."""

    @abstractmethod
    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """Open the agent; workers start on first use. Raises AgentFailed if the agent can never
        work."""

    def missing(self, options: Mapping[str, str], root: Path) -> tuple[str, str] | None:  # noqa: ARG002 - for others
        """The option that names a missing target, and the message, as far as it is known before a
        run; None if nothing is missing."""
        return None

    def files(
        self,
        options: Json,  # noqa: ARG002 - for others
        root: Path,  # noqa: ARG002 - as above
        below: Callable[[str], Iterable[str]],  # noqa: ARG002 - as above
    ) -> Iterable[str]:
        """The recordings that answer instead of an agent, relative to the checkout `root`. `below`:
        all files below a folder, except those of installed packages."""
        return ()

    def is_led(self, options: Json) -> bool:  # noqa: ARG002 - for others
        """True if the agent's platform leads the conversations (`Agent.play`)."""
        return False

    def is_remote(self, options: Json) -> bool:  # noqa: ARG002 - for others
        """True if the agent runs remotely, and no checkout defines it."""
        return False

    def is_same_place(self, options: Json, other_options: Json) -> bool:
        """True if two agents of the driver have the same main option."""
        return bool(options.get(self.argument) == other_options.get(self.argument))

    def label(self, options: Json) -> str:
        """A text that distinguishes the agent from others of the driver, on one line, without
        secrets."""
        return plain.label(self.short_form(options), LABEL_WIDTH)

    def short_form(self, options: Json) -> str:
        """The text that names the agent in the setting `agent`, after the driver."""
        return str(options.get(self.argument, self.default))

    def of_short_form(self, text: str) -> JsonObject:
        """The options for such a text."""
        return {self.argument: text}


def folder_of(options: Json, root: Path) -> Path:
    """The folder of an agent's code: the nearest existing folder, at `root` or below.

    Its requirements and its `.env` are searched from there upward. `options`: validated or not;
    invalid values are reported elsewhere."""
    text = str(options.get("path") or options.get("cwd") or ".")
    module = str(options.get("call", "")).partition(":")[0]
    place = root / text
    with suppress(OSError, ValueError):
        place = Path(os.path.normpath(place.joinpath(*module.split("."))))
        while place != root and place.is_relative_to(root) and not place.is_dir():
            place = place.parent
        return place if place.is_relative_to(root) else root
    return root


def exists(path: Path) -> bool:
    """True if a path exists; an invalid path does not."""
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long or invalid
        return False
