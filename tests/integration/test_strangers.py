"""bench/strangers.py on an agent that needs a variable of its own, a tool, a judge and a simulated
user."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from builders.nightly import BY_NIGHT

from bench.scripted_model import Script, Turn, gemini_reply
from tests.integration.agents.line_client import forked_adk

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
AGENT = '''
import os

from google.adk.agents import LlmAgent

DESK = os.environ["DESK"]


def find_shelf(title: str) -> dict:
    """Where a book stands."""
    return {"shelf": f"{DESK}-3"}


root_agent = LlmAgent(name="desk", model="gemini-2.5-flash", instruction="Help readers.", tools=[find_shelf])
'''
RUBRIC = {"rubric_id": "polite", "rubric_content": {"text_property": "The answer is polite."}}
CRITERIA = {
    "tool_trajectory_avg_score": 1.0,
    "response_match_score": 0.9,
    "rubric_based_final_response_quality_v1": {
        "threshold": 0.8,
        "judge_model_options": {"judge_model": "gemini-2.5-flash", "num_samples": 1},
        "rubrics": [RUBRIC],
    },
}
TURN = {
    "user_content": {"parts": [{"text": "Where is Dune?"}]},
    "final_response": {"parts": [{"text": "It stands on shelf A-3."}]},
    "intermediate_data": {"tool_uses": [{"name": "find_shelf", "args": {"title": "Dune"}}]},
}
LED = {"starting_prompt": "Hello", "conversation_plan": "Say hello and leave."}


@BY_NIGHT
def test_the_second_try_has_the_variables_of_its_own_example(tmp_path: Path) -> None:
    sets = {
        "shelves": [{"eval_id": "dune", "conversation": [TURN]}],
        "greetings": [{"eval_id": "led", "conversation_scenario": LED}],
    }
    files = {
        "desk/__init__.py": "from . import agent\n",
        "desk/agent.py": AGENT,
        ".env.example": "# your desk\nexport DESK=<YOUR_DESK>\n",
        "evals/test_config.json": json.dumps({"criteria": CRITERIA}),
        "evals/shelves.evalset.json": json.dumps(
            {"eval_set_id": "shelves", "eval_cases": sets["shelves"]}
        ),
        "led/greetings.evalset.json": json.dumps(
            {"eval_set_id": "greetings", "eval_cases": sets["greetings"]}
        ),
    }
    for name, text in files.items():
        (tmp_path / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "checkout" / name).write_text(text)
    python = {"python": forked_adk("new")}
    entry = {
        "agent": "desk",
        "path": "checkout",
        "commit": "abc",
        "typed": ".env.example",
        "inputs": python,
    }
    options = ["--checkouts", tmp_path, "--work", tmp_path / "work", "--control"]
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists/agents.json").write_text(
        json.dumps([entry, {**entry, "agent": "lost", "typed": None}])
    )
    command = [
        sys.executable,
        ROOT / "bench/strangers.py",
        tmp_path / "lists/agents.json",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    log = tmp_path / "work/desk/typed/log.txt"
    assert done.returncode == 0, done.stderr
    row, lost = done.stdout.splitlines()[2:]
    cells = [cell.strip() for cell in row.removeprefix("| ").removesuffix(" |").split(" | ")]
    assert cells[:3] == ["desk", "abc", "any, nothing"]
    assert cells[3].startswith("0 of 2 scored, exit 3, "), row
    assert "KeyError: 'DESK'" in cells[3]
    assert cells[4] == "`DESK`"
    assert cells[5].startswith("works: 2 of 2 scored, exit 0, "), log.read_text()
    assert cells[6] == "", "what works needs no control"
    assert lost.endswith("| 0 of 2 ran; 2 x import: KeyError: 'DESK' |"), lost


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(
            {"functionResponse": {"name": "find_shelf", "response": {}}},
            id="as the Gemini API names it",
        ),
        pytest.param(
            {"function_response": {"name": "find_shelf", "response": {}}},
            id="as Vertex AI's client does",
        ),
    ],
)
def test_the_scripted_model_answers_once_its_tool_has(answer: dict[str, Any]) -> None:
    script = Script(
        {"Where is Dune?": Turn((("find_shelf", {"title": "Dune"}),), "It stands on shelf A-3.")}
    )
    asked = [{"role": "user", "parts": [{"text": "Where is Dune?"}]}]
    request: dict[str, Any] = {
        "contents": asked,
        "tools": [{"functionDeclarations": [{"name": "find_shelf"}]}],
    }
    call = {"functionCall": {"name": "find_shelf", "args": {"title": "Dune"}}}
    assert gemini_reply(script, request)["candidates"][0]["content"]["parts"] == [call]
    request["contents"] = [
        *asked,
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [answer]},
    ]
    said = [{"text": "It stands on shelf A-3."}]
    assert gemini_reply(script, request)["candidates"][0]["content"]["parts"] == said
