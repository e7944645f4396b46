"""Cases with mixed results on a list that people review: they never block, until they break or
their time is over; and new cases, which show in their own pull request whether their results are
mixed."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration

STORE = ("--baseline-folder", "store")
KEPT = (*STORE, "--runs", "2", "--save-baseline", "always")


def day(days: int) -> str:
    return (dt.datetime.now(dt.UTC).date() + dt.timedelta(days=days)).isoformat()


def entry(case: str, *, days: int = 30, file: str = "desk.evalset.json") -> dict[str, str]:
    return {"case": f"{file}:{case}", "owner": "@maria", "until": day(days)}


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write(".gitignore", "evalgate-report/\nstore/\nparts/\nmerged/\n")
    made.gate_file()
    made.cases(*range(6))
    made.agent("base", flaky=(1,))
    made.commit("base")
    return made


def branch(repo: Repository, **agent: tuple[int, ...]) -> None:
    repo.git("checkout", "-qB", "change", "main")
    repo.agent("head", **agent)
    repo.commit("change")


def told(repo: Repository) -> str:
    """What the comment says before its remarks."""
    return re.split(r"<details><summary>\d+ remark", repo.comment())[0]


def test_a_case_with_mixed_results_is_demoted_and_back_once_it_breaks(repo: Repository) -> None:
    assert repo.run(*KEPT, base="")[0] == 1
    repo.gate_file(quarantine=[entry("case_1")])
    repo.commit("quarantined")

    branch(repo, wrong=(1,))
    code, said = repo.run("--runs", "2", *STORE)
    assert code == 0, said
    notice = f"`case_1` failed (`@maria`, until {day(30)})."
    assert notice in told(repo)
    assert "All 5 deciding cases passed." in told(repo)
    # it is told in a line of its own, and counted by a word of its own
    assert (
        "**6** cases: **5** passed · **0** failed · **1** quarantined · **0** not measured"
        in told(repo)
    )
    assert "1 quarantined case did not pass (non-blocking)" in repo.comment()
    assert repo.comment().count("| `tool_call_count_v1` |") == 1
    assert "1 more criterion of non-blocking cases" in repo.comment()
    case = repo.results()["suites"][0]["cases"][1]
    assert (case["quarantined"], case["quarantine"]) == (
        True,
        {"owner": "@maria", "expires": day(30)},
    )

    repo.git("checkout", "-q", "main")
    for _ in range(3):
        repo.agent("base", wrong=(1,))
        repo.commit("breaks")
        assert repo.run(*KEPT, base="")[0] == 0  # each run goes by those before it
    branch(repo, wrong=(1,))
    assert repo.run("--runs", "2", *STORE)[0] == 1
    assert (
        "`desk.evalset.json:case_1` is quarantined, but failed its last 3 base runs"
        in repo.comment()
    )


def test_parts_and_their_merge_go_by_the_same_list(repo: Repository) -> None:
    repo.gate_file(quarantine=[entry("case_1")])
    repo.commit("quarantined")
    branch(repo, wrong=(1,))
    for part in ("1/2", "2/2"):
        assert repo.run("--shard", part, "--output", f"parts/{part[0]}")[0] == 0
    code, said = repo.call("merge", "parts", "--output", "merged", "--base", "main")
    assert code == 0, said
    assert "1 quarantined case (non-blocking): `case_1` failed" in said


def test_a_merge_takes_no_case_of_a_missing_part_for_edited(repo: Repository) -> None:
    repo.gate_file(quarantine=[entry(f"case_{number}") for number in range(6)])
    repo.commit("quarantined")
    branch(repo)
    for part in ("1/2", "2/2"):
        repo.run("--shard", part, "--output", f"parts/{part[0]}")
    shutil.rmtree(repo.root / "parts/2")
    code, said = repo.call("merge", "parts", "--output", "merged", "--base", "main")
    assert (code, "shard 2/2 has no results" in said) == (0, True), said
    comment = (repo.root / "merged/comment.md").read_text()
    assert "edits" not in said + comment
    assert "**6** quarantined" in comment


def test_an_entry_is_told_before_it_expires_and_when(repo: Repository) -> None:
    branch(repo, wrong=(1,))
    for days, code, said in (
        (8, 0, ""),
        (7, 0, f"expires in 7 days, at the end of {day(7)} (UTC)"),
        (0, 0, "expires today"),
        (-1, 1, f"expired on {day(-1)}: the case can block again"),
        (91, 1, "more than 90 days: it does not count"),  # duties: for ever is no date
    ):
        repo.git("checkout", "-q", "main")
        repo.gate_file(quarantine=[entry("case_1", days=days)])
        repo.commit("listed")
        repo.git("checkout", "-q", "change")
        repo.git("merge", "-q", "main", "-m", "merged")
        assert repo.run("--runs", "2")[0] == code, days
        found = [line for line in told(repo).splitlines() if "the quarantine of" in line]
        assert [said in line for line in found] == [True] * bool(said), found
    assert "lasts until" in repo.call("validate")[1]


@dataclass(frozen=True, kw_only=True)
class Game:
    """A change beside an agent that breaks cases 2 and 3. `listed`: on the base; `said`: before the
    details."""

    play: Callable[[Repository], None]
    listed: tuple[dict[str, str], ...] = (entry("case_1"),)
    said: str
    code: int = 1


def swaps(repo: Repository) -> None:
    """The broken question under the quarantined name."""
    path = repo.root / "desk.evalset.json"
    text = (
        path.read_text()
        .replace("case_1", "case_x")
        .replace("case_2", "case_1")
        .replace("case_x", "case_2")
    )
    path.write_text(text)


def renames_case(repo: Repository) -> None:
    path = repo.root / "desk.evalset.json"
    path.write_text(
        path.read_text().replace("case_2", "brand_new").replace("case_3", "brand_newer")
    )


def moves_cases(repo: Repository) -> None:
    """To a file in which the base quarantines a case that it no longer has."""
    read = json.loads((repo.root / "desk.evalset.json").read_text())
    moved = [case for case in read["eval_cases"] if case["eval_id"] in ("case_2", "case_3")]
    for number, case in enumerate(moved):
        case["eval_id"] = f"gone_{number}"
    read["eval_cases"] = [case for case in read["eval_cases"] if case not in moved]
    repo.write("desk.evalset.json", json.dumps(read))
    repo.write("other.evalset.json", json.dumps({"eval_set_id": "other", "eval_cases": moved}))


def travels(repo: Repository) -> None:
    """A commit of the time at which the entry still counted, in an environment that says so."""
    repo.write(".env", "SOURCE_DATE_EPOCH=1577836800\nTZ=Etc/GMT+12\n")
    repo.git("commit", "-q", "--allow-empty", "-m", "then", "--date", "2020-01-01T00:00:00Z")


GAMES = {
    "its own failures": Game(
        play=lambda repo: repo.gate_file(
            quarantine=[entry(f"case_{number}") for number in (1, 2, 3)]
        ),
        said="`quarantine`: the base's evalgate.yml counts, not this change's",
    ),
    "an entry that has expired lasts longer": Game(
        listed=(entry("case_2", days=-3), entry("case_3", days=-3)),
        play=lambda repo: repo.gate_file(quarantine=[entry("case_2"), entry("case_3")]),
        said="`quarantine`: the base's evalgate.yml counts, not this change's",
    ),
    "a broken question under a quarantined name": Game(
        play=swaps, said="expectations of 2 cases changed"
    ),
    "failing cases are new again": Game(play=renames_case, said="2 cases deleted"),
    "failing cases in a file with entries of old": Game(
        listed=(
            entry("gone_0", file="other.evalset.json"),
            entry("gone_1", file="other.evalset.json"),
        ),
        play=moves_cases,
        said="2 cases deleted",
    ),
    "another clock": Game(
        listed=(entry("case_2", days=-1), entry("case_3", days=-1)),
        play=travels,
        said="2 of 6 cases failed (2 new)",
    ),
}


@pytest.mark.parametrize("game", GAMES.values(), ids=list(GAMES))
def test_a_change_quarantines_nothing(repo: Repository, game: Game) -> None:
    repo.gate_file(quarantine=list(game.listed))
    repo.commit("quarantined")
    branch(repo, wrong=(2, 3))
    game.play(repo)
    repo.commit("game")
    code, said = repo.run("--runs", "2")
    assert code == game.code, said
    if game.said:
        assert game.said in repo.comment(), repo.comment()


def test_a_change_whose_base_is_unknown_quarantines_nothing(repo: Repository) -> None:
    repo.gate_file(quarantine=[entry("case_1")])
    branch(repo, wrong=(1,))
    assert repo.run("--runs", "2", base="")[0] == 0  # somebody's own machine
    workflow = {
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_RUN_ID": "1",
        "CI": "1",
    }
    asked = ("--runs", "2", "--baseline", "none", "--base", "nowhere", "--env", "ASKED_LOG")
    code, said = repo.call("run", *asked, environment=workflow)
    assert code == 1, said
    assert "`quarantine` does not count" in said


def test_the_change_that_brings_the_first_cases_pays_for_none_twice(tmp_path: Path) -> None:
    repo = Repository(tmp_path / "repo", tmp_path / "asked.log")
    repo.write(".gitignore", "evalgate-report/\n")
    repo.commit("nothing yet")
    repo.git("checkout", "-qb", "change")
    repo.agent("head")
    repo.gate_file(threshold="confirmed")
    repo.cases(*range(3))
    repo.commit("first")
    assert repo.run()[0] == 0
    assert repo.asked("head") == 3
