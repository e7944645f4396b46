"""The shapes of an agent driver, of what it opens, and of what its tools are answered."""

from __future__ import annotations

import enum
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from evalgate.model import (
    AgentDescription,
    AgentFailure,
    Case,
    Content,
    CriterionUse,
    Grade,
    Invocation,
    NotEvaluated,
    Reason,
    TrialKey,
    TrialView,
)
from evalgate.system.python_env import InstallSetup
from evalgate.text import plain
from evalgate.values import Json, frozen_dataclass

LABEL_WIDTH = 100
"""Characters of a command or an address that are shown."""


# --- tools: what a worker asks before one runs, and what it is answered ---


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
    """The source of the answers of an agent's tools."""

    LIVE = "live"  # the tools run, nothing is asked
    RECORD = "record"  # the tools run, and what they answer is written to cassettes
    REPLAY = "replay"  # cassettes answer, nothing runs
    MOCK = "mock"  # the rules of the mock file answer, nothing runs


class DriverTools(enum.StrEnum):
    """What a driver does about an agent's tools."""

    ASKS = "asks"  # its workers can ask before a tool runs
    RUNS_NONE = "runs none"  # nothing runs at all
    UNSEEN = "unseen"  # the tools run without asking us


class CallKind(enum.StrEnum):
    """What is about to run."""

    TOOL = "tool"
    # a part of the agent itself (another agent, a transfer): it runs unless a rule answers
    AGENT = "agent"
    LISTING = "listing"  # the tools that a remote toolset has, recorded like any call


@frozen_dataclass
class PendingCall:
    """A call that waits for an answer; `number` counts the calls of its conversation from 1."""

    number: int
    tool: str
    args: Json = field(default_factory=dict)
    kind: CallKind = CallKind.TOOL


@frozen_dataclass
class ToolError:
    """What a tool raised: `type` is the exception's name as its language writes it
    (`httpx.ConnectError`)."""

    type: str = "RuntimeError"
    message: str = ""


@frozen_dataclass
class ToolReply:
    """What a call came to: any JSON, or an error.

    `effects`: what else it did to the session (ADK: `state_delta` and other actions), for the
    worker alone to read."""

    response: Any = None
    error: ToolError | None = None
    effects: Json | None = None


@frozen_dataclass
class Replied:
    """The tool does not run: this is what it would have given, `delay_s` seconds from now."""

    reply: ToolReply
    delay_s: float = 0.0


@frozen_dataclass
class RunTool:
    """The tool runs; with `report` the worker tells what came of it."""

    report: bool
    delay_s: float = 0.0


@frozen_dataclass
class Unmatched:
    """Nothing answers this call, and it must not run."""

    message: str


ToolAnswer: TypeAlias = Replied | RunTool | Unmatched


class TrialTools(Protocol):
    """The tools of one conversation; used by one thread. `is_optional`: only the case can answer
    for them, so they may just run if it says nothing."""

    is_optional: bool

    def turn(self, number: int) -> None:
        """A turn begins, counted from 0."""

    def answer(self, call: PendingCall) -> ToolAnswer:
        """What becomes of the call."""

    def keep(self, call: PendingCall, reply: ToolReply) -> None:
        """What came of a call that was run with `report`."""

    def finish(self) -> None:
        """The conversation came to its end: what it recorded is kept. Raises UnavailableError."""


class ToolSource(Protocol):
    """Answers the tool calls of every trial; safe to use from many threads."""

    @property
    def mode(self) -> ToolMode:
        """LIVE: only cases answer tool calls."""

    def open(self, key: TrialKey, case: Case) -> TrialTools:
        """The tools of one trial of a case."""


# --- agents ---


