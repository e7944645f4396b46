"""Settings that no system takes, and links that a commit put where the gate reads and writes: told,
never a crash."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import gated_repository
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration

DEEP: Any = 1
for _ in range(255):
    DEEP = [DEEP]


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = gated_repository.of_one_case(tmp_path)
    made.commit("base")
    return made


def agent(**more: Any) -> dict[str, Any]:
    return {"agents": [{"driver": "command", "command": [sys.executable, "agent.py"], **more}]}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"output": "a\0b"}, "U+0000"),
        ({"criteria": "a\0b"}, "U+0000"),
        ({"baseline-folder": "a\0b"}, "U+0000"),
        ({"tools": {"mode": "mock", "mocks": "a\0b"}}, "U+0000"),
        ({"output": "\ud800"}, "surrogate"),
        ({"name": "\ud800"}, "surrogate"),
        ({"output": "x" * 300}, "too long"),
        ({"judge": {"calibration": "x/" * 3000}}, "too long"),
        ({"tools": {"mode": "replay", "cassettes": "y" * 300}}, "too long"),
        (agent(command=5), "command"),
        (agent(match=DEEP), "nested too deeply"),
        ({"output": DEEP}, "nested too deeply"),
        ({"output": "../reports"}, "leads out of `root`"),
        ({"output": ".git/hooks"}, "leads into `.git`"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_the_change_says(repo: Repository, settings: dict[str, Any], said: str) -> None:
    repo.gate_file(**settings)
    code, out = repo.call("run")
    assert code == 2
    assert said in out
    assert "Traceback" not in out


@pytest.mark.parametrize(
    "settings",
    [
        agent(command=5),
        agent(command=["python", 5]),
        {"output": "a\0b"},
        {"criteria": "x" * 300},
        {"agent": "x" * 300},
    ],
    ids=str,
)
def test_what_the_base_says(repo: Repository, settings: dict[str, Any]) -> None:
    repo.gate_file(**settings)
    repo.commit("the base's own is broken")
    repo.git("checkout", "-qb", "change")
    repo.gate_file()
    repo.commit("change")
    for policy in ("head", "base"):
        code, out = repo.run("--policy", policy)
        assert code in (0, 2, 3), out
        assert "Traceback" not in out


def test_a_criterion_with_255_levels(repo: Repository) -> None:
    options = {"threshold": 1.0, "matchers": {"t": {"a": {"exact": DEEP}}}}
    repo.write("test_config.json", json.dumps({"criteria": {"tool_trajectory_avg_score": options}}))
    code, out = repo.call("run")
    assert code == 2
    assert "nested too deeply" in out


def test_a_pattern_without_an_end(repo: Repository) -> None:
    call = {"name": "look", "args": {"at": "a" * 60 + "b"}}
    part = f'[{{"function_call": {json.dumps(call)}}}, {{"text": answer}}]'
    repo.write(
        "agent.py",
        gated_repository.AGENT.format(side="head", wrong="[]", flaky="[]").replace("[part]", part),
    )
    evalset = json.loads((repo.root / "desk.evalset.json").read_text())
    evalset["eval_cases"][0]["conversation"][0]["intermediate_data"] = {"tool_uses": [call]}
    repo.write("desk.evalset.json", json.dumps(evalset))
    options = {"threshold": 1.0, "matchers": {"look": {"at": {"regex": "^(a+)+$"}}}}
    repo.write("test_config.json", json.dumps({"criteria": {"tool_trajectory_avg_score": options}}))
    code, out = repo.call("run")
    assert code == 3, out
    assert (
        "tool_trajectory_avg_score raised SearchFailed: the search for the pattern '^(a+)+$'" in out
    )
    assert "write it without nested or long repetitions" in repo.comment()


@pytest.mark.parametrize(
    "link", ["evalgate-report", "evalgate-report/journal.jsonl", "evalgate.yml"]
)
def test_no_link_of_a_commit_is_followed(repo: Repository, tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    if link == "evalgate-report":
        elsewhere.mkdir()
    else:
        elsewhere.write_text("kept: 1\n")
    place = repo.root / link
    place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(elsewhere)
    code, out = repo.call("run")
    assert code in (2, 3), out
    assert "symbolic link" in out
    assert "Traceback" not in out
    kept = (
        list(elsewhere.iterdir()) == []
        if elsewhere.is_dir()
        else elsewhere.read_text() == "kept: 1\n"
    )
    assert kept


@pytest.mark.parametrize(
    ("link", "rules"),
    [
        ("test_config.json", {}),
        ("evalset.evalset.json", {}),
        ("mocks.json", {"tools": {"mode": "mock", "mocks": "mocks.json"}}),
        ("tool-cassettes/one.json", {"tools": "replay"}),
        ("replies.json", {"judge": {"replay": "replies.json"}}),
        ("recorded/one.json", {"agent": "replay:recorded"}),
    ],
)
def test_no_report_shows_git_s_own_files(
    repo: Repository, link: str, rules: dict[str, Any]
) -> None:
    """They hold the job's token, and a change may link to them."""
    repo.commit("base")
    repo.git("checkout", "-qb", "change")
    repo.git("config", "http.extraheader", "AUTHORIZATION: basic c2VjcmV0LXRva2Vu")
    place = repo.root / link
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(repo.root / ".git/config")
    if rules:
        repo.gate_file(**rules)
    repo.commit("change")
    _, out = repo.run()
    reports = (repo.root / "evalgate-report").rglob("*")
    told = "".join(path.read_text() for path in reports if path.is_file())
    assert "c2VjcmV0LXRva2Vu" not in out + told


def test_who_gives_a_place_in_full_gets_it(repo: Repository, tmp_path: Path) -> None:
    code, out = repo.call("run", "--output", str(tmp_path / "reports"))
    assert code == 0, out
    assert (tmp_path / "reports/results.json").exists()
