"""Runs at a terminal: each is kept, a part never takes the place of the whole, and none that ended
is made again."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from builders import gated_repository, report_page
from builders.gated_repository import Repository

from evalgate.results import kept

pytestmark = pytest.mark.integration

SUITE = "desk.evalset.json"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.agent("head", wrong=(1,))
    # which reaches an agent, so that other runs are not continued with another
    made.gate_file(concurrency=1)
    made.cases(*range(3))
    made.write(".gitignore", "__pycache__\n")
    made.commit("first")
    return made


def cases_of(results: dict[str, Any]) -> list[str]:
    return [case["case_id"] for suite in results["suites"] for case in suite["cases"]]


def test_a_part_takes_no_place_of_the_whole(repo: Repository) -> None:
    assert repo.call("run")[0] == 1
    whole = repo.results()
    assert cases_of(whole) == ["case_0", "case_1", "case_2"]
    code, said = repo.call("run", f"{SUITE}:case_0")
    assert code == 0
    assert repo.results() == whole
    part, first = kept.runs(repo.root)
    assert cases_of(json.loads(part.results.read_text())) == ["case_0"]
    assert str(part.results.relative_to(repo.root)) in said, "the files of this run are named"
    assert json.loads(first.results.read_text()) == whole
    # more of the same may: all cases again, and a part in place of a smaller one
    repo.call("run", "--grep", "question")
    assert repo.results()["started_at"] >= whole["started_at"]
    assert [bool(run.shown_in) for run in kept.runs(repo.root)] == [True, False, True]


def test_a_part_is_shown_where_there_is_nothing_else(repo: Repository) -> None:
    for selected in (f"{SUITE}:case_0", f"{SUITE}:case_0,case_1", SUITE):
        repo.call("run", selected)
        assert len(cases_of(repo.results())) == len(kept.runs(repo.root))
    repo.call("run", f"{SUITE}:case_2")
    assert len(cases_of(repo.results())) == 3


def test_what_is_known_of_a_kept_run(repo: Repository) -> None:
    commit = repo.git("rev-parse", "HEAD")
    repo.call("run")
    repo.agent("head")
    repo.call("run", "--grep", "1")
    later, first = kept.runs(repo.root)
    assert (first.commit, first.dirty, first.selected, first.verdict) == (
        commit,
        False,
        False,
        "fail",
    )
    assert (later.commit, later.dirty, later.selected, later.verdict) == (
        commit,
        True,
        True,
        "pass",
    )
    assert first.cases == {SUITE: {"case_0": "pass", "case_1": "fail", "case_2": "pass"}}
    results = repo.results()
    assert (results["commit"], results["dirty"]) == (commit, False)
    assert repo.git("status", "--porcelain").split() == ["M", "agent.py"], (
        "what is kept is ignored by git"
    )
    past = report_page.read((kept.runs(repo.root)[0].folder / "report.html").read_text()).cases[
        "case_1"
    ]["past"]
    assert past == [
        {
            "at": first.started_at,
            "commit": commit,
            "kind": "fail",
            "place": "this computer",
            "outcome": "fail",
        },
    ]
    (repo.root / ".git/index").write_text("damaged")
    repo.call("run")
    newest, *_ = kept.runs(repo.root)
    assert (newest.commit, newest.dirty) == (commit, None)


def test_outside_of_a_repository_the_commit_is_not_known(tmp_path: Path) -> None:
    plain = gated_repository.of_one_case(tmp_path)
    (plain.root / ".git").rename(tmp_path / "gone")
    assert plain.call("run")[0] == 0
    (run,) = kept.runs(plain.root)
    assert (run.commit, run.dirty) == ("", None)


@pytest.mark.parametrize(
    "environment", [{"CI": "true"}, {"GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "1"}]
)
def test_elsewhere_nothing_is_kept(repo: Repository, environment: dict[str, str]) -> None:
    repo.call("run", environment=environment)
    repo.call("run", f"{SUITE}:case_0", environment=environment)
    assert not (repo.root / ".evalgate").exists()
    assert cases_of(repo.results()) == ["case_0"]


def test_secrets_are_taken_out_of_what_is_kept(repo: Repository) -> None:
    secret = 'a "secret" <key>'
    text = (repo.root / "agent.py").read_text()
    repo.write(
        "agent.py", text.replace('"nothing of the kind"', f"{secret!r} + os.environ['MY_KEY']")
    )
    repo.gate_file(env=["ASKED_LOG", "MY_KEY"])
    repo.call("run", environment={"MY_KEY": secret})
    (run,) = kept.runs(repo.root)
    texts = {file.name: file.read_text() for file in run.folder.iterdir()}
    assert "***" in texts["results.json"]
    texts["report.html"] = report_page.reviewable(texts["report.html"])
    assert "***" in texts["report.html"]
    spelled = (secret, json.dumps(secret)[1:-1], "a &quot;secret&quot; &lt;key&gt;")
    assert [name for name, text in texts.items() for each in spelled if each in text] == []


def test_secrets_are_taken_out_of_the_reports_in_a_workflow(repo: Repository) -> None:
    text = (repo.root / "agent.py").read_text()
    repo.write("agent.py", text.replace('"nothing of the kind"', "os.environ['MY_KEY']"))
    repo.gate_file(env=["ASKED_LOG", "MY_KEY"])
    repo.call("run", environment={"MY_KEY": "correct-horse-battery", "CI": "true"})
    texts = {file.name: file.read_text() for file in (repo.root / "evalgate-report").iterdir()}
    texts["report.html"] = report_page.reviewable(texts["report.html"])
    told = {name for name, text in texts.items() if "correct-horse-battery" in text}
    assert not told
    assert {"comment.md", "summary.md", "report.html"} <= {
        name for name, text in texts.items() if "***" in text
    }


def test_large_runs_make_room_but_the_last_and_the_last_of_all_cases(repo: Repository) -> None:
    repo.call("run")
    whole = kept.runs(repo.root)[0].folder
    repo.call("run", f"{SUITE}:case_0")
    part = kept.runs(repo.root)[0].folder
    with (part / "results.json").open("r+b") as file:
        file.truncate(kept.MOST_BYTES + 1)  # sparse: it takes no room
    repo.call("run", f"{SUITE}:case_0")
    left = [run.folder for run in kept.runs(repo.root)]
    assert part not in left
    assert left[1:] == [whole]


def test_the_oldest_make_room_and_the_last_of_all_cases_stays(repo: Repository) -> None:
    repo.call("run")
    whole = kept.runs(repo.root)[0].folder
    repo.call("run", f"{SUITE}:case_0")
    part = kept.runs(repo.root)[0]
    for number in range(kept.MOST_RUNS):
        copy = part.folder.with_name(f"29991231T2359{number:02}Z-fffffff")
        copy.mkdir()
        for file in part.folder.iterdir():
            (copy / file.name).write_bytes(file.read_bytes())
    repo.call("run", f"{SUITE}:case_0")
    left = [run.folder for run in kept.runs(repo.root)]
    assert len(left) == kept.MOST_RUNS + 2 - 1
    assert whole in left
    assert part.folder not in left


def starts(repo: Repository) -> dict[str, int]:
    """How often each question was asked."""
    lines = repo.log.read_text().splitlines() if repo.log.exists() else []
    return {line: lines.count(line) for line in lines}


def finished(repo: Repository) -> set[str]:
    """The cases of which a conversation has ended, as the journal has them."""
    lines = (repo.root / "evalgate-report" / "journal.jsonl").read_bytes().split(b"\n")[:-1]
    read = [json.loads(line) for line in lines]
    return {line["key"][1] for line in read if "trial" in line}


def test_what_ended_before_an_interruption_is_not_run_again(repo: Repository) -> None:
    """Ctrl-C again and again, at another place each time; then a plain run."""
    repo.reuses = True
    repo.cases(*range(11))
    repo.write(
        "agent.py",
        (repo.root / "agent.py")
        .read_text()
        .replace("text = message", "import time; time.sleep(0.1); text = message", 1),
    )
    done: set[str] = set()
    before: dict[str, int] = {}
    for _ in range(10):
        process = repo.start("run")
        wanted = len(done) + 1
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and process.returncode is None:
            journal = repo.root / "evalgate-report" / "journal.jsonl"
            if journal.exists() and len(finished(repo)) >= wanted:
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        code, said = repo.end(process)
        assert code == 130, said
        assert finished(repo) > done
        again = {
            text: count
            for text, count in starts(repo).items()
            if before.get(text) and count > before[text]
        }
        assert not {f"case_{text.split()[-1]}" for text in again} & done, (
            "a case that had ended ran again"
        )
        done, before = finished(repo), starts(repo)
    code, said = repo.call("run")
    assert code == 1
    assert f"{len(done)} runs reused from earlier runs (`--fresh` runs the agent again)" in said
    assert cases_of(repo.results()) == [f"case_{number}" for number in range(11)]
    repo.log.unlink()
    assert "11 runs reused from earlier runs" in repo.call("run")[1]
    assert not repo.log.exists()
    assert "reused from earlier runs" not in repo.call("run", "--fresh")[1]
    assert len(starts(repo)) == 11


def interrupt(repo: Repository, *arguments: str, number: signal.Signals = signal.SIGINT) -> None:
    # nothing that the agent has of its checkout or its variables
    slow = repo.log.with_name(f"{repo.log.name}.slow")
    slow.touch()
    process = repo.start("run", *arguments)
    deadline = time.monotonic() + 20
    journal = repo.root / "evalgate-report" / "journal.jsonl"
    while time.monotonic() < deadline and not (
        journal.exists() and b'"trial"' in journal.read_bytes()
    ):
        time.sleep(0.02)
    process.send_signal(number)
    code, said = repo.end(process)
    slow.unlink()
    assert code == (130 if number is signal.SIGINT else -number), said


@pytest.fixture
def slow(repo: Repository) -> Repository:
    slower = 'import time; time.sleep(1 if os.path.exists(os.environ["ASKED_LOG"] + ".slow") else 0); text = message'
    repo.write(
        "agent.py", (repo.root / "agent.py").read_text().replace("text = message", slower, 1)
    )
    repo.gate_file(concurrency=1)
    repo.reuses = True
    return repo


KNOWN = "reused from earlier runs"


def test_a_run_of_a_part_leaves_an_interrupted_one_to_be_continued(slow: Repository) -> None:
    interrupt(slow)
    assert KNOWN not in slow.call("run", f"{SUITE}:case_2")[1]
    slow.log.unlink()
    assert f"2 runs {KNOWN}" in slow.call("run")[1]
    assert len(starts(slow)) == 1
    assert len(cases_of(slow.results())) == 3


def test_fresh_sets_an_interrupted_run_aside(slow: Repository) -> None:
    interrupt(slow)
    slow.log.unlink()
    assert KNOWN not in slow.call("run", "--fresh")[1]
    assert len(starts(slow)) == 3


def test_what_failed_in_an_interrupted_run_is_tried_again(slow: Repository) -> None:
    whole = (slow.root / "agent.py").read_text()
    # the first case fails at once, the others take longer than the signal
    waits = 'time.sleep(20 if os.path.exists(os.environ["ASKED_LOG"] + ".slow") else 0)'
    crash = f'os.environ["MISSING"] if number == 0 else {waits}'
    slow.write("agent.py", whole.replace("with open", f"{crash}\n            with open", 1))
    slow.gate_file(env=["ASKED_LOG", "MISSING"], concurrency=1)
    interrupt(slow)
    code, said = slow.call("run", environment={"MISSING": "x"})
    assert "KeyError" not in said
    assert code == 1
    assert slow.results()["verdict"]["reason"].startswith("1 of 3 cases failed")


def test_cases_that_an_interrupted_run_did_not_begin_keep_their_results(slow: Repository) -> None:
    slow.call("run")
    whole = slow.call("show", "case_2")
    slow.write("agent.py", (slow.root / "agent.py").read_text() + "# edited\n")
    (slow.root / "evalgate-report/journal.jsonl").unlink()
    interrupt(slow)
    assert slow.call("show", "case_2") == whole


def test_a_journal_that_a_commit_brings_along_is_not_continued(slow: Repository) -> None:
    interrupt(slow)
    shutil.rmtree(slow.log.parent / "cache")
    slow.git("add", "-f", "evalgate-report/journal.jsonl")
    slow.commit("with results of somebody")
    assert KNOWN not in slow.call("run")[1]


def test_what_a_killed_run_left_is_known_to_the_next(slow: Repository) -> None:
    interrupt(slow, number=signal.SIGKILL)
    slow.log.unlink()
    assert KNOWN in slow.call("run")[1]
    assert len(starts(slow)) < 3
    assert len(cases_of(slow.results())) == 3
