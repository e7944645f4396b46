"""Agents of other frameworks, found by the objects that modules make."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalgate.config.settings import Settings
from evalgate.discovery import candidates
from evalgate.discovery.agent_source import ImportGraph


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
            "src/desk/bot.py",
            "from pydantic_ai import Agent\nfrom ..words import WORDS\ndesk = Agent('m')",
            "pydantic-ai src.desk.bot:desk",
        ),
        (
            "my-bot/bot.py",
            "from agents import Agent\ndesk = Agent(name='x')",
            "openai-agents my-bot.bot:desk",
        ),
        ("bot.py", "import smolagents\ndesk = smolagents.CodeAgent()", "smolagents bot:desk"),
        ("bot.py", "from .agents import Agent\ndesk = Agent()", ""),  # the repository's own module
        (
            "bot.py",
            "from agent_framework import WorkflowBuilder\nflow = WorkflowBuilder(start_executor=a).build()",
            "agent-framework bot:flow",
        ),
        # not at its own level
        ("bot.py", "from langgraph import x\ndef make():\n    graph = g.compile()", ""),
        # given a type, an annotation
        (
            "bot.py",
            "from agents import Agent\ndesk = Agent[Ctx](name='x')",
            "openai-agents bot:desk",
        ),
        (
            "bot.py",
            "from agents import Agent\ndesk: Agent[Ctx] = Agent(name='x')",
            "openai-agents bot:desk",
        ),
        # made by a function, which needs nothing
        (
            "bot.py",
            "from strands import Agent\ndef make():\n    desk = Agent()\n    return desk",
            "strands bot:make",
        ),
        ("bot.py", "from strands import Agent\ndef make(key):\n    return Agent(key)", ""),
        ("bot.py", "from strands import Agent\ndef _make():\n    return Agent()", ""),
        # made by a function that another one calls, in a tuple, or inside an object of a class
        (
            "bot.py",
            "from strands import Agent\ndef _make(key):\n    return Agent(key)\ndef make():\n    return _make('a')",
            "strands bot:make",
        ),
        (
            "bot.py",
            "from strands import Agent\ndef make():\n    desk = Agent()\n    return desk, 'prompt'",
            "strands bot:make",
        ),
        (
            "bot.py",
            "from strands import Agent\nasync def make():\n    desk = Agent()\n    return Server(agent=desk)",
            "strands bot:make",
        ),
        (
            "bot.py",
            "from strands import Agent\ndef make() -> Agent:\n    return built()",
            "strands bot:make",
        ),
        # an answer is no agent
        (
            "bot.py",
            "from strands import Agent\ndef make():\n    desk = Agent()\n    return desk('a')",
            "",
        ),
        # kept by the objects of a class that needs nothing, or made by its method
        (
            "bot.py",
            "from strands import Agent\nclass Desk:\n    def __init__(self, key='a'):\n        self.desk = Agent()",
            "strands bot:Desk.desk",
        ),
        (
            "bot.py",
            "from strands import Agent\nclass Desk:\n    def build(self):\n        return Agent()",
            "strands bot:Desk.build",
        ),
        (
            "bot.py",
            "from strands import Agent\nclass Desk:\n    def __init__(self, key):\n        self.desk = Agent()",
            "",
        ),
        (
            "bot.py",
            "from strands import Agent\nclass Desk:\n    desk = abstractmethod(x)\n    def build(self): return Agent()",
            "",
        ),
        # made by a class method
        (
            "bot.py",
            "from llama_index.core import agent\nflow = agent.AgentWorkflow.from_tools_or_functions()",
            "llama-index bot:flow",
        ),
        # in a folder with the name of an installed package
        (
            "smolagents/bot.py",
            "from smolagents import CodeAgent\ndesk = CodeAgent()",
            "smolagents bot:desk smolagents",
        ),
        # a module that is named like its framework
        (
            "bots/crewai.py",
            "from crewai import Crew\ncrew = Crew()",
            "crewai bots.crewai:crew",
        ),
        ("tests/bot.py", "from pydantic_ai import Agent\ndesk = Agent('m')", ""),
        ("test_bot.py", "from pydantic_ai import Agent\ndesk = Agent('m')", ""),
        ("bot.js", "from pydantic_ai import Agent\ndesk = Agent('m')", ""),
        ("bot.py", "from pydantic_ai import Agent\ndesk = Agent(", ""),
    ],
)
def test_agents_are_found(file: str, source: str, found: str) -> None:
    agents = candidates.find_frameworks([file], ImportGraph({file: source}.get))
    shown = [" ".join([each.driver, *each.options.values()]) for each in agents]
    assert shown == ([found] if found else [])


GUARDED = """
from agents import Agent, input_guardrail
check = Agent(name="Guardrail check")
@input_guardrail
async def guard(ctx, agent, text):
    return await Runner.run(check, text)
