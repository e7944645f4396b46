"""README's workflow, to the letter, under act: the action `gate` on a machine with Docker and on
one without.

Stand-ins, since act cannot fetch the marketplace's actions here: actions/cache (folders instead of
GitHub's storage), actions/upload-artifact (copies into a folder), actions/checkout (act copies the
tree), and GitHub's API. The job runs on this machine itself, as on a self-hosted runner. What this
never met is github.com."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pins
import pytest
from builders import repositories, shipped
from builders.github_double import Double, served

from tests.action.test_workflow import (
    ACT,
    DEMO,
    NUMBER,
    REPOSITORY,
    ROOT,
    SURROUNDINGS,
    TOKEN,
    Change,
    pull_request,
)  # fmt: skip

pytestmark = pytest.mark.action

KEY = "key-of-the-model"
RUN_IDS = itertools.count(500)

CACHE_ACTION = """\
name: stand-in for actions/cache/{part}
inputs: {{path: {{required: true}}, key: {{required: true}}, restore-keys: {{default: ""}}}}
outputs:
  cache-hit: {{value: "${{{{ steps.step.outputs.hit }}}}"}}
  cache-primary-key: {{value: "${{{{ inputs.key }}}}"}}
runs:
  using: composite
  steps:
    - id: step
      shell: bash
      run: bash "$GITHUB_ACTION_PATH/../cache.sh" {part}
      env: {{PATHS: "${{{{ inputs.path }}}}", KEY: "${{{{ inputs.key }}}}", PREFIXES: "${{{{ inputs.restore-keys }}}}"}}
