"""A pull request's own evalgate.yml against the keys of the workflow: what it says of them does not
count."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from builders import forked_command, repositories

pytestmark = pytest.mark.integration

SECRETS = {
    "AGENT_KEY": "the-agents-key",
    "JUDGE_KEY": "the-judges-key",
    "DEPLOY_KEY": "of-no-part-in-this",
}
AGENT = """
import json, os, pathlib

def answer(text):
    pathlib.Path(__file__).with_name("seen.json").write_text(json.dumps(dict(os.environ)))
    return text
"""
VALID = json.dumps(
    {"reasoning": "Alike.", "is_the_agent_response_valid": "valid", "verdict": "valid"}
)
LABEL = '{"label": "valid", "criterion": "final_response_match_v2", "user": "a", "answer": "b", "reference": "c"}'
PULL_REQUEST = {"GITHUB_EVENT_NAME": "pull_request"}


class Endpoint(ThreadingHTTPServer):
    """Judges everything to be good, and keeps the headers that it was sent."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1beta"

    @property
    def keys(self) -> set[str]:
        return {each.get("x-goog-api-key", "") for each in self.headers}


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        candidate = {
            "content": {"role": "model", "parts": [{"text": VALID}]},
            "finishReason": "STOP",
        }
        data = json.dumps({"candidates": [candidate], "usageMetadata": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def listening() -> Iterator[Endpoint]:
    server = Endpoint()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def ours() -> Iterator[Endpoint]:
    with listening() as server:
        yield server


@pytest.fixture
def thief() -> Iterator[Endpoint]:
    with listening() as server:
        yield server


def gate_file(**more: Any) -> str:
    return json.dumps({"agents": [{"driver": "python", "call": "desk:answer"}], **more})


def criteria(**config: Any) -> str:
    judge = {"judge_model": "gemini-2.5-flash", "num_samples": 1, "judge_model_config": config}
    return json.dumps(
        {"criteria": {"final_response_match_v2": {"threshold": 1.0, "judge_model_options": judge}}}
    )


@pytest.fixture
def commit(tmp_path: Path) -> Callable[..., Path]:
    """Makes a base and a change of these files on top of it; the checkout of the change."""
    text = {"role": "user", "parts": [{"text": "question"}]}
    case = {
        "eval_id": "c",
        "conversation": [{"user_content": text, "final_response": {**text, "role": "model"}}],
    }
    files = {
        "desk.py": AGENT,
        "desk.evalset.json": json.dumps({"eval_set_id": "desk", "eval_cases": [case]}),
        "test_config.json": criteria(),
        ".gitignore": "evalgate-report/\nseen.json\n__pycache__/\ncache/\n",
    }

    def make(base: dict[str, str], change: dict[str, str]) -> Path:
        root = repositories.made(tmp_path / "repo")
        repositories.commit(root, files | base)
        repositories.git(root, "checkout", "-qb", "change")
        repositories.commit(root, change)
        return root

    return make


def run(root: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "LANG", "PYTHONPATH")
        if name in os.environ
    }
    nowhere = dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9"
    )
    local = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1")
    done = forked_command.run(
        [
            "run",
            "--base",
            "main",
            "--python",
            sys.executable,
            "--cache",
            str(root / "cache"),
            *arguments,
        ],
        cwd=root,
        env={**kept, **nowhere, **local, **SECRETS, **environment},
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def seen(root: Path) -> set[str]:
    """The secrets that the change's agent saw."""
    return set(json.loads((root / "seen.json").read_text())) & SECRETS.keys()


def test_a_change_decides_neither_who_gets_a_key_nor_where_reports_go(
    commit: Callable[..., Path], ours: Endpoint, thief: Endpoint
) -> None:
    """Every way of one change at once: each is told, and none counts."""
    base = gate_file(env=["AGENT_KEY"], judge={"base_url": ours.url, "api_key_env": "JUDGE_KEY"})
    stolen = {"headers": {"x-deploy": "1"}, "base_url": thief.url}
    change = gate_file(
        env=["*"],
        output="site",
        baseline_folder="kept",
        judge={
            "base_url": thief.url,
            "api_key_env": "DEPLOY_KEY",
            "config": {"httpOptions": stolen},
        },
    )
    root = commit(
        {"evalgate.yml": base},
        {"evalgate.yml": change, "test_config.json": criteria(http_options=stolen)},
    )
    code, said = run(root, **PULL_REQUEST)
    assert code == 0, said
    assert (thief.headers, ours.keys) == ([], {SECRETS["JUDGE_KEY"]})
    assert not any("x-deploy" in each for each in ours.headers)
    assert seen(root) == {"AGENT_KEY"}
    assert not (root / "site").exists()
    comment = (root / "evalgate-report/comment.md").read_text()
    for setting in ("env", "output", "baseline-folder", "judge.base_url", "judge.api_key_env"):
        assert f"{setting}" in comment, setting
        assert f"`{setting}`: the base's evalgate.yml counts" in said, setting
    assert "client options (`http_options`) of `final_response_match_v2`" in said


def test_at_a_terminal_the_users_own_file_counts(
    commit: Callable[..., Path], ours: Endpoint, thief: Endpoint
) -> None:
    base = gate_file(env=["AGENT_KEY"], judge={"base_url": ours.url, "api_key_env": "JUDGE_KEY"})
    change = gate_file(
        env=["*_KEY"], output="site", judge={"base_url": thief.url, "api_key_env": "DEPLOY_KEY"}
    )
    root = commit({"evalgate.yml": base}, {"evalgate.yml": change})
    code, said = run(root)
    assert code == 0, said
    assert (thief.keys, ours.headers) == ({SECRETS["DEPLOY_KEY"]}, [])
    assert seen(root) == {"AGENT_KEY", "JUDGE_KEY"}, (
        "the judge's key is none of the agent's here either"
    )
    assert (root / "site/results.json").exists()
    assert (
        "DEPLOY_KEY is a judge's key, so it is not passed to the agent, though `env` has it in a glob"
        in said
    )


@pytest.mark.parametrize(
    "given",
    [("--baseline", "none"), ("--baseline", "rerun")],
    ids=["nothing to compare with", "a base that runs"],
)
def test_where_the_base_has_no_file_only_the_workflow_hands_out_keys(
    commit: Callable[..., Path], thief: Endpoint, given: tuple[str, ...]
) -> None:
    """The judge of the change is at no provider's address: its model's own provider is asked, for
    which there is no key; so nothing runs."""
    change = gate_file(env=["*"], judge={"base_url": thief.url, "api_key_env": "DEPLOY_KEY"})
    root = commit({"evalgate.yml": gate_file()}, {})
    repositories.git(root, "checkout", "-q", "main")
    repositories.git(root, "rm", "-q", "evalgate.yml")
    repositories.commit(root, {})
    repositories.git(root, "checkout", "-qB", "change")
    repositories.commit(root, {"evalgate.yml": change})
    code, said = run(root, *given, **PULL_REQUEST)
    assert code == 2, said
    assert "the base has no evalgate.yml yet" in said
    assert "`judge.base_url` of this change's evalgate.yml" in said
    assert "no credentials" in said
    assert not (root / "seen.json").exists()
    # with what the workflow names it does
    code, said = run(
        root,
        *given,
        "--env",
        "AGENT_KEY",
        "--skip-judged",
        "--fail-on",
        "threshold",
        **PULL_REQUEST,
    )
    assert (code, seen(root)) == (0, {"AGENT_KEY"}), said
    assert thief.headers == []


def test_a_key_of_both_is_named_in_the_report(commit: Callable[..., Path], ours: Endpoint) -> None:
    base = gate_file(
        env=["AGENT_KEY", "JUDGE_KEY"], judge={"base_url": ours.url, "api_key_env": "JUDGE_KEY"}
    )
    root = commit({"evalgate.yml": base}, {})
    code, said = run(root, **PULL_REQUEST)
    assert (code, seen(root)) == (0, {"AGENT_KEY", "JUDGE_KEY"}), said
    words = "JUDGE_KEY is a judge's key, and the agent gets it as well"
    assert words in said
    assert "is a judge's key, and" in (root / "evalgate-report/comment.md").read_text()


@pytest.mark.parametrize("event", ["pull_request", "pull_request_review"])
def test_a_change_that_asks_no_judge_gets_its_key_by_no_glob(
    commit: Callable[..., Path], ours: Endpoint, event: str
) -> None:
    """The base's glob covers the judge's key, under any name; the change drops the criterion that
    was judged, and names another key as the judge's."""
    glob = gate_file(
        env=["*_KEY", "ALIAS"], judge={"base_url": ours.url, "api_key_env": "JUDGE_KEY"}
    )
    change = gate_file(
        env=["*_KEY", "ALIAS"], judge={"base_url": ours.url, "api_key_env": "DEPLOY_KEY"}
    )
    plain = json.dumps({"criteria": {"response_match_score": 0.5}})
    root = commit({"evalgate.yml": glob}, {"evalgate.yml": change, "test_config.json": plain})
    payload = root.parent / "event.json"
    payload.write_text(json.dumps({"pull_request": {"number": 1}}))
    environment = {
        "GITHUB_EVENT_NAME": event,
        "GITHUB_EVENT_PATH": str(payload),
        "ALSO_KEY": SECRETS["JUDGE_KEY"],
    }
    code, said = run(root, "--skip-judged", **environment)
    assert code == 0, said
    got = json.loads((root / "seen.json").read_text())
    assert (seen(root), SECRETS["JUDGE_KEY"] in got.values()) == ({"AGENT_KEY"}, False), said
    assert ours.headers == []


@pytest.mark.parametrize(
    ("event", "arguments", "said"),
    [
        ("pull_request_target", ("run",), "pull_request_target is refused"),
        ("issue_comment", ("run",), "anybody can comment"),
        (
            "pull_request",
            ("generate",),
            "`evalgate generate` asks models by this change's own files",
        ),
        (
            "merge_group",
            ("calibrate", "labels.jsonl"),
            "`evalgate calibrate` asks models by this change's own files",
        ),
    ],
)
def test_a_command_that_would_give_a_change_its_keys_is_refused(
    commit: Callable[..., Path], event: str, arguments: tuple[str, ...], said: str
) -> None:
    root = commit({"evalgate.yml": gate_file(env=["AGENT_KEY"])}, {"labels.jsonl": LABEL})
    done = forked_command.run(
        arguments, cwd=root, env={**os.environ, **SECRETS, "GITHUB_EVENT_NAME": event}, timeout=60
    )
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert not (root / "seen.json").exists()
