"""A runner's surroundings without a runner: checkout, event, INPUT_* and the files that a step writes."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNNER_UID = 1001  # the user that GitHub's runners work as; the container is root
HEAD_SHA = "1" * 40

AGENT = '''
"""Speaks the line protocol: answers the question, once it has said what its environment is."""
import json, os, sys

DUMP = {dump!r}

def say(**message):
    print(json.dumps(message), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    session = message.get("session", "")
    match message["type"]:
        case "hello":
            with open(DUMP, "w") as file:
                json.dump(dict(os.environ), file)
            print("::error::the agent speaks to the runner", file=sys.stderr, flush=True)
            say(type="ready", protocol=1, about={{"framework": "shell"}}, sessions=4)
        case "start":
            say(type="started", session=session)
        case "turn":
            text = message["content"]["parts"][0]["text"]
            answer = "::set-env name=X::1" if "commands" in text else "Paris is the capital of France."
            part = {{"text": answer}}
            say(type="event", session=session, author="agent", content={{"role": "model", "parts": [part]}}, final=True)
            say(type="turn_end", session=session)
        case "end":
            say(type="ended", session=session)
        case "bye":
            break
'''


@dataclass
class Step:
    """What came of a step: as the runner and the steps after it see it."""

    code: int
    stdout: str
    stderr: str
    outputs: dict[str, str]
    summary: str

    def commands(self) -> list[str]:
        """The workflow commands that the runner obeys: none between stop-commands and its word."""
        obeyed, word = [], ""
        for line in map(str.strip, self.stdout.splitlines()):  # the runner is lenient about blanks before a command
            if word:
                word = "" if line == f"::{word}::" else word
            elif line.startswith("::stop-commands::"):
                word = line.removeprefix("::stop-commands::")
            elif re.match(r"::[a-z-]+[ :]", line):
                obeyed.append(line)
        assert not word, "the runner was left deaf"
        return obeyed


@dataclass
class Runner:
    """A checkout as actions/checkout leaves it, and the entrypoint started in it as the container starts it."""

    temp: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def workspace(self) -> Path:
        return self.temp / "workspace"

    @property
    def dump(self) -> Path:
        """Where the agent writes its environment."""
        return self.temp / "agent-environment.json"

    def write(self, name: str, content: Any) -> None:
        """A file of the repository, before the checkout; a text, or JSON."""
        path = self.temp / "origin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8")

    def write_gate(self, *, reference: str, question: str = "What is the capital of France?") -> None:
        """An agent, one case, one criterion."""
        self.write("agent.py", AGENT.format(dump=str(self.dump)))
        turn = {"user_content": content("user", question), "final_response": content("model", reference)}
        self.write("evals/geo.evalset.json", {"eval_set_id": "geo", "eval_cases": [
            {"eval_id": "capital", "conversation": [turn]},
        ]})  # fmt: skip
        self.write("evals/test_config.json", {"criteria": {"response_match_score": 0.9}})

    def check_out(self) -> None:
        """Commit what was written; clone it shallow and detached; give it to the runner's user where that works."""
        git = ("git", "-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "init.defaultBranch=main")
        origin = self.temp / "origin"
        for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "1"), ("commit", "-qm", "2", "--allow-empty")):
            subprocess.run([*git, *command], cwd=origin, check=True)
        subprocess.run([*git, "clone", "-q", "--depth=1", origin.as_uri(), self.workspace], check=True)
        subprocess.run([*git, "checkout", "-q", "--detach"], cwd=self.workspace, check=True)
        if os.geteuid() == 0:
            for path in (self.workspace, *self.workspace.rglob("*")):
                os.chown(path, RUNNER_UID, RUNNER_UID, follow_symlinks=False)

    def run(self, **inputs: str) -> Step:
        """The step: `entrypoint.py` as the image's ENTRYPOINT starts it."""
        files = self.temp / "file_commands"
        files.mkdir(exist_ok=True)
        for name in ("output", "summary", "env"):
            (files / name).write_text("", encoding="utf-8")
        given = {f"INPUT_{name.replace('_', '-').upper()}": value for name, value in inputs.items()}
        done = subprocess.run(
            [sys.executable, "-I", "-u", ROOT / "entrypoint.py"],
            cwd=self.workspace,
            env={**self._surroundings(files), **self.environment, **given},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Step(
            code=done.returncode,
            stdout=done.stdout,
            stderr=done.stderr,
            outputs=parse_outputs((files / "output").read_text(encoding="utf-8")),
            summary=(files / "summary").read_text(encoding="utf-8"),
        )

    def _surroundings(self, files: Path) -> dict[str, str]:
        event = self.temp / "event.json"
        repository = {"full_name": "org/repo"}
        pull_request = {
            "number": 7,
            "head": {"sha": HEAD_SHA, "ref": "change", "repo": repository},
            "base": {"sha": "2" * 40, "ref": "main", "repo": repository},
        }
        event.write_text(json.dumps({"pull_request": pull_request, "number": 7}), encoding="utf-8")
        home = self.temp / "home"
        home.mkdir(exist_ok=True)
        return {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": "https://api.github.invalid",
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_OUTPUT": str(files / "output"),
            "GITHUB_STEP_SUMMARY": str(files / "summary"),
            "GITHUB_ENV": str(files / "env"),
            "GITHUB_REF": "refs/pull/7/merge",
            "GITHUB_REPOSITORY": "org/repo",
            "GITHUB_RUN_ID": "99",
            "GITHUB_SERVER_URL": "https://github.invalid",
            "GITHUB_SHA": "3" * 40,
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_TOKEN": "token-of-the-job",
            "ACTIONS_RUNTIME_TOKEN": "token-of-the-runtime",
            "ACTIONS_RUNTIME_URL": "https://runtime.invalid",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "token-of-the-identity",
            "ACTIONS_RESULTS_URL": "https://results.invalid",
            "RUNNER_TEMP": str(self.temp),
            "GOOGLE_API_KEY": "key-that-the-workflow-names",
            "OTHER_SECRET": "key-that-nobody-names",
        }


def content(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


def parse_outputs(text: str) -> dict[str, str]:
    """GITHUB_OUTPUT as the runner reads it: `name=value` and `name<<word`, the value's lines, `word`."""
    outputs: dict[str, str] = {}
    lines: Iterator[str] = iter(text.split("\n"))
    for line in lines:
        name, is_block, word = line.partition("<<")
        if is_block:
            block = []
            for inner in lines:
                if inner == word:
                    break
                block.append(inner)
            outputs[name] = "\n".join(block)
        elif line:
            name, _, outputs_value = line.partition("=")
            outputs[name] = outputs_value
    return outputs


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    # pytest's folders are closed to all but their owner; a runner's are not
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    return Runner(temp=tmp_path)
