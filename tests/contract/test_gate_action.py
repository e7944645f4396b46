"""Both actions have the same inputs and outputs; what a workflow says never stands in a script or
an argument."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "gate/steps.sh"
CONTAINER, COMPOSITE = (
    yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    for name in ("action.yml", "gate/action.yml")
)
STEPS: list[dict[str, Any]] = COMPOSITE["runs"]["steps"]
TOKEN = "ghs_token-of-the-job"
HOSTILE = "$(touch pwned) `touch pwned` \"'; touch pwned\n::error::x"


def step(name: str) -> dict[str, Any]:
    return next(each for each in STEPS if each.get("id") == name)


def test_both_actions_have_the_same_inputs_and_outputs() -> None:
    assert COMPOSITE["inputs"] == CONTAINER["inputs"]
    values = {name: output.pop("value") for name, output in COMPOSITE["outputs"].items()}
    assert COMPOSITE["outputs"] == CONTAINER["outputs"]
    assert values == {
        name: f"${{{{ steps.gate.outputs.{name} }}}}" for name in CONTAINER["outputs"]
    }


def test_every_input_reaches_the_gate_as_a_runner_would_pass_it() -> None:
    given = {
        name: value for name, value in step("gate")["env"].items() if name.startswith("INPUT_")
    }
    assert given == {
        f"INPUT_{name.upper()}": f"${{{{ inputs.{name} }}}}" for name in CONTAINER["inputs"]
    }


@pytest.mark.parametrize(
    "each", [each for each in STEPS if "run" in each], ids=lambda each: str(each["run"])
)
def test_no_script_holds_what_a_workflow_says(each: Mapping[str, Any]) -> None:
    assert "${{" not in each["run"]
    assert each["shell"] == "bash"


def test_the_readmes_workflow_is_short() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    workflow = readme.partition("<!-- workflow -->\n```yaml\n")[2].partition(
        "```\n<!-- /workflow -->"
    )[0]
    assert len(workflow.splitlines()) <= 15
    assert workflow.count("uses:") == 2
    assert "fetch-depth" not in workflow


def test_what_was_measured_is_kept_and_shown_whatever_came_of_the_gate() -> None:
    behind = STEPS[STEPS.index(step("gate")) + 1 :]
    assert [each["uses"].split("@")[0] for each in behind if "uses" in each] == [
        "actions/cache/save", "actions/cache/save", "actions/upload-artifact", "actions/upload-artifact",
    ]  # fmt: skip
    assert [each for each in behind if not each["if"].startswith("always() && ")] == []
    for saved, name in zip(behind, ("environment", "kept"), strict=False):
        assert saved["with"] == {
            "path": step(name)["with"]["path"],
            "key": f"${{{{ steps.{name}.outputs.cache-primary-key }}}}",
        }
    # a key of each attempt, since what is saved under a key stays as it is; found by what all keys
    # of a ref begin with
    kept = step("kept")["with"]
    ours, of_base = kept["restore-keys"].splitlines()
    assert kept["key"] == f"{ours}${{{{ github.run_id }}}}-${{{{ github.run_attempt }}}}"
    assert ours.endswith("-${{ github.ref }}-")
    assert of_base.startswith(ours.replace("${{ github.ref }}-", "refs/heads/"))


# --- the steps on a machine whose Docker writes down what it is asked for -------------------------


class Machine:
    """A runner's folders, and a `docker` that keeps its arguments and its environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "work/r/r"
        self.temp = folder / "work/_temp"
        for place in (
            self.workspace,
            self.temp / "_runner_file_commands",
            self.temp / "_github_workflow",
        ):
            place.mkdir(parents=True)
        (folder / "bin").mkdir()
        self.install(
            "docker", 'printf "%s\\0" "$@" >"$LOG/arguments"; env -0 >"$LOG/environment"\n'
        )
        self.output = self.temp / "_runner_file_commands/set_output_1"
        self.environment = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "LOG": str(folder),
            "HOME": str(folder),
            "RUNNER_OS": "Linux",
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_EVENT_PATH": str(self.temp / "_github_workflow/event.json"),
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_REPOSITORY": "o/r",
            "JOB_CONTAINER": "",
            "NAME": "",
            "SHARD": "",
            "NETWORK": "",
            "WAY": "container",
            "IMAGE": "ghcr.io/o/evalgate@sha256:0",
            "WORKFLOW_ENV": "{}",
            "A_VARIABLE_OF_THE_MACHINE": "x",
        }

    def install(self, name: str, text: str) -> None:
        (self.folder / "bin" / name).write_text(f"#!/usr/bin/env bash\n{text}", encoding="utf-8")
        (self.folder / "bin" / name).chmod(0o755)

    def run(self, name: str, **variables: str) -> dict[str, str]:
        """The step's outputs."""
        self.output.write_text("", encoding="utf-8")
        done = subprocess.run(
            ["bash", SCRIPT, name],
            cwd=self.workspace,
            env=self.environment
            | {key.replace("__", "-"): value for key, value in variables.items()},
            capture_output=True,
            text=True,
            check=False,
        )
        self.log = done.stdout + done.stderr
        assert done.returncode == 0, self.log
        return dict(
            line.split("=", 1) for line in self.output.read_text(encoding="utf-8").splitlines()
        )

    def arguments(self) -> list[str]:
        return (self.folder / "arguments").read_text(encoding="utf-8").split("\0")[:-1]

    def passed(self) -> dict[str, str]:
        """The variables that the container gets."""
        parts = self.arguments()
        names = [value for flag, value in itertools.pairwise(parts) if flag == "--env"]
        lines = (self.folder / "environment").read_text(encoding="utf-8").split("\0")[:-1]
        environment = dict(line.split("=", 1) for line in lines)
        return {name.split("=")[0]: name.partition("=")[2] or environment[name] for name in names}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_container_gets_the_runners_mounts_and_variables_and_no_more(machine: Machine) -> None:
    workspace, temp = machine.workspace, machine.temp
    credentials = f"{workspace}/gha-creds-1.json"
    identity = {
        "ACTIONS_ID_TOKEN_REQUEST_URL": "https://x.example/",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "t",
    }
    workflow = {
        "GOOGLE_API_KEY": "key",
        "SEVERAL": 'lines\n  "FAKE": 1',
        "GOOGLE_APPLICATION_CREDENTIALS": credentials,
    }
    machine.run(
        "run",
        WORKFLOW_ENV=json.dumps(workflow | {"PATH": "/x"}, indent=2),
        INPUT_NAME="n",
        **workflow,
        **identity,
    )
    arguments = machine.arguments()
    volumes = [value for flag, value in itertools.pairwise(arguments) if flag == "--volume"]
    assert sorted(volumes) == sorted([
        f"{workspace}:/github/workspace",
        f"{temp}/_github_workflow:/github/workflow",
        f"{temp}/_runner_file_commands:/github/file_commands",
        f"{temp}/_github_home:/github/home",
        f"{temp}:/github/runner_temp",
    ])  # fmt: skip
    assert arguments[arguments.index("--workdir") + 1] == "/github/workspace"
    assert arguments[-1] == machine.environment["IMAGE"]
    assert machine.passed() == {
        **identity,
        "HOME": "/github/home",
        "GITHUB_EVENT_PATH": "/github/workflow/event.json",
        "GITHUB_OUTPUT": "/github/file_commands/set_output_1",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_WORKSPACE": "/github/workspace",
        "RUNNER_OS": "Linux",
        "RUNNER_TEMP": "/github/runner_temp",
        "INPUT_CACHE": ".cache/evalgate",
        "INPUT_NAME": "n",
        "GOOGLE_API_KEY": "key",
        "SEVERAL": workflow["SEVERAL"],
        "GOOGLE_APPLICATION_CREDENTIALS": "/github/workspace/gha-creds-1.json",
    }


