"""What a machine can do to a run: kill it anywhere, no disk, no rights, no files left to open, no
home."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from builders import forked_command, leftovers
from builders.gated_repository import Repository
from builders.nightly import NIGHTLY

pytestmark = pytest.mark.integration

KILLS = 30 if NIGHTLY else 12
SLOW = {"AGENT_SLEEP": "0.1"}
PAUSE = "import time; time.sleep(float(os.environ.get('AGENT_SLEEP', 0)))"
CASES = 16
AS_OWNER = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)
"""root, for whom file permissions hold."""


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """A base and a change on it, which pass alike."""
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write(".gitignore", "evalgate-report/\n")
    made.gate_file(env=["ASKED_LOG", *SLOW])
    made.cases(*range(CASES))
    for side in ("base", "head"):
        made.agent(side)
        made.write(
            "agent.py",
            (made.root / "agent.py").read_text().replace("answer =", f"{PAUSE}; answer ="),
        )
        made.commit(side)
        made.git("checkout", "-qb", f"after-{side}")
    return made


def limited(repo: Repository, *prefix: str, **environment: str | None) -> tuple[int, str]:
    """A run behind a prefix that limits it; its exit code and all that it said. None: not in its
    environment."""
    own = {"ASKED_LOG": str(repo.log), "XDG_CACHE_HOME": str(repo.log.parent / "cache")}
    done = subprocess.run(
        [*prefix, str(forked_command.EVALGATE), "run", "--base", "main"],
        cwd=repo.root,
        env={
            name: value
            for name, value in {**os.environ, **own, **environment}.items()
            if value is not None
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
        text=True,
    )
    assert "Traceback" not in done.stdout, "it ends in plain words"
    return done.returncode, done.stdout


def ulimit(limit: str) -> tuple[str, ...]:
    return ("bash", "-c", f'trap \'\' XFSZ; ulimit {limit}; exec "$0" "$@"')


def agents_of(repo: Repository) -> list[str]:
    """Processes whose folder is the repository's, or a checkout of its base."""
    places = (str(repo.root), str(repo.log.parent / "cache"))
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str((process / "cwd").readlink()).startswith(places) and leftovers.runs(
                process.name
            ):
                found.append(process.name)
    return found


def is_left_alone(repo: Repository) -> bool:
    deadline = time.monotonic() + 10
    while agents_of(repo) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not agents_of(repo)


def test_a_run_that_is_killed_anywhere_goes_on_and_pays_for_no_run_twice(repo: Repository) -> None:
    """Kills of one run: six while it starts, then each after some more of it is journaled."""
    assert repo.call("run", "--base", "main", "--output", "whole")[0] == 0
    whole = json.loads((repo.root / "whole/results.json").read_text())
    repo.log.unlink()
    killed = 0
    for number in range(KILLS):
        before = journaled(repo)
        command = repo.start(
            "run", "--base", "main", "--resume", "--concurrency", "1", environment=SLOW
        )
        if number < 6:
            time.sleep(0.05 * number)
        else:
            deadline = time.monotonic() + 60
            while (
                command.poll() is None and journaled(repo) == before and time.monotonic() < deadline
            ):
                time.sleep(0.005)
        killed += command.poll() is None
        command.kill()
        command.communicate(timeout=30)
        report = repo.root / "evalgate-report/results.json"
        assert not report.exists() or json.loads(report.read_text())["verdict"], (
            "a report is whole or not there"
        )
    assert killed >= KILLS - KILLS // 6, "nearly all of them met a run that was at work"
    code, said = repo.call("run", "--base", "main", "--resume")
    assert code == 0, said
    asked = Counter(repo.log.read_text().splitlines())
    assert asked.keys() == {
        f"{side} question {number}" for side in ("base", "head") for number in range(CASES)
    }
    assert asked.total() <= 2 * CASES + 2 * killed, (
        "what a kill cut off is asked again, and nothing else"
    )
    assert without_times(repo.results()) == without_times(whole)
    assert is_left_alone(repo), "no agent outlives its run"


def journaled(repo: Repository) -> int:
    folder = repo.root / "evalgate-report"
    return sum(path.read_text().count('{"trial"') for path in folder.glob("*journal.jsonl"))


def without_times(results: dict[str, Any]) -> Any:
    cases = [
        (case["case_id"], case["verdict"], len(case["trials"]))
        for case in results["suites"][0]["cases"]
    ]
    return [
        results["verdict"]["kind"],
        results["verdict"]["reason"],
        results["comparison"].get("problem"),
        cases,
    ]


