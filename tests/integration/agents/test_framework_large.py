"""The workers for CrewAI and Semantic Kernel, which need 1.1 GB of packages of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evalgate.wings.frameworks.drivers import HOSTS
from tests.integration.agents.line_client import AGENTS, REPO, Worker, responses, texts
from tests.integration.agents.test_framework_agents import answered, calls

pytestmark = pytest.mark.integration

ROWS = [("crewai", "crews", "weather"), ("semantic_kernel", "kernels", "desk-weather")]
"""The worker, the module with its agents, and the model's name of the tool."""


@pytest.fixture
def start() -> Iterator[Callable[..., Worker]]:
    home = Path(os.environ.get("EVALGATE_TEST_FRAMEWORKS_LARGE") or REPO / ".venv-frameworks-large")
    if not (home / "bin/python").exists():
        pytest.skip("needs the large frameworks: `make .venv-frameworks-large/.ready`")
    started: list[Worker] = []

    def run(kind: str, call: str, tools: str = "") -> Worker:
        options = {"call": call, "path": "frameworks"}
        python = str(home / "bin/python")
        started.append(Worker(python, str(HOSTS / kind), options, AGENTS, {}, tools))
        assert started[-1].greeting["type"] == "ready", started[-1].greeting
        return started[-1]

    yield run
    for worker in started:
        worker.close()


@pytest.mark.parametrize(("kind", "module", "tool"), ROWS)
def test_turns_tools_and_failures(
    start: Callable[..., Worker], kind: str, module: str, tool: str
) -> None:
    worker = start(kind, f"{module}:agent")
    for session in ("first", "second"):  # the second begins anew
        worker.start(session)
        events, ended = worker.turn(session, 'call weather {"city": "Oslo"}', "say (turns)")
        assert ended["type"] == "turn_end", ended
        assert calls(events) == [(tool, {"city": "Oslo"})]
        assert responses(events) == [{"result": "sunny in Oslo"}]
        assert texts(events) == ["turn 1"]
        used = [event["usage_metadata"] for event in events if event.get("usage_metadata")]
        assert [usage["total_token_count"] for usage in used] == [12, 12]
        assert texts(worker.turn(session, "say (turns)")[0]) == ["turn 2"]
        worker.end(session)
    events, _ = worker.ask('call broken {"what": "no paper"}', "say sorry")
    assert "no paper" in str(responses(events)[0])
    _, ended = worker.ask("raise boom")
    assert (ended["type"], "boom" in ended["message"]) == ("turn_failed", True), ended


@pytest.mark.parametrize(("kind", "module", "tool"), ROWS)
def test_a_tool_is_asked_about(
    start: Callable[..., Worker], kind: str, module: str, tool: str
) -> None:
    worker = start(kind, f"{module}:agent", "replay")
    worker.start("s")
    worker.begin_turn("s", 'call weather {"city": "Oslo"}\nsay done')
    asked: dict[str, Any] = answered(worker, "s", response="rain")
    assert (asked["name"], asked["args"]) == (tool, {"city": "Oslo"})
    events, ended = worker.end_turn("s")
    assert (responses(events), ended["type"]) == ([{"result": "rain"}], "turn_end"), ended


def test_a_kernel_answers_with_its_service_and_its_functions(start: Callable[..., Worker]) -> None:
    events, ended = start("semantic_kernel", "kernels:kernel").ask(
        'call weather {"city": "Oslo"}', "say done"
    )
    assert ended["type"] == "turn_end", ended
    assert (calls(events), texts(events)) == ([("desk-weather", {"city": "Oslo"})], ["done"])


@pytest.mark.parametrize("name", ["team", "make_crew", "Desk"])
def test_a_crew_takes_the_text_as_its_only_input(start: Callable[..., Worker], name: str) -> None:
    events, ended = start("crewai", f"crews:{name}").ask(
        'call weather {"city": "Oslo"}', "say done"
    )
    assert ended["type"] == "turn_end", ended
    assert (calls(events), texts(events)) == ([("weather", {"city": "Oslo"})], ["done"])
