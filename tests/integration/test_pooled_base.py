"""Stored runs of the very same base agent count together: which of them, and what the reports say of it."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders.gated_repository import Repository

from evalgate.model import POOLED

pytestmark = pytest.mark.integration

STORE = ("--baseline-folder", "store", "--runs", "3")
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Six cases; main's results are stored, the change breaks one case."""
    folder = tmp_path_factory.mktemp("pooled")
    made = Repository(folder / "repo", folder / "asked.log")
    made.write(".gitignore", "evalgate-report/\nstore/\nagain/\n")
    made.gate_file()
    made.cases(*range(6))
    made.agent("base")
    made.commit("base")
    assert made.run(*STORE, "--save-baseline", "always", base="")[0] == 0
    made.git("checkout", "-qb", "change")
    made.agent("head", wrong=(5,))
    made.commit("change")
    shutil.copytree(made.root / "store", folder / "store")
    return made


@pytest.fixture
def repo(measured: Repository) -> Repository:
    """The same with main's one run in the store."""
    shutil.rmtree(measured.root / "store")
    shutil.copytree(measured.root.parent / "store", measured.root / "store")
    return measured


def kept(repo: Repository) -> Path:
    return max((repo.root / "store/runs").iterdir())


def again(repo: Repository, *, days: float, change: Change = lambda _: None) -> None:
    """The run that is stored once more, as one of `days` before it."""
    path = kept(repo)
    read = json.loads(gzip.decompress(path.read_bytes()))
    then = dt.datetime.fromisoformat(read["started_at"]) - dt.timedelta(days=days)
    read["started_at"] = then.isoformat(timespec="seconds")
    change(read)
    path.with_name(f"{then:%Y%m%dT%H%M%SZ}{path.name[16:]}").write_bytes(gzip.compress(json.dumps(read).encode()))


def p_of(repo: Repository) -> float:
    found: float = repo.results()["comparison"]["criteria"][0]["difference"]["p"]["worse"]
    return found


def rows(repo: Repository, folder: str = "evalgate-report") -> list[str]:
    """What the comment says of the criterion."""
    found = (repo.root / folder / "comment.md").read_text().splitlines()
    return [line for line in found if "response_match_score" in line and "|" in line]


def origin(repo: Repository) -> dict[str, Any]:
    found: dict[str, Any] = repo.results()["comparison"]["origin"]
    return found


def test_recent_runs_of_the_same_agent_are_one_base(repo: Repository) -> None:
    for days in (1, 2, 3):
        # once it said something else: its difference is no fact
        again(repo, days=days, change=lambda read: read["suites"][0]["cases"][0]["trials"][0].update(behavior="other"))
    code, said = repo.run(*STORE)
    assert (code, repo.asked("base")) == (1, 3), said  # what is worse than stored is run today
    assert (origin(repo)["results"], origin(repo)["per_case"]) == (4, [12, 12])
    assert "of 4 base runs (12 runs per case)" in repo.comment()
    # one case of 3 runs that all fail beside 3 of today that all pass
    assert p_of(repo) == pytest.approx(1 / 20)
    base = repo.results("base.json")["suites"][0]["cases"][1]["trials"]
    assert [each.get("repeat", 0) for each in base] == [0, 1, 2, *range(POOLED, POOLED + 9)]
    assert ["outcome" in each for each in base] == [True] * 3 + [False] * 9
    # case by case it is compared with the nearest alone
    (broken,) = repo.results()["comparison"]["cases"]
    assert (broken["base"]["passed"], broken["origin"]) == (3, "new")

    # the files say the same when they are looked at once more
    assert repo.call("report", "evalgate-report/results.json", "--output", "again")[0] == 1
    assert rows(repo, "again") == rows(repo) != []


def other_surroundings(read: dict[str, Any]) -> None:
    read["suites"][0]["agent"]["surroundings"] = "other"


def other_judge(read: dict[str, Any]) -> None:
    read["suites"][0]["criteria"][0]["fingerprint"] = "other"


def other_question(read: dict[str, Any]) -> None:
    read["suites"][0]["cases"][1]["fingerprint"] = "other"


def crashed(read: dict[str, Any]) -> None:
    read["suites"][0]["cases"][1]["trials"][0]["outcome"] = {"kind": "raised", "message": "KeyError"}


def unscored(read: dict[str, Any]) -> None:
    grades = read["suites"][0]["cases"][1]["trials"][0]["grades"]
    grades["response_match_score"] = {"reason": "judge_unavailable", "message": "down"}


@pytest.mark.parametrize(
    ("change", "per_case"),
    [
        (lambda _: None, [6, 6]),
        (other_surroundings, None),  # another variable, package or setting
        (lambda read: read["suites"][0]["agent"].update(code="other"), None),
        (lambda read: read["suites"][0]["agent"].update(surroundings=""), None),  # nobody knows
        (lambda read: read.update(models=["other"]), [6, 6]),  # this agent tells of no model
        (other_judge, None),  # another judge, prompt or version of evalgate: not judged again, which would be paid for
        (other_question, [3, 6]),
        (crashed, [5, 6]),
        (unscored, [5, 6]),
    ],
)
def test_what_is_left_out(repo: Repository, change: Change, per_case: list[int] | None) -> None:
    again(repo, days=1, change=change)
    assert repo.run(*STORE)[0] == 1
    assert origin(repo).get("per_case") == per_case
    assert repo.asked("base") == 3


@pytest.mark.parametrize(
    ("days", "arguments", "results"),
    [
        (6, (), 2),
        (8, (), None),
        (1, ("--reuse-days", "0"), None),
        (1, ("--runs", "2+1"), None),  # adaptive repeats
        (1, ("--baseline", "store"), 2),
        (1, ("--baseline", "rerun"), None),
    ],
)
def test_when_runs_are_pooled(repo: Repository, days: int, arguments: tuple[str, ...], results: int | None) -> None:
    again(repo, days=days)
    assert repo.run(*STORE, *arguments)[0] == 1
    assert origin(repo).get("results") == results


def test_runs_from_before_a_drift_are_not_pooled(repo: Repository) -> None:
    for days in (1, 4):
        again(repo, days=days)
    path = repo.root / "store/history.json"
    history = json.loads(path.read_text())
    since = (dt.datetime.now(dt.UTC) - dt.timedelta(days=2)).isoformat(timespec="seconds")
    history["runs"][-1]["drift"] = {"since": since, "before": 1.0, "after": 0.5, "p": 1e-6}
    path.write_text(json.dumps(history))
    assert repo.run(*STORE)[0] == 1
    assert origin(repo)["results"] == 2
