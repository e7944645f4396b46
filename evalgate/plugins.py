"""The shapes of the plug-in families: what one file of each must offer."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel

from evalgate.model import (
    AgentFailure,
    Case,
    Content,
    CriterionUse,
    Evidence,
    Grade,
    Invocation,
    Json,
    Outcome,
    Report,
    TrialKey,
)

# --- agents ---------------------------------------------------------------------------------------


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSetting:
    """Where an agent is opened: the checkout it lives in, what it may see of the environment, its bounds.

    `root`: absolute path of the checkout. `environment`: the whole environment of the child, already reduced to
    what is allowed. `install_environment`: the same and the settings of package installers (UV_*, PIP_*), which may
    hold credentials of a package index and are for installing children only. `cache`: absolute path of a folder for
    virtual environments. `log`: tells progress.
    """

    root: str
    environment: Mapping[str, str]
    cache: str
    install_environment: Mapping[str, str] = field(default_factory=dict)
    limits: AgentLimits = AgentLimits()
    log: Callable[[str], None] = print


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

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """Open the agent; workers start on first use. Raises AgentFailed where that cannot work at all."""


# --- criteria -------------------------------------------------------------------------------------


class Need(enum.StrEnum):
    """What a criterion cannot do without; the linter checks these before anything is spent."""

    REFERENCE = "reference"  # expected invocations
    SCENARIO = "scenario"  # a conversation scenario
    RUBRICS = "rubrics"  # rubrics on the criterion, the case or an invocation
    JUDGE = "judge"  # a model
    VERTEX = "vertex"  # Google Cloud's evaluation service


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionServices:
    """What the world offers a criterion. `run_metric` None: the agent's driver cannot run custom metrics."""

    adk_compat: bool = False
    run_metric: MetricRunner | None = None


class Criterion(Protocol):
    """A criterion with its options, ready to grade; safe to call from many threads."""

    def __call__(self, evidence: Evidence) -> Grade:
        """Grade one trial. What cannot be judged is NotEvaluated with its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionSpec:
    """One row of `evalgate.criteria.CRITERIA`.

    `options`: shape of the object form without its threshold (unknown keys refused there).
    `lowest`, `highest`: ends of the scale, None where open. `summary`: one line for reports and docs.
    `build(options, use, services)` makes the criterion.
    """

    name: str
    summary: str
    options: type[BaseModel]
    build: Callable[[Any, CriterionUse, CriterionServices], Criterion]
    lowest: float | None = 0.0
    highest: float | None = 1.0
    needs: frozenset[Need] = frozenset()
    informational: bool = False
    lower_is_better: bool = False
    ours: bool = False


# --- reports --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Renderer:
    """One row of `evalgate.reports.RENDERERS`: one Report in, one text out; `publish` writes the file."""

    name: str
    file_name: str
    render: Callable[[Report], str]


# --- watching -------------------------------------------------------------------------------------


class Watcher(Protocol):
    """Told of progress while trials run; rich on a terminal, plain lines in CI."""

    def begin(self, *, trials: int, done: int) -> None:
        """`trials` in all, `done` of them taken from the journal."""

    def trial_done(self, key: TrialKey, outcome: Outcome, seconds: float) -> None:
        """One trial ended."""

    def say(self, line: str) -> None:
        """A line for people."""

    def end(self) -> None:
        """No more will come."""


@dataclass(frozen=True, slots=True)
class SilentWatcher:
    """Watches and says nothing."""

    lines: list[str] = field(default_factory=list)

    def begin(self, *, trials: int, done: int) -> None:
        """See Watcher."""

    def trial_done(self, key: TrialKey, outcome: Outcome, seconds: float) -> None:
        """See Watcher."""

    def say(self, line: str) -> None:
        """Keep the line."""
        self.lines.append(line)

    def end(self) -> None:
        """See Watcher."""
