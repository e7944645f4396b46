"""`evalgate accept`: what the agent did becomes what a case expects, and nothing else in its file
changes."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import keyboard
from builders.gated_repository import Repository

from evalgate.formats import rewrite

pytestmark = pytest.mark.integration

SUITE = "desk.evalset.json"
# formatted as nobody's tool would: tabs, blanks, a key of the author's own, an escape
ODD = """{"eval_set_id" :"desk",
\t"eval_cases": [
\t\t{ "eval_id":"case_0", "_why": "said by the caf\\u00e9",
\t\t  "conversation": [ {"user_content": {"role": "user", "parts": [{"text": "question 0"}]},
\t\t\t"final_response":   {"parts":[ {"text" : "an old answer"} ], "role": "model"}} ] },
\t\t{"eval_id": "case_1", "conversation": [{"user_content": {"role": "user", "parts": [{"text": "question 1"}]},
\t\t\t"final_response": {"role": "model", "parts": [{"text": "answer 1"}]}}]},
\t\t{"eval_id": "case_2", "conversation": [{"user_content": {"role": "user", "parts": [{"text": "question 2"}]},
\t\t\t"final_response": {"role": "model", "parts": [{"text": "another old one"}]}}]}
\t]
}

"""


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.agent("head")
    made.gate_file()
    made.cases(0, threshold=1.0)
    made.write(SUITE, ODD)
    made.commit("first")
    assert made.call("run")[0] == 1
    return made


def typed(repo: Repository, keys: str, *arguments: str, **more: Any) -> str:
    """What `evalgate accept` shows to somebody who presses these keys."""
    return keyboard.typed(["accept", *arguments], keys, after=b"[q]uit: ", cwd=repo.root, **more)


def test_an_accepted_answer_is_all_that_changes_and_the_case_passes(repo: Repository) -> None:
    said = typed(repo, "as")
    assert "case_0 (desk.evalset.json), 1 of 2\n    - an old answer\n    + answer 0\n" in said
    assert "case_2 (desk.evalset.json), 2 of 2\n    - another old one\n    + answer 2\n" in said
    assert "1 case of 2 accepted\nchanged desk.evalset.json\n" in said
    assert "The pull request will show each as a case whose expectation changed." in said
    assert (repo.root / SUITE).read_text() == ODD.replace("an old answer", "answer 0")
    repo.log.unlink()
    code, _ = repo.call("run", "--failed")
    assert code == 1  # case_2 still fails
    assert sorted(repo.log.read_text().split("\n")) == ["", "head question 0", "head question 2"]
    repo.log.unlink()
    assert repo.call("accept", "--yes")[0] == 0
    assert repo.call("run", "--failed")[0] == 0
    assert repo.log.read_text() == "head question 2\n", (
        "what passed meanwhile is no longer among those that failed"
    )
    assert "every case passed when it last ran" in repo.call("run", "--failed")[1]


@pytest.mark.parametrize(
    ("keys", "accepted"),
    [("sa", [2]), ("A", [0, 2]), ("xaq", [0])],
)
def test_the_keys(repo: Repository, keys: str, accepted: list[int]) -> None:
    typed(repo, keys)
    wanted = ODD.replace("an old answer", "answer 0") if 0 in accepted else ODD
    wanted = wanted.replace("another old one", "answer 2") if 2 in accepted else wanted
    assert (repo.root / SUITE).read_text() == wanted


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        # nothing is done that nobody was asked for
        (["--dry-run"], 0, "2 cases of 2 would be accepted; nothing was changed"),
        ([], 2, "nobody is there to be asked"),
        # what is named, and why not
        (["case_0", "--dry-run"], 0, "1 case of 1 would be accepted"),
        (["case_00", "--yes"], 2, "Did you mean `case_0`?"),
        (["case_1", "--yes"], 1, "case_1: not accepted: it passes"),
        (["--new", "--dry-run"], 0, "0 cases of 0 would be accepted"),
        (
            ["case_0", "--calls", "--yes"],
            1,
            "case_0: not accepted: its calls and answers are already the expected ones",
        ),
        (["case_0", "--run", "2", "--yes"], 1, "case_0: not accepted: it has no run 2"),
    ],
)
def test_what_is_left_as_it_is(
    repo: Repository, arguments: list[str], code: int, said: str
) -> None:
    before = (repo.root / SUITE).read_text()
    ended, shown = repo.call("accept", *arguments)
    assert said in shown
    assert ended == code
    assert (repo.root / SUITE).read_text() == before


def test_a_case_that_was_changed_since_is_run_again_first(repo: Repository) -> None:
    changed = ODD.replace("an old answer", "an answer of mine")
    repo.write(SUITE, changed)
    code, said = repo.call("accept", "case_0", "--yes")
    assert (code, (repo.root / SUITE).read_text()) == (1, changed)
    assert "case_0: not accepted: it was changed since it ran: run it again" in said


def test_a_case_that_is_changed_while_somebody_thinks_is_left_alone(repo: Repository) -> None:
    """By an editor, or another `accept`; the others are still accepted."""
    changed = ODD.replace("an old answer", "an answer of mine")
    said = typed(repo, "aa", meanwhile=lambda: repo.write(SUITE, changed), code=1)
    assert "case_0: not accepted: case 'case_0' was changed meanwhile" in said
    assert "1 case of 2 accepted\nchanged desk.evalset.json\n" in said
    assert (repo.root / SUITE).read_text() == changed.replace("another old one", "answer 2")


@pytest.mark.parametrize(
    ("harm", "code", "said", "times"),
    [
        # without the file there is no case of it any more
        (lambda path: path.unlink(), 0, "gone.evalset.json", 0),
        # nothing is known of any of its cases
        (
            lambda path: path.write_text("{"),
            0,
            "not accepted: its file cannot be changed: gone.evalset.json:1:2:",
            3,
        ),
        (lambda path: path.chmod(0o444), 1, "gone.evalset.json is read-only", 2),
    ],
)
def test_a_file_that_is_in_the_way_is_in_the_way_of_its_own_cases(
    repo: Repository, harm: Callable[[Path], None], code: int, said: str, times: int
) -> None:
    path = repo.root / "gone.evalset.json"
    path.write_text(ODD.replace("case_", "other_"))
    repo.call("run")
    harm(path)
    ended, shown = repo.call("accept", "--yes")
    assert (ended, shown.count(said)) == (code, times), shown
    assert f"2 cases of {2 + times} accepted\nchanged desk.evalset.json\n" in shown
    assert repo.call("accept", "other_0", "--yes")[0] != 0


def test_what_is_not_known_is_not_accepted(repo: Repository) -> None:
    agent = (repo.root / "agent.py").read_text()
    repo.write("agent.py", agent.replace("number = int", "assert '2' not in text; number = int"))
    repo.call("run")
    code, said = repo.call("accept", "case_2", "--yes")
    assert code == 1
    assert re.search(
        r"case_2: not accepted: it was not measured: agent failed: .*AssertionError|it was not measured",
        said,
    )
    assert (repo.root / SUITE).read_text() == ODD


def test_of_runs_that_differ_one_is_chosen(repo: Repository) -> None:
    repo.agent("head", flaky=(0,))
    repo.log.unlink()
    repo.call("run", "--runs", "2")
    code, said = repo.call("accept", "case_0", "--yes")
    assert (code, (repo.root / SUITE).read_text()) == (1, ODD)
    assert "case_0: not accepted: its 2 runs differ: choose one with --run 1 ... --run 2" in said
    assert repo.call("accept", "case_0", "--yes", "--run", "2")[0] == 0
    assert (repo.root / SUITE).read_text() == ODD.replace("an old answer", "nothing of the kind")


def test_a_flaky_case_keeps_its_expectation(repo: Repository) -> None:
    """Whichever run is chosen: what the agent does now and then is nothing to expect."""
    repo.gate_file(threshold="confirmed")
    repo.agent("head", flaky=(1,))
    repo.log.write_text("head question 1\n")  # it fails every second time
    _, said = repo.call("run", "--confirm")
    assert "flaky" in said, said
    for chosen in ([], ["--run", "1"]):
        code, said = repo.call("accept", "case_1", "--yes", *chosen)
        assert (code, (repo.root / SUITE).read_text()) == (1, ODD), said
        assert "case_1: not accepted: it is flaky: reruns did not confirm its failure" in said


def test_a_quarantined_case_keeps_its_expectation(repo: Repository) -> None:
    """Until its entry is gone: then it is a failure like others, without another run."""
    until = (dt.datetime.now(dt.UTC) + dt.timedelta(days=20)).date().isoformat()
    repo.gate_file(quarantine=[{"case": f"{SUITE}:case_0", "owner": "@desk", "until": until}])
    for chosen in ([], ["--run", "1"], ["--answer"]):
        code, said = repo.call("accept", "case_0", "--yes", *chosen)
        assert (code, (repo.root / SUITE).read_text()) == (1, ODD), said
        assert "case_0: not accepted: it is quarantined" in said
    repo.gate_file()
    assert repo.call("accept", "case_0", "--yes")[0] == 0


def test_what_changed_since_it_ran_is_said_everywhere(repo: Repository) -> None:
    assert repo.call("accept", "case_0", "--yes")[0] == 0
    shown = repo.call("show")[1]
    assert re.search(r"not measured +case_0", shown), shown
    assert re.search(r"now +not measured", repo.call("history", "case_0")[1])
    assert "changed since it ran" in repo.call("show", "case_0")[1]


def test_a_secret_that_was_taken_out_is_not_accepted(repo: Repository) -> None:
    agent = (repo.root / "agent.py").read_text()
    repo.write(
        "agent.py", agent.replace('text.replace("question", "answer")', "os.environ['MY_KEY']")
    )
    repo.gate_file(env=["ASKED_LOG", "MY_KEY"])
    repo.call("run", environment={"MY_KEY": "a-secret-of-mine"})
    code, said = repo.call("accept", "case_0", "--yes")
    assert code == 1
    assert "a secret was removed from the agent's output" in said
    assert "a-secret-of-mine" not in said


def test_after_a_run_of_a_part_all_cases_are_known(repo: Repository) -> None:
    repo.call("run", f"{SUITE}:case_2")
    assert "2 cases of 2 would be accepted" in repo.call("accept", "--dry-run")[1]
    shown = repo.call("show", "case_0", "case_2")[1]
    assert shown.count("fail: case_") == 2
    _, said = repo.call("history", "case_2")
    assert [line.split()[2] for line in said.splitlines()] == ["verdict", "fail", "fail"]
    assert len(repo.call("history", "case_0")[1].splitlines()) == 2


def test_a_case_that_is_gone_does_not_keep_the_others_that_failed_from_running(
    repo: Repository,
) -> None:
    repo.write("more.evalset.json", ODD.replace("case_", "other_"))
    repo.call("run")
    repo.write(SUITE, ODD.replace("case_0", "renamed"))
    (repo.root / "more.evalset.json").unlink()
    repo.log.unlink()
    assert repo.call("run", "--failed")[0] == 1
    assert repo.log.read_text() == "head question 2\n"
    repo.write(SUITE, ODD.replace("case_", "new_"))
    assert "no longer there" in repo.call("run", "--failed")[1]
    assert "no longer there" in repo.call("show")[1]
    assert repo.call("history", "case_0")[0] == 0


def test_a_case_is_shown_whole(repo: Repository) -> None:
    code, said = repo.call("show", "case_0")
    assert code == 0
    commit = repo.git("rev-parse", "HEAD")
    assert re.match(rf"ran at \S+, commit {commit[:7]}\nfail: case_0 \({SUITE}:3\)\n", said)
    assert "    - an old answer\n    + answer 0\n" in said
    assert re.search(r"^response_match_score +0\.40 +1\.00 +fail$", said, re.MULTILINE)
    assert "turn 1: question 0\n" in said
    assert "Did you mean `case_0`?" in repo.call("show", "case-0")[1]
    assert "has no run 3" in repo.call("show", "case_0", "--run", "3")[1]


def test_reports_are_written_again(repo: Repository) -> None:
    results = repo.root / "evalgate-report" / "results.json"
    comment = repo.comment()
    code, _ = repo.call("report", str(results), "--output", "again")
    assert code == 1
    again = (repo.root / "again" / "comment.md").read_text()
    figures = [
        line for line in comment.splitlines() if "case" in line and "evalgate run" not in line
    ]
    assert figures[:2] == [line for line in again.splitlines() if "case" in line][:2]
    assert not (repo.root / "again" / "results.json").exists()
    # its folder will do
    assert repo.call("report", "evalgate-report", "--output", "folder")[0] == 1
    assert (repo.root / "folder" / "comment.md").exists()


def write_again_and_again(path: Path) -> None:
    while True:
        source = rewrite.read(path, shown_as="x")
        text = rewrite.replaced(
            source.text, ("value",), "y" if '"x' in source.text else "x" * 200_000
        )
        assert text is not None
        rewrite.save(source, text)


def test_whoever_is_killed_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"value": "y"}')
    path.chmod(0o640)
    values = []
    for number in range(20):
        child = os.fork()
        if not child:
            write_again_and_again(path)
        time.sleep(0.01 + 0.003 * number)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        values.append(json.loads(path.read_text())["value"])
        assert path.stat().st_mode & 0o777 == 0o640
    assert set(values) == {"y", "x" * 200_000}