class AgentFailed(Exception):  # noqa: N818 - it says what happened, and it carries a value that is named so
    """An agent could not give a turn; the trial ends with `failure`."""

    def __init__(self, failure: AgentFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Conversation(Protocol):
    """One session with an agent: turns go in, invocations come out.

    `takes_history`: it begins after the turns in `Case.history`, if any; otherwise it does not know
    them."""

    takes_history: bool

    def send(self, user_content: Content) -> Invocation:
        """Run one turn. Raises AgentFailed."""

    def finish(self) -> Json | None:
        """End the session. Return its final state, or None if it is unknown. Raises AgentFailed."""


class MetricRunner(Protocol):
    """Runs a custom metric (ADK's `code_config.name`) in the agent's environment."""

    def __call__(self, code: str, use: CriterionUse, evidence: TrialView) -> Grade:
        """Grade the evidence with the function at the dotted path `code`; never raises for what
        goes wrong in it."""


@frozen_dataclass
class AgentInputs:
    """The questions that an agent's processes asked of its checkout (`evalgate.system.inputs`).

    `is_opaque`: one of them started a child process, or loaded a library, that reports nothing.
    Questions may be missing for a turn that timed out or whose worker died."""

    questions: frozenset[str] = frozenset()
    is_opaque: bool = False


@frozen_dataclass
class Surroundings:
    """What a loaded agent has: names of the models that it asks with keys of its environment, and
    of the variables that are set there to anything but 0 and false."""

    models: tuple[str, ...] = ()
    variables: frozenset[str] = frozenset()


class Agent(Protocol):
    """An opened agent: a pool of workers, or an endpoint, safe to use from many threads. Drivers
    inherit the defaults that suit most."""

    def converse(self, case: Case, key: TrialKey) -> AbstractContextManager[Conversation]:
        """A fresh session for one trial, isolated from every other. Raises AgentFailed on entry."""

    def run_metric(self, code: str, use: CriterionUse, evidence: TrialView) -> Grade:  # noqa: ARG002 - for others
        """See `MetricRunner`; drivers without Python answer NotEvaluated(NOT_APPLICABLE)."""
        message = f"the metric {code} is Python code, which this agent's driver cannot run"
        return NotEvaluated(reason=Reason.NOT_APPLICABLE, message=message)

    def start(self) -> None:
        """Start what can be started before anything is asked, so that `about` is known. Raises
        AgentFailed."""
        return  # an empty method of a protocol would be abstract

    def about(self) -> Mapping[str, str]:
        """What answered: framework, versions, interpreter; empty before the first start."""
        return {}

    def description(self) -> AgentDescription | None:
        """The description of its parts; None before the first start, or if unknown."""
        return None

    def surroundings(self) -> Surroundings | None:
        """What it asks models with; None as above."""
        return None

    def inputs(self) -> AgentInputs | None:
        """The questions that its processes and metrics asked of the checkout so far; None without
        any report."""
        return None

    def close(self) -> None:
        """End all workers and their process groups. Never raises."""
        return  # as above


@frozen_dataclass
class AgentLimits:
    """Bounds of one agent; seconds, bytes.

    `workers` processes, each with up to `sessions` conversations at once; `isolate_cases`: a fresh
    process a trial."""

    turn_timeout_s: float = 300.0
    case_timeout_s: float = 1800.0
    start_timeout_s: float = 300.0
    output_bytes: int = 16 * 1024 * 1024
    memory_bytes: int | None = None
    workers: int = 1
    sessions: int = 4
    isolate_cases: bool = False


@frozen_dataclass
class AgentSetting:
    """The setting of an agent: the checkout `root` (an absolute path), its `world` and its
    `limits`.

    `world.environment`: the whole environment of the child, already reduced to what is allowed.
    `seed`: for everything random in a trial. `inputs`: the absolute top of the checkout whose
    inputs workers report; "": they report none. `tools`: answers the agent's tool calls; None: its
    tools just run. `trace`: record what happens in each turn, if the driver can. `meeting`: held
    while the agent starts for the first time; left when the agents of other sides have started as
    well. `why_absent`: why a variable is not in the environment and what to do, as words that
    follow a colon."""

    root: str
    world: InstallSetup
    limits: AgentLimits = AgentLimits()
    seed: int = 0
    inputs: str = ""
    tools: ToolSource | None = None
    trace: bool = False
    meeting: Callable[[], AbstractContextManager[None]] = nullcontext
    why_absent: Callable[[str], str] = "{} is not set".format


@frozen_dataclass
class Missing:
    """An agent that somebody named and that is not there: the option that names it, what to tell,
    and a hint.

    `certain` False: it may be installed in the agent's environment.
    """

    option: str
    message: str
    hint: str = ""
    certain: bool = True


class Checkout(Protocol):
    """What a driver may look at before anything runs; paths are posix and relative to `root`,
    nothing is imported."""

    @property
    def root(self) -> Path:
        """Absolute."""

    def code(self) -> Iterable[str]:
        """The files that an agent may be made of."""

    def below(self, folder: str) -> Iterable[str]:
        """All files below a folder, but those of installed packages."""

    def agent_folders(self) -> Sequence[str]:
        """The folders that look like an ADK agent's."""

    def json_files(self) -> Sequence[str]:
        """Files of JSON that are no evaluation files."""


class DriverOptions(BaseModel):
    """What a user writes about an agent; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class AgentDriver(ABC):
    """One row of `evalgate.agents.DRIVERS`; what most drivers share is said here.

    `name`: the word that a user writes. `options`: validates `AgentUse.options`; paths in it are
    relative to the checkout's root. A driver whose options are called `python` and `requirements`
    gets the settings of these names. `argument`: the option that the text after the colon of
    `agent: name:text` fills. `tools`: what it can do about the agent's tools. `runs_metrics`:
    whether it runs custom metrics, which are Python code of the repository. `is_asked`: whether
    there is a process or an endpoint to wait for. `modules`: of a framework, by which `evalgate
    init` finds agents that a Python module makes; `makers`: its functions and classes that make
    one."""

    name: ClassVar[str]
    options: ClassVar[type[BaseModel]]
    argument: ClassVar[str] = "path"
    tools: ClassVar[DriverTools] = DriverTools.UNSEEN
    runs_metrics: ClassVar[bool] = False
    is_asked: ClassVar[bool] = True
    modules: ClassVar[AbstractSet[str]] = frozenset()
    makers: ClassVar[AbstractSet[str]] = frozenset()

    @abstractmethod
    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """Open the agent; workers start on first use. Raises AgentFailed if that cannot work at
        all."""

    def missing(self, options: Mapping[str, str], checkout: Checkout) -> Missing | None:  # noqa: ARG002 - for others
        """The missing target of an option that is a text, as far as that can be known
        beforehand."""
        return None

    def files(self, options: Json, checkout: Checkout) -> Iterable[str]:  # noqa: ARG002 - for others
        """The files that answer in the agent's stead."""
        return ()

    def is_remote(self, options: Json) -> bool:  # noqa: ARG002 - for others
        """True if the agent runs remotely, and no checkout defines it."""
        return False

    def is_same_place(self, options: Json, other_options: Json) -> bool:
        """True if two agents of the driver are named by the same text."""
        return bool(options.get(self.argument) == other_options.get(self.argument))

    def label(self, options: Json) -> str:
        """What tells the agent from others of the driver, on one line; no secrets."""
        return plain.label(str(options.get(self.argument, "")), LABEL_WIDTH)


def folder_of(options: Json, root: Path) -> Path:
    """The folder of an agent's code: the nearest one that exists, at `root` or below.

    Its requirements and its `.env` are searched from there upward. `options`: validated or not;
    invalid values are reported elsewhere."""
    text = str(options.get("path") or options.get("cwd") or ".")
    module = str(options.get("call", "")).partition(":")[0]
    place = root / text
    with suppress(OSError, ValueError):
        place = place if place.exists() else root / text.replace(".", "/")  # a dotted module
        place = Path(os.path.normpath(place.joinpath(*module.split("."))))
        while place != root and place.is_relative_to(root) and not place.is_dir():
            place = place.parent
        return place if place.is_relative_to(root) else root
    return root


def exists(path: Path) -> bool:
    """True if a path exists; an invalid path does not."""
    try:
        return path.exists()
    except (OSError, ValueError):  # too long a name, or one that cannot be
        return False
