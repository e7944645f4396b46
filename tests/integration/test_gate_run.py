"""`evalgate run` as a person starts it: real processes, a real agent, every end that it can
have."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from builders import forked_command

pytestmark = pytest.mark.integration

AGENT = '''
"""Says `answer N` to `question N`; keeps a log of what it was asked; misbehaves when told so."""
import json, os, sys, time

LOG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "asked.log")

def say(**message):
    print(json.dumps(message), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    session = message.get("session", "")
    match message["type"]:
        case "hello":
            say(type="ready", protocol=1, about={"framework": "test"}, sessions=4)
        case "start":
            say(type="started", session=session)
        case "turn":
            text = message["content"]["parts"][0]["text"]
            with open(LOG, "a") as log:
                log.write(text + "\\n")
            time.sleep(float(os.environ.get("AGENT_SLEEP", "0")))
            if text == os.environ.get("AGENT_EXITS_ON"):
                sys.exit(3)
            part = {"text": text.replace("question", "answer")}
            say(type="event", session=session, author="agent", content={"role": "model", "parts": [part]}, final=True)
            say(type="turn_end", session=session)
        case "end":
            say(type="ended", session=session)
        case "bye":
            break
'''


def content(text: str, role: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


class Desk:
    """A repository with an agent and an evaluation set."""

    def __init__(self, root: Path, cases: int = 6) -> None:
        self.root = root
        (root / "agent.py").write_text(AGENT)
        (root / "evalgate.yml").write_text(
            f"agents: [{{driver: command, command: {json.dumps([sys.executable, 'agent.py'])}}}]\nenv: [AGENT_*]\n"
        )
        (root / "test_config.json").write_text('{"criteria": {"response_match_score": 0.9}}')
        self.write_cases(cases)

    def write_cases(self, count: int, *, wrong: tuple[int, ...] = ()) -> None:
        cases = [
            {
                "eval_id": f"case_{number}",
                "conversation": [
                    {
                        "user_content": content(f"question {number}", "user"),
                        "final_response": content(
                            "quite another" if number in wrong else f"answer {number}", "model"
                        ),
                    }
                ],
            }
            for number in range(count)
        ]
        (self.root / "desk.evalset.json").write_text(
            json.dumps({"eval_set_id": "desk", "eval_cases": cases})
        )

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return forked_command.console_script(
            arguments, cwd=self.root, env={**os.environ, **environment}
        )

    def run_installed(self, *arguments: str) -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def run(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        words = arguments or ("run",)
        done = forked_command.run(
            words, cwd=self.root, env={**os.environ, **environment}, timeout=120
        )
        return done.returncode, done.stdout, done.stderr

    def results(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(
            (self.root / "evalgate-report/results.json").read_text()
        )
        return loaded

    def asked(self) -> Counter[str]:
        return Counter((self.root / "asked.log").read_text().split("\n")[:-1])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def without_times(results: dict[str, Any]) -> Any:
    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            timed = {
                "seconds",
                "started_at",
                "duration",
                "model_duration",
                "breakdown",
                "invocation_duration_v1",
            }
            timed |= {"reused", "problems"}  # what an earlier run measured is told
            return {
                key: strip(each)
                for key, each in value.items()
                if key not in timed and key != "invocation_duration_v1"
            }
        return [strip(each) for each in value] if isinstance(value, list) else value

    return strip(results)


def test_a_pass(desk: Desk) -> None:
    code, out, _ = desk.run_installed("run")
    assert code == 0
    assert "PASS: All 6 cases passed." in out
    written = {path.name for path in (desk.root / "evalgate-report").iterdir()}
    reports = {"junit.xml", "comment.md", "summary.md", "report.html", "findings.sarif"}
    assert written == {*reports, "results.json", "journal.jsonl", ".gitignore"}


def test_a_fail_names_the_case_and_its_line(desk: Desk) -> None:
    desk.write_cases(3, wrong=(1,))
    code, out, _ = desk.run_installed("run")
    assert code == 1
    assert "fail: case_1 (desk.evalset.json:1)" in out


def test_a_broken_agent_is_not_measured(desk: Desk) -> None:
    code, out, _ = desk.run(AGENT_EXITS_ON="question 2")
    assert code == 3
    assert "NOT MEASURED" in out
    assert "exited with code 3" in out
    code, _, _ = desk.run("run", "--fail-on", "threshold", AGENT_EXITS_ON="question 2")
    assert code == 0  # the policy may let it through, and the verdict still says what it is
    assert desk.results()["verdict"]["kind"] == "not_measured"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "--grep", "no such case"], 4, "no such case"),  # nothing matched is never green
        (["run", "missing.evalset.json"], 4, "missing.evalset.json"),
        (["run", "--runs", "0"], 2, "runs"),
        (["run", "--agent", "command:./no-such-program"], 3, "no-such-program"),
        (["run", "--config", "nope.yml"], 2, "nope.yml"),
    ],
)
def test_ends_that_are_no_verdict(desk: Desk, arguments: list[str], code: int, words: str) -> None:
    found, out, err = desk.run(*arguments)
    assert found == code
    assert words in out + err
    assert "Traceback" not in out + err


def test_validate_and_list_spend_nothing(desk: Desk) -> None:
    (desk.root / "test_config.json").write_text('{"criteria": {"response_match_scor": 0.9}}')
    code, _, err = desk.run_installed("validate")
    assert code == 2
    assert "response_match_score" in err  # the nearest right name
    code, out, _ = desk.run_installed("list")
    assert "case_5 (1 turn)" in out
    code, _, err = desk.run("run")
    assert code == 2
    assert not (desk.root / "asked.log").exists()


def test_kill_nine_then_resume_is_an_unbroken_run(
    desk: Desk, tmp_path_factory: pytest.TempPathFactory
) -> None:
    whole = Desk(tmp_path_factory.mktemp("whole"), cases=12)
    assert whole.run("run", "--runs", "2")[0] == 0

    desk.write_cases(12)
    arguments, environment = ("run", "--runs", "2", "--concurrency", "2"), {"AGENT_SLEEP": "0.25"}
    process = desk.start(*arguments, **environment)
    journal = desk.root / "evalgate-report/journal.jsonl"
    wait_for(lambda: journal.exists() and journal.read_text().count('"trial"') >= 7)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    finished = {
        tuple(json.loads(line)["key"]) for line in whole_lines(journal) if '"trial"' in line
    }
    assert 7 <= len(finished) < 24
    (desk.root / "asked.log").unlink()

    code, _, _ = desk.run(*arguments, "--resume", **environment)
    assert code == 0
    again = desk.asked()
    for number in range(12):
        done = sum(
            ("desk.evalset.json", f"case_{number}", "first", repeat) in finished
            for repeat in range(2)
        )
        assert again[f"question {number}"] == 2 - done
    assert without_times(desk.results()) == without_times(whole.results())


def test_ctrl_c_leaves_valid_partial_results(desk: Desk) -> None:
    desk.write_cases(20)
    process = desk.start("run", "--concurrency", "2", AGENT_SLEEP="0.2")
    journal = desk.root / "evalgate-report/journal.jsonl"
    wait_for(lambda: journal.exists() and journal.read_text().count('"trial"') >= 4)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "--resume" in err
    results = desk.results()
    assert results["complete"] is False
    assert results["verdict"]["kind"] == "not_measured"
    kinds = Counter(case["verdict"] for case in results["suites"][0]["cases"])
    assert kinds["pass"] >= 4
    assert kinds["fail"] == 0  # interrupting is nobody's failure
    assert desk.run("run", "--resume")[0] == 0


def test_a_journal_that_leads_elsewhere_stops_the_run_before_it_costs_anything(desk: Desk) -> None:
    (desk.root / "evalgate-report").mkdir()
    (desk.root / "evalgate-report/journal.jsonl").symlink_to("/dev/full")
    code, _, err = desk.run_installed("run")
    assert code == 3
    assert "leads out of `root` by a symbolic link" in err
    assert not (desk.root / "asked.log").exists()  # what cannot be kept is not paid for


def whole_lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def wait_for(condition: Any, *, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)
