"""A repository whose agent is not ADK's: two lines of evalgate.yml, and the gate runs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from builders import forked_command

from tests.integration.agents.line_client import AGENTS, framework_zygote

pytestmark = pytest.mark.integration

TURNS = [
    ('call weather {"city": "Oslo"}\nsay sunny', "sunny", ["Oslo"]),
    ("say (turns)", "turn 2", []),
]
AGENT = {
    "langgraph": "graphs",
    "pydantic-ai": "pydantics",
    "openai-agents": "openais",
    "smolagents": "smols",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    shutil.copytree(AGENTS / "frameworks", tmp_path / "app")
    conversation = [
        {
            "user_content": {"parts": [{"text": said}]},
            "final_response": {"parts": [{"text": answer}]},
            "intermediate_data": {
                "tool_uses": [{"name": "weather", "args": {"city": city}} for city in cities]
            },
        }
        for said, answer, cities in TURNS
    ]
    case = {"eval_id": "oslo", "conversation": conversation}
    (tmp_path / "weather.evalset.json").write_text(
        json.dumps({"eval_set_id": "weather", "eval_cases": [case]})
    )
    criteria = {"tool_trajectory_avg_score": 1.0, "response_match_score": 1.0}
    (tmp_path / "test_config.json").write_text(json.dumps({"criteria": criteria}))
    return tmp_path


def gate(repository: Path, driver: str, *options: str) -> Any:
    rule = f"{{driver: {driver}, call: '{AGENT[driver]}:agent', path: app, python: {framework_zygote().python}}}"
    (repository / "evalgate.yml").write_text(f"agents:\n  - {rule}\n")
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment = {**kept, "TRACE": str(repository / "trace")}
    return forked_command.run(["run", "--env", "TRACE", *options], cwd=repository, env=environment)


@pytest.mark.parametrize("driver", AGENT)
def test_the_gate_runs_and_what_was_recorded_replays(repository: Path, driver: str) -> None:
    trace = repository / "trace"
    done = gate(repository, driver, "--tools", "record")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS: The case passed." in done.stdout
    assert trace.read_text() == "weather Oslo C\n"

    trace.unlink()
    done = gate(repository, driver, "--tools", "replay")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not trace.exists()

    cassette = next((repository / "tool-cassettes").rglob("*.json"))
    cassette.write_text(cassette.read_text().replace("Oslo", "Rome"))
    done = gate(repository, driver, "--tools", "replay")
    assert done.returncode == 3, done.stdout + done.stderr
    assert (
        'called `weather(city="Oslo")`, recorded only `weather(city="Rome")`'
        in done.stdout + done.stderr
    )
    assert not trace.exists()
