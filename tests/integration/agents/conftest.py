"""Workers for the tests of this folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders.nightly import ADKS

from evalgate.agents import DRIVERS
from evalgate.agents.base import Agent, AgentLimits, AgentSetting
from evalgate.system.python_env import InstallSetup
from tests.integration.agents.line_client import (
    AGENTS,
    Message,
    Worker,
    adk_python,
    adk_zygote,
)


@pytest.fixture(scope="session", params=ADKS)
def full(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """A worker with the agent `adk_full`, in both ends of the supported range of google-adk."""
    zygote = adk_zygote(request.param)
    worker = Worker(
        adk_python(request.param), "adk", {"path": "adk_full"}, AGENTS, {}, zygote=zygote
    )
    yield worker
    worker.close()


@pytest.fixture(scope="session", params=ADKS)
def metrics(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """A worker for the custom metrics of `adk_full`, without the agent."""
    zygote = adk_zygote("old") if request.param == "old" else None
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
        zygote = adk_zygote(which) if forked or which == "old" else None
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
            world=InstallSetup(environment=kept, cache=str(tmp_path / "cache"), log=str),
            limits=AgentLimits(**limits),
        )
        row = DRIVERS[driver]
        agents.append(row.open(row.options.model_validate(options), setting))
        return agents[-1]

    yield run
    for agent in agents:
        agent.close()