"""
CACHE_SCRIPT = r"""
set -euo pipefail
store=$STAND_INS/caches
mkdir -p "$store"
file=$store/${KEY//\//%}.tar
if [ "$1" = save ]; then
  if [ -e "$file" ]; then echo "not saved, the key exists: $KEY"; exit; fi
  found=() excluded=()
  while IFS= read -r pattern; do
    case $pattern in
      '') ;;
      !*) excluded+=("--exclude=${pattern#!}") ;;
      *) for path in $pattern; do if [ -e "$path" ]; then found+=("$path"); fi; done ;;
    esac
  done <<<"$PATHS"
  if [ ${#found[@]} = 0 ]; then echo "nothing to save: $KEY"; exit; fi
  tar -cf "$file" "${excluded[@]}" "${found[@]}"
  echo "saved: $KEY"
  exit
fi
hit=false
if [ -e "$file" ]; then
  hit=true
else
  file=
  while IFS= read -r prefix; do
    if [ -n "$prefix" ] && [ -z "$file" ]; then
      file=$(ls -t "$store" | grep -F -- "${prefix//\//%}" | head -n 1 || true)
      file=${file:+$store/$file}
    fi
  done <<<"$PREFIXES"
fi
if [ -n "$file" ]; then tar -xf "$file"; fi
echo "restored: $(basename "$file" .tar) for $KEY"
echo "hit=$hit" >>"$GITHUB_OUTPUT"
"""
UPLOAD_ACTION = """\
name: stand-in for actions/upload-artifact
inputs: {name: {default: ""}, path: {required: true}, archive: {default: "true"}, if-no-files-found: {default: warn}}
runs:
  using: composite
  steps:
    - shell: bash
      run: |
        to=$STAND_INS/artifacts
        if [ "$ARCHIVE" = true ]; then to=$to/$NAME; fi
        if [ ! -e "$FROM" ]; then echo "no files: $FROM"; exit; fi
        if [ -d "$FROM" ]; then FROM=$FROM/.; fi
        mkdir -p "$to" && cp -r "$FROM" "$to"
      env: {NAME: "${{ inputs.name }}", FROM: "${{ inputs.path }}", ARCHIVE: "${{ inputs.archive }}"}
"""
DOCKER = """\
#!/usr/bin/env bash
printf '%s\\n' "$*" >>"$STAND_INS/docker.log"
case $1 in run) shift; exec {docker} run --network host "$@" ;; *) exec {docker} "$@" ;; esac
"""
"""Writes down what it is asked for, and gives the container the machine's network, where the
stand-in for GitHub is."""


@dataclass
class Machine:
    """A self-hosted runner: act, the action's files, the stand-ins and what they keep."""

    temp: Path
    double: Double
    path: str

    @classmethod
    def made(cls, temp: Path, double: Double, *, docker: str) -> Machine:
        shipped.copy(temp / "action", "evalgate", "gate")
        (temp / "cache").mkdir()
        (temp / "cache/cache.sh").write_text(CACHE_SCRIPT, encoding="utf-8")
        for part in ("restore", "save"):
            (temp / "cache" / part).mkdir()
            (temp / "cache" / part / "action.yml").write_text(
                CACHE_ACTION.format(part=part), encoding="utf-8"
            )
        for name in ("upload", "bin", "artifacts"):
            (temp / name).mkdir()
        (temp / "upload/action.yml").write_text(UPLOAD_ACTION, encoding="utf-8")
        (temp / "bin/docker").write_text(docker, encoding="utf-8")
        (temp / "bin/docker").chmod(0o755)
        cls._repository(temp)
        return cls(temp=temp, double=double, path=f"{temp / 'bin'}{os.pathsep}{os.environ['PATH']}")

    @staticmethod
    def _repository(temp: Path) -> None:
        """A pull request on the demo's agent, with README's workflow and nothing else of
        evalgate's."""
        repository = repositories.made(temp / "repository")
        ignored = shutil.ignore_patterns("__pycache__", ".adk")
        shutil.copytree(DEMO / "repository", repository, ignore=ignored, dirs_exist_ok=True)
        base = repositories.commit(
            repository, {".github/workflows/evalgate.yml": readmes_workflow()}
        )
        repositories.git(
            repository, "remote", "add", "origin", f"https://github.com/{REPOSITORY}.git"
        )
        repositories.git(repository, "checkout", "--quiet", "-b", "change")
        desk = (repository / "library_desk/desk.py").read_text(encoding="utf-8")
        head = repositories.commit(repository, {"library_desk/desk.py": f"{desk}\n# a change\n"})
        event = pull_request(Change(), base=base, head=head)
        (temp / "event.json").write_text(json.dumps(event), encoding="utf-8")

    def run(self) -> str:
        """The log of one workflow run, which has to end green."""
        of = {name: release.commit for name, release in pins.releases().items()}
        replaced = {
            "OWNER/evalgate@v1": self.temp / "action",
            f"actions/cache@{of['actions/cache']}": self.temp / "cache",
            f"actions/upload-artifact@{of['actions/upload-artifact']}": self.temp / "upload",
        }
        variables = {name: os.environ[name] for name in SURROUNDINGS if name in os.environ}
        variables |= {
            "GITHUB_API_URL": self.double.url,
            "GITHUB_RUN_ID": str(next(RUN_IDS)),
            "STAND_INS": str(self.temp),
        }
        done = subprocess.run(
            [
                str(ACT),
                "pull_request",
                f"--eventpath={self.temp / 'event.json'}",
                "--platform=ubuntu-latest=-self-hosted",
                "--pull=false",
                "--action-offline-mode",
                f"--action-cache-path={self.temp / 'actions'}",
                *(f"--local-repository={name}={folder}" for name, folder in replaced.items()),
                *(f"--env={name}={value}" for name, value in variables.items()),
                f"--secret=GOOGLE_API_KEY={KEY}",
                f"--secret=GITHUB_TOKEN={TOKEN}",
            ],
            cwd=self.temp / "repository",
            env={**os.environ, "PATH": self.path},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        log = done.stdout + done.stderr
        assert done.returncode == 0, log[-8000:]
        assert "Job succeeded" in log
        assert re.search(r"::set-output:: verdict=pass$", log, re.MULTILINE), log[-8000:]
        for secret in (KEY, TOKEN):
            assert secret not in log
        return log

    def comment(self) -> str:
        (comment,) = (
            each for each in self.double.state.comments.values() if each["number"] == NUMBER
        )
        body: str = comment["body"]
        return body

    def saved(self, log: str) -> list[str]:
        """The caches that a run saved, without what is each run's own."""
        return [
            re.sub(r"[0-9a-f]{64}|\d{3,}-\d+$", "*", key)
            for key in re.findall(r"\| saved: (\S+)", log)
        ]


def readmes_workflow() -> str:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return readme.partition("<!-- workflow -->\n```yaml\n")[2].partition("```\n<!-- /workflow -->")[
        0
    ]


@pytest.fixture
def double() -> Iterator[Double]:
    double = Double()
    double.state.add_pull(NUMBER)
    with served(double) as running:
        yield running
    assert double.problems() == []
    assert {each.headers["authorization"] for each in double.seen} <= {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("way", ["container", "uv"])
def test_the_readmes_workflow_runs_twice_and_the_second_run_restores_what_the_first_saved(
    tmp_path: Path, double: Double, way: str
) -> None:
    real = shutil.which("docker")
    if not ACT.exists() or (way == "container" and real is None):
        pytest.skip(
            "needs the system: act, and for the container Docker's client (`make test-action`)"
        )
    docker = DOCKER.format(docker=real) if way == "container" else "#!/bin/sh\nexit 1\n"
    machine = Machine.made(tmp_path, double, docker=docker)

    first = machine.run()
    kept = f"evalgate-kept-refs/pull/{NUMBER}/merge"
    assert machine.saved(first) == [f"evalgate-Linux-X64-{way}-*", f"{kept}-*"]
    # one case on both sides shows that the agent opens what the change edits
    assert [text for text in ("running 2 trials", "running 14 trials") if text not in first] == []
    steps = (
        "image" if way == "container" else "packages of evalgate",
        "environment",
        "first trial after",
    )
    assert [name for name in steps if f"| time: {name} " not in first] == []
    assert re.search(r"\| time: environment [\d.]+ s, import [\d.]+ s$", first, re.MULTILINE)
    (environment,) = (tmp_path / "caches").glob(f"evalgate-Linux-X64-{way}-*.tar")
    with tarfile.open(environment) as members:
        names = members.getnames()
    assert any(name.endswith("pyvenv.cfg") for name in names)
    assert not any(
        name.startswith((".cache/evalgate/store", ".cache/evalgate/verdicts")) for name in names
    )

    # what a run leaves: both artifacts, and the comment, which says how agents ran
    page = (tmp_path / "artifacts/report.html").read_text(encoding="utf-8")
    assert page == (tmp_path / "artifacts/evalgate/report.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "artifacts/evalgate/results.json").read_text(encoding="utf-8"))
    for told in (first, machine.comment()):
        assert ("without isolation" in told) is (way == "uv")

    shutil.rmtree(tmp_path / "artifacts")
    (tmp_path / "artifacts").mkdir()
    second = machine.run()
    assert machine.saved(second) == [f"{kept}-*"]
    assert re.search(
        rf"\| restored: evalgate-Linux-X64-{way}-(\w+) for evalgate-Linux-X64-{way}-\1$",
        second,
        re.MULTILINE,
    )
    assert re.search(r"\| restored: evalgate-kept-refs%pull%7%merge-\d+-1 for ", second)
    assert "reused from earlier runs" in second

    asked = tmp_path / "docker.log"
    if way == "container":
        commands = asked.read_text(encoding="utf-8")
        assert commands.count("run --rm") == 2
        for secret in (KEY, TOKEN, "docker.sock"):
            assert secret not in commands
    stored = b"".join(path.read_bytes() for path in (tmp_path / "caches").iterdir())
    for secret in (KEY, TOKEN):
        assert secret.encode() not in stored
