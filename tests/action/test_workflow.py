"""The action as GitHub runs it: the real Dockerfile, a real workflow under act, a repository with
an ADK agent, and a GitHub that remembers what it is told."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from builders import repositories, shipped
from builders.github_double import Double, served

pytestmark = pytest.mark.action

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples" / "demo"
ACT = Path(sys.executable).with_name("act")
SURROUNDINGS = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
)
REPOSITORY, NUMBER = "o/r", 7
TOKEN = "ghs_t0ken-of-the-job"
RUN_ID = 77
RUN_IDS = itertools.count(100)
DISPATCHED = NUMBER + 2

NEXT_STEP = """\
set -e
echo "verdict=[$VERDICT] exit=[$EXIT_CODE] failed=[$FAILED] outcome=[$OUTCOME]"
echo "reason=[$REASON]"
for file in "$JUNIT" "$COMMENT" "$RESULTS" "$HTML"; do
  if [ -n "$file" ]; then su nobody -s /bin/sh -c "wc -c < '$file'" > /dev/null && echo "readable=[$file]"; fi
done
if [ -n "$JUNIT" ]; then echo "junit=[$(grep -o '<testsuites[^>]*>' "$JUNIT" | head -n 1)]"; fi
find . -path ./.git -prune -o -user 0 -print | sed 's/^/of root: /'
if [ -n "$RESULTS" ]; then cp "$RESULTS" /cache/; fi
if [ -d kept ]; then cp -r kept /cache/; fi
"""


@dataclass(frozen=True)
class Job:
    """What came of a job."""

    code: int
    log: str
    head: str
    base: str

    def told(self, name: str) -> str:
        """What the next step printed as `name=[...]`."""
        found = re.search(rf"\| .*?\b{name}=\[(.*?)\]", self.log)
        assert found is not None, self.log[-6000:]
        return found[1]

    def readable(self) -> int:
        """How many of the reports the next step could read as nobody."""
        return len(re.findall(r"^\[.*\]\s+\| readable=\[", self.log, re.MULTILINE))

    def left_to_root(self) -> list[str]:
        """What in the workspace belonged to root after the gate."""
        return re.findall(r"^\[.*\]\s+\| of root: (.*)", self.log, re.MULTILINE)


@dataclass(frozen=True)
class Change:
    """What a job is run for: the event's name, what is laid over the demo's repository, the inputs
    of the steps before the last one and of that one, the repository's evalgate.yml, and a workflow
    instead of all that."""

    event: str = "pull_request"
    overlay: Path | None = None
    patch: dict[str, str] = field(default_factory=dict)
    before: tuple[dict[str, str], ...] = ()
    inputs: dict[str, str] = field(default_factory=lambda: {"baseline": "none"})
    gate_file: str = ""
    fork: str = ""
    example: str = ""


@dataclass(frozen=True)
class Actor:
    """Runs workflows on repositories, all with one cache folder mounted, and all told to one
    GitHub."""

    temp: Path
    double: Double

    def run(self, name: str, change: Change) -> Job:
        """The demo's repository as the base, and `change` on top of it."""
        repository = repositories.made(self.temp / name)
        shutil.copytree(
            DEMO / "repository",
            repository,
            ignore=shutil.ignore_patterns("__pycache__", ".adk"),
            dirs_exist_ok=True,
        )
        example = ROOT / "examples" / "workflows" / change.example
        text = (
            example.read_text(encoding="utf-8")
            if change.example
            else yaml.safe_dump(workflow(change))
        )
        # the container alone; test_two_lines.py has the other
        text = text.replace("/evalgate/gate@", "/evalgate@")
        if change.event == "workflow_dispatch":
            text = yaml.safe_dump(reviewed(text))
        flow = {".github/workflows/gate.yml": text, "evalgate.yml": change.gate_file}
        base = repositories.commit(repository, flow)
        repositories.git(
            repository, "remote", "add", "origin", f"https://github.com/{REPOSITORY}.git"
        )
        if change.overlay is not None:
            shutil.copytree(change.overlay, repository, dirs_exist_ok=True)
        head = base
        if change.event in ("pull_request", "workflow_dispatch"):
            repositories.git(repository, "checkout", "--quiet", "-b", "change")
            head = repositories.commit(repository, change.patch)
        if change.event == "workflow_dispatch":
            self.double.state.add_pull(DISPATCHED, fork=change.fork, head_sha=head)
        done = subprocess.run(
            [
                *self._command(change, base=base, head=head),
                *(f"--env={key}={os.environ[key]}" for key in SURROUNDINGS if key in os.environ),
            ],
            cwd=repository,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return Job(code=done.returncode, log=done.stdout + done.stderr, head=head, base=base)

    def _command(self, change: Change, *, base: str, head: str) -> list[str]:
        event = self.temp / "event.json"
        match change.event:
            case "pull_request":
                payload = pull_request(change, base=base, head=head)
            case "workflow_run":
                payload = workflow_run(change)
            case "workflow_dispatch":
                inputs = {"pull-request": str(DISPATCHED), "sha": head}
                payload = {
                    "inputs": inputs,
                    "ref": "refs/heads/main",
                    "repository": {"full_name": REPOSITORY},
                }
            case _:
                payload = push(head)
        event.write_text(json.dumps(payload), encoding="utf-8")
        return [
            str(ACT),
            change.event,
            "--rm",  # also after a failure
            f"--eventpath={event}",
            "--platform=ubuntu-latest=python:3.13-slim",
            "--pull=false",
            "--action-offline-mode",
            "--network=host",
            "--container-daemon-socket=-",
            f"--action-cache-path={self.temp / 'actions'}",
            f"--local-repository=OWNER/evalgate@v1={self.temp / 'action'}",
            f"--container-options=-v {self.temp / 'cache'}:/cache",
            f"--env=GITHUB_API_URL={self.double.url}",
            f"--env=GITHUB_RUN_ID={next(RUN_IDS)}",  # act's own never grows
            "--secret=DESK_KEY=s3cret-of-the-desk",
            f"--secret=GITHUB_TOKEN={TOKEN}",
        ]


def workflow(change: Change) -> dict[str, object]:
    """The example's workflow, with a mounted cache instead of actions/cache, and a step that looks
    at what is left."""
    flow = yaml.safe_load(
        (ROOT / "examples" / "workflows" / "minimal.yml").read_text(encoding="utf-8")
    )
    checkout, gate = flow["jobs"]["gate"]["steps"]
    gate["id"] = "gate"
    gate["env"] = {"DESK_KEY": "${{ secrets.DESK_KEY }}"}
    always = {"cache": "/cache", "env": "DESK_KEY"}
    before = [
        {**gate, "id": f"before{at}", "with": always | each}
        for at, each in enumerate(change.before)
    ]
    gate["with"] = always | change.inputs
    names = ("verdict", "reason", "exit-code", "failed", "junit", "comment", "results", "html")
    seen = {
        name.replace("-", "_").upper(): f"${{{{ steps.gate.outputs.{name} }}}}" for name in names
    }
    look = {
        "if": "always()",
        "run": NEXT_STEP,
        "env": {**seen, "OUTCOME": "${{ steps.gate.outcome }}"},
    }
    # on GitHub the checkout belongs to the runner's user, and the container is root
    foreign = {"run": "if [ -d /cache/kept ]; then cp -r /cache/kept .; fi; chown -R 1001:1001 ."}
    # PyYAML reads the key `on` as true
    return {"name": "gate", "on": ["pull_request", "push"], "jobs": {"gate": {
        "runs-on": "ubuntu-latest", "steps": [checkout, foreign, *before, gate, look],
    }}}  # fmt: skip


def reviewed(example: str) -> dict[str, object]:
    """The example for a reviewed commit. act copies the working tree and checks out nothing, so
    that HEAD, which actions/checkout would detach, is written here."""
    flow = yaml.safe_load(example.replace("\non:\n", "\n'on':\n"))
    checkout, gate = flow["jobs"]["gate"]["steps"]
    assert checkout["with"].pop("ref") == "${{ inputs.sha }}"
    detached = {"run": 'echo "$SHA" > .git/HEAD', "env": {"SHA": "${{ github.event.inputs.sha }}"}}
    foreign = {"run": "if [ -d /cache/kept ]; then cp -r /cache/kept .; fi; chown -R 1001:1001 ."}
    gate["with"] = {"cache": "/cache", "env": "DESK_KEY", "baseline": "none"}
    gate["env"] = {"DESK_KEY": "${{ secrets.DESK_KEY }}"}
    flow["jobs"]["gate"]["steps"] = [checkout, detached, foreign, gate]
    return flow


def pull_request(change: Change, *, base: str, head: str) -> dict[str, object]:
    there = {"full_name": change.fork or REPOSITORY}
    sides = {
        "head": {"sha": head, "ref": "change", "repo": there},
        "base": {"sha": base, "ref": "main", "repo": {"full_name": REPOSITORY}},
    }
    return {"pull_request": {"number": NUMBER, **sides}, "number": NUMBER}


def workflow_run(change: Change) -> dict[str, object]:
    """The end of the run whose artifact holds what the fork's pull request was found to be."""
    head = change.inputs["head"]
    run = {
        "id": RUN_ID,
        "head_sha": head,
        "head_branch": "change",
        "event": "pull_request",
        "pull_requests": [],
    }
    run |= {
        "conclusion": "success",
        "head_repository": {"full_name": change.fork},
        "name": "evalgate",
    }
    return {"action": "completed", "workflow_run": run, "repository": {"full_name": REPOSITORY}}


def push(after: str) -> dict[str, object]:
    repository = {"full_name": REPOSITORY, "default_branch": "main"}
    return {"ref": "refs/heads/main", "before": "0" * 40, "after": after, "repository": repository}


def comment_of(actor: Actor) -> str:
    """The one comment on the pull request, whichever job wrote or updated it."""
    (comment,) = (each for each in actor.double.state.comments.values() if each["number"] == NUMBER)
    body: str = comment["body"]
    return body


@pytest.fixture(scope="module")
def actor(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Actor]:
    if not ACT.exists():
        pytest.skip("needs act: run `make test-action`")
    temp = tmp_path_factory.mktemp("act")
    (temp / "cache").mkdir()
    shipped.copy(temp / "action")
    # the action names an image, as a release's does
    text = (temp / "action/action.yml").read_text(encoding="utf-8")
    assert text.count("  image: Dockerfile\n") == 1
    text = text.replace("  image: Dockerfile\n", f"  image: docker://{image}\n")
    (temp / "action/action.yml").write_text(text, encoding="utf-8")
    double = Double()
    double.state.add_pull(NUMBER)
    with served(double) as running:
        yield Actor(temp=temp, double=running)
    assert double.problems() == []
    assert {each.headers["authorization"] for each in double.seen} == {f"Bearer {TOKEN}"}


def test_a_passing_gate_ends_the_job_green(actor: Actor) -> None:
    look = """\
import os
seen = [n for n in os.environ if n.startswith(("GITHUB_", "ACTIONS_", "INPUT_", "RUNNER_"))]
assert not seen and os.environ["DESK_KEY"] == "s3cret-of-the-desk", f"the agent sees {seen}"
assert os.getuid() > 64000, "the agent runs as root"
"""
    desk = (DEMO / "repository/library_desk/desk.py").read_text(encoding="utf-8")
    job = actor.run("passing", Change(patch={"library_desk/desk.py": desk + look}))

    assert job.code == 0, job.log[-6000:]
    assert "Job succeeded" in job.log
    assert (job.told("verdict"), job.told("exit"), job.told("failed")) == ("pass", "0", "0")
    assert job.told("outcome") == "success"
    assert job.readable() == 4
    assert 'tests="8"' in job.told("junit")
    assert "Summary - " in job.log
    assert job.left_to_root() == [], "the next checkout could not remove these"
    check = list(actor.double.state.checks.values())[-1]
    assert (check["name"], check["head_sha"], check["conclusion"]) == (
        "evalgate",
        job.head,
        "success",
    )
    assert "8" in comment_of(actor)


def test_a_broken_agent_ends_the_job_red_with_the_reason(actor: Actor) -> None:
    job = actor.run(
        "broken", Change(patch={"library_desk/desk.py": "import a_package_that_nobody_installed\n"})
    )

    assert job.code == 1, job.log[-6000:]
    assert (job.told("verdict"), job.told("exit")) == ("not_measured", "3")
    assert "a_package_that_nobody_installed" in job.log
    assert job.readable() == 4
    assert list(actor.double.state.checks.values())[-1]["conclusion"] == "action_required"
    assert "a_package_that_nobody_installed" in comment_of(actor)


def test_a_forks_pull_request_is_judged_without_posting_and_the_second_workflow_posts_it(
    actor: Actor,
) -> None:
    before = len(actor.double.seen)
    job = actor.run("forked", Change(fork="someone/r"))

    assert job.code == 0, job.log[-6000:]
    assert job.told("verdict") == "pass"
    assert "comes from a fork" in job.log
    assert len(actor.double.seen) == before

    results = (actor.temp / "cache" / "results.json").read_bytes()
    # each of these jobs has its own
    results = re.sub(rb"/actions/runs/\d+/", b"/actions/runs/%d/" % RUN_ID, results)
    actor.double.state.add_artifact(
        "evalgate", {"results.json": results}, run_id=RUN_ID, head_sha=job.head
    )
    fork = {"fork": "someone/r", "head_sha": job.head, "head_ref": "change", "linked": False}
    actor.double.state.add_pull(NUMBER + 1, **fork)
    second = Change(
        event="workflow_run",
        example="fork-safe-post.yml",
        fork="someone/r",
        inputs={"head": job.head},
    )
    posted = actor.run("posted", second)

    assert posted.code == 0, posted.log[-6000:]
    check = list(actor.double.state.checks.values())[-1]
    assert (check["name"], check["conclusion"]) == ("evalgate (fork, unverified)", "neutral")
    (comment,) = (
        each for each in actor.double.state.comments.values() if each["number"] == NUMBER + 1
    )
    assert "They are unverified" in comment["body"]
    assert "8" in comment["body"]


def test_a_commit_of_a_fork_that_was_reviewed_runs_with_secrets_and_is_posted(actor: Actor) -> None:
    look = """\
import os
assert os.environ["DESK_KEY"] == "s3cret-of-the-desk"
"""
    desk = (DEMO / "repository/library_desk/desk.py").read_text(encoding="utf-8")
    patch = {"library_desk/desk.py": desk + look}
    change = Change(
        event="workflow_dispatch", example="fork-reviewed.yml", fork="someone/r", patch=patch
    )
    job = actor.run("reviewed", change)

    assert job.code == 0, job.log[-6000:]
    check = list(actor.double.state.checks.values())[-1]
    assert (check["name"], check["head_sha"], check["conclusion"]) == (
        "evalgate",
        job.head,
        "success",
    )
    (comment,) = (
        each for each in actor.double.state.comments.values() if each["number"] == DISPATCHED
    )
    assert "8" in comment["body"]
    assert "unverified" not in comment["body"]


def test_parts_are_joined_into_one_verdict(actor: Actor) -> None:
    parts = tuple(
        {"baseline": "none", "shard": f"{at}/2", "output": f"parts/{at}"} for at in (1, 2)
    )
    before = len(actor.double.state.checks)
    job = actor.run("parts", Change(before=parts, inputs={"mode": "merge", "results": "parts"}))

    assert job.code == 0, job.log[-6000:]
    assert (job.told("verdict"), job.told("exit")) == ("pass", "0")
    assert 'tests="8"' in job.told("junit")
    assert job.left_to_root() == []
    (check,) = list(actor.double.state.checks.values())[before:]
    assert (check["name"], check["head_sha"], check["conclusion"]) == (
        "evalgate",
        job.head,
        "success",
    )


def test_a_push_seeds_what_a_change_is_compared_with_and_its_failing_gate_ends_the_job_red(
    actor: Actor,
) -> None:
    gate_file = "baseline-folder: kept\n"
    seeded = actor.run("pushed", Change(event="push", inputs={}, gate_file=gate_file))
    assert seeded.code == 0, seeded.log[-6000:]
    assert [path for path in (actor.temp / "cache" / "kept").rglob("*") if path.is_file()]
    assert f"results of {seeded.head[:7]} stored in the" in seeded.log

    job = actor.run("compared", Change(overlay=DEMO / "change", inputs={}, gate_file=gate_file))
    assert job.base == seeded.head, "the same commit, made again"
    assert job.code == 1, job.log[-6000:]
    assert "Job failed" in job.log
    assert (job.told("verdict"), job.told("exit"), job.told("failed")) == ("fail", "1", "3")
    assert job.told("outcome") == "failure"
    assert job.readable() == 4
    assert job.left_to_root() == []
    assert list(actor.double.state.checks.values())[-1]["conclusion"] == "failure"
    body = comment_of(actor)
    assert "renewal_refused_while_others_wait" in body
    assert job.base[:7] in body
    assert "cached results" in body
    assert "0 of 2 reruns passed (base: 2 of 2)" in body, "nothing is staked on stored results"
