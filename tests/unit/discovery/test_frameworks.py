"""Agents of other frameworks, found by the objects that modules make."""

from __future__ import annotations

import pytest

from evalgate.discovery import agent_source


@pytest.mark.parametrize(
    ("file", "source", "found"),
    [
        (
            "bot.py",
            "from langgraph.graph import StateGraph\ngraph = StateGraph().compile()",
            "langgraph bot:graph",
        ),
        (
            "src/desk/bot.py",
            "from pydantic_ai import Agent\ndesk = Agent('m')",
            "pydantic-ai desk.bot:desk src",
        ),
        (
            "my-bot/bot.py",
            "from agents import Agent\ndesk = Agent(name='x')",
            "openai-agents bot:desk my-bot",
        ),
        ("bot.py", "import smolagents\ndesk = smolagents.CodeAgent()", "smolagents bot:desk"),
        ("bot.py", "from .agents import Agent\ndesk = Agent()", ""),  # the repository's own module
        # not at its own level
        ("bot.py", "from langgraph import x\ndef make():\n    graph = g.compile()", ""),
        ("tests/bot.py", "from pydantic_ai import Agent\ndesk = Agent('m')", ""),
        ("test_bot.py", "from pydantic_ai import Agent\ndesk = Agent('m')", ""),
        ("bot.js", "from pydantic_ai import Agent\ndesk = Agent('m')", ""),
        ("bot.py", "from pydantic_ai import Agent\ndesk = Agent(", ""),
    ],
)
def test_agents_are_found(file: str, source: str, found: str) -> None:
    agents = agent_source.find_frameworks([file], {file: source}.get)
    shown = [" ".join([each.driver, *each.options.values()]) for each in agents]
    assert shown == ([found] if found else [])
