"""A repository without evaluation files: from one question to a first case that passes."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from builders import forked_command, gemini_double, repositories
from builders.gemini_double import GeminiDouble

from bench.scripted_model import CODE, example
from tests.first_try.test_beginning import ROOT, adk, call, stranger
from tests.integration.agents.line_client import framework_zygote

__all__ = ["adk"]

pytestmark = pytest.mark.integration

FUNCTION = {"desk.py": "def answer(message):\n    return f'On its way: {message}'\n"}
DESK = """\
from google.adk.agents import Agent

def find_parcel(number: str) -> dict:
    '''Where a parcel is.'''
    return {"place": "Aachen"}

root_agent = Agent(name="desk", model="gemini-2.5-flash", tools=[find_parcel])
"""


class Desk(GeminiDouble):
    """Calls the desk's tool once, answers, and judges that everything is fine."""

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, response = super().answer(path, body)
        if not json.dumps(body).count("functionResponse") and body.get("tools"):
            call = {"name": "find_parcel", "args": {"number": str(self.asked)}}
            response["candidates"][0]["content"]["parts"] = [{"functionCall": call}]
        return status, response

    def reply(self, body: dict[str, Any]) -> str:
        config = body.get("generationConfig") or {}
        schema = config.get("responseJsonSchema") or config.get("responseSchema")
        if schema:
            texts = (part.get("text", "") for turn in body["contents"] for part in turn["parts"])
            code = CODE.search("\n".join(texts))
            return json.dumps(example(schema, code=code[1] if code else ""))
        return f"It is in Aachen, as I said {self.asked} times."


@pytest.fixture
def desk() -> Iterator[dict[str, str]]:
    with gemini_double.served(Desk()) as server:
        url = server.url.removesuffix("/v1beta")
        yield {"GOOGLE_API_KEY": "made-up", "GOOGLE_GEMINI_BASE_URL": url}


def criteria(repository: Path, folder: str = "evals") -> dict[str, Any]:
    text = (repository / folder / "test_config.json").read_text(encoding="utf-8")
    return dict(json.loads(text)["criteria"])


def test_an_agent_of_adk(tmp_path: Path, adk: str, desk: Mapping[str, str]) -> None:
    files = {
        "desk/__init__.py": "",
        "desk/agent.py": DESK,
        "desk/.env.example": "GOOGLE_GENAI_USE_VERTEXAI=TRUE\n",
        "evalgate.yml": f"python: {adk}\n",
    }
    repository = stranger(tmp_path, files)
    code, text = call(repository, "init", "--ask", "Where is parcel 7?", "--yes", **desk)
    assert code == 0, text
    # the key that is set here says more than the example
    workflow = (repository / ".github/workflows/evalgate.yml").read_text(encoding="utf-8")
    assert ("secrets.GOOGLE_API_KEY" in workflow, "id-token" in workflow) == (True, False)
    # the open steps stay open
    code, text_again = call(repository, "init", **desk)
    assert (code, "replace OWNER" in text_again, "gh secret set" in text_again) == (0, True, True)
    assert "agent: adk desk (only agent in the root)" in text
    assert re.search(r'called  find_parcel\(\{"number": "\d"\}\)', text), text
    # what a model words anew each time is not compared word by word
    assert criteria(repository)["tool_trajectory_avg_score"]["ignore_args"] is True
    assert "rubric_based_final_response_quality_v1" in criteria(repository)
    assert "response_match_score" not in criteria(repository)
    code, text = call(repository, "run", **desk)
    assert (code, "PASS: The case passed." in text) == (0, True), text
    case = json.loads((repository / "evals/first.evalset.json").read_text(encoding="utf-8"))
    assert "made-up" not in json.dumps(case)


