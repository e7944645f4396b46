"""Agents of other frameworks than ADK, as strangers have them: found by `evalgate init`, run, and
told of."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from builders.gated_repository import Repository, content
from builders.nightly import BY_NIGHT

from tests.integration.agents.line_client import AGENTS, framework_python

pytestmark = pytest.mark.integration

LANGGRAPH = """
from langchain.agents import create_agent
from langchain_core.tools import tool

desk = create_agent(test_model.Scripted(), [*map(tool, script.TOOLS)])
"""
PYDANTIC_AI = """
from pydantic_ai import Agent

desk = Agent(test_model.model, tools=[*script.TOOLS])
"""
OPENAI_AGENTS = """
from agents import Agent, function_tool

desk = Agent(name="desk", model=test_model.Scripted(), tools=[*map(function_tool, script.TOOLS)])
"""
SMOLAGENTS = """
from smolagents import ToolCallingAgent, tool

desk = ToolCallingAgent(tools=[*map(tool, script.TOOLS)], model=test_model.Scripted(), max_steps=4)
"""
STRANDS = """
from strands import Agent, tool

desk = Agent(model=test_model.Scripted(), tools=[*map(tool, script.TOOLS)], retry_strategy=None)
"""
LLAMA_INDEX = """
from llama_index.core.agent.workflow import FunctionAgent

desk: FunctionAgent = FunctionAgent(llm=test_model.Scripted(), tools=[*script.TOOLS])
"""
AUTOGEN = """
from autogen_agentchat.agents import AssistantAgent

desk = AssistantAgent(
    "desk", test_model.Scripted(), tools=[*script.TOOLS], max_tool_iterations=4
)
"""
AGENT_FRAMEWORK = """
from agent_framework import Agent

desk = Agent(client=test_model.Scripted(), tools=[*script.TOOLS])
"""
BOTS = {
    "langgraph": ("graphs.py", LANGGRAPH),
    "pydantic-ai": ("pydantics.py", PYDANTIC_AI),
    "openai-agents": ("openais.py", OPENAI_AGENTS),
    "smolagents": ("smols.py", SMOLAGENTS),
    "strands": ("strandeds.py", STRANDS),
    "llama-index": ("llamas.py", LLAMA_INDEX),
    "autogen": ("autogens.py", AUTOGEN),
    "agent-framework": ("microsofts.py", AGENT_FRAMEWORK),
}
"""The module with the scripted model, and the agent."""

PACKAGES = {
    "pydantic-ai": "pydantic-ai-slim",
    "strands": "strands-agents",
    "llama-index": "llama-index-core",
    "autogen": "autogen-agentchat",
    "agent-framework": "agent-framework-core",
}
"""Of drivers that are called otherwise."""

ASKED = {
    "works": [
        ('call weather {"city": "Oslo"}\nsay sunny', "sunny", ["Oslo"]),
        ("say (turns)", "turn 2", []),
    ],
    "fails": [("raise no model today", "sunny", [])],
    "blocks": [('call block {"seconds": 60}\nsay sunny', "sunny", [])],
}


@pytest.fixture(params=[*BOTS][:2] + [pytest.param(name, marks=BY_NIGHT) for name in [*BOTS][2:]])
def driver(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def stranger(tmp_path: Path, driver: str) -> Repository:
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    model, bot = BOTS[driver]
    folder = "src/" if driver == "pydantic-ai" else ""  # nothing says that it is to be installed
    for name, text in {
        f"{folder}bot.py": f"import script, test_model\n{bot}",
        f"{folder}script.py": (AGENTS / "frameworks/script.py").read_text(),
        f"{folder}test_model.py": (AGENTS / "frameworks" / model).read_text(),
        "test_config.json": json.dumps(
            {"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 1.0}}
        ),
        "desk.evalset.json": json.dumps({"eval_set_id": "desk", "eval_cases": [*map(case, ASKED)]}),
    }.items():
        made.write(name, text)
    made.commit("all")
    return made


def case(name: str) -> dict[str, Any]:
    turns = [
        {
            "user_content": content(said, "user"),
            "final_response": content(answer, "model"),
            "intermediate_data": {
                "tool_uses": [{"name": "weather", "args": {"city": city}} for city in cities]
            },
        }
        for said, answer, cities in ASKED[name]
    ]
    return {"eval_id": name, "conversation": turns}


def test_an_agent_of_another_framework(stranger: Repository, driver: str) -> None:
    """Several turns and a tool; a failure of the model; a tool that takes too long, which is
    named."""
    code, said = stranger.call("init")
    assert code == 0, said
    assert "wrote evalgate.yml\n" in said
    rule = f'  - suites: ["desk.evalset.json"]\n    driver: {driver}\n    call: bot:desk\n'
    rule += "    path: src\n" if driver == "pydantic-ai" else ""
    assert (stranger.root / "evalgate.yml").read_text().endswith(f"agents:\n{rule}")
    options = ("--turn-timeout", "4", "--workers", "1", "--concurrency", "8", "--retries", "0")
    code, said = stranger.run("--python", framework_python(), *options, base="")
    assert code == 3, said
    assert "1 passed, 0 failed, 2 not measured" in said
    lines = said.splitlines()
    failed = (
        "AgentGenerationError: Error while generating output"
        if driver == "smolagents"
        else "ValueError"
    )
    assert f"desk.evalset.json:fails#0: the agent failed: {failed}: no model today" in lines
    timed_out = (
        "the agent timed out after 4.0 s (`turn-timeout`), while the tool 'block' was running"
    )
    assert f"desk.evalset.json:blocks#0: the agent failed: {timed_out}" in lines
    assert "NOT MEASURED: 2 of 3 cases could not be evaluated in desk.evalset.json." in lines
    code, said = stranger.run("--python", framework_python(), "--grep", "works", base="")
    assert (code, "PASS: The case passed." in said) == (0, True), said


def test_a_framework_that_is_not_installed(stranger: Repository, driver: str) -> None:
    stranger.call("init", "--action", "acme/evalgate/gate@v1")
    code, said = stranger.call("doctor", "--python", sys.executable)
    assert code == 3, said
    package = PACKAGES.get(driver, driver)
    assert (
        f"  error  start        {package} is not installed for {sys.executable}: add `{package}>="
        in said
    )
    assert "to the requirements [agent-start]\n" in said
    assert "1 suite: 1 error, 0 warnings\n" in said


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("", "  warn   credentials  no credentials of AWS reach the agent"),
        ("A", "  ok     credentials  of AWS: AWS_ACCESS_KEY_ID\n"),
    ],
)
def test_credentials_of_bedrock(tmp_path: Path, key: str, said: str) -> None:
    """The model of a Strands agent that names none."""
    stranger = Repository(tmp_path / "repo", tmp_path / "asked.log")
    stranger.write("bot.py", "from strands import Agent\n\ndesk = Agent()\n")
    stranger.commit("all")
    environment = {
        "HOME": str(tmp_path), "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": key,
        "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    python = framework_python()
    _, output = stranger.call("doctor", "--python", python, environment=environment)
    assert said in output
