"""Attacks of a pull request's code on the gate, in the built image with the mounts that a runner
gives it.

Four secrets are marked, and two more lie in the checkout. No attack may get one, and none may
change what the runner or the next step is told. The agent that attacks is attacks/agent.py."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from builders import repositories

from tests.action.conftest import IMAGE, docker

pytestmark = pytest.mark.action

ROOT = Path(__file__).resolve().parents[2]
AGENT, ORDINARY = (
    (Path(__file__).parent / "attacks" / name).read_text(encoding="utf-8")
    for name in ("agent.py", "ordinary.py")
)
MARK = "m4rked"
RUNNER_UID = os.geteuid() or 1001  # whom the workspace belongs to
ANSWER = "Paris is the capital of France."
QUIET = "comment: 'off'\ncheck-run: false\n"  # nobody answers, and waiting for that takes 20 s
COMMAND = "agent: 'command:python3 agent.py'\n" + QUIET
COMMAND_FILES = {
    "GITHUB_OUTPUT": "set_output_1",
    "GITHUB_ENV": "set_env_1",
    "GITHUB_PATH": "add_path_1",
    "GITHUB_STATE": "save_state_1",
    "GITHUB_STEP_SUMMARY": "step_summary_1",
}


@dataclass(frozen=True)
class Ended:
    """What came of the step, as the runner and a person see it."""

    code: int
    log: str
    box: Path

    def command_file(self, name: str) -> str:
        return (self.box / "file_commands" / COMMAND_FILES[name]).read_text(encoding="utf-8")

    def output(self, name: str) -> str:
        """The last value of an output, which is the one that counts."""
        lines = self.command_file("GITHUB_OUTPUT").splitlines()
        at = max(number for number, line in enumerate(lines) if line.startswith(f"{name}<<"))
        return lines[at + 1]

    def results(self) -> Any:
        return json.loads(
            (self.box / "workspace/evalgate-report/results.json").read_text(encoding="utf-8")
        )

    def loot(self) -> Any:
        """What the attacking agent tells in its answer."""
        text = json.dumps(self.results())
        start = text.index("wrong {")
        return json.loads(
            json.loads(f'"{text[start + 6 : text.index(chr(34), _end(text, start))]}"')
        )

    def everything(self) -> str:
        """All that leaves the machine: the log, the command files, the reports."""
        files = [
            *(self.box / "file_commands").iterdir(),
            *(self.box / "workspace/evalgate-report").rglob("*"),
        ]
        return self.log + "".join(
            path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file()
        )


def _end(text: str, start: int) -> int:
    """Where the JSON string that `start` lies in ends: at a quote without a backslash before it."""
    at = start
    while text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at


@dataclass
class Box:
    """A repository with a base and a change, and the folders that a runner mounts into the action's
    container."""

    temp: Path
    socket: Path
    base: dict[str, str] = field(default_factory=dict)
    change: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    untracked: dict[str, str | bytes] = field(default_factory=dict)
    git: dict[str, str] = field(default_factory=dict)

    def write_gate(self, gate_file: str = COMMAND, **criteria: Any) -> None:
        turn = {
            "user_content": {"role": "user", "parts": [{"text": "What is the capital of France?"}]},
            "final_response": {"role": "model", "parts": [{"text": ANSWER}]},
        }
        suite = {
            "eval_set_id": "geo",
            "eval_cases": [{"eval_id": "capital", "conversation": [turn]}],
        }
        self.base |= {
            "evalgate.yml": f"{gate_file}\njudge: {{api_key_env: JUDGE_KEY}}\n",
            "evals/geo.evalset.json": json.dumps(suite),
            "evals/test_config.json": json.dumps(
                {"criteria": {"response_match_score": 0.9}} | criteria
            ),
        }

    def run(self, *, cancel_at: str = "", **inputs: str) -> Ended:
        """The step, to its end; with `cancel_at`, until that stands in its log and a runner cancels
        it."""
        workspace = self._check_out()
        for name in ("home", "workflow", "file_commands", "runner_temp"):
            (self.temp / name).mkdir()
        for name in COMMAND_FILES.values():
            (self.temp / "file_commands" / name).write_text("", encoding="utf-8")
        self._own(self.temp)
        given = {f"INPUT_{name.replace('_', '-').upper()}": value for name, value in inputs.items()}
        environment = {**self._variables(workspace), **given, **self.environment}
        mounts = {
            name: f"/github/{name}"
            for name in ("home", "workflow", "file_commands", "runner_temp", "workspace")
        }
        command = ["docker", "create", "--network=host", "--workdir=/github/workspace"]
        command += [f"--volume={self.temp / name}:{place}" for name, place in mounts.items()]
        command += [f"--volume={self.socket}:/var/run/docker.sock"]
        # as Docker's default has
        command += [f"--cap-add={name}" for name in ("MKNOD", "NET_RAW", "AUDIT_WRITE")]
        command += [
            part for name, value in environment.items() for part in ("--env", f"{name}={value}")
        ]
        name = docker(*command[1:], IMAGE).strip()
        try:
            docker("start", name)
            if cancel_at:
                self._cancel(name, cancel_at)
            code = int(docker("wait", name))
            log = docker("logs", name)
        finally:
            docker("rm", "--force", name)
        return Ended(code=code, log=log, box=self.temp)

    def _cancel(self, name: str, at: str) -> None:
        deadline = time.monotonic() + 120
        while at not in docker("logs", name):
            running = docker("inspect", "--format={{.State.Running}}", name).strip() == "true"
            assert running, docker("logs", name)
            assert time.monotonic() < deadline, docker("logs", name)
            time.sleep(0.2)
        began = time.monotonic()
        docker("kill", "--signal=INT", name)
        docker("wait", name)
        assert time.monotonic() - began < 7.5, (
            "then a runner sends SIGTERM, and SIGKILL 2.5 s later"
        )

    def _check_out(self) -> Path:
        workspace = repositories.made(self.temp / "workspace")
        base = repositories.commit(workspace, self.base)
        repositories.git(workspace, "checkout", "--quiet", "-b", "change")
        head = repositories.commit(workspace, self.change)
        repositories.git(
            workspace,
            "config",
            "http.https://github.com/.extraheader",
            f"AUTHORIZATION: basic {MARK}-git",
        )
        for name, content in self.untracked.items():
            (workspace / name).write_bytes(
                content if isinstance(content, bytes) else content.encode()
            )
            (workspace / name).chmod(0o755 if name.startswith("hooks/") else 0o644)
        for name, value in self.git.items():
            repositories.git(workspace, "config", name, value)
        payload = {
            "number": 7,
            "pull_request": {
                "number": 7,
                "head": {"sha": head, "ref": "change", "repo": {"full_name": "o/r"}},
                "base": {"sha": base, "ref": "main", "repo": {"full_name": "o/r"}},
            },
        }
        (self.temp / "event.json").write_text(json.dumps(payload), encoding="utf-8")
        return workspace

    def _own(self, temp: Path) -> None:
        shutil.copy(temp / "event.json", temp / "workflow" / "event.json")
        for name in ("home", "workflow", "file_commands", "runner_temp", "workspace"):
            for path in (temp / name, *(temp / name).rglob("*")) if os.geteuid() == 0 else ():
                os.chown(path, RUNNER_UID, RUNNER_UID, follow_symlinks=False)

    def _variables(self, workspace: Path) -> dict[str, str]:
        head = repositories.git(workspace, "rev-parse", "HEAD")
        return {
            "HOME": "/github/home",
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": "http://127.0.0.1:9",
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_EVENT_PATH": "/github/workflow/event.json",
            "GITHUB_REF": "refs/pull/7/merge",
            "GITHUB_BASE_REF": "main",
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_RUN_ID": "99",
            "GITHUB_SERVER_URL": "https://github.invalid",
            "GITHUB_SHA": head,
            "GITHUB_WORKSPACE": "/github/workspace",
            "RUNNER_TEMP": "/github/runner_temp",
            **{name: f"/github/file_commands/{file}" for name, file in COMMAND_FILES.items()},
            "INPUT_GITHUB-TOKEN": f"{MARK}-token-of-the-job",
            "ACTIONS_RUNTIME_TOKEN": f"{MARK}-token-of-the-runtime",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": f"{MARK}-token-of-the-identity",
            "JUDGE_KEY": f"{MARK}-key-of-the-judge",
        }


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[tuple[Path, list[bytes]]]:
    """A stand-in for Docker's socket, open to everybody; it tells each variable of the gate, and
    keeps who asks."""
    asked: list[bytes] = []
    place = tmp_path / "docker.sock"
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(place))
    place.chmod(0o666)
    server.listen()

    def serve() -> None:
        while True:
            try:
                link, _ = server.accept()
            except OSError:
                return
            with link:
                asked.append(link.recv(4096))
                link.sendall(f"HTTP/1.0 200 OK\r\n\r\n{MARK}-by-the-engine".encode())

    threading.Thread(target=serve, daemon=True).start()
    yield place, asked
    server.close()


@pytest.fixture
def box(tmp_path: Path, image: str, engine: tuple[Path, list[bytes]]) -> Box:
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    (tmp_path / "box").mkdir()
    return Box(temp=tmp_path / "box", socket=engine[0])


def assert_told_nothing(ended: Ended) -> None:
    """No marked secret anywhere, and command files that only the gate wrote."""
    everything = ended.everything()
    assert MARK not in everything, everything[max(0, everything.index(MARK) - 300) :][:600]
    for name in ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE"):
        assert ended.command_file(name) == "", name
    assert "tampered" not in ended.command_file("GITHUB_OUTPUT")
    workspace = ended.box / "workspace"
    left = [str(path) for path in workspace.rglob("*") if path.lstat().st_uid != RUNNER_UID]
    assert left == [], "the next checkout could not remove these"
    summary = workspace / "evalgate-report/summary.md"
    assert ended.command_file("GITHUB_STEP_SUMMARY") == summary.read_text(encoding="utf-8")


def test_an_agent_gets_no_secret_and_changes_no_verdict(
    box: Box, engine: tuple[Path, list[bytes]]
) -> None:
    box.write_gate(COMMAND.removesuffix(QUIET))
    box.base["agent.py"] = AGENT
    box.change = {
        "attacks.txt": "the base, without this file, only answers",
        "ordinary.py": ORDINARY,
    }
    box.untracked = {
        "gha-creds-1.json": f"{MARK}-cloud",
        "gha-creds-2.json": "granted to the agent",
    }
    box.environment = {
        "GOOGLE_APPLICATION_CREDENTIALS": "/github/workspace/gha-creds-1.json",
        "GRANTED_CREDENTIALS": "/github/workspace/gha-creds-2.json",
    }
    ended = box.run(cache=".cache/evalgate", env="GRANTED_CREDENTIALS", baseline="rerun")

    assert ended.code == 1, ended.log[-4000:]
    loot = ended.loot()
    assert loot["got"] == {}
    assert loot["about"]["granted"] == "granted to the agent"
    assert loot["about"]["ordinary"] == "works\n"
    assert loot["about"]["uid"] not in (0, RUNNER_UID)
    assert loot["about"]["groups"] == []
    assert "NoNewPrivs:\t1" in loot["about"]["status"]
    assert all(
        line.endswith("0" * 16) for line in loot["about"]["status"] if line.startswith("Cap")
    )
    assert engine[1] == [], "nobody reached the engine"
    assert (ended.output("verdict"), ended.output("exit-code")) == ("fail", "1")
    (compared,) = [
        row for row in ended.results()["comparison"]["criteria"] if row["rule"]["gating"]
    ]
    assert compared["base"] == 1.0, "the base ran, and as it is"
    assert_told_nothing(ended)
    assert not (ended.box / "workspace/written-beside-itself.txt").exists(), "it wrote into a copy"
    config = (ended.box / "workspace/.git/config").stat()
    assert config.st_mode & 0o777 == 0o644, "modes are as they were"


BACKEND = """
import glob, json, os, sys, zipfile
import attack