@pytest.mark.parametrize(
    ("files", "use"),
    [
        (FUNCTION, {"driver": "python", "call": "desk:answer"}),
        # in a folder from which it is imported
        ({"src/desk/main.py": "def run_agent(query: str) -> str:\n    return 'yes ' + query\n"},
         {"driver": "python", "path": "src", "call": "desk.main:run_agent"}),
        # an object of a class that is made without arguments
        ({"main.py": "class Desk:\n    def __init__(self, model='m'):\n        self.model = model\n"
          "    def _ask(self, text): ...\n    def run(self, text: str) -> str:\n        return self.model + text\n"},
         {"driver": "python", "call": "main:Desk.run"}),
        # an object that is made of the text
        ({"main.py": "class Desk:\n    def __init__(self, topic, model='m'):\n        self.topic = topic\n"
          "    def run(self, key=None):\n        return 'of ' + self.topic\n"},
         {"driver": "python", "call": "main:Desk.run"}),
        # a folder that is no identifier
        ({"my-desk/main.py": "def answer(text):\n    return 'yes ' + text\n"},
         {"driver": "python", "call": "my-desk.main:answer"}),
        # what it imports lies beside it, and not at the root
        ({"backend/desk.py": "import words_of_desk\ndef answer(text):\n    return words_of_desk.YES + text\n",
          "backend/words_of_desk.py": "YES = 'yes '\n"},
         {"driver": "python", "path": "backend", "call": "desk:answer"}),
        # helpers are no agents: more than one text, a number, a test
        (
            {**FUNCTION, "a.py": "def answer_all(first, second): ...\ndef ask(count: int): ...\ndef create_agent(name): ...\n"
             "def _raw_answer(text): ...\n",
             "test_a.py": "def answer(text): ...\n"},
            {"driver": "python", "call": "desk:answer"},
        ),
        # an example comes after what the repository is about
        ({"examples/desk.py": "def answer(text):\n    return 'an example'\n",
          "shop/bot.py": "async def chat(text: str):\n    return 'hello ' + text\n"},
         {"driver": "python", "call": "shop.bot:chat"}),
        # a program at the terminal; the module of its model is not there
        ({"main.py": "import argparse, desk\ndef main():\n    p = argparse.ArgumentParser()\n    p.add_argument('prompt')\n"
          "    print('hello', p.parse_args().prompt)\nif __name__ == '__main__':\n    main()\n",
          "desk.py": "def look():\n    import anthropic\n", "sum.py": "print(int(input()) + 1)\n"},
         {"driver": "python", "call": "main:__main__"}),
        ({"main.py": "import click, openai\n@click.command()\n@click.argument('prompt')\n"
          "def main(prompt):\n    print('hello', prompt)\nif __name__ == '__main__':\n    main()\n", "openai.py": "",
          "evalgate.yml": f"python: {sys.executable}\n"},  # which has Click
         {"driver": "python", "call": "main:__main__"}),
    ],
)  # fmt: skip
def test_a_plain_function(tmp_path: Path, files: Mapping[str, str], use: dict[str, str]) -> None:
    repository = stranger(tmp_path, files)
    code, text = call(repository, "init", "--ask", "Where is parcel 7?", "--yes")
    assert code == 0, text
    rule = (repository / "evalgate.yml").read_text(encoding="utf-8")
    assert all(f"{name}: {value}" in rule for name, value in use.items()), rule
    code, text = call(repository, "run")
    assert code == 0, text