def test_no_value_is_an_argument_and_none_is_run(machine: Machine) -> None:
    inputs = {f"INPUT_{name.upper().replace('-', '__')}": HOSTILE for name in CONTAINER["inputs"]}
    inputs["INPUT_GITHUB__TOKEN"] = TOKEN
    machine.run("run", **inputs)
    given = {name: value for name, value in machine.passed().items() if name.startswith("INPUT_")}
    assert given == {f"INPUT_{name.upper()}": HOSTILE for name in CONTAINER["inputs"]} | {
        "INPUT_GITHUB-TOKEN": TOKEN
    }
    told = machine.log + "".join(machine.arguments())
    assert TOKEN not in told
    assert "touch" not in told
    assert list(machine.folder.rglob("pwned")) == []


@pytest.mark.parametrize(
    ("variables", "gate", "suffix"),
    [
        ({}, "", ""),
        ({"NAME": "travel"}, "-travel", "-travel"),
        # the parts of a gate have what the merge kept
        ({"SHARD": "2/8"}, "", "-shard-2"),
        ({"NAME": "travel", "SHARD": "2/8"}, "-travel", "-travel-shard-2"),
        # what neither a cache's key nor an artifact's name may hold
        ({"NAME": 'a, b/c:"d"\nway=uv'}, "-a--b-c--d--way=uv", "-a--b-c--d--way=uv"),
        ({"NAME": "旅行"}, "-旅行", "-旅行"),
    ],
)
def test_gates_of_one_workflow_run_have_caches_and_artifacts_of_their_own(
    machine: Machine, variables: dict[str, str], gate: str, suffix: str
) -> None:
    outputs = machine.run("plan", **variables)
    assert (outputs["way"], outputs["gate"], outputs["suffix"]) == ("container", gate, suffix)


