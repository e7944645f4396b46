"""A change of what no agent reads costs no call; a change of what one reads costs all of its
calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration

PYTHON_AGENT = """
import json, pathlib

HERE = pathlib.Path(__file__).parent
LOG = __import__("os").environ["ASKED_LOG"]


def answer(message):
    with open(LOG, "a") as log:
        log.write("one " + message + chr(10))
    {read}
    return message.replace("question", "answer")
"""


def python_agent(repo: Repository, read: str = "pass", *, folder: str = "desk") -> None:
    repo.write(f"{folder}/agent.py", PYTHON_AGENT.format(read=read))


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    repo = Repository(tmp_path / "repo", tmp_path / "asked.log")
    repo.reuses = True
    repo.write(".gitignore", "evalgate-report/\n.evalgate/\n")
    repo.write("README.md", "An agent.\n")
    repo.write("docs/guide.md", "Ask it.\n")
    repo.write("tests/test_it.py", "def test_it(): pass\n")
    repo.write("Makefile", "all:\n")
    repo.write("desk/prompt.md", "Be brief.\n")
    repo.write("shared/facts.json", "{}\n")
    repo.gate_file(agents=[{"driver": "python", "call": "desk.agent:answer"}])
    repo.cases(1, 2, 3)
    return repo


def run_of(repo: Repository, name: str) -> tuple[int, dict[str, Any]]:
    """How often the agent was asked, and the results."""
    repo.log.unlink(missing_ok=True)
    code, said = repo.call("run", "--base", "main")
    assert code == 0, said
    return repo.asked(name), repo.results()


UNREAD = [
    {"README.md": "Another one.\n"},
    {"docs/guide.md": "Ask.\n", "docs/new.md": "New.\n"},
    {"tests/test_it.py": "def test_it(): assert 1\n", "tests/test_new.py": ""},
    {
        "Makefile": "all: test\n",
        ".editorconfig": "root = true\n",
        ".github/workflows/x.yml": "on: push\n",
    },
    {"other/agent.py": "x = 1\n"},  # another agent's folder
]


def test_what_no_agent_reads_costs_no_call_and_the_comment_says_why(repo: Repository) -> None:
    python_agent(repo, '(HERE / "prompt.md").read_text()')
    repo.commit("base")
    assert repo.call("run")[0] == 0
    repo.git("checkout", "-qb", "change")
    for number, files in enumerate(UNREAD):
        for name, text in files.items():
            repo.write(name, text)
        repo.commit(f"change {number}")
        asked, results = run_of(repo, "one")
        assert (asked, results["comparison"]["unchanged"]) == (0, ["desk.evalset.json"]), files
    comment = repo.comment()
    assert "This change does not touch the agent: " in comment
    assert ": no case of 3 read " in comment


@pytest.mark.parametrize(
    ("read", "files"),
    [
        ('(HERE / "prompt.md").read_text()', {"desk/prompt.md": "Be verbose.\n"}),
        (
            'json.loads((HERE.parent / "shared/facts.json").read_text())',
            {"shared/facts.json": "[]\n"},
        ),
        # lazily, in the second trial
        ('"2" in message and open("shared/facts.json").read()', {"shared/facts.json": "[]\n"}),
        ("list(HERE.iterdir())", {"desk/new.md": "New.\n"}),
        ('(HERE / "extra.md").exists()', {"desk/extra.md": "There.\n"}),
        (
            '__import__("subprocess").run(["cat", "shared/facts.json"], capture_output=True)',
            {"shared/facts.json": "1\n"},
        ),
        ('__import__("subprocess").run(["ls", "docs/x"], capture_output=True)', {"docs/x": "1\n"}),
        ('__import__("sqlite3").connect("facts.db").close()', {"facts.db": "1\n"}),
        ("pass", {"desk/agent.py": PYTHON_AGENT.format(read="1")}),
        ("pass", {"desk/__init__.py": "x = 1\n"}),
        # a module that is found first
        ("pass", {"desk/agent/__init__.py": PYTHON_AGENT.format(read="1")}),
    ],
)
def test_what_an_agent_reads_costs_all_of_its_calls(
    repo: Repository, read: str, files: dict[str, str]
) -> None:
    python_agent(repo, read)
    repo.commit("base")
    assert repo.call("run")[0] == 0
    repo.git("checkout", "-qb", "change")
    for name, text in files.items():
        repo.write(name, text)
    repo.commit("change")
    repo.log.unlink()
    repo.call("run", "--base", "main")
    assert repo.asked("one") >= 3
    assert repo.results()["comparison"].get("unchanged", []) == []


def test_an_agent_in_another_language_has_its_files_seen_from_outside(repo: Repository) -> None:
    repo.agent("one")
    repo.gate_file()
    repo.commit("base")
    assert repo.call("run")[0] == 0
    repo.git("checkout", "-qb", "change")
    repo.write("README.md", "Another one.\n")
    repo.commit("docs")
    assert run_of(repo, "one")[0] == 0
    repo.write("docs/new.md", "New.\n")  # which it may have looked for in vain
    repo.commit("a new file")
    assert run_of(repo, "one")[0] == 3


def test_only_the_agent_that_read_it_is_run_again(repo: Repository) -> None:
    for name in ("desk", "shop"):
        repo.write(
            f"{name}/agent.py", PYTHON_AGENT.format(read="pass").replace('"one "', f'"{name} "')
        )
        repo.write(f"{name}/__init__.py", "")
        repo.write(f"{name}/a.evalset.json", (repo.root / "desk.evalset.json").read_text())
        repo.write(f"{name}/test_config.json", (repo.root / "test_config.json").read_text())
    (repo.root / "desk.evalset.json").unlink()
    agents = [
        {"suites": [f"{name}/**"], "driver": "python", "call": f"{name}.agent:answer"}
        for name in ("desk", "shop")
    ]
    repo.gate_file(agents=agents)
    repo.commit("base")
    code, said = repo.call("run")
    assert code == 0, said
    repo.git("checkout", "-qb", "change")
    repo.write("shop/agent.py", (repo.root / "shop/agent.py").read_text() + "\nX = 1\n")
    repo.commit("change")
    repo.log.unlink()
    code, said = repo.call("run", "--base", "main")
    assert code == 0, said
    assert (repo.asked("desk"), repo.asked("shop")) == (0, 3)


WORKFLOW = {
    "CI": "true",
    "GITHUB_ACTIONS": "true",
    "GITHUB_EVENT_NAME": "push",
    "GITHUB_REF": "refs/heads/change",
    "GITHUB_REPOSITORY": "o/r",
    "GITHUB_RUN_ID": "1",
}


@pytest.mark.parametrize("lies", [False, True])
def test_a_worker_that_lies_about_what_it_read_is_seen(
    repo: Repository, tmp_path: Path, *, lies: bool
) -> None:
    """It takes back what its own process told; in a workflow the watch from outside has seen it."""
    event = tmp_path / "event.json"
    repository = {"full_name": "o/r", "default_branch": "main"}
    event.write_text(
        json.dumps({"ref": "refs/heads/change", "after": "a" * 40, "repository": repository})
    )
    lie = (
        "__import__('sys').modules['_evalgate_worker.inputs'].Tracer.messages = lambda *_: []; "
        if lies
        else ""
    )
    python_agent(repo, f'{lie}(HERE / "prompt.md").read_text()')
    repo.commit("base")
    asked = []
    for change in ({}, {"README.md": "New.\n"}, {"desk/prompt.md": "Be verbose.\n"}):
        for name, text in change.items():
            repo.write(name, text)
        repo.commit("change")
        repo.log.unlink(missing_ok=True)
        environment = {
            **WORKFLOW,
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_SHA": repo.git("rev-parse", "HEAD"),
        }
        code, said = repo.call("run", "--no-isolate", "--baseline", "none", environment=environment)
        assert code == 0, said
        asked.append(repo.asked("one"))
    assert asked == [3, 0, 3]
