"""`evalgate run` with a judged criterion: the real google-genai client, a local server, no key, no
internet."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import forked_command, gemini_double
from builders.gemini_double import GeminiDouble

pytestmark = pytest.mark.integration

GOOGLE = ("GOOGLE_", "GEMINI_")
AGENT = "def answer(text):\n    return text.replace('question', 'an answer to')\n"


class Gemini(GeminiDouble):
    """Says `valid` to everything, as soon as it is not `silent`."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.silent = threading.Event()
        super().__init__()

    def reply(self, body: dict[str, Any]) -> str:
        return json.dumps(
            {
                "reasoning": "It says the same.",
                "is_the_agent_response_valid": "valid",
                "verdict": "valid",
            }
        )

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.prompts.append(json.dumps(body))
        while self.silent.is_set():
            time.sleep(0.05)
        return super().answer(path, body)


@pytest.fixture
def gemini() -> Iterator[Gemini]:
    with gemini_double.served(Gemini()) as server:
        yield server


def repository(root: Path, judge: str) -> Path:
    (root / "desk.py").write_text(AGENT)
    (root / "evalgate.yml").write_text(
        f"agents: [{{driver: python, call: 'desk:answer'}}]\n{judge}\n"
    )
    criteria = {
        "final_response_match_v2": {
            "threshold": 1.0,
            "judge_model_options": {"judge_model": "gemini-2.5-flash"},
        }
    }
    (root / "test_config.json").write_text(json.dumps({"criteria": criteria}))
    cases = [
        {
            "eval_id": f"case_{number}",
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": f"question {number}"}]},
                    "final_response": {"role": "model", "parts": [{"text": f"answer {number}"}]},
                }
            ],
        }
        for number in range(4)
    ]
    (root / "desk.evalset.json").write_text(
        json.dumps({"eval_set_id": "desk", "eval_cases": cases})
    )
    return root


def run(root: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(GOOGLE)}
    command = ["run", "--cache", str(root / "cache"), *arguments]
    done = forked_command.run(command, cwd=root, env={**inherited, **environment}, timeout=120)
    return done.returncode, done.stdout + done.stderr


# the agent answers the same twice: the verdicts on it are two all the same
@pytest.mark.parametrize("runs", [1, 2])
def test_a_judged_gate_asks_three_of_five_then_nobody(
    tmp_path: Path, gemini: Gemini, runs: int
) -> None:
    root = repository(
        tmp_path, f"judge: {{base_url: '{gemini.url}', api_key_env: MY_JUDGE_KEY}}\nruns: {runs}"
    )
    code, said = run(root, MY_JUDGE_KEY="a-secret-judge-key")
    assert code == 0, said
    assert gemini.asked == runs * 4 * 3  # five samples agree after three
    assert run(root, MY_JUDGE_KEY="a-secret-judge-key")[0] == 0
    assert gemini.asked == runs * 4 * 3  # unchanged answers are judged from the cache
    written = b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())
    assert b"a-secret-judge-key" not in written
    assert re.search(rb"It says the same", written)  # each rationale is kept


def test_a_spent_budget_and_an_outage_are_not_measured_and_what_was_judged_stays(
    tmp_path: Path, gemini: Gemini
) -> None:
    judge = f"base_url: '{gemini.url}', api_key_env: MY_JUDGE_KEY"
    root = repository(tmp_path, f"judge: {{{judge}, budget: {{calls: 6}}}}")
    code, said = run(root, "--concurrency", "1", MY_JUDGE_KEY="a-secret-judge-key")
    assert code == 3, said
    assert gemini.asked == 6
    first = grades(root)
    assert [grade.get("value") for grade in first] == [1.0, 1.0, None, None]
    assert {grade.get("reason") for grade in first[2:]} == {"judge_unavailable"}
    why = "the judges' budget of 6 calls is spent; raise it, or judge fewer cases or samples"
    assert all(why in grade["message"] for grade in first[2:])
    assert "budget of 6 calls is spent" in (root / "evalgate-report/comment.md").read_text()

    repository(root, f"judge: {{{judge}}}")
    gemini.status = 403
    code, said = run(root, "--concurrency", "1", "--resume", MY_JUDGE_KEY="a-secret-judge-key")
    assert code == 3, said
    assert "NOT MEASURED" in said
    assert grades(root)[:2] == first[:2]

    gemini.status, refused = 200, gemini.asked
    code, said = run(root, "--concurrency", "1", "--resume", MY_JUDGE_KEY="a-secret-judge-key")
    assert code == 0, said
    assert gemini.asked == refused + 2 * 3  # what was judged before is not asked again


def grades(root: Path) -> list[dict[str, Any]]:
    """The judged grade of each case, in order."""
    results = json.loads((root / "evalgate-report/results.json").read_text())
    return [
        case["trials"][0]["grades"]["final_response_match_v2"]
        for case in results["suites"][0]["cases"]
    ]


def test_without_a_key_nothing_is_spent_and_the_ways_out_are_told(tmp_path: Path) -> None:
    root = repository(tmp_path, "")
    code, said = run(root)
    assert code == 2
    assert "final_response_match_v2" in said
    for way_out in ("GOOGLE_API_KEY", "replay", "skip-judged"):
        assert way_out in said
    assert not (root / "evalgate-report").exists()
    code, said = run(root, "--skip-judged")
    assert code == 3  # skipped is not passed
    assert "NOT MEASURED" in said


def test_ctrl_c_waits_for_no_judge(tmp_path: Path, gemini: Gemini) -> None:
    """Two calls are under way, and the others wait for their slots."""
    root = repository(
        tmp_path,
        f"judge: {{base_url: '{gemini.url}', api_key_env: MY_JUDGE_KEY, calls_at_once: 2}}",
    )
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(GOOGLE)}
    gemini.silent.set()
    command = [sys.executable, "-m", "evalgate", "run", "--cache", "cache"]
    environment = {**inherited, "MY_JUDGE_KEY": "a-secret-judge-key"}
    with subprocess.Popen(
        command, cwd=root, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 60
        while not gemini.asked:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        interrupted = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    gemini.silent.clear()
    assert (process.returncode, time.monotonic() - interrupted < 5) == (130, True), said
    # nothing of the cut calls was kept
    assert run(root, "--resume", MY_JUDGE_KEY="a-secret-judge-key")[0] == 0


def test_a_recording_gates_without_an_account(tmp_path: Path, gemini: Gemini) -> None:
    record = (
        f"judge: {{base_url: '{gemini.url}', api_key_env: MY_JUDGE_KEY, record: verdicts.jsonl}}"
    )
    root = repository(tmp_path, record)
    assert run(root, MY_JUDGE_KEY="a-secret-judge-key")[0] == 0
    asked = gemini.asked
    repository(tmp_path, "judge: {replay: verdicts.jsonl}")
    code, said = run(root, "--cache", str(tmp_path / "another"))
    assert code == 0, said
    assert gemini.asked == asked
