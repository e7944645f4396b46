"""The action as GitHub runs it: the real Dockerfile, a real workflow under act, a repository with an ADK agent."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.action

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples" / "demo"
ACT = Path(sys.executable).with_name("act")
SHIPPED = ("action.yml", "Dockerfile", ".dockerignore", "requirements.lock", "requirements-build.lock", "entrypoint.py")
SURROUNDINGS = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "init.defaultBranch=main")

NEXT_STEP = """\
set -e
echo "verdict=[$VERDICT] exit=[$EXIT_CODE] failed=[$FAILED] outcome=[$OUTCOME]"
echo "reason=[$REASON]"
for file in "$JUNIT" "$COMMENT" "$RESULTS" "$HTML"; do
  if [ -n "$file" ]; then su nobody -s /bin/sh -c "wc -c < '$file'" > /dev/null && echo "readable=[$file]"; fi
done
if [ -n "$JUNIT" ]; then echo "junit=[$(grep -o '<testsuites[^>]*>' "$JUNIT" | head -n 1)]"; fi
find . -path ./.git -prune -o -user 0 -print | sed 's/^/of root: /'
"""


@dataclass(frozen=True)
class Job:
    """What came of a job."""

    code: int
    log: str

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
class Actor:
    """Runs workflows on repositories, all with one cache folder mounted."""

    temp: Path

    def run(self, name: str, *, change: Path | None = None, patch: dict[str, str] | None = None) -> Job:
        """A pull request on the demo's repository, with `change` laid over it and the texts of `patch` written."""
        repository = self.temp / name
        shutil.copytree(DEMO / "repository", repository, ignore=shutil.ignore_patterns("__pycache__", ".adk"))
        if change is not None:
            shutil.copytree(change, repository, dirs_exist_ok=True)
        for file, text in {**(patch or {}), ".github/workflows/gate.yml": yaml.safe_dump(workflow())}.items():
            (repository / file).parent.mkdir(parents=True, exist_ok=True)
            (repository / file).write_text(text, encoding="utf-8")
        remote = "https://github.com/org/repo.git"
        for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", name), ("remote", "add", "origin", remote)):
            subprocess.run([*GIT, *command], cwd=repository, check=True)
        done = subprocess.run(
            [*self._command(), *(f"--env={key}={os.environ[key]}" for key in SURROUNDINGS if key in os.environ)],
            cwd=repository,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return Job(code=done.returncode, log=done.stdout + done.stderr)

    def _command(self) -> list[str]:
        event = self.temp / "event.json"
        event.write_text(json.dumps({"pull_request": pull_request(), "number": 7}), encoding="utf-8")
        return [
            str(ACT),
            "pull_request",
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
            "--secret=DESK_KEY=s3cret-of-the-desk",
            "--secret=GITHUB_TOKEN=t0ken-of-the-job",
        ]


def workflow() -> dict[str, object]:
    """The example's workflow, with a mounted cache instead of actions/cache, and a step that looks at what is left."""
    flow = yaml.safe_load((ROOT / "examples" / "workflows" / "minimal.yml").read_text(encoding="utf-8"))
    checkout, _, gate, _ = flow["jobs"]["gate"]["steps"]
    gate["with"] = {"cache": "/cache", "env": "DESK_KEY"}
    gate["env"] = {"DESK_KEY": "${{ secrets.DESK_KEY }}", "GITHUB_TOKEN": "${{ github.token }}"}
    names = ("verdict", "reason", "exit-code", "failed", "junit", "comment", "results", "html")
    seen = {name.replace("-", "_").upper(): f"${{{{ steps.gate.outputs.{name} }}}}" for name in names}
    look = {"if": "always()", "run": NEXT_STEP, "env": {**seen, "OUTCOME": "${{ steps.gate.outcome }}"}}
    # on GitHub the checkout belongs to the runner's user, and the container is root
    foreign = {"run": "chown -R 1001:1001 ."}
    # PyYAML reads the key `on` as true
    return {"name": "gate", "on": "pull_request", "jobs": {"gate": {
        "runs-on": "ubuntu-latest", "steps": [checkout, foreign, gate, look],
    }}}  # fmt: skip


def pull_request() -> dict[str, object]:
    repository = {"full_name": "org/repo"}
    return {
        "number": 7,
        "head": {"sha": "1" * 40, "ref": "change", "repo": repository},
        "base": {"sha": "2" * 40, "ref": "main", "repo": repository},
    }


@pytest.fixture(scope="module")
def actor(tmp_path_factory: pytest.TempPathFactory) -> Actor:
    if not ACT.exists() or not (os.environ.get("DOCKER_HOST") or Path("/var/run/docker.sock").exists()):
        pytest.skip("needs act and a container host: run `make test-action`")
    temp = tmp_path_factory.mktemp("act")
    (temp / "cache").mkdir()
    action = temp / "action"
    action.mkdir()
    for name in SHIPPED:
        shutil.copy2(ROOT / name, action / name)
    shutil.copytree(ROOT / "evalgate", action / "evalgate", ignore=shutil.ignore_patterns("__pycache__"))
    return Actor(temp=temp)


def test_a_passing_gate_ends_the_job_green(actor: Actor) -> None:
    look = """\
import os
seen = [n for n in os.environ if n.startswith(("GITHUB_", "ACTIONS_", "INPUT_", "RUNNER_"))]
assert not seen and os.environ["DESK_KEY"] == "s3cret-of-the-desk", f"the agent sees {seen}"
"""
    desk = (DEMO / "repository/library_desk/desk.py").read_text(encoding="utf-8")
    job = actor.run("passing", patch={"library_desk/desk.py": desk + look})

    assert job.code == 0, job.log[-6000:]
    assert "Job succeeded" in job.log
    assert (job.told("verdict"), job.told("exit"), job.told("failed")) == ("pass", "0", "0")
    assert job.told("outcome") == "success"
    assert job.readable() == 4
    assert 'tests="8"' in job.told("junit")
    assert "Summary - " in job.log
    assert job.left_to_root() == [], "the next checkout could not remove these"


def test_a_failing_gate_ends_the_job_red_and_later_steps_can_read_why(actor: Actor) -> None:
    job = actor.run("failing", change=DEMO / "change")

    assert job.code == 1, job.log[-6000:]
    assert "Job failed" in job.log
    assert (job.told("verdict"), job.told("exit"), job.told("failed")) == ("fail", "1", "3")
    assert job.told("outcome") == "failure"
    assert job.readable() == 4
    assert "renewal_refused_while_others_wait" in job.log
    assert job.left_to_root() == []


def test_a_broken_agent_ends_the_job_red_with_the_reason(actor: Actor) -> None:
    job = actor.run("broken", patch={"library_desk/desk.py": "import a_package_that_nobody_installed\n"})

    assert job.code == 1, job.log[-6000:]
    assert (job.told("verdict"), job.told("exit")) == ("not_measured", "3")
    assert "a_package_that_nobody_installed" in job.log
    assert job.readable() == 4
