"""`evalgate run` on CES evaluations: real agents, the real google-genai client, no internet.

A local server judges and plays the user.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import forked_command

from tests.integration.agents.line_client import adk_python

pytestmark = pytest.mark.integration

TESTS = Path(__file__).parents[1]
DATA = TESTS / "data" / "ces"
GOLDEN, SCENARIO = "renew_loan_happy_path", "lost_card_scenario"
TALK = ("I lost my card on the tram.", "My patron id is P-2041.", "Thank you! </finished>")


class Judge(ThreadingHTTPServer):
    """Says the best word there is, `worst` where a prompt has these words, 500 where it has those of `broken`."""

    def __init__(self) -> None:
        self.worst = self.broken = "words that no prompt has"
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    def reply(self, body: dict[str, Any]) -> str:
        system = body["systemInstruction"]["parts"][0]["text"]
        prompt = body["contents"][0]["parts"][0]["text"]
        is_bad = self.worst in prompt
        if "You play a user" in system:
            return TALK[min(prompt.count('\n{"agent":'), 2)]
        self.asked.append(system)
        if '"verdicts"' in json.dumps(body["generationConfig"]):
            holds = {"rationale": "So.", "verdict": "no" if is_bad else "yes"}
            return json.dumps({"verdicts": [{"id": f"P{number}", **holds} for number in range(1, 4)]})
        words = system.rpartition("one of these words: ")[2].strip().rstrip(".").split(", ")
        is_graded = "partially_consistent" in words
        return json.dumps({"rationale": "So.", "verdict": words[4 if is_graded else 1] if is_bad else words[0]})


class _Handler(BaseHTTPRequestHandler):
    server: Judge

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = 500 if self.server.broken in json.dumps(body) else 200
        reply: dict[str, Any] = {"error": {"code": status, "message": "no", "status": "INTERNAL"}}
        if status == 200:
            content = {"role": "model", "parts": [{"text": self.server.reply(body)}]}
            reply = {"candidates": [{"content": content, "finishReason": "STOP"}]}
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def judge() -> Iterator[Judge]:
    server = Judge()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def repository(root: Path, judge: Judge, *, agent: str = "command", names: tuple[str, ...] = (GOLDEN,)) -> Path:
    files = {GOLDEN: "golden_library_renewal.json", SCENARIO: "scenario_lost_card.json"}
    for name in names:
        (root / "evaluations" / name).mkdir(parents=True)
        shutil.copy(DATA / files[name], root / "evaluations" / name / f"{name}.json")
    (root / "evaluationExpectations").mkdir()
    shutil.copy(DATA / "expectation_one_question.json", root / "evaluationExpectations" / "one-question-at-a-time.json")
    desk = TESTS / "agents" / "ces_desk"
    if agent == "adk":
        shutil.copytree(desk, root / "desk", ignore=shutil.ignore_patterns("program.py", "__pycache__"))
        run: dict[str, Any] = {"driver": "adk", "path": "desk", "python": adk_python("new")}
    else:
        shutil.copy(desk / "program.py", root / "desk.py")
        run = {"driver": "command", "command": f"{sys.executable} desk.py"}
    url = f"http://127.0.0.1:{judge.server_address[1]}/v1beta"
    rules = {
        "judge": {"base_url": url, "api_key_env": "MY_JUDGE_KEY"},
        "env": ["DESK_FAULT"],
        "agents": [run],
        "retries": 0,
    }
    (root / "evalgate.yml").write_text(yaml.safe_dump(rules))
    return root


def change(root: Path, name: str, make: Any) -> None:
    file = root / "evaluations" / name / f"{name}.json"
    raw = json.loads(file.read_text())
    make(raw)
    file.write_text(json.dumps(raw, indent=2))


def run(root: Path, *arguments: str, fault: str = "") -> tuple[int, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("GOOGLE_", "GEMINI_"))}
    environment = {**inherited, "MY_JUDGE_KEY": "a-key", **({"DESK_FAULT": fault} if fault else {})}
    command = ["run", "--cache", str(root / "cache"), *arguments]
    done = forked_command.run(command, cwd=root, env=environment, timeout=120)
    return done.returncode, done.stdout + done.stderr


def grades(root: Path) -> dict[str, Any]:
    results = json.loads((root / "evalgate-report/results.json").read_text())
    cases = [case for suite in results["suites"] for case in suite["cases"]]
    return {name: grade for case in cases for trial in case["trials"] for name, grade in trial["grades"].items()}


@pytest.mark.parametrize("agent", ["command", "adk"])
def test_the_examples_run_and_pass(tmp_path: Path, judge: Judge, agent: str) -> None:
    root = repository(tmp_path, judge, agent=agent, names=(GOLDEN, SCENARIO))
    code, said = run(root)
    assert code == 0, said + json.dumps(grades(root), indent=1)[:6000]
