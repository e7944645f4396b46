"""What changed in the agent, from what its worker says to every report; secrets stay out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders.gated_repository import AGENT, Repository

pytestmark = pytest.mark.integration

SECRET = "s3cret-of-the-desk"
DESCRIBED = 'about={{"framework": "test"}}, description=json.load(open("made_of.json")),'


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """On main the agent has a tool more, and another model."""
    monkeypatch.setenv("DESK_TOKEN", SECRET)
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write(".gitignore", "evalgate-report/\nmade_of.json\n")
    source = AGENT.replace('about={{"framework": "test"}},', DESCRIBED)
    made.write("agent.py", source.format(side="any", wrong="set()", flaky="set()"))
    made.gate_file(env=["ASKED_LOG", "DESK_TOKEN"])
    made.cases(1, 2)
    return made


def made_of(repo: Repository, model: str, *tools: str) -> None:
    agent = {
        "name": "desk",
        "model": model,
        "instruction": f"Be kind.\nThe token is {SECRET}.\nUse {len(tools)} tools.",
        "tools": {name: {"parameters": {SECRET: "str"}} for name in tools},
    }
    repo.write(
        "made_of.json",
        json.dumps({"agents": [agent], "packages": {"desk-tools": f"{len(tools)}.0"}}),
    )
    repo.git("add", "--force", "made_of.json")


def test_what_changed_in_the_agent_is_in_every_report(repo: Repository) -> None:
    made_of(repo, "small", "find", "renew")
    repo.commit("main")
    repo.git("checkout", "-qb", "change")
    made_of(repo, "large", "find")
    repo.commit("head")
    code, said = repo.run()
    assert code == 0, said
    assert repo.asked("any") == 4, "two cases on two sides, and nothing for the description"
    changed = (
        "model of `desk`: `small` → `large`, instruction of `desk` (1 line), tool `renew` removed"
    )
    assert f"**Agent changed**: {changed} and `desk-tools` `2.0` → `1.0`." in repo.comment()
    assert "agent changed: model of desk: small → large" in said
    folder = repo.root / "evalgate-report"
    assert "What changed in the agent" in (folder / "report.html").read_text()
    ((_, told),) = repo.results()["descriptions"].items()
    assert told["agents"][0]["instruction"] == "Be kind.\nThe token is ***.\nUse 1 tools."
    assert list(told["files"]) == ["agent.py", "made_of.json"], "what it read"
    for path in folder.iterdir():
        assert path.is_dir() or SECRET not in path.read_text(), path.name


def test_what_was_stored_of_the_base_is_compared_with(repo: Repository, tmp_path: Path) -> None:
    store = ("--baseline-folder", str(tmp_path / "store"))
    made_of(repo, "small", "find")
    repo.commit("main")
    assert repo.run(*store, "--save-baseline", "always", base="")[0] == 0
    repo.git("checkout", "-qb", "change")
    made_of(repo, "large", "find")
    repo.commit("head")
    code, said = repo.run("--baseline", "store", *store)
    assert code == 0, said
    assert repo.asked("any") == 2, said
    assert "agent changed: model of desk: small → large" in said


@pytest.mark.parametrize("told", ["[]", '{"agents": [1]}', '"nothing"'])
def test_a_description_that_cannot_be_read_fails_nothing(repo: Repository, told: str) -> None:
    repo.write("made_of.json", told)
    repo.commit("main")
    code, said = repo.run()
    assert code == 0, said