AGENTS = {
    "langgraph-keys": """\
from typing import TypedDict
from langgraph.graph import END, START, StateGraph

class Desk(TypedDict):
    question: str
    answer: str

builder = StateGraph(Desk)
builder.add_node("desk", lambda state: {"answer": "In Aachen." if state["question"] else ""})
builder.add_edge(START, "desk")
builder.add_edge("desk", END)
graph = builder.compile()
""",
    # its own key for the question, beside messages
    "langgraph-both": """\
from typing import Optional
from langgraph.graph import END, START, MessagesState, StateGraph

class Desk(MessagesState):
    question: Optional[str]

builder = StateGraph(Desk)
builder.add_node("desk", lambda state: {"messages": [("ai", "In Aachen." if state["question"] else "")]})
builder.add_edge(START, "desk")
builder.add_edge("desk", END)

def _build():
    return builder.compile()

def get_graph():
    if builder:
        return _build()
""",
    "langgraph": """\
import re
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph

PATTERN = re.compile("no agent")

def build():
    graph = StateGraph(MessagesState)
    graph.add_node("desk", lambda state: {"messages": [AIMessage("In Aachen.")]})
    graph.add_edge(START, "desk")
    graph.add_edge("desk", END)
    compiled = graph.compile()
    return compiled
""",
    "pydantic-ai": """\
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

helper = Agent(TestModel(custom_output_text="helping"))
desk = Agent(TestModel(custom_output_text="In Aachen."))
""",
    # an attribute of objects that need no arguments
    "pydantic-ai-class": """from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

class Desk:
    def __init__(self, place="Aachen"):
        self.place = place
        self.agent = self._make()

    def _make(self):
        return Agent(TestModel(custom_output_text=f"In {self.place}."))
""",
    # what serves an agent holds it
    "pydantic-ai-held": """from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

class Server:
    def __init__(self, agent):
        self._agent = agent

def _make():
    return Agent(TestModel(custom_output_text="In Aachen."))

def serve():
    agent = _make()
    return Server(agent=agent)
""",
    # its tools want an object
    "pydantic-ai-deps": """\
from dataclasses import dataclass
from pydantic_ai import Agent, RunContext
from pydantic_ai.models.test import TestModel

class Database:
    def place(self, customer_id):
        return "Aachen"[customer_id - 1 :]

@dataclass
class Deps:
    customer_id: int
    database: Database

desk = Agent(TestModel(custom_output_text="In Aachen."), deps_type=Deps)

@desk.system_prompt
def place(ctx: RunContext[Deps]) -> str:
    return ctx.deps.database.place(ctx.deps.customer_id)
""",
    # a program whose agent nothing else reaches
    "pydantic-ai-program": """import asyncio
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

async def main():
    text = input("You: ")
    while text != "quit":
        agent = Agent(TestModel(custom_output_text="In Aachen."))
        answer = await agent.run(text)
        open("asked", "w").write(answer.output)
        text = input("You: ")

asyncio.run(main())
""",
    "pydantic-ai-blocking-program": """import argparse
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("question")
    parser.add_argument("--fast", action="store_true")
    question = parser.parse_args().question
    agent = Agent(TestModel(custom_output_text="In Aachen."))
    print(agent.run_sync(question).output)

if __name__ == "__main__":
    main()
""",
}


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("langgraph", "build"),
        ("langgraph-keys", "graph"),
        ("langgraph-both", "get_graph"),
        ("pydantic-ai", "desk"),
        ("pydantic-ai-class", "Desk.agent"),
        ("pydantic-ai-held", "serve"),
        ("pydantic-ai-deps", "desk"),
        ("pydantic-ai-program", "__main__"),
        ("pydantic-ai-blocking-program", "__main__"),
    ],
)
def test_an_agent_of_another_framework(tmp_path: Path, driver: str, name: str) -> None:
    python = framework_zygote().python
    files = {"bots/desk.py": AGENTS[driver], "evalgate.yml": f"python: {python}\n"}
    repository = stranger(tmp_path, files)
    code, text = call(repository, "init", "--ask", "Where is parcel 7?", "--yes")
    assert (code, "said    In Aachen." in text) == (0, True), text
    assert f"call: bots.desk:{name}" in (repository / "evalgate.yml").read_text(encoding="utf-8")
    code, text = call(repository, "run")
    assert code == 0, text
    assert not (repository / "asked").exists()  # a program is asked the case's question only


def test_a_program_that_asks_no_agent_is_passed_over(tmp_path: Path) -> None:
    python = Path(
        os.environ.get("EVALGATE_TEST_FRAMEWORKS", ROOT / ".venv-frameworks"), "bin/python"
    )
    if not python.is_file():
        pytest.skip("no interpreter with the frameworks: make .venv-frameworks")
    beginning = "import sys\nfrom pydantic_ai import Agent\nif __name__ == '__main__':\n    "
    files = {
        # arguments are wrong; what is typed is part of the agent; a package is missing
        "a.py": beginning + "sys.exit(2)\n    Agent('test').run_sync('a')\n",
        "b.py": beginning + "Agent('test', instructions=input()).run_sync('a')\n",
        "d.py": beginning + "import argparse; p = argparse.ArgumentParser(); p.add_argument('a')\n"
        "    Agent('test', instructions=p.parse_args().a).run_sync('a')\n",
        "c.py": beginning + "import package_of_nobody\n    Agent('test').run_sync('a')\n",
        "desk.py": "def answer(text: str) -> str:\n    return 'yes'\n",
        "evalgate.yml": f"python: {python}\n",
    }
    repository = stranger(tmp_path, files)
    code, text = call(repository, "init", "--ask", "Where is parcel 7?", "--yes")
    assert (code, "said    yes" in text) == (0, True), text
    for reason in (
        "a ended without asking an agent: it wants other arguments",
        "is part of the agent that b makes",
        "is part of the agent that d makes",
        "there is no module named 'package_of_nobody'",
    ):
        assert reason in text


