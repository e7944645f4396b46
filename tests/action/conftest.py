"""A runner's surroundings without a runner: checkout, event, INPUT_*, the files that a step writes,
and a GitHub."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from builders import forked_command, repositories, shipped
from builders.github_double import Double, served

from evalgate import action
from evalgate.system import process

ROOT = Path(__file__).resolve().parents[2]
RUNNER_UID = 1001  # the user that GitHub's runners work as; the container is root
TOKEN = "ghs_token-of-the-job"
REPOSITORY = "o/r"
NUMBER = 7
ANSWER = "Paris is the capital of France."
IMAGE = "evalgate-of-this-checkout:latest"

AGENT = '''
"""Speaks the line protocol: answers the question, once it has said what its environment is."""
import json, os, sys, time

DUMP, ASKED, ANSWER = {dump!r}, {asked!r}, {answer!r}

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
            with open(ASKED, "a") as file:
                file.write(ANSWER + "\\n")
            if "wait" in text:
                time.sleep(60)
            answer = "::set-env name=X::1" if "commands" in text else ANSWER
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
        # the runner is lenient about blanks before a command
        for line in map(str.strip, self.stdout.splitlines()):
            if word:
                word = "" if line == f"::{word}::" else word
            elif line.startswith("::stop-commands::"):
                word = line.removeprefix("::stop-commands::")
            # it runs outside of its image
            elif re.match(r"::[a-z-]+[ :]", line) and "[not-isolated]" not in line:
                obeyed.append(line)
        assert not word, "the runner was left deaf"
        return obeyed


@dataclass
class Runner:
    """A checkout as actions/checkout leaves it, and the entrypoint started in it as the container
    starts it."""

    temp: Path
    environment: dict[str, str | None] = field(default_factory=dict)
    base: str = ""
    head: str = ""
    attempts: int = 0

    @property
    def workspace(self) -> Path:
        return self.temp / "workspace"

    @property
    def dump(self) -> Path:
        """Where the agent writes its environment."""
        return self.temp / "agent-environment.json"

    @property
    def origin(self) -> Path:
        return self.temp / "origin"

    def asked(self) -> list[str]:
        """What agents of either side answered so far."""
        path = self.temp / "asked.log"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def write(self, name: str, content: Any) -> None:
        """A file of the repository, before the checkout; a text, or JSON."""
        path = self.origin / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8"
        )

    def write_gate(
        self,
        *,
        reference: str,
        question: str = "What is the capital of France?",
        answer: str = ANSWER,
    ) -> None:
        """An agent, one case, one criterion."""
        asked = str(self.temp / "asked.log")
        self.write("agent.py", AGENT.format(dump=str(self.dump), asked=asked, answer=answer))
        turn = {
            "user_content": content("user", question),
            "final_response": content("model", reference),
        }
        self.write("evals/geo.evalset.json", {"eval_set_id": "geo", "eval_cases": [
            {"eval_id": "capital", "conversation": [turn]},
        ]})  # fmt: skip
        self.write("evals/test_config.json", {"criteria": {"response_match_score": 0.9}})

    def commit(self) -> str:
        """Commit what was written to the origin's main branch; the SHA."""
        if not (self.origin / ".git").exists():
            self.origin.mkdir(exist_ok=True)
            repositories.git(self.origin, "init", "--quiet")
            # as GitHub does
            repositories.git(self.origin, "config", "uploadpack.allowAnySHA1InWant", "true")
            repositories.git(self.origin, "config", "receive.denyCurrentBranch", "ignore")
        return repositories.commit(self.origin, {})

    def check_out(self) -> None:
        """A pull request with what was written, from main with what was committed before (else: the
        same, but for a file of the agent), checked out as actions/checkout does: the merge of both,
        shallow and detached."""
        if not (self.origin / ".git").exists():
            self.write("prompt.txt", "Answer the question.")
            self.commit()
            # or main's agent would be this one, and not run
            self.write("prompt.txt", "Answer the question. Be brief.")
        base = repositories.git(self.origin, "rev-parse", "main")
        repositories.git(self.origin, "checkout", "--quiet", "-B", "change", base)
        head = self.commit()
        tree, merge = f"{head}^{{tree}}", f"Merge {head} into {base}"
        merged = repositories.git(
            self.origin, "commit-tree", tree, "-p", base, "-p", head, "-m", merge
        )
        repositories.git(self.origin, "update-ref", f"refs/pull/{NUMBER}/merge", merged)
        repositories.git(self.origin, "checkout", "--quiet", "main")
        self.base, self.head = base, head
        self._clone(merged, f"refs/pull/{NUMBER}/merge")
        self.on_pull_request()

    def check_out_main(self) -> None:
        """Commit what was written, push it to main, and check that out."""
        before = (
            repositories.git(self.origin, "rev-parse", "main")
            if (self.origin / ".git").exists()
            else "0" * 40
        )
        after = self.commit()
        self.base, self.head = before, after
        self._clone(after, "refs/heads/main")
        repository = {"full_name": REPOSITORY, "default_branch": "main"}
        self.on(
            "push",
            {"ref": "refs/heads/main", "before": before, "after": after, "repository": repository},
        )

    def on(self, name: str, payload: Any, **environment: str) -> None:
        """The event that the workflow runs for."""
        (self.temp / "event.json").write_text(json.dumps(payload), encoding="utf-8")
        self.environment |= {"GITHUB_EVENT_NAME": name, **environment}

    def on_pull_request(self, *, fork: str | None = "", name: str = "pull_request") -> None:
        """Of the change that is checked out; `fork`: where it comes from, None: deleted."""
        repository = {"full_name": REPOSITORY}
        there = {"full_name": fork} if fork else None if fork is None else repository
        head = {"sha": self.head, "ref": "change", "repo": there}
        base = {"sha": self.base, "ref": "main", "repo": repository}
        pull_request = {"number": NUMBER, "head": head, "base": base}
        merge_ref = f"refs/pull/{NUMBER}/merge"
        self.on(
            name,
            {"pull_request": pull_request, "number": NUMBER},
            GITHUB_REF=merge_ref,
            GITHUB_BASE_REF="main",
        )

    def _clone(self, sha: str, ref: str) -> None:
        stored, cache = self.workspace / ".evalgate-base", self.temp / "actions-cache"
        if stored.exists():
            stored.rename(cache)
        shutil.rmtree(self.workspace, ignore_errors=True)
        self.workspace.mkdir()
        name = ref.removeprefix("refs/").removeprefix("heads/")
        for command in (
            ("init", "--quiet"),
            ("remote", "add", "origin", self.origin.as_uri()),
            (
                "fetch",
                "--quiet",
                "--no-tags",
                "--depth=1",
                "origin",
                f"+{sha}:refs/remotes/origin/{name}",
            ),
            ("checkout", "--quiet", "--detach", sha),
        ):
            repositories.git(self.workspace, *command)
        if cache.exists():
            cache.rename(stored)
        self.environment["GITHUB_SHA"] = sha
        self.environment["GITHUB_REF"] = ref
        if os.geteuid() == 0:
            for path in (self.workspace, *self.workspace.rglob("*")):
                os.chown(path, RUNNER_UID, RUNNER_UID, follow_symlinks=False)

    def start(self, **inputs: str) -> "subprocess.Popen[str]":
        """The step, begun: `entrypoint.py` as the image's ENTRYPOINT starts it."""
        return subprocess.Popen(
            [sys.executable, "-I", "-u", ROOT / "entrypoint.py"],
            cwd=self.workspace,
            env=self._given(**inputs),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, **inputs: str) -> Step:
        """The step, to its end: in a fork of what has imported evalgate, which takes longer than
        most of what is looked at."""
        environment = self._given(**inputs)
        if not forked_command.can_fork({**os.environ, **environment}):
            return self.ended(self.start(**inputs))
        door = str(ROOT / "entrypoint.py")
        return self.ended(forked_command.forked([door], cwd=self.workspace, env=environment))

    def run_here(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **inputs: str
    ) -> Step:
        """The step in the test's own process, where its patience can be changed."""
        monkeypatch.chdir(self.workspace)
        monkeypatch.setattr(signal, "signal", lambda *_: None)  # the test's process keeps its own
        monkeypatch.setattr(process, "close_to_other_processes", lambda: True)
        # no test takes over what others kept
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.temp / "home/.cache"))
        code = action.main(self._given(**inputs))
        return self._step(code, *capsys.readouterr())

    def run_cancelled(self, until: Callable[[], object], **inputs: str) -> Step:
        """The step, and once `until` holds, what a runner sends to one that is cancelled."""
        begun = self.start(**inputs)
        deadline = time.monotonic() + 60
        while not until():
            assert time.monotonic() < deadline, begun.poll()
            assert begun.poll() is None, begun.communicate()
            time.sleep(0.05)
        begun.send_signal(signal.SIGINT)
        time.sleep(0.2)
        begun.send_signal(signal.SIGTERM)
        return self.ended(begun)

    def ended(self, begun: "forked_command.Command", *, timeout: float = 120) -> Step:
        stdout, stderr = begun.communicate(timeout=timeout)
        return self._step(begun.returncode, stdout, stderr)

    def _step(self, code: int, stdout: str, stderr: str) -> Step:
        files = self.temp / "file_commands"
        return Step(
            code=code,
            stdout=stdout,
            stderr=stderr,
            outputs=parse_outputs((files / "output").read_text(encoding="utf-8")),
            summary=(files / "summary").read_text(encoding="utf-8"),
        )

    def _given(self, **inputs: str) -> dict[str, str]:
        whole = self.surroundings(**inputs)
        return {name: value for name, value in whole.items() if value is not None}

    def surroundings(self, **inputs: str) -> dict[str, str | None]:
        """The step's environment, with empty files for what it tells the runner."""
        self.attempts += 1
        files = self.temp / "file_commands"
        files.mkdir(exist_ok=True)
        for name in ("output", "summary", "env"):
            (files / name).write_text("", encoding="utf-8")
        home = self.temp / "home"
        home.mkdir(exist_ok=True)
        given = {f"INPUT_{name.replace('_', '-').upper()}": value for name, value in inputs.items()}
        return {**self._surroundings(files), "HOME": str(home), **self.environment, **given}

    def _surroundings(self, files: Path) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": "http://127.0.0.1:9",  # nobody listens there
            "GITHUB_EVENT_PATH": str(self.temp / "event.json"),
            "GITHUB_JOB": "gate",
            "GITHUB_OUTPUT": str(files / "output"),
            "GITHUB_STEP_SUMMARY": str(files / "summary"),
            "GITHUB_ENV": str(files / "env"),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": "99",
            "GITHUB_RUN_ATTEMPT": str(self.attempts),
            "GITHUB_SERVER_URL": "https://github.invalid",
            "GITHUB_WORKFLOW": "evaluation",
            "GITHUB_WORKSPACE": str(self.workspace),
            "INPUT_GITHUB-TOKEN": TOKEN,
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
    """GITHUB_OUTPUT as the runner reads it: `name=value` and `name<<word`, the value's lines,
    `word`."""
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
def quiet_runner(tmp_path: Path) -> Runner:
    """Where GitHub's API is out of reach."""
    # pytest's folders are closed to all but their owner; a runner's are not
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    return Runner(temp=tmp_path)


