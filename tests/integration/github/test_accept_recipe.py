"""`/evalgate accept CASE` as a comment: the script of examples/workflows/accept.yml, to the
letter."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders.forked_command import zygote
from builders.gated_repository import Repository
from builders.github_double import Double

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
WORKFLOW = ROOT / "examples/workflows/accept.yml"
SUITE = "desk.evalset.json"
TOKEN = "ghs_0123456789abcdefghijklmnopqrstuvwxyz"
BRANCH = "topic$(touch${IFS}pwned)"  # a name that git allows


@dataclass
class Desk:
    """A pull request whose two cases failed, its branch on a server, and its report."""

    root: Path
    double: Double
    sha: str

    def branch(self, name: str = BRANCH) -> dict[str, Any]:
        """The answers that the cases of a branch expect, by case."""
        text = subprocess.run(
            ["git", "show", f"refs/heads/{name}:{SUITE}"],
            cwd=self.root / "server/o/r", check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        return {
            case["eval_id"]: case["conversation"][0]["final_response"]["parts"][0]["text"]
            for case in json.loads(text)["eval_cases"]
        }

    def comment(self, body: str, *, author: str = "writer") -> tuple[int, str]:
        """The exit code of the script for a comment, and its reply."""
        (step,) = [
            step
            for step in yaml.safe_load(WORKFLOW.read_text())["jobs"]["accept"]["steps"]
            if step.get("name") == "Accept"
        ]
        known = len(self.double.state.comments)
        values = {
            "${{ github.token }}": TOKEN,
            "${{ github.event.comment.user.login }}": author,
            "${{ github.event.comment.body }}": body,
            "${{ github.event.issue.number }}": "12",
        }
        scratch = self.root / "scratch"
        scratch.mkdir(exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(scratch), "TMPDIR": str(scratch),
            "GITHUB_API_URL": self.double.url, "GITHUB_SERVER_URL": f"file://{self.root}/server",
            "GITHUB_REPOSITORY": "o/r", **{name: values.get(value, value) for name, value in step["env"].items()},
        }  # fmt: skip
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
            env=environment, cwd=scratch, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert TOKEN not in done.stdout + done.stderr
        replies = [made["body"] for made in self.double.state.comments.values()][known:]
        assert len(replies) <= 1
        return done.returncode, replies[0] if replies else done.stderr and f"STDERR {done.stderr}"


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    root = tmp_path_factory.mktemp("gated")
    repo = Repository(root / "repo", root / "asked.log")
    repo.agent("head")
    repo.gate_file()
    repo.cases(0, 1, 2, threshold=1.0, answers={0: "an old answer", 1: "another old one"})
    repo.commit("first")
    assert repo.call("run")[0] == 1
    return repo


@pytest.fixture
def desk(
    gated: Repository, double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Desk:
    command = tmp_path / "bin/evalgate"  # the console script of this environment, without its start
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{zygote().python}" -P -m evalgate.cli "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    server = tmp_path / "server/o/r"
    server.parent.mkdir(parents=True)
    gated.git("clone", "--quiet", "--bare", str(gated.root), str(server))
    gated.git("-C", str(server), "update-ref", f"refs/heads/{BRANCH}", "HEAD")
    sha = gated.git("rev-parse", "HEAD")
    double.state.permissions.update(writer="write", boss="admin")
    double.state.add_pull(12, head_sha=sha, head_ref=BRANCH)
    results = (gated.root / "evalgate-report/results.json").read_text()
    double.state.add_artifact("evalgate", {"results.json": results}, head_sha=sha)
    return Desk(root=tmp_path, double=double, sha=sha)


OLD = {"case_0": "an old answer", "case_1": "another old one", "case_2": "answer 2"}


@pytest.mark.parametrize(
    ("body", "author", "accepted"),
    [
        ("/evalgate accept case_0", "writer", {"case_0": "answer 0"}),
        # further lines are for people, and GitHub's end of line
        ("/evalgate accept case_1 case_0\r\nBecause `rm -rf` said so.", "boss", {"case_0": "answer 0", "case_1": "answer 1"}),
        # by its file, too
        (f"/evalgate  accept {SUITE}:case_1", "writer", {"case_1": "answer 1"}),
    ],
)  # fmt: skip
def test_an_accepted_case_is_a_commit_on_the_branch(
    desk: Desk, body: str, author: str, accepted: dict[str, str]
) -> None:
    code, reply = desk.comment(body, author=author)
    assert code == 0, reply
    assert reply.startswith("**Accepted** in ")
    assert desk.branch() == OLD | accepted
    assert desk.branch("main") == OLD
    log = subprocess.run(
        ["git", "log", "--format=%an|%s|%b", f"refs/heads/{BRANCH}", "--name-only"],
        cwd=desk.root / "server/o/r", check=True, capture_output=True, text=True,
    ).stdout.split("\n")  # fmt: skip
    assert log[0].startswith("github-actions[bot]|Expect what the agent does in ")
    assert log[0].endswith(f"|Accepted by @{author} in #12.")
    assert log[1:5] == ["", "", SUITE, "t|first|"], "one commit, of one file"


@pytest.mark.parametrize(
    ("body", "author"),
    [
        # may read only: no answer, or anybody could make the job talk
        ("/evalgate accept case_0", "reader"),
        # not a person's name
        ("/evalgate accept case_0", "x/../y"),
        # another command
        ("/evalgate acceptance case_0", "writer"),
    ],
)
def test_who_may_not_write_gets_no_answer(desk: Desk, body: str, author: str) -> None:
    assert desk.comment(body, author=author) == (0, "")
    assert desk.branch() == OLD
    assert desk.double.calls("POST") == []


@pytest.mark.parametrize(
    "name",
    [
        "$(touch pwned)", "`touch pwned`", "a;touch${IFS}pwned", "--help", "-r", "a'b", 'a"b',
        "case_0|tee", "c\u00e4se", "*", "x" * 201, "",
    ],
)  # fmt: skip
def test_what_is_no_plain_id_is_refused(desk: Desk, name: str) -> None:
    code, reply = desk.comment(f"/evalgate accept {name}")
    refused = reply.startswith("**Not accepted**")
    assert (code, refused) == (1, True), reply
    assert len(name) < 2 or name not in reply
    assert desk.branch() == OLD
    assert list(desk.root.rglob("pwned*")) == []


def of_fork(desk: Desk) -> None:
    desk.double.state.add_pull(12, head_sha=desk.sha, head_ref=BRANCH, fork="stranger/r")


def closed(desk: Desk) -> None:
    desk.double.state.pulls[12]["state"] = "closed"


def report_of_fork(desk: Desk) -> None:
    """Of the same commit, by a workflow that a stranger wrote."""
    (artifact,) = desk.double.state.artifacts.values()
    artifact["workflow_run"]["head_repository_id"] = 2


def expired(desk: Desk) -> None:
    (artifact,) = desk.double.state.artifacts.values()
    artifact["expired"] = True


def moved_on(desk: Desk) -> None:
    server = desk.root / "server/o/r"
    other = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", "commit-tree", "HEAD^{tree}", "-m", "x"],
        cwd=server, check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    subprocess.run(["git", "update-ref", f"refs/heads/{BRANCH}", other], cwd=server, check=True)


def read_only(desk: Desk) -> None:
    hook = desk.root / "server/o/r/hooks/pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)


def is_default(desk: Desk) -> None:
    pull = desk.double.state.pulls[12]
    pull["head"]["ref"] = "main"
    pull["base"]["repo"]["default_branch"] = "main"


@pytest.mark.parametrize(
    ("harm", "case", "reason"),
    [
        (of_fork, "case_0", "the branch is in a fork, where this workflow may not write"),
        (closed, "case_0", "the pull request is closed"),
        (report_of_fork, "case_0", "there is no report of"),
        (expired, "case_0", "there is no report of"),
        (moved_on, "case_0", "the branch has a new commit"),
        (read_only, "case_0", "the branch cannot be written, or has a new commit"),
        (is_default, "case_0", "the branch is the default branch"),
        # what evalgate says of it is a block that nobody can break out of
        (lambda _: None, "case_9", "no expectation was changed.\n\n    error: no results of a case 'case_9'"),
        (lambda _: None, "case_2", "no expectation was changed.\n\n    case_2: not accepted: it passes"),
    ],
)  # fmt: skip
def test_a_refusal_says_why(
    desk: Desk, harm: Callable[[Desk], None], case: str, reason: str
) -> None:
    harm(desk)
    code, reply = desk.comment(f"/evalgate accept {case}")
    assert code == 1
    assert reply.startswith(f"**Not accepted**: {reason}"), reply
    assert desk.branch() == OLD
    assert desk.branch("main") == OLD
