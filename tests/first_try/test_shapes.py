"""Agents as strangers write them: what blocks."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from builders.gated_repository import Repository, content

pytestmark = pytest.mark.integration

AGENT = """
import time

from google.adk.agents import LlmAgent

from .scripted_llm import ScriptedLlm


def look_up(seconds: float) -> dict:
    time.sleep(seconds)  # as requests.get without a timeout does
    return {}


root_agent = LlmAgent(name="bot", model=ScriptedLlm(), tools=[look_up])
"""


def write_cases(repo: Repository, folder: str, blocking: str, other: str) -> None:
    asked = {"blocks": blocking, **{f"case_{n}": other for n in range(6)}}
    cases = [
        {
            "eval_id": name,
            "conversation": [
                {"user_content": content(text, "user"), "final_response": content("done", "model")}
            ],
        }
        for name, text in asked.items()
    ]
    repo.write(
        f"{folder}/desk.evalset.json", json.dumps({"eval_set_id": "desk", "eval_cases": cases})
    )
    repo.write("test_config.json", '{"criteria": {"response_match_score": 0.9}}')


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_tool_that_blocks(tmp_path: Path, kind: str) -> None:
    """It stops no other conversation of its worker, and is named where it takes too long."""
    adk = Path(os.environ.get("EVALGATE_TEST_ADK", Path(__file__).parents[2] / ".venv-adk"))
    python = adk / "bin/python" if adk.is_dir() else adk
    if not python.exists():
        pytest.skip("no interpreter with google-adk: set EVALGATE_TEST_ADK or make .venv-adk")
    repo = Repository(tmp_path / "repo", tmp_path / "asked.log")
    repo.write("bot/__init__.py", "from . import agent\n")
    repo.write("bot/agent.py", AGENT.replace("def", kind, 1))
    repo.write(
        "bot/scripted_llm.py", (Path(__file__).parents[1] / "agents/scripted_llm.py").read_text()
    )
    write_cases(repo, "bot", 'call look_up {"seconds": 60}\nsay done', "say done")
    options = (
        "--python",
        str(python),
        "--turn-timeout",
        "4",
        "--workers",
        "1",
        "--concurrency",
        "8",
    )
    code, said = repo.run(*options, base="")
    assert code == 3, said
    assert "6 passed, 0 failed, 1 not measured" in said
    told = "The agent timed out in turn 1 (timeout): the agent timed out after 4.0 s (`turn-timeout`), while the tool "
    assert f"{told}'look_up' was running" in said
    assert ("; look_up (bot/agent.py:10) waits without `await`, which stops all" in said) is (
        kind == "async def"
    )
    assert "NOT MEASURED: 1 of 7 cases could not be evaluated in bot/desk.evalset.json." in said


COROUTINE = """
import time


async def answer(text):
    if text == "block":
        time.sleep(60)
    return "done"
"""


def test_a_coroutine_that_blocks(tmp_path: Path) -> None:
    """The others of its process are tried again."""
    repo = Repository(tmp_path / "repo", tmp_path / "asked.log")
    repo.write("desk.py", COROUTINE)
    agents = '[{suites: ["*"], driver: python, call: "desk:answer"}]'
    repo.write("evalgate.yml", f"agents: {agents}\n")
    write_cases(repo, ".", "block", "go on")
    code, said = repo.run("--turn-timeout", "2", "--workers", "1", "--concurrency", "8", base="")
    assert code == 3, said
    assert "6 passed, 0 failed, 1 not measured" in said
    assert (
        "timed out after 2.0 s (`turn-timeout`); answer (desk.py:7) waits without `await`, which stops all"
        in said
    )
