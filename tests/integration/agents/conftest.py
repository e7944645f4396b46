"""Workers for the tests of this folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.nightly import ADKS
from builders.zygotes import Zygote

from evalgate.agents import DRIVERS
from evalgate.agents.base import Agent, AgentLimits, AgentSetting
from evalgate.system.python_env import InstallSetup
from tests.integration.agents.line_client import (
    AGENTS,
    Message,
    Worker,
    adk_python,
    framework_python,
)

ADK = ("google.adk.agents", "google.adk.runners")
WITH_FIRST_TURN = (*ADK, "google.adk.agents.llm_agent", "google.adk.flows.llm_flows.core")
"""A newer one loads half of itself with its first turn, which takes 0.4 s."""


@pytest.fixture(scope="session")
def old_adk() -> Iterator[Zygote]:
    """The oldest google-adk, imported once: that takes ten seconds."""
    zygote = Zygote(adk_python("old"), "worker_zygote.py", *ADK)
    yield zygote
    zygote.close()


@pytest.fixture(scope="session")
def new_adk() -> Iterator[Zygote]:
    """The newest one, for those many workers that are not about how they start."""
    zygote = Zygote(adk_python("new"), "worker_zygote.py", *WITH_FIRST_TURN)
    yield zygote
    zygote.close()


@pytest.fixture(scope="session")
def frameworks() -> Iterator[Zygote]:
    """Those that are not ADK, imported once."""
    zygote = Zygote(
        framework_python(),
        "worker_zygote.py",
        "langchain.agents",
        "pydantic_ai",
        "agents",
        "smolagents",
        "strands",
        "llama_index.core.agent.workflow",
        "autogen_agentchat.teams",
        "agent_framework",
    )
    yield zygote
    zygote.close()


@pytest.fixture(scope="session", params=ADKS)
def full(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """A worker with the agent `adk_full`, in both ends of the supported range of google-adk."""
    zygote = request.getfixturevalue(f"{request.param}_adk")
    worker = Worker(
        adk_python(request.param), "adk", {"path": "adk_full"}, AGENTS, {}, zygote=zygote
    )
    yield worker
    worker.close()


@pytest.fixture(scope="session", params=ADKS)
def metrics(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """A worker for the custom metrics of `adk_full`, without the agent."""
    zygote = request.getfixturevalue("old_adk") if request.param == "old" else None
    worker = Worker(
        adk_python(request.param), "metrics", {"path": "adk_full"}, AGENTS, {}, zygote=zygote
    )
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def spawn(request: pytest.FixtureRequest) -> Iterator[Callable[..., Worker]]:
    """Starts workers that are gone after the module."""
    workers: list[Worker] = []

    def run(
        options: Message,
        *,
        kind: str = "adk",
        which: str = "",
        cwd: Path = AGENTS,
        environment: dict[str, str] | None = None,
        tools: str = "",
        forked: bool = False,
    ) -> Worker:
        which = which or ("new" if kind == "adk" else "")
        python = adk_python(which) if which else sys.executable
        zygote = request.getfixturevalue(f"{which}_adk") if forked or which == "old" else None
        workers.append(Worker(python, kind, options, cwd, environment or {}, tools, zygote))
        return workers[-1]

    yield run
    for worker in workers:
        worker.close()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    """Opens agents by their drivers' names; they are closed after the test."""
    agents: list[Agent] = []

    def run(driver: str, options: dict[str, Any], *, root: Path = AGENTS, **limits: Any) -> Agent:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        setting = AgentSetting(
            root=str(root),
            inputs=str(root),
            world=InstallSetup(environment=kept, cache=str(tmp_path / "cache"), log=str),
            limits=AgentLimits(**limits),
        )
        row = DRIVERS[driver]
        agents.append(row.open(row.options.model_validate(options), setting))
        return agents[-1]

    yield run
    for agent in agents:
        agent.close()
