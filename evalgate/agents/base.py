"""The shapes of an agent driver and of what it opens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import BaseModel

from evalgate.agents.tools.base import ToolHandling, ToolSource
from evalgate.model import AgentFailure, Case, Content, CriterionUse, Evidence, Grade, Invocation, Json, TrialKey


class AgentFailed(Exception):  # noqa: N818 - it says what happened, and it carries a value that is named so
    """An agent could not give a turn; the trial ends with `failure`."""

    def __init__(self, failure: AgentFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Conversation(Protocol):
    """One session with an agent: turns go in, invocations come out."""

    def send(self, user_content: Content) -> Invocation:
        """Run one turn. Raises AgentFailed."""

    def finish(self) -> Json | None:
        """End the session; its final state, or None where the driver cannot know it. Raises AgentFailed."""


class MetricRunner(Protocol):
    """Runs a custom metric (ADK's `code_config.name`) where the agent's code lives."""

    def __call__(self, code: str, use: CriterionUse, evidence: Evidence) -> Grade:
        """Grade the evidence with the function at the dotted path `code`; never raises for its faults."""


class Agent(Protocol):
    """An opened agent: a pool of workers, or an endpoint, safe to use from many threads."""

    def converse(self, case: Case, key: TrialKey) -> AbstractContextManager[Conversation]:
        """A fresh session for one trial, isolated from every other. Raises AgentFailed on entry."""

    def run_metric(self, code: str, use: CriterionUse, evidence: Evidence) -> Grade:
        """See `MetricRunner`; drivers without Python answer NotEvaluated(NOT_APPLICABLE)."""

    def about(self) -> Mapping[str, str]:
        """What answered: framework, versions, interpreter; empty before the first start."""

    def close(self) -> None:
        """End all workers and their process groups. Never raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """Bounds of one agent; seconds, bytes.

    `workers` processes, each with up to `sessions` conversations at once; `isolate_cases`: a fresh process a trial.
    """

    turn_timeout_s: float = 300.0
    case_timeout_s: float = 1800.0
    start_timeout_s: float = 120.0
    output_bytes: int = 16 * 1024 * 1024
    memory_bytes: int | None = None
    workers: int = 1
    sessions: int = 4
    isolate_cases: bool = False


def is_not_set(name: str) -> str:
    """Why a variable is not at hand, where nothing more is known."""
    return f"{name} is not set"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSetting:
    """Where an agent is opened: the checkout it lives in, what it may see of the environment, its bounds.

    `root`: absolute path of the checkout. `environment`: the whole environment of the child, already reduced to
    what is allowed. `install_environment`: the same and the settings of package installers (UV_*, PIP_*), which may
    hold credentials of a package index and are for installing children only. `cache`: absolute path of a folder for
    virtual environments. `log`: tells progress. `seed`: of everything random in a trial. `tools`: answers the agent's
    tool calls; None: its tools just run. `meeting`: to be held while the agent starts for the first time; it is left
    when the agents of other sides have started as well. `why_absent`: why a variable is not in `environment`, and what
    to do, in words that follow a colon.
    """

    root: str
    environment: Mapping[str, str]
    cache: str
    install_environment: Mapping[str, str] = field(default_factory=dict)
    limits: AgentLimits = AgentLimits()
    log: Callable[[str], None] = print
    seed: int = 0
    tools: ToolSource | None = None
    meeting: Callable[[], AbstractContextManager[None]] = nullcontext
    why_absent: Callable[[str], str] = is_not_set


class AgentDriver(Protocol):
    """One row of `evalgate.agents.DRIVERS`.

    `options` validates `AgentUse.options`; paths in it are relative to the checkout's root.
    """

    @property
    def name(self) -> str:
        """The word a user writes: adk, python, command, http, replay."""

    @property
    def options(self) -> type[BaseModel]:
        """The shape of the driver's options."""

    @property
    def tools(self) -> ToolHandling:
        """What it can do about the agent's tools."""

    @property
    def runs_metrics(self) -> bool:
        """Whether it runs custom metrics, which are Python code of the repository."""

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """Open the agent; workers start on first use. Raises AgentFailed where that cannot work at all."""
