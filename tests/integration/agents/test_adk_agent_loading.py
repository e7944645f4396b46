"""Every shape of ADK agent is found, and what cannot be loaded says why."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import pytest
from builders.nightly import BY_NIGHT

from tests.integration.agents.line_client import AGENTS, Worker, texts

pytestmark = pytest.mark.integration

SHAPES = [
    # a package whose __init__ imports agent.py; absolute imports of itself
    ("adk_full", "full"),
    # the same, named in other ways
    ("adk_full/agent.py", "full"),
    ("adk_full/__init__.py", "full"),
    # root_agent in __init__.py, beside an `agent` that is no module
    ("adk_init_only", "init_only"),
    # only an App
    ("adk_app_only", "in_app"),
    # only get_agent_async
    ("adk_async", "made_async"),
    # a folder without __init__.py
    ("adk_plain", "plain"),
    # a single file
    ("adk_single.py", "single"),
    # deep in the tree, imported under four names
    # no Python at all
    ("adk_yaml", "from_yaml"),
]

# a package, a file and neither, each in an interpreter of its own
STARTED = ("adk_full", "adk_single.py", "adk_yaml")


@pytest.mark.parametrize(("path", "name"), SHAPES)
def test_a_shape_is_found(spawn, path: str, name: str) -> None:
    worker = spawn({"path": path}, forked=path not in STARTED)
    assert worker.greeting["type"] == "ready", worker.greeting
    assert worker.greeting["about"]["agent"] == name
    if name != "from_yaml":
        said = "through the plugin" if name == "in_app" else "hello"
        events, ended = worker.ask("say hello")
        assert (texts(events), ended["type"]) == ([said], "turn_end")
    assert worker.bye() == 0


@BY_NIGHT
@pytest.mark.parametrize(("path", "name"), [("adk_app_only", "in_app"), ("adk_yaml", "from_yaml")])
def test_old_versions_find_them_too(spawn, path: str, name: str) -> None:
    worker = spawn({"path": path}, which="old")
    assert worker.greeting.get("about", worker.greeting)["agent"] == name


def test_an_agent_of_the_tree_or_another_attribute_can_be_named(spawn) -> None:
    assert (
        spawn({"path": "adk_full", "agent": "helper"}, forked=True).greeting["about"]["agent"]
        == "helper"
    )
    greeting = spawn({"path": "adk_full", "agent": "nobody"}, forked=True).greeting
    assert greeting["type"] == "fatal"
    assert "'helper'" in greeting["message"]


def test_what_get_agent_async_opened_is_closed(spawn) -> None:
    worker = spawn({"path": "adk_async"})
    assert worker.bye() == 0
    worker.process.wait()
    deadline = time.monotonic() + 10
    while "the stack was closed" not in worker.stderr and time.monotonic() < deadline:
        time.sleep(0.01)  # a thread reads it
    assert "the stack was closed" in worker.stderr


def checkout(tmp_path: Path, files: dict[str, str]) -> Path:
    shutil.copy(AGENTS / "scripted_llm.py", tmp_path)
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


AGENT = "from google.adk.agents import LlmAgent\nfrom scripted_llm import ScriptedLlm\n"
ROOT = "root_agent = LlmAgent(name='made', model=ScriptedLlm())\n"

BROKEN = [
    # a missing dependency names the module and says what to do
    ({"a/agent.py": "import no_such_dependency.core\n"}, ["no_such_dependency", "requirements"]),
    # so does a misspelt import of a file of the repository
    ({"a/__init__.py": "", "a/agent.py": "from . import toolz\n"}, ["toolz"]),
    # an error in the user's code, with the line
    ({"a/agent.py": "x = 1\ny = undefined_name\n"}, ["NameError", "undefined_name"]),
    ({"a/agent.py": "def broken(:\n"}, ["SyntaxError"]),
    # it leaves while it is imported
    ({"a/agent.py": "import sys\nsys.exit(4)\n"}, ["sys.exit(4)"]),
    # nothing to run
    (
        {"a/__init__.py": "", "a/agent.py": "agent = 1\n"},
        ["root_agent", "get_agent_async", "agent.py"],
    ),
    ({"a/readme.txt": ""}, ["root_agent.yaml"]),
    # something else under the name
    ({"a/agent.py": "root_agent = 'not an agent'\n"}, ["str"]),
    (
        {"a/agent.py": "async def get_agent_async():\n    raise OSError('no disk')\n"},
        ["OSError", "no disk"],
    ),
    # no such place
    ({}, ["'a'"]),
]


@pytest.mark.parametrize(("files", "told"), BROKEN)
def test_what_cannot_be_loaded_says_why(
    spawn, tmp_path: Path, files: dict[str, str], told: list[str]
) -> None:
    worker = spawn({"path": "a"}, cwd=checkout(tmp_path, files), forked=True)
    greeting = worker.greeting
    assert (greeting["type"], greeting["kind"]) == ("fatal", "start")
    for word in told:
        assert word in greeting["message"], greeting
    assert worker.process.wait(30) == 1


def test_the_traceback_shows_the_users_line_only(spawn, tmp_path: Path) -> None:
    root = checkout(
        tmp_path, {"a/agent.py": AGENT + "root_agent = LlmAgent(name='not an identifier!')\n"}
    )
    detail = spawn({"path": "a"}, cwd=root, forked=True).greeting["detail"]
    assert "agent.py" in detail
    assert "line 3" in detail
    assert "site-packages" not in detail
    assert "modules.py" not in detail


def test_a_python_without_the_framework_says_so(spawn, tmp_path: Path) -> None:
    worker = Worker(
        sys.executable, "adk", {"path": "a"}, checkout(tmp_path, {"a/agent.py": "x = 1"}), {}
    )
    try:
        assert "google-adk" in worker.greeting["message"]
        assert sys.executable in worker.greeting["message"]
    finally:
        worker.close()


def test_dotenv_fills_in_what_is_not_set(spawn, tmp_path: Path) -> None:
    show = "import os\nroot_agent = LlmAgent(name=os.environ['FIRST'] + '_' + os.environ['SECOND'], model=ScriptedLlm())\n"
    files = {
        ".env": "FIRST=no\n",
        "agents/.env": "FIRST=dotenv\nSECOND=dotenv\n",
        "agents/a/agent.py": AGENT + show,
    }
    worker = spawn(
        {"path": "agents/a"},
        cwd=checkout(tmp_path, files),
        environment={"SECOND": "given"},
        forked=True,
    )
    assert worker.greeting["about"]["agent"] == "dotenv_given"


def test_modules_of_the_worker_cannot_be_met(spawn, tmp_path: Path) -> None:
    """The agent may have modules named like ours, and ours are not importable for it."""
    files = {
        "pipe.py": "HERE = 1\n",
        "serving.py": "HERE = 1\n",
        "a/agent.py": AGENT
        + "import pipe, serving\nassert pipe.HERE and serving.HERE\n"
        + "try:\n    import faults\nexcept ImportError:\n    pass\nelse:\n    raise AssertionError\n"
        + ROOT,
    }
    assert spawn({"path": "a"}, cwd=checkout(tmp_path, files)).greeting["type"] == "ready"


def test_an_agent_named_like_a_standard_module_hides_nothing(spawn, tmp_path: Path) -> None:
    files = {
        "agents/email/__init__.py": "",
        "agents/email/agent.py": AGENT
        + "from email.message import Message\nfrom . import tools\n"
        + ROOT,
        "agents/email/tools.py": "",
        "agents/calendar/__init__.py": "raise RuntimeError('another agent')\n",
    }
    worker = spawn({"path": "agents/email"}, cwd=checkout(tmp_path, files))
    assert worker.greeting["type"] == "ready", worker.greeting
    assert worker.ask("say hello")[1]["type"] == "turn_end"


def test_code_runs_once_however_it_is_imported(spawn, tmp_path: Path) -> None:
    files = {
        "agents/__init__.py": "",
        "agents/a/__init__.py": "from . import agent\n",
        "agents/a/counting.py": "import sys\nsys.runs = getattr(sys, 'runs', 0) + 1\n",
        "agents/a/agent.py": AGENT
        + "import sys\nimport agents.a.counting\nimport a.counting\nfrom . import counting\n"
        + "from a.counting import sys as again\nassert sys.runs == 1, sys.runs\n"
        + ROOT,
    }
    worker = spawn({"path": "agents/a"}, cwd=checkout(tmp_path, files), forked=True)
    assert worker.greeting["type"] == "ready", worker.greeting