def get_requires_for_build_wheel(config_settings=None):
    return []

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    found = attack.carry_out()
    found["about"]["variables"] = sorted(os.environ)
    info = "hooked-1.dist-info/"
    files = {name: open(name).read() for name in glob.glob("google/**/*.py", recursive=True)}
    files |= {"pydantic.py": "class ValidationError(Exception): pass", "hooked.py": f"LOOT = {found!r}"}
    files |= {info + "METADATA": "Metadata-Version: 2.1\\nName: hooked\\nVersion: 1\\n"}
    files |= {info + "WHEEL": "Wheel-Version: 1.0\\nGenerator: hooked\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}
    files[info + "RECORD"] = "".join(f"{name},,\\n" for name in [*files, info + "RECORD"])
    with zipfile.ZipFile(os.path.join(wheel_directory, "hooked-1-py3-none-any.whl"), "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return "hooked-1-py3-none-any.whl"
"""
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "hooked"
version = "1"
"""
SHAPES = """
class Field:
    def is_required(self): return False
class Shape:
    model_fields = {"threshold": Field()}
    def __init__(self, **values): self.__dict__.update(values)
    @classmethod
    def model_validate(cls, raw): return cls(raw=raw)
"""
ADK = {  # as much of google-adk as a metric is called with
    f"google/adk/evaluation/{module}.py": SHAPES
    + "".join(f"class {name}(Shape): pass\n" for name in names)
    for module, names in {
        "eval_case": ("Invocation", "ConversationScenario"),
        "eval_metrics": ("BaseCriterion", "EvalMetric"),
    }.items()
}
METRIC = """
class Result:
    def __init__(self, score):
        self.overall_score, self.overall_eval_status, self.per_invocation_results = score, 1 if score else 2, []

def said(turn):
    return "".join(part.get("text", "") for part in turn.raw["final_response"]["parts"])

def exact(metric, actual, expected, scenario=None):
    return Result(float(said(actual[0]) == said(expected[0])))
"""
REPLACING = """
from . import metrics
metrics.exact = lambda *_: metrics.Result(1.0)
"""
REWRITING = """
import glob, json, os, sys
import hooked

def answer(text):
    found = {"hook": hooked.LOOT, "rewritten": [], "uid": os.getuid()}
    for place in (os.path.dirname(__file__), *sys.path, os.path.dirname(os.path.dirname(sys.executable))):
        for path in glob.glob(place + "/**/*.py", recursive=True) + glob.glob(place + "/*.cfg"):
            try:
                with open(path, "a") as file:
                    file.write("\\n# tampered\\n")
                found["rewritten"].append(path)
            except OSError:
                pass
    for path in glob.glob(os.path.dirname(__file__) + "/metrics.py"):
        with open(path, "a") as file:
            file.write("\\nexact = lambda *_: Result(1.0)\\n")
    return "wrong " + json.dumps(found)
"""


@pytest.mark.parametrize(
    ("cache", "metric_edit"),
    [(".cache/evalgate", ""), ("", ""), ("", "\n# of this change\n")],
    ids=["in the workspace", "in HOME", "with an edit of the metric"],
)
def test_hooks_of_builds_and_the_agents_package_change_neither_environment_nor_metric(
    box: Box, engine: tuple[Path, list[bytes]], cache: str, metric_edit: str
) -> None:
    metric = {"mine": {"code_config": {"name": "desk.metrics.exact"}}}
    box.write_gate(
        "agent: 'python:desk.main:answer'\n" + QUIET, criteria={"mine": 0.5}, custom_metrics=metric
    )
    box.base |= {
        "requirements.txt": "./hooked\n",
        "hooked/pyproject.toml": PROJECT,
        "hooked/backend.py": BACKEND.replace("attack.carry_out()", '{"about": {}}').replace(
            "import attack", ""
        ),
        **{f"hooked/{name}": text for name, text in ADK.items()},
        "desk/__init__.py": "",
        "desk/metrics.py": METRIC,
        "desk/main.py": f"def answer(text):\n    return {ANSWER!r}\n",
    }
    box.change = {
        "hooked/backend.py": BACKEND,
        "hooked/attack.py": AGENT,
        "desk/__init__.py": REPLACING,
        "desk/main.py": REWRITING,
        "desk/metrics.py": METRIC + metric_edit,
    }
    box.environment = {
        "UV_INDEX_OURS_PASSWORD": f"{MARK}-index",
        "UV_INDEX_NAMED_PASSWORD": "for-the-installer",
        "UV_OFFLINE": "1",
    }
    ended = box.run(cache=cache, env="UV_INDEX_NAMED_*", baseline="rerun")

    assert ended.code == 1, ended.log[-4000:]
    loot = ended.loot()
    writable = re.findall(r"'(/[^']*)'", json.dumps(loot["hook"]["got"]))
    assert loot["hook"]["got"].keys() <= {"own_environment", "path_shims"}
    assert all("/builds-v0/" in path for path in writable), "only the folder that it is built in"
    seen = {name for name in loot["hook"]["about"]["variables"] if name.startswith("UV_INDEX")}
    assert seen == {"UV_INDEX_NAMED_PASSWORD"}
    assert loot["hook"]["about"]["uid"] not in (0, RUNNER_UID, loot["uid"])
    assert all("/tree/" in path for path in loot["rewritten"]), "only its own copy of the checkout"
    assert any(path.endswith("metrics.py") for path in loot["rewritten"])
    assert engine[1] == []
    (compared,) = [
        row for row in ended.results()["comparison"]["criteria"] if row["rule"]["gating"]
    ]
    assert (compared["base"], compared["head"]) == (1.0, 0.0), "by the metric as it is written"
    assert (ended.output("verdict"), ended.output("exit-code")) == ("fail", "1")
    assert not any(problem["code"] == "metric-of-change" for problem in ended.results()["problems"])
    assert_told_nothing(ended)


TELLING = """
with open("/github/file_commands/set_output_1", "a") as file:
    file.write("verdict=pass\\nreason=tampered\\n")
"""
SHADOW = f"import contextlib\nwith contextlib.suppress(OSError):\n{TELLING.replace(chr(10), chr(10) + '    ')}"
TRAP = "#!/bin/sh\nprintf 'verdict=pass\\nreason=tampered\\n' >> /github/file_commands/set_output_1\n[ -t 0 ] || cat\n"
PRELOADED = r"""
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void tell(void) {
    int file = open("/github/file_commands/set_output_1", O_WRONLY | O_APPEND);
    if (file >= 0 && write(file, "verdict=pass\nreason=tampered\n", 29)) close(file);
}
"""
RUN_BY_GIT = (
    *(
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "core.gitProxy",
        "credential.helper",
        "gpg.program",
    ),
    *(
        "filter.trap.clean",
        "filter.trap.smudge",
        "diff.external",
        "diff.trap.textconv",
        "uploadpack.packObjectsHook",
    ),
)
HOOKS = (
    "post-checkout",
    "post-index-change",
    "reference-transaction",
    "pre-auto-gc",
    "fsmonitor-watchman",
    "trap",
)
THREE_AGENTS = """
agents:
  - suites: [evals/**]
    driver: command
    command: python3 -I agents/geo.py
    env: {ENV}
  - suites: [called/**]
    driver: python
    call: "agents.called:answer"
  - suites: [served/**]
    driver: http
    url: http://127.0.0.1:PORT/
    request: {"text": "{text}"}
    response: {"text": "text"}
"""


class Endpoint(BaseHTTPRequestHandler):
    """An agent that is served already."""

    def log_message(self, *_: object) -> None:
        """It says nothing."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps({"text": ANSWER}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def endpoint() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What writes the verdict in every process that loads it, if it may."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("library")
    (folder / "tell.c").write_text(PRELOADED, encoding="utf-8")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", folder / "tell.so", folder / "tell.c"], check=True
    )
    return (folder / "tell.so").read_bytes()


def test_the_gate_loads_and_runs_nothing_of_the_repository(
    box: Box, library: bytes, endpoint: int
) -> None:
    """Modules under the names of ours, settings of the loader, hooks and filters of git: with all
    of them in the way, agents of three kinds run on both sides as they would without."""
    own = "/github/workspace"
    loading = {
        "LD_PRELOAD": f"{own}/tell.so",
        "LD_AUDIT": f"{own}/tell.so",
        "LD_LIBRARY_PATH": own,
        "PATH": f"{own}/hooks:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": own,
        "PYTHONSTARTUP": f"{own}/json.py",
        "BASH_ENV": f"{own}/hooks/trap",
        "ENV": f"{own}/hooks/trap",
        "GIT_CONFIG_GLOBAL": f"{own}/hooks/config",
    }
    box.write_gate(
        THREE_AGENTS.replace("{ENV}", json.dumps(loading)).replace("PORT", str(endpoint)) + QUIET
    )
    for name in ("called", "served"):
        box.base |= {
            f"{name}/{Path(file).name}": box.base[file]
            for file in list(box.base)
            if file.startswith("evals/")
        }
    box.base |= {
        "agents/geo.py": AGENT,
        "agents/called.py": f"def answer(text):\n    return {ANSWER!r}\n",
    }
    for place in ("", "agents/"):
        for module in (
            "json",
            "sitecustomize",
            "usercustomize",
            "evalgate/__init__",
            "click",
            "pydantic/__init__",
        ):
            box.base[f"{place}{module}.py"] = SHADOW
    box.base |= {
        f"hooks/{name}": TRAP for name in (*HOOKS, "git", "uv", "setpriv", "prlimit", "env", "sh")
    }
    box.base[".gitattributes"] = "*.md filter=trap diff=trap\n"
    box.base["notes.md"] = "one"
    box.change = {"notes.md": "two"}
    box.untracked = {
        "tell.so": library,
        **{name: TRAP for name in box.base if name.startswith("hooks/")},
    }
    box.environment = {"PYTHONPATH": own, "PYTHONSTARTUP": f"{own}/json.py", "PYTHONHOME": ""}
    box.git = dict.fromkeys(RUN_BY_GIT, f"{own}/hooks/trap") | {"core.hooksPath": f"{own}/hooks"}
    ended = box.run(cache=".cache/evalgate", baseline="rerun")

    assert_told_nothing(ended)
    assert (ended.output("total"), ended.output("passed"), ended.output("failed")) == (
        "3",
        "3",
        "0",
    ), ended.log[-4000:]
    assert all(
        row["base"] == 1.0
        for row in ended.results()["comparison"]["criteria"]
        if row["rule"]["gating"]
    )
    assert {path.name for path in (ended.box / "file_commands").iterdir()} == {
        *COMMAND_FILES.values()
    }


def test_results_that_a_commit_brings_along_decide_nothing(box: Box, tmp_path: Path) -> None:
    """A journal, a report and parts of a run in which everything passed, and an agent that answers
    `wrong`."""
    box.write_gate()
    box.base["agent.py"] = AGENT
    assert box.run(cache=".cache/evalgate", baseline="none", shard="1/1").code == 0
    report = box.temp / "workspace/evalgate-report"
    forged = {
        name: (report / name).read_text(encoding="utf-8")
        for name in ("journal.jsonl", "results.json")
    }
    wrong = AGENT.replace(ANSWER, "wrong")
    change = {
        "agent.py": wrong,
        **{f"evalgate-report/{name}": text for name, text in forged.items()},
    }
    for name, inputs, expected in (
        ("run", {"baseline": "none"}, ("1", "fail")),
        ("merge", {"mode": "merge", "results": "parts"}, ("2", "error")),
    ):
        other = Box(temp=tmp_path / name, socket=box.socket, base=box.base)
        other.temp.mkdir()
        other.change = {**change, "parts/1/results.json": forged["results.json"]}
        ended = other.run(cache=".cache/evalgate", **inputs)
        assert (ended.output("exit-code"), ended.output("verdict")) == expected, ended.log[-4000:]
        assert str(ended.code) == expected[0]


def test_a_step_that_is_cancelled_ends_in_time_though_its_agent_ignores_signals(box: Box) -> None:
    deaf = "import signal\nfor number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\n"
    box.write_gate()
    box.base["agent.py"] = deaf + AGENT.replace(
        'elif kind == "turn":\n', 'elif kind == "turn":\n            time.sleep(600)\n'
    )
    ended = box.run(cancel_at="running 1 trial", cache=".cache/evalgate", baseline="none")
    assert (ended.code, ended.output("verdict"), ended.output("exit-code")) == (
        130,
        "not_measured",
        "130",
    )
    assert_told_nothing(ended)