def test_nothing_is_written_without_a_yes(tmp_path: Path) -> None:
    repository = stranger(tmp_path, FUNCTION)
    for arguments, answers in (
        (("init",), ""),
        (("init",), "hello\nn\n"),
        (("init", "--ask", "a"), ""),
    ):
        code, text = typed(repository, *arguments, answers=answers)
        assert (code, "Internal error" in text) == (4, False), text
        assert not (repository / "evals").exists()
    code, text = typed(repository, "init", answers="Where is parcel 7?\ny\n")
    assert code == 0, text
    assert typed(repository, "run")[0] == 0


def typed(repository: Path, *arguments: str, answers: str = "") -> tuple[int, str]:
    """As `call`, with lines on its standard input."""
    environment = {**os.environ, **repositories.ENVIRON, "HOME": str(repository.parent)}
    with tempfile.TemporaryFile() as typing, tempfile.TemporaryFile() as printing:
        typing.write(answers.encode())
        typing.seek(0)
        streams = typing.fileno(), printing.fileno(), printing.fileno()
        code = forked_command.born(arguments, *streams, cwd=repository, env=environment).wait(120)
        assert code is not None, "it still runs"
        printing.seek(0)
        return code, printing.read().decode()


def test_no_command_ends_without_a_next_step(tmp_path: Path) -> None:
    repository = stranger(tmp_path, FUNCTION)
    code, text = call(repository, "run")
    assert (code, "`evalgate init` asks your agent one question" in text) == (4, True), text
    code, text = call(repository, "doctor")
    assert code == 4, text
    assert "  ok     start        loaded, and a conversation was opened\n" in text
    # every advice is a command that works
    advice = re.findall(r"fix: (evalgate .+)", text)
    assert len(advice) == 2
    for line in advice:
        code, text = typed(repository, *shlex.split(line)[1:], answers="y\n")
        assert code == 0, text
    code, text = call(repository, "doctor")
    assert code == 0, text  # before the action has an owner, too
    assert "[workflow-owner]" in text


def test_a_part_of_the_repository(tmp_path: Path) -> None:
    """`init PATHS`: the agents there, and the files beside them."""
    files = {"shop/bot.py": FUNCTION["desk.py"], "bank/bot.py": FUNCTION["desk.py"]}
    repository = stranger(tmp_path, files)
    code, text = call(repository, "init", "bank", "--ask", "Where is parcel 7?", "--yes")
    assert code == 0, text
    assert (repository / "bank/evals/first.evalset.json").is_file()
    # the other has none yet, though the repository has one
    code, text = call(repository, "init", "shop", "--ask", "Where is parcel 8?", "--yes")
    assert (code, (repository / "shop/evals/first.evalset.json").is_file()) == (0, True), text
    # a workflow is written again; nothing is asked
    (repository / ".github/workflows/evalgate.yml").unlink()
    code, text = call(repository, "init", "--ask", "Where is parcel 9?", "--yes")
    assert (code, "wrote .github/workflows" in text, "--ask is not used" in text) == (0, True, True)
    code, text = call(repository, "run")
    assert (code, "2 cases: 2 passed" in text) == (0, True), text


def test_hostile_answers_are_shown_and_kept_as_text(tmp_path: Path) -> None:
    answer = "\x1b[2J\u202e**bold** ::error::x 한국어"
    files = {"desk.py": f"def answer(message):\n    return {answer!r}\n"}
    repository = stranger(tmp_path, files)
    code, text = call(repository, "init", "--ask", "누구세요? $(id) `id`", "--yes")
    assert (code, "\x1b" in text, "[U+202E]" in text) == (0, False, True), text
    assert call(repository, "run")[0] == 0


def test_an_agent_that_fails(tmp_path: Path) -> None:
    broken = {"desk.py": "def answer(message):\n    raise ValueError('no desk')\n"}
    repository = stranger(tmp_path, broken)
    code, text = call(repository, "init", "--ask", "a", "--yes")
    assert (code, "no desk" in text, (repository / "evals").exists()) == (3, True, False), text
    agents = "import os\nfrom strands import Agent\nKEY = os.environ['A_KEY']\na = Agent()\nb = Agent()\n"
    files = {"desk.py": agents, "requirements.txt": "./nowhere\n"}
    code, text = call(stranger(tmp_path / "apart", files), "init", "--ask", "a", "--yes")
    assert (code, text.count("does not start"), "A_KEY" in text) == (3, 1, False), text
    empty = stranger(tmp_path / "empty", {"README.md": ""})
    code, text = call(empty, "init", "--ask", "a", "--yes")
    assert (code, "no agent was found" in text, "--agent" in text) == (2, True, True), text
