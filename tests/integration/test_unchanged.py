"""Changes that do not touch the agent: nothing is compared with itself, and nobody is blamed."""

from __future__ import annotations

from pathlib import Path

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


def kept(repo: Repository, tmp_path: Path) -> tuple[str, str]:
    """Main's results in a folder, and the options that name it."""
    store = ("--baseline-folder", str(tmp_path / "kept"))
    repo.commit("base")
    code, said = repo.run(*store, "--save-baseline", "always", base="")
    assert "stored" in said, said
    return store


def test_results_of_main_are_those_of_a_change_that_does_not_touch_the_agent(repo: Repository, tmp_path: Path) -> None:
    store = kept(repo, tmp_path)
    on_change(repo)
    code, said = repo.run(*store)
    assert code == 0, said
    assert repo.asked("one") == 0
    assert "This change does not touch the agent." in repo.comment()
    assert "3 runs of head are earlier results" in said