@pytest.fixture
def double() -> Iterator[Double]:
    """A GitHub that judges whatever is sent to it by GitHub's own description."""
    pytest.importorskip(
        "openapi_core", reason="GitHub's description cannot be read without openapi-core"
    )
    double = Double()
    double.state.add_pull(NUMBER)
    with served(double) as running:
        yield running
    assert running.problems() == []


@pytest.fixture
def runner(quiet_runner: Runner, double: Double) -> Runner:
    """Where GitHub answers."""
    quiet_runner.environment["GITHUB_API_URL"] = double.url
    return quiet_runner


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Steps that `Runner.run` runs take no interpreter of their own; those that a test starts
    itself do."""
    monkeypatch.setattr(
        Runner, "run", lambda self, **inputs: self.run_here(monkeypatch, capsys, **inputs)
    )


def docker(*arguments: str) -> str:
    """What a command of Docker's client prints; a container's log with both streams."""
    # where an engine is podman's, its own client may be the only one
    remote = ("podman", "--remote", "--url", os.environ.get("DOCKER_HOST", ""))
    client = ("docker",) if shutil.which("docker") else remote
    done = subprocess.run(
        [*client, *arguments], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + (done.stderr if arguments[0] == "logs" else "")


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The action's image, built once for all tests, as a runner builds it from a folder."""
    if not (os.environ.get("DOCKER_HOST") or Path("/var/run/docker.sock").exists()):
        pytest.skip("needs a container host: run `make test-action`")
    folder = tmp_path_factory.mktemp("image")
    shipped.copy(folder, "evalgate")
    docker("build", "--quiet", "--network", "host", "--tag", IMAGE, str(folder))
    return IMAGE
