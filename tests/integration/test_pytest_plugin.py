"""Evaluation files as pytest tests, in real pytest processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from builders import forked_command
from builders.gated_repository import Repository
from lxml import etree

pytestmark = pytest.mark.integration
OTHERS = ("-p", "no:hypothesispytest", "-p", "no:llmock", "-p", "no:anyio")
"""Plugins of our tests' own, which take a second to load."""
CRASHING = """
import sys, json
print(json.dumps({"type": "ready", "protocol": 1}), flush=True)
for line in sys.stdin:
    sys.exit(3)
"""


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    """Three cases, of which the second is wrong, and an ordinary test beside them."""
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.agent("head", wrong=(1,))
    made.gate_file()
    made.cases(0, 1, 2)
    made.write("test_own.py", "def test_own(): pass\n")
    return made


def run_pytest(
    repo: Repository, *arguments: str, python: str = ""
) -> tuple[int, str, dict[str, str]]:
    """Its exit code, what it said, and what became of each test by its name; unless by another
    `python`, in a fork of one that has loaded evalgate."""
    python = python or forked_command.zygote().python
    junit = repo.root.parent / "junit.xml"
    junit.unlink(missing_ok=True)
    plugins = ("-p", "no:cacheprovider", *OTHERS)
    command = [python, "-P", "-m", "pytest", *plugins, f"--junit-xml={junit}", *arguments]
    own = {"ASKED_LOG": str(repo.log), "XDG_CACHE_HOME": str(repo.log.parent / "cache")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command,
        cwd=repo.root,
        env={**kept, **own},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    cases = etree.parse(junit).iter("testcase") if junit.exists() else ()
    found = {str(case.get("name")): next((child.tag for child in case), "passed") for case in cases}
    return done.returncode, done.stdout + done.stderr, found


def test_nothing_is_collected_unless_asked_for(repo: Repository) -> None:
    assert run_pytest(repo, python=sys.executable)[2] == {"test_own": "passed"}


ALL = {"case_0": "passed", "case_1": "failure", "case_2": "passed", "test_own": "passed"}


@pytest.mark.parametrize(
    ("arguments", "code", "found", "asked"),
    [
        (["--evalgate"], 1, ALL, 3),
        # two processes: one run for both
        (["--evalgate", "-n", "2"], 1, ALL, 3),
        # only what is selected is run
        (
            ["--evalgate", "-k", "case_0 or test_own"],
            0,
            {"case_0": "passed", "test_own": "passed"},
            1,
        ),
        (["--evalgate", "desk.evalset.json::case_2"], 0, {"case_2": "passed"}, 1),
        # settings reach the gate
        (
            ["--evalgate", "-o", "evalgate_settings=runs=2", "-k", "case_0"],
            0,
            {"case_0": "passed"},
            2,
        ),
        # enough is enough: shown, and not red
        (
            ["--evalgate", "-o", "evalgate_settings=pass-rate=0.6"],
            0,
            {"case_0": "passed", "case_1": "skipped", "case_2": "passed", "test_own": "passed"},
            3,
        ),
    ],
)
def test_cases_are_tests(
    repo: Repository, arguments: list[str], code: int, found: dict[str, str], asked: int
) -> None:
    left, said, cases = run_pytest(repo, *arguments)
    assert (left, cases, repo.asked("head")) == (code, found, asked), said
    if code:
        assert "response_match_score 0.00 < 0.90" in said
        assert "- answer 1" in said
        assert "+ nothing of the kind" in said


def test_the_ini_file_switches_it_on_and_sets(repo: Repository) -> None:
    repo.write(
        "pytest.ini",
        "[pytest]\nevalgate = true\nevalgate_settings =\n    grep=case_0\n    runs=3\n",
    )
    code, said, found = run_pytest(repo)
    assert (code, found) == (0, {"case_0": "passed", "test_own": "passed"}), said
    assert repo.asked("head") == 3


def test_what_was_not_measured_is_an_error(repo: Repository) -> None:
    repo.write("agent.py", CRASHING)
    code, said, found = run_pytest(repo, "--evalgate", "-k", "case_0")
    assert (code, found) == (1, {"case_0": "error"})
    assert "ERROR at setup of case_0" in said
    assert re.search(r"^ERROR desk.evalset.json::case_0 - Failed: The agent", said, re.MULTILINE), (
        said
    )
    assert "exited" in said
    assert "pytest_plugin" not in said, "a traceback of ours tells nobody anything"
    assert "Report: evalgate-report/report.html" in said


def test_a_part_is_kept_beside_the_whole(repo: Repository) -> None:
    """As runs of `evalgate run` are, so that `evalgate accept` knows what became of each case."""
    repo.call("run")
    code, said, _ = run_pytest(repo, "--evalgate", "-k", "case_1")
    assert code == 1
    (report,) = re.findall(r"^Report: (\.evalgate/runs/\S+/report.html)$", said, re.MULTILINE)
    assert (repo.root / report).exists()
    assert [len(suite["cases"]) for suite in repo.results()["suites"]] == [3]
    assert len(repo.call("history", "case_1")[1].splitlines()) == 3


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("runs", "evalgate: `runs` is not a setting; write NAME=VALUE, as `runs=3`"),
        ("runs=many", "runs"),
        ("no-such=1", "no-such"),
    ],
)
def test_a_setting_that_is_not_valid_is_told(repo: Repository, setting: str, said: str) -> None:
    code, shown, found = run_pytest(repo, "--evalgate", "-o", f"evalgate_settings={setting}")
    assert code != 0
    assert said in shown
    assert "passed" not in (found.get(f"case_{number}") for number in range(3))


def test_a_broken_file_is_an_error_of_its_own(repo: Repository) -> None:
    repo.write("broken.evalset.json", '{"eval_set_id": "x", "eval_cases": [{"eval_id": 3}]}')
    code, said, found = run_pytest(repo, "--evalgate", "--continue-on-collection-errors")
    assert code == 1
    assert {name: found[name] for name in ALL} == ALL
    assert "broken.evalset.json" in said


def test_a_verdict_that_no_case_tells_is_red(repo: Repository) -> None:
    """A base may be named: what is worse than it blocks, though each case is above its
    threshold."""
    repo.cases(*range(10), threshold=0.0)
    repo.agent("head")
    base = repo.commit("base")
    repo.agent("head", wrong=tuple(range(10)))
    named = ("-o", f"evalgate_settings=base={base}\nbaseline=rerun")
    code, said, found = run_pytest(repo, "--evalgate", *named)
    assert set(found.values()) == {"passed"}
    assert code == 1, said
    assert "Report: evalgate-report/report.html" in said
