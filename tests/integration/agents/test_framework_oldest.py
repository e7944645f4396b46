"""The workers against the oldest supported versions of their frameworks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench import scripted_model
from bench.scripted_model import Script, Turn
from evalgate.wings.frameworks.drivers import HOSTS
from tests.integration.agents.line_client import AGENTS, REPO, Worker, responses, texts
from tests.integration.agents.test_framework_agents import GRAPH, answered, calls

pytestmark = pytest.mark.integration

KINDS = ("langgraph", "pydantic_ai", "openai_agents", "autogen")


@pytest.fixture
def start() -> Iterator[Callable[..., Worker]]:
    home = REPO / ".venv-frameworks-oldest"
    if not (home / "bin/python").exists():
        pytest.skip("needs the oldest frameworks: `make .venv-frameworks-oldest/.ready`")
    started: list[Worker] = []
    oslo = Turn((("weather", {"city": "Oslo"}),), "It is sunny.")
    script = Script({"Oslo?": oslo, "Sure?": Turn(answer="It is.")})
    with scripted_model.serving(script) as url:

        def run(kind: str, tools: str = "") -> Worker:
            options = {"call": f"oldest:{kind}", "path": "frameworks", **GRAPH}
            environment = {"OPENAI_API_KEY": "made-up", "OPENAI_BASE_URL": f"{url}/v1"}
            python = str(home / "bin/python")
            started.append(Worker(python, str(HOSTS / kind), options, AGENTS, environment, tools))
            assert started[-1].greeting["type"] == "ready", started[-1].greeting
            return started[-1]

        yield run
        for worker in started:
            worker.close()


@pytest.mark.parametrize("kind", KINDS)
def test_turns_and_tools(start: Callable[..., Worker], kind: str) -> None:
    worker = start(kind)
    for session in ("first", "second"):
        worker.start(session)
        events, ended = worker.turn(session, "Oslo?")
        assert ended["type"] == "turn_end", ended
        assert calls(events) == [("weather", {"city": "Oslo"})]
        assert responses(events) == [{"result": "sunny in Oslo"}]
        assert "sunny" in texts(events)[-1]
        assert texts(worker.turn(session, "Sure?")[0]) == ["It is."]
        worker.end(session)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_is_asked_about(start: Callable[..., Worker], kind: str) -> None:
    worker = start(kind, "replay")
    worker.start("s")
    worker.begin_turn("s", "Oslo?")
    asked: dict[str, Any] = answered(worker, "s", response="rain")
    assert (asked["name"], asked["args"]) == ("weather", {"city": "Oslo"})
    events, ended = worker.end_turn("s")
    assert (responses(events), ended["type"]) == ([{"result": "rain"}], "turn_end"), ended