@pytest.mark.parametrize(
    ("blocks", "code", "words"),
    [
        (0, 3, "journal.jsonl: File too large"),
        (4, 3, "journal.jsonl: File too large"),
        (16, 3, "warning: cannot be written: File too large [not-written]"),
    ],
)
def test_a_full_disk_is_told_and_what_is_measured_by_then_is_kept(
    repo: Repository, blocks: int, code: int, words: str
) -> None:
    """No file may have more than so many KiB."""
    found, said = limited(repo, *ulimit(f"-f {blocks}"))
    assert (found, words in said) == (code, True), said
    is_measured = blocks > 4  # a report alone found no room: the run has all, and does not pass
    assert is_measured or "Free some disk space, then continue with --resume." in said
    before = repo.asked("head") + repo.asked("base")  # whichever side began
    assert repo.call("run", "--base", "main", "--resume")[0] == 0
    under_way = 4  # of `concurrency`, as many as each side may have
    assert repo.asked("head") - CASES <= under_way, "only what was not written is asked again"
    assert (before > 0) is (blocks > 0)


@pytest.mark.skipif(
    os.geteuid() == 0 and not shutil.which(AS_OWNER[0]), reason="needs the system: setpriv"
)
@pytest.mark.parametrize(
    ("closed", "code", "words"),
    [
        # where reports go
        ("repo/evalgate-report", 3, "cannot write the journal"),
        ("repo", 3, "Make the folder"),
        # where environments and verdicts are kept, and the base is checked out
        ("cache", 3, "cannot make a folder for the base in"),
        # git's own folder, and where nothing of ours goes
        ("repo/.git", 0, "PASS"),
        ("home", 0, "PASS"),
    ],
)
def test_a_folder_that_may_not_be_written_is_named(
    repo: Repository, closed: str, code: int, words: str
) -> None:
    folder = repo.log.parent / closed
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o555)
    prefix = AS_OWNER if os.geteuid() == 0 else ()
    found, said = limited(repo, *prefix, HOME=str(repo.log.parent / "home"))
    folder.chmod(0o755)
    assert (found, words in said) == (code, True), said


@pytest.mark.parametrize(
    ("most", "code", "words"),
    [
        (32, 0, "PASS"),  # enough for everything
        (8, 3, "Too many open files"),  # too few: told, and no pass
    ],
)
def test_few_open_files_are_enough_or_told(
    repo: Repository, most: int, code: int, words: str
) -> None:
    found, said = limited(repo, *ulimit(f"-n {most}"))
    assert (found, words in said) == (code, True), said


def test_a_run_with_too_little_memory_says_so_at_once(repo: Repository) -> None:
    """With 160 MB one run in twenty waited forever for a thread that had no memory to start."""
    found, said = limited(repo, *ulimit("-v 200000"))
    assert (found, "raise the limit (`ulimit -v`" in said) == (3, True), said


@pytest.mark.parametrize(
    "home", [None, "", "/proc/none"], ids=["unset", "empty", "one that cannot be"]
)
def test_without_a_home_a_run_goes_on(repo: Repository, home: str | None) -> None:
    """The cache is asked for by name: else it would be in the home that the system knows of this
    user."""
    code, said = limited(repo, HOME=home)
    assert (code, "PASS" in said) == (0, True), said


DEAF = """
import signal, subprocess, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
subprocess.Popen(["sh", "-c", "trap '' TERM INT HUP; sleep 600 & wait"])
"""


def test_a_cancelled_run_ends_in_time_though_its_agent_ignores_signals(repo: Repository) -> None:
    """A runner sends SIGINT, then SIGTERM after 7.5 s, then SIGKILL 2.5 s later."""
    repo.write(
        "agent.py",
        DEAF
        + (repo.root / "agent.py").read_text().replace("answer =", "time.sleep(600); answer ="),
    )
    command = repo.start("run", "--base", "main")
    deadline = time.monotonic() + 60
    while not repo.asked("head"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    started = time.monotonic()
    command.send_signal(signal.SIGINT)
    code, said = repo.end(command)
    assert (code, time.monotonic() - started < 7.5) == (130, True), said
    assert repo.results()["verdict"]["kind"] == "not_measured", "what is known is written"
    assert is_left_alone(repo)
