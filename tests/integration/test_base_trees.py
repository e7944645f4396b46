"""`evalgate run --base` in trees that hold links or submodules, and stopped by Ctrl-C: nothing of
it stays behind."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from builders import forked_command, repositories
from builders.gated_repository import Repository

pytestmark = pytest.mark.integration

WORD = 'open("links/inside").read().split()[0]'


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """Agents of both sides say a word that they read through a link."""
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write("vendor/library/word.txt", "answer")
    (made.root / "links").mkdir()
    (made.root / "links/inside").symlink_to("../vendor/library/word.txt")
    (made.root / "links/dangling").symlink_to("../nowhere.txt")
    (made.root / "links/outside").symlink_to("/etc/hostname")
    made.write(".gitignore", "evalgate-report/\n")
    say(made, "base")
    made.gate_file()
    made.cases(*range(6))
    made.commit("base")
    made.git("checkout", "-qb", "change")
    say(made, "head")
    return made


def say(repo: Repository, side: str) -> None:
    repo.agent(side)
    text = (repo.root / "agent.py").read_text()
    repo.write(
        "agent.py",
        text.replace('text.replace("question", "answer")', f'text.replace("question", {WORD})'),
    )


def photograph(repo: Repository) -> dict[str, str]:
    """All but what evalgate writes where it says so."""
    taken = repositories.photograph(repo.root)
    return {
        name: seen
        for name, seen in taken.items()
        if not name.startswith(("evalgate-report", ".evalgate"))
    }


def left_behind(repo: Repository) -> list[str]:
    """Worktrees that git knows beside the user's own, and checkouts in the cache."""
    known = repo.git("worktree", "list", "--porcelain").count("worktree ") - 1
    bases = repo.log.parent / "cache/evalgate/bases"
    return ["worktree"] * known + [
        path.name for path in (bases.iterdir() if bases.exists() else ())
    ]


def test_links_are_the_bases_own_on_its_side(repo: Repository) -> None:
    repo.write("vendor/library/word.txt", "nothing")
    repo.commit("the library says something else now")
    before = photograph(repo)
    code, said = repo.run("--fail-on", "regression", "--threshold", "confirmed")
    assert code == 1, said
    (row,) = [row for row in repo.results()["comparison"]["criteria"] if row["rule"]["gating"]]
    assert (row["base"], row["head"] < 0.9) == (1.0, True), "each side read its own file"
    assert "1 symbolic link (such as links/outside) leads out of the repository" in repo.comment()
    assert (photograph(repo), left_behind(repo)) == (before, [])


def test_a_base_without_its_submodules_is_not_measured(repo: Repository, tmp_path: Path) -> None:
    """Its agent would be measured without what head's has, and the change would look like a
    repair."""
    library = repositories.made(tmp_path / "library")
    repositories.commit(library, {"more.txt": "answer"})
    repo.git("checkout", "-q", "main")
    repositories.git(repo.root, "submodule", "--quiet", "add", f"file://{library}", "vendor/more")
    repo.commit("a submodule")
    repo.git("checkout", "-qB", "change")
    say(repo, "head")
    repo.commit("head")
    code, said = repo.run()
    assert code == 3, said
    assert "the two agents cannot be compared" in repo.comment()
    assert repo.asked("base") == 0
    assert left_behind(repo) == []


def test_ctrl_c_leaves_nothing_behind_and_a_resumed_run_repeats_nothing(repo: Repository) -> None:
    """As a terminal sends it, in the middle of both sides."""
    text = (repo.root / "agent.py").read_text()
    repo.write("agent.py", text.replace("import json, os, sys", "import json, os, sys, time"))
    repo.write(
        "agent.py",
        (repo.root / "agent.py")
        .read_text()
        .replace("asked = open", "time.sleep(0.05); asked = open"),
    )
    repo.commit("head")
    before = photograph(repo)
    arguments = ("run", "--base", "main", "--runs", "2", "--concurrency", "1")
    repo.hold.touch()
    process = repo.start(*arguments, by=forked_command.console_script)
    deadline = time.monotonic() + 60
    while repo.asked("head") + repo.asked("base") < 7 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    code, said = repo.end(process)
    repo.hold.unlink()
    assert code == 130, said
    assert "--resume" in said
    assert (photograph(repo), left_behind(repo)) == (before, [])
    interrupted = repo.asked("head") + repo.asked("base")
    assert 7 <= interrupted < 24
    code, said = repo.call(*arguments, "--resume")
    assert code == 0, said
    assert repo.asked("head") + repo.asked("base") <= 24 + 1, "only what was under way is run again"
    origin = repo.results()["comparison"]["origin"]
    assert origin["run"] + origin["reused"] == 12
    assert (photograph(repo), left_behind(repo)) == (before, [])