clerk = Agent(name="clerk")
guardrail_agent = Agent(name="x")
desk = Agent(name="desk", handoffs=[clerk], input_guardrails=[guard])
"""
DELEGATING = """
from pydantic_ai import Agent
clerk = Agent("m")
desk = Agent("m")
@desk.tool_plain
async def ask_clerk(text: str):
    return await clerk.run(text)
@app.post("/chat")
async def chat(text: str):
    return await desk.run(text)
"""
TRIAGE = """
from agents import Agent
faq = Agent[Ctx](name="faq")
triage = Agent[Ctx](name="triage", handoffs=[])
triage.handoffs = [faq]
faq.handoffs.append(triage)
"""
CREW = """
from crewai import Agent, Crew, Task
writer = Agent(role="x")
order = Task(agent=writer)
crew = Crew(tasks=[order])
"""
MARKED = "from crewai.project import CrewBase\n@CrewBase\nclass Desk:\n    pass"
MAIN = "from strands import Agent\nfrom .clerk import clerk\ndesk = Agent(tools=[clerk.as_tool()])"
KERNEL = "from semantic_kernel import Kernel\nkernel = Kernel()\n"
CLERK = "from strands import Agent\nclerk = Agent()"


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        # not the helpers of another
        ({"bot.py": GUARDED}, ["openai-agents bot:desk"]),
        ({"bot.py": DELEGATING}, ["pydantic-ai bot:desk"]),
        ({"team/clerk.py": CLERK, "team/main.py": MAIN}, ["strands team.main:desk"]),
        ({"bot.py": TRIAGE}, ["openai-agents bot:triage"]),
        ({"bot.py": CREW}, ["crewai bot:crew"]),
        ({"bot.py": MARKED}, ["crewai bot:Desk"]),
        # not those of examples, if there are others
        ({"examples/bot.py": CLERK, "desk.py": CLERK}, ["strands desk:clerk"]),
        ({"examples/bot.py": CLERK}, ["strands examples.bot:clerk"]),
        # a package in a folder that is no identifier
        (
            {"my-bot/app/__init__.py": "", "my-bot/app/bot.py": CLERK},
            ["strands my-bot.app.bot:clerk"],
        ),
        ({"my-bot/app/bot.py": MAIN}, ["strands my-bot.app.bot:desk"]),
        # a folder that no module's name can contain
        ({"my bot/app/bot.py": CLERK}, ["strands app.bot:clerk my bot"]),
        ({"a/v1.0/bot.py": CLERK}, ["strands bot:clerk a/v1.0"]),
        (
            {"my bot/bot.py": f"import words_of_bot\n{CLERK}", "words_of_bot.py": ""},
            ["strands bot:clerk my bot"],
        ),
        # what it imports lies in a folder above it
        (
            {
                "app/llm/bot.py": f"from llm.tools import look\n{CLERK}",
                "app/llm/tools.py": "",
                "app/main.py": "",
            },
            ["strands llm.bot:clerk app"],
        ),
        # what it imports lies at the root, and a package in `src`
        (
            {"app/bot.py": f"from app.tools import look\n{CLERK}", "app/tools.py": ""},
            ["strands app.bot:clerk"],
        ),
        (
            {"src/desk/bot.py": CLERK, "src/desk/__init__.py": ""},
            ["strands desk.bot:clerk src"],
        ),
        # neighbors that are imported by their bare names
        (
            {"backend/bot.py": f"import tools\n{CLERK}", "backend/tools.py": ""},
            ["strands bot:clerk backend"],
        ),
        # a project in a folder, with a package of the folder's name
        (
            {
                "desk/pyproject.toml": "",
                "desk/bot.py": CLERK,
                "desk/src/desk/__init__.py": "",
                "desk/src/desk/main.py": CLERK,
            },
            ["strands bot:clerk desk", "strands desk.main:clerk desk/src"],
        ),
        # a kernel is an agent where nothing else is
        ({"bot.py": KERNEL}, ["semantic-kernel bot:kernel"]),
        (
            {"bot.py": f"{KERNEL}def make(): return ChatCompletionAgent()\n"},
            ["semantic-kernel bot:make"],
        ),
        # a conversation that begins as the module is imported; in a function it does not
        ({"bot.py": f"{CLERK}\nwhile True:\n    clerk(input())\n"}, ["strands bot:__main__"]),
        ({"bot.py": f"{CLERK}\ndef main():\n    clerk(input())\n"}, ["strands bot:clerk"]),
        # a name that nothing can import is no module; a dash can be
        ({"my bot.py": CLERK, "bot.v2.py": CLERK}, []),
        ({"my-bot.py": CLERK}, ["strands my-bot:clerk"]),
    ],
)
def test_the_agent_that_a_repository_is_about(sources: dict[str, str], found: list[str]) -> None:
    agents = candidates.find_frameworks(sources, ImportGraph(sources.get))
    assert [" ".join([use.driver, *use.options.values()]) for use in agents] == found


RUNNING = "from strands import Agent\ndef main():\n    Agent()('Hello')\nif __name__ == '__main__':\n    main()\n"


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        ({"bot.py": RUNNING}, ["strands bot:__main__"]),
        # a call alone runs, too
        ({"bot.py": "import asyncio\nfrom strands import Agent\nasync def main(): Agent()\nasyncio.run(main())\n"},
         ["strands bot:__main__"]),
        # the module that it imports makes the agent; the one near the root comes first
        ({"shop/desk.py": "from strands import Agent\ndef make(key): return Agent(key)\n",
          "shop/run.py": "from shop.desk import make\nif __name__ == '__main__':\n    make('a')\n", "main.py": RUNNING},
         ["strands main:__main__", "strands shop.run:__main__"]),
        # servers wait for others, tests are tests, and a module without a program makes nothing
        ({"bot.py": f"import uvicorn\n{RUNNING}"}, []),
        ({"tests/bot.py": RUNNING, "test_bot.py": RUNNING}, []),
        ({"bot.py": "from strands import Agent\ndef main():\n    Agent()('Hello')\n"}, []),
        ({"bot.py": "if __name__ == '__main__':\n    print('Hello')\n"}, []),
    ],
)  # fmt: skip
def test_programs_that_ask_an_agent(sources: dict[str, str], found: list[str]) -> None:
    programs = candidates.find_programs(sources, ImportGraph(sources.get))
    assert [f"{use.driver} {use.options['call']}" for use in programs] == found


def test_the_agent_whose_module_imports_those_of_others_comes_first(tmp_path: Path) -> None:
    agent = "from strands import Agent\ndesk = Agent()\n"
    files = {
        "answers.py": agent,
        "manager.py": f"import answers, words\n{agent}",
        "words.py": agent,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    uses = candidates.find_agents(Settings(root=tmp_path))
    assert [use.options["call"] for use in uses] == ["manager:desk", "words:desk", "answers:desk"]


def test_a_program_comes_after_the_likeliest_agents(tmp_path: Path) -> None:
    agents = "from strands import Agent\n" + "".join(f"desk_{n} = Agent()\n" for n in range(4))
    for name, text in {"desks.py": agents, "main.py": RUNNING}.items():
        (tmp_path / name).write_text(text)
    uses = candidates.find_agents(Settings(root=tmp_path))
    assert [use.options["call"] for use in uses] == [
        *(f"desks:desk_{n}" for n in (3, 2, 1)),
        "main:__main__",
        "desks:desk_0",
    ]
