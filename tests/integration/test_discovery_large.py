"""Discovery over a repository of 20,000 files: only names are looked at, and only candidates are
read."""

import json
import os

import pytest

from evalgate.config.settings import Settings
from evalgate.discovery import discover

pytestmark = pytest.mark.integration

SUITES = 40


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    root = tmp_path_factory.mktemp("large")
    turn = {
        "user_content": {"parts": [{"text": "hi"}]},
        "final_response": {"parts": [{"text": "hello"}]},
    }
    module = tmp_path_factory.mktemp("file") / "module.py"
    module.write_text("x = 1\n")
    for package in range(200):
        folder = root / f"src/package_{package}/inner"
        folder.mkdir(parents=True)
        for number in range(85):
            os.link(module, folder / f"module_{number}.py")  # a write takes ten times as long
        (folder / "__init__.py").write_text("")
        (folder / "data.json").write_text("{}")
    dependencies = root / "node_modules/p"
    dependencies.mkdir(parents=True)
    for number in range(3000):
        (dependencies / f"m{number}.test.json").write_text("{}")
    (root / ".gitignore").write_text("*.pyc\n/dist/\nbuild/\n.env\n*.log\n!keep.log\n")
    (root / "bot").mkdir()
    (root / "bot/agent.py").write_text("root_agent = 1\n")
    (root / "evals").mkdir()
    (root / "evals/test_config.json").write_text(
        json.dumps({"criteria": {"response_match_score": 0.5}})
    )
    for number in range(SUITES):
        made = {
            "eval_set_id": f"s{number}",
            "eval_cases": [{"eval_id": "a", "conversation": [turn]}],
        }
        (root / f"evals/s{number}.evalset.json").write_text(json.dumps(made))
    return root


def test_every_suite_among_them_is_there(large):
    project = discover.discover(Settings(root=large))
    assert (len(project.suites), project.problems) == (SUITES, ())


def test_nothing_but_candidates_is_opened(large, monkeypatch):
    from pathlib import Path

    opened = []
    read_bytes = Path.read_bytes
    monkeypatch.setattr(
        Path, "read_bytes", lambda path: opened.append(path.name) or read_bytes(path)
    )
    discover.discover(Settings(root=large))
    assert len([name for name in opened if name == "test_config.json"]) == 1
    assert not [name for name in opened if name == "data.json" or name.startswith("m")]
