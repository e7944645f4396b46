"""Changes that do not touch the agent: nothing is compared with itself, and nobody is blamed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write(".gitignore", "evalgate-report/\nkept/\n")
    made.write("README.md", "An agent.\n")
    made.agent("one")
    made.gate_file(threshold="confirmed")
    made.cases(1, 2, 3)
    return made


def on_change(repo: Repository, **files: str) -> None:
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    for name, text in (files or {"README.md": "Another text.\n"}).items():
        repo.write(name, text)
    repo.commit("change")


def test_an_agent_that_the_change_does_not_touch_is_run_once_for_both_sides(repo: Repository) -> None:
    on_change(repo)
    code, said = repo.run("--baseline", "rerun")
    assert code == 0, said
    assert repo.asked("one") == 3
    assert "This change does not touch the agent." in repo.comment()
    assert repo.results()["comparison"]["unchanged"] == ["desk.evalset.json"]
    assert [len(case["trials"]) for case in repo.results("base.json")["suites"][0]["cases"]] == [1, 1, 1]
