"""A real git repository with an agent of known behaviour, gated by the real command."""

from __future__ import annotations

import gzip
import hmac
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from builders import forked_command
from builders.forked_command import Command

AGENT = '''
"""Answers `question N` with `answer N`, but those in WRONG; every other time those in FLAKY."""
import json, os, sys, time

WRONG, FLAKY = {wrong}, {flaky}
turns = 0

def say(**message):
    print(json.dumps(message), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    session = message.get("session", "")
    match message["type"]:
        case "hello":
            say(type="ready", protocol=1, about={{"framework": "test"}}, sessions=1)
        case "start":
            say(type="started", session=session)
        case "turn":
            text = message["content"]["parts"][0]["text"]
            number = int(text.split()[-1])
            with open(os.environ["ASKED_LOG"], "a") as log:
                log.write("{side} " + text + chr(10))
            asked = open(os.environ["ASKED_LOG"]).read().count("{side} " + text + chr(10))
            hold = os.environ["ASKED_LOG"] + ".hold"
            while os.path.exists(hold) and len(open(os.environ["ASKED_LOG"]).readlines()) > 14:
                time.sleep(0.01)
            bad = number in WRONG or (number in FLAKY and asked % 2 == 0)
            answer = "nothing of the kind" if bad else text.replace("question", "answer")
            part = {{"text": answer}}
            say(type="event", session=session, author="agent", content={{"role": "model", "parts": [part]}}, final=True)
            say(type="turn_end", session=session)
        case "end":
            say(type="ended", session=session)
        case "bye":
            break
'''


def content(text: str, role: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


class Repository:
    """A repository of ours: a base commit on main, a head commit on a branch that is checked
    out."""

    def __init__(self, root: Path, log: Path) -> None:
        self.root, self.log = root, log
        self.reuses = False  # what earlier runs measured
        root.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        identity = (
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t.example",
            "-c",
            "commit.gpgsign=false",
        )
        done = subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.root,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def agent(self, side: str, *, wrong: tuple[int, ...] = (), flaky: tuple[int, ...] = ()) -> None:
        self.write(
            "agent.py",
            AGENT.format(side=side, wrong=set(wrong) or "set()", flaky=set(flaky) or "set()"),
        )

    def gate_file(self, **more: Any) -> None:
        """`threshold: all` unless told otherwise: what is asked, and how often, is then known
        beforehand."""
        agents = [{"driver": "command", "command": [sys.executable, "agent.py"]}]
        rules = {"agents": agents, "env": ["ASKED_LOG"], "workers": 1, "threshold": "all", **more}
        self.write("evalgate.yml", json.dumps(rules))

    def cases(
        self, *numbers: int, threshold: float = 0.9, answers: dict[int, str] | None = None
    ) -> None:
        answers = answers or {}
        cases = [
            {
                "eval_id": f"case_{number}",
                "conversation": [
                    {
                        "user_content": content(f"question {number}", "user"),
                        "final_response": content(answers.get(number, f"answer {number}"), "model"),
                    }
                ],
            }
            for number in numbers
        ]
        self.write("desk.evalset.json", json.dumps({"eval_set_id": "desk", "eval_cases": cases}))
        self.write(
            "test_config.json", json.dumps({"criteria": {"response_match_score": threshold}})
        )

    def words(self) -> None:
        """A change of evaluation files that asks and expects the same."""
        path = self.root / "desk.evalset.json"
        self.write(
            path.name, json.dumps({**json.loads(path.read_text()), "description": "Other words."})
        )

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-qm", message, "--allow-empty")
        return self.git("rev-parse", "HEAD")

    def run(self, *arguments: str, base: str = "main") -> tuple[int, str]:
        self.log.unlink(missing_ok=True)
        return self.call("run", *(("--base", base) if base else ()), *arguments)

    def call(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """Any command; its exit code and all that it said."""
        return self.end(self.start(*arguments, environment=environment))

    def start(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        by: Callable[..., Command] = forked_command.start,
    ) -> Command:
        own = {"ASKED_LOG": str(self.log), "XDG_CACHE_HOME": str(self.log.parent / "cache")}
        if arguments[0] == "run" and not self.reuses and "--reuse-days" not in arguments:
            arguments = (*arguments, "--reuse-days", "0")
        return by(
            arguments, cwd=self.root, env={**os.environ, **own, **(environment or {})}, merged=True
        )

    def end(self, process: Command) -> tuple[int, str]:
        out, _ = process.communicate(timeout=120)
        return process.returncode, out

    def age(self, at: str) -> None:
        """What is kept of earlier runs, as of runs that began then (ISO 8601)."""
        for path in (self.log.parent / "cache/evalgate/store").rglob("*.jsonl.gz"):
            first, rest = gzip.decompress(path.read_bytes()).split(b"\n", 1)
            packed = gzip.compress(
                json.dumps({**json.loads(first), "started_at": at}).encode() + b"\n" + rest
            )
            path.unlink()
            stamp, nonce, _ = path.name.split("-")
            signature = hmac.new(b"", packed, "sha256").hexdigest()
            path.with_name(f"{stamp}-{nonce}-{signature}.jsonl.gz").write_bytes(packed)

    @property
    def hold(self) -> Path:
        """While this file is there, only the first 14 questions are answered."""
        return self.log.with_name(f"{self.log.name}.hold")

    def asked(self, side: str) -> int:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return sum(line.startswith(f"{side} ") for line in lines)

    def results(self, name: str = "results.json") -> dict[str, Any]:
        read: dict[str, Any] = json.loads((self.root / "evalgate-report" / name).read_text())
        return read

    def comment(self) -> str:
        return (self.root / "evalgate-report/comment.md").read_text()


def of_one_case(folder: Path) -> Repository:
    """A repository in `folder` with one case that passes, nothing committed."""
    made = Repository(folder / "repo", folder / "asked.log")
    made.agent("head")
    made.gate_file()
    made.cases(0)
    return made
