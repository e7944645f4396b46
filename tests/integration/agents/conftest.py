"""Workers for the tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.agents.line_client import AGENTS, Message, Worker, adk_python


@pytest.fixture(scope="session", params=["new", "old"])
def full(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """A worker with the agent `adk_full`, in both ends of the supported range of google-adk; the old one takes many
    seconds to import."""
    worker = Worker(adk_python(request.param), "adk", {"path": "adk_full"}, AGENTS, {})
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def spawn() -> Iterator[Callable[..., Worker]]:
    """Starts workers that are gone after the module."""
    workers: list[Worker] = []

    def run(
        options: Message,
        *,
        kind: str = "adk",
        which: str = "new",
        cwd: Path = AGENTS,
        environment: dict[str, str] | None = None,
        tools: str = "",
    ) -> Worker:
        python = adk_python(which) if kind == "adk" else sys.executable
        workers.append(Worker(python, kind, options, cwd, environment or {}, tools))
        return workers[-1]

    yield run
    for worker in workers:
        worker.close()
