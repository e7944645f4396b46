"""`/evalgate accept CASE` under act: which comments start the job of examples/workflows/accept.yml,
and what a comment can do in it. The script's own rows are in
integration/github/test_accept_recipe.py."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from builders import repositories
from builders.github_double import Double, served

from tests.action.test_workflow import ACT, SURROUNDINGS
from tests.integration.github.test_accept_recipe import (
    OLD,
    TOKEN,
    WORKFLOW,
    Desk,
    desk as desk,  # noqa: PLC0414 - a fixture
    gated as gated,  # noqa: PLC0414 - a fixture
)

pytestmark = pytest.mark.action

PIP = '#!/bin/sh\necho "pip $*" >>"$PIP_LOG"\n'
"""In place of an installation from github.com; the command itself is this checkout's."""
SERVER = """\
[url "file://{server}/"]
\tinsteadOf = https://github.com/
"""


@pytest.fixture
def double() -> Iterator[Double]:
    with served(Double()) as running:
        yield running
    assert running.problems() == []


@dataclass(frozen=True)
class Workflow:
    """A default branch with the workflow, on a self-hosted runner."""

    desk: Desk

    def comment(self, body: str, *, author: str, is_pull_request: bool = True) -> str:
        """Act's log of the run that a comment starts."""
        root = self.desk.root
        runner = repositories.made(root / "runner")
        repositories.commit(
            runner, {".github/workflows/accept.yml": WORKFLOW.read_text(encoding="utf-8")}
        )
        repositories.git(runner, "remote", "add", "origin", "https://github.com/o/r.git")
        (root / "bin/pip").write_text(PIP, encoding="utf-8")
        (root / "bin/pip").chmod(0o755)
        (root / "gitconfig").write_text(SERVER.format(server=root / "server"), encoding="utf-8")
        issue = {"number": 12, **({"pull_request": {"url": "x"}} if is_pull_request else {})}
        event = {
            "action": "created",
            "issue": issue,
            "comment": {"body": body, "user": {"login": author}},
            "repository": {"full_name": "o/r", "default_branch": "main"},
        }
        (root / "event.json").write_text(json.dumps(event), encoding="utf-8")
        variables = {name: os.environ[name] for name in SURROUNDINGS if name in os.environ}
        variables |= {
            "GITHUB_API_URL": self.desk.double.url,
            "GIT_CONFIG_GLOBAL": str(root / "gitconfig"),
            "PIP_LOG": str(root / "pip.log"),
            "TMPDIR": str(root),
        }
        done = subprocess.run(
            [
                str(ACT),
                "issue_comment",
                f"--eventpath={root / 'event.json'}",
                "--platform=ubuntu-latest=-self-hosted",
                "--pull=false",
                f"--action-cache-path={root / 'actions'}",
                *(f"--env={name}={text}" for name, text in variables.items()),
                f"--secret=GITHUB_TOKEN={TOKEN}",
            ],
            cwd=runner,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        log = done.stdout + done.stderr
        assert TOKEN not in log
        return log


@pytest.fixture
def workflow(desk: Desk) -> Workflow:
    if not ACT.exists():
        pytest.skip("needs act: run `make test-action`")
    return Workflow(desk)


def test_a_comment_of_a_writer_is_a_commit_and_nothing_in_it_is_run(workflow: Workflow) -> None:
    body = "/evalgate accept case_0\n$(touch pwned) `touch pwned` ${{ github.token }} ::error::x"
    log = workflow.comment(body, author="writer")
    desk = workflow.desk
    assert "Job succeeded" in log, log[-5000:]
    assert (desk.root / "pip.log").read_text(encoding="utf-8") == (
        "pip install git+https://github.com/OWNER/evalgate@v1\n"
    )
    assert desk.branch() == OLD | {"case_0": "answer 0"}
    (reply,) = desk.double.state.comments.values()
    assert reply["body"].startswith("**Accepted** in ")
    assert list(desk.root.rglob("pwned*")) == []


@pytest.mark.parametrize(
    ("body", "author", "is_pull_request", "is_started"),
    [
        # reads only: the job ends without a word
        ("/evalgate accept case_0", "reader", True, True),
        # an issue, not a pull request
        ("/evalgate accept case_0", "writer", False, False),
        # a comment that talks about the command
        ("Try `/evalgate accept case_0`", "writer", True, False),
    ],
)
def test_other_comments_change_nothing(
    workflow: Workflow, body: str, author: str, is_pull_request: bool, is_started: bool
) -> None:
    log = workflow.comment(body, author=author, is_pull_request=is_pull_request)
    assert ("has no write access" in log) is is_started, log[-5000:]
    assert workflow.desk.branch() == OLD
    assert workflow.desk.branch("main") == OLD
    assert workflow.desk.double.calls("POST") == []