@pytest.mark.parametrize(
    ("variables", "docker", "why"),
    [
        ({"RUNNER_OS": "macOS"}, "exit 0\n", "the image needs Linux"),
        ({"JOB_CONTAINER": "abc"}, "exit 0\n", "the job runs in a container of its own"),
        ({}, "exit 1\n", "no Docker engine answers"),
    ],
)
def test_where_there_is_no_docker_the_log_says_without_isolation(
    machine: Machine, variables: dict[str, str], docker: str, why: str
) -> None:
    machine.install("docker", docker)
    assert machine.run("plan", **variables)["way"] == "uv"
    assert f"::without isolation: {why}, so agents run with the rights of this step" in machine.log


def test_windows_is_refused(machine: Machine) -> None:
    with pytest.raises(AssertionError, match="evalgate does not run on Windows"):
        machine.run("plan", RUNNER_OS="Windows")


@pytest.mark.parametrize(
    ("variables", "folder", "page"),
    [
        ({}, "./evalgate-report", ""),
        ({"ROOT": "shop", "OUTPUT": "out"}, "shop/out", ""),
        # evalgate.yml may name another folder
        ({"HTML": "reports/report.html"}, "reports", "reports/report.html"),
        ({"HTML": "reports/report.html", "SUFFIX": "-travel"}, "reports", "evalgate-travel.html"),
        ({"HTML": "reports/report.html", "SHARD": "1/2"}, "reports", ""),
    ],
)
def test_what_the_artifacts_hold(
    machine: Machine, variables: dict[str, str], folder: str, page: str
) -> None:
    (machine.workspace / "reports").mkdir()
    (machine.workspace / "reports/report.html").write_text("x", encoding="utf-8")
    names = dict.fromkeys(("ROOT", "OUTPUT", "HTML", "SUFFIX", "SHARD"), "")
    outputs = machine.run("reports", **(names | variables))
    assert outputs["folder"] == folder
    assert outputs["page"] == (f"{machine.temp}/{page}" if page.startswith("evalgate-") else page)


@pytest.mark.parametrize(("image", "asked"), [
    ("docker://ghcr.io/o/evalgate@sha256:1", "ghcr.io/o/evalgate@sha256:1"),
    ("Dockerfile", "built"),
])  # fmt: skip
def test_the_image_is_the_root_actions(
    machine: Machine, tmp_path: Path, image: str, asked: str
) -> None:
    action = tmp_path / "action"
    (action / "gate").mkdir(parents=True)
    (action / "action.yml").write_text(
        f"runs:\n  using: docker\n  image: {image}\n", encoding="utf-8"
    )
    (action / "gate/steps.sh").write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    machine.install(
        "docker", 'case $1 in build) [ "$3" = "$ACTION" ] && echo built ;; image) exit 1 ;; esac\n'
    )
    machine.output.write_text("", encoding="utf-8")
    environment = machine.environment | {"ACTION": str(action)}
    subprocess.run(["bash", action / "gate/steps.sh", "image"], env=environment, check=True)
    assert machine.output.read_text(encoding="utf-8") == f"image={asked}\n"


def test_a_digest_that_cannot_be_pulled_ends_the_step(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "gate").mkdir()
    (tmp_path / "action.yml").write_text(
        "runs:\n  image: docker://ghcr.io/o/evalgate@sha256:1\n", encoding="utf-8"
    )
    (tmp_path / "gate/steps.sh").write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    machine.install("docker", "exit 1\n")
    done = subprocess.run(
        ["bash", tmp_path / "gate/steps.sh", "image"], env=machine.environment, check=False
    )
    assert done.returncode == 1
    assert not machine.output.exists()
