"""A stranger's package as docs/extending.md writes it, installed by uv: the gate finds all that it
brings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

PAGE = Path(__file__).parents[2] / "docs/extending.md"
BIN = Path(sys.executable).parent
FILE = re.compile(
    r"^`([\w/.]+)`[^\n]*(?:\n[^`\n][^\n]*)*\n\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE
)
NO_BUILD_TOOL = '\n[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
BACKEND = """
import pathlib, tomllib, zipfile


def build_wheel(folder, config_settings=None, metadata_directory=None):
    project = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]
    name = f"acme_evalgate-{project['version']}"
    info = f"{name}.dist-info"
    lines = [f"[{group}]\\n" + "".join(f"{key} = {value}\\n" for key, value in rows.items())
             for group, rows in project["entry-points"].items()]
    with zipfile.ZipFile(f"{folder}/{name}-py3-none-any.whl", "w") as wheel:
        for path in pathlib.Path("acme_evalgate").glob("*.py"):
            wheel.write(path, str(path))
        wheel.writestr(f"{info}/entry_points.txt", "".join(lines))
        about = f"Metadata-Version: 2.1\\nName: acme-evalgate\\nVersion: {project['version']}\\n"
        wheel.writestr(f"{info}/METADATA", about)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return f"{name}-py3-none-any.whl"
"""
CASES = {
    "eval_set_id": "greetings",
    "eval_cases": [
        {
            "eval_id": "hello",
            "conversation": [
                {
                    "user_content": {"parts": [{"text": "Hello"}]},
                    "final_response": {"parts": [{"text": "Hi"}]},
                }
            ],
        }
    ],
}


class Machine:
    """Packages beside evalgate's own environment, and a repository whose agent and criterion are
    one of theirs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages = folder / "packages"
        self.repository = folder / "repository"
        self.repository.mkdir()
        (self.repository / "greetings.evalset.json").write_text(json.dumps(CASES))
        (self.repository / "test_config.json").write_text(
            json.dumps({"criteria": {"acme_short": 1.0}})
        )

    def install(self, changes: dict[str, tuple[str, str]] | None = None) -> None:
        """The package of the page, with texts of its files changed."""
        files = dict(FILE.findall(PAGE.read_text("utf-8")))
        assert sorted(files) == [
            *(
                "acme_evalgate/__init__.py",
                "acme_evalgate/command.py",
                "acme_evalgate/criterion.py",
            ),
            *("acme_evalgate/driver.py", "acme_evalgate/report.py", "pyproject.toml"),
        ]
        for file, (old, new) in (changes or {}).items():
            assert old in files[file]
            files[file] = files[file].replace(old, new)
        files["pyproject.toml"] += NO_BUILD_TOOL
        source = self.folder / "acme"
        for file, text in {**files, "backend.py": BACKEND}.items():
            (source / file).parent.mkdir(parents=True, exist_ok=True)
            (source / file).write_text(text)
        command = [BIN / "uv", "pip", "install", "--quiet", "--offline", "--python", sys.executable]
        subprocess.run([*command, "--target", self.packages, source], check=True)

    def call(self, *arguments: str, module: bool = False) -> subprocess.CompletedProcess[str]:
        """`evalgate` at a terminal in the repository."""
        command = [sys.executable, "-m", "evalgate"] if module else [str(BIN / "evalgate")]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": str(self.packages),
        }
        return subprocess.run(
            [*command, *arguments],
            cwd=self.repository,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_package_brings_a_criterion_a_driver_a_report_and_a_command(machine: Machine) -> None:
    machine.install()
    done = machine.call("run", "--agent", "acme:Hi there")
    assert done.returncode == 0, done.stdout + done.stderr
    report = machine.repository / "evalgate-report"
    results = json.loads((report / "results.json").read_text())
    (trial,) = results["suites"][0]["cases"][0]["trials"]
    assert trial["grades"]["acme_short"]["value"] == 1.0
    assert (report / "acme.csv").read_text() == "greetings.evalset.json,hello,pass\n"
    assert "Say which version this is." in machine.call("--help").stdout
    assert machine.call("acme").stdout.startswith("acme with evalgate ")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        # a file with an error, which a run needs
        (
            {
                "acme_evalgate/criterion.py": (
                    "from evalgate.criteria.base",
                    "from evalgate.nowhere",
                )
            },
            "ModuleNotFoundError",
        ),
        # what is named is not there
        ({"pyproject.toml": ("criterion:SPEC", "criterion:SPECS")}, "AttributeError"),
        # it is of another class
        ({"pyproject.toml": ("criterion:SPEC", "criterion:grade")}, "is no CriterionSpec"),
        # its name is one of ours
        ({"acme_evalgate/criterion.py": ('"acme_short"', '"response_match_score"')}, "is taken"),
        # a command, when it is called
        ({"acme_evalgate/command.py": ("import click", "import clack")}, "ModuleNotFoundError"),
        # the rows of commands, which `--help` needs too
        ({"acme_evalgate/__init__.py": ("import Command", "import Order")}, "ImportError"),
    ],
)
def test_a_broken_package_is_one_error_that_names_it(
    machine: Machine, changes: dict[str, tuple[str, str]], why: str
) -> None:
    machine.install(changes)
    asked = {"acme_evalgate/__init__.py": ["--help"], "acme_evalgate/command.py": ["acme"]}
    done = machine.call(*asked.get(next(iter(changes)), ["run", "--agent", "acme:Hi there"]))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert error.startswith("error: the package acme-evalgate has a broken entry point 'acme'")
    assert why in error
    assert "pip uninstall acme-evalgate" in done.stderr


def test_a_checkout_brings_nothing(machine: Machine) -> None:
    machine.install()
    machine.packages.rename(machine.folder / "elsewhere")
    for path in (machine.folder / "elsewhere").iterdir():
        path.rename(machine.repository / path.name)
    for module in (False, True):  # `python -m` puts the working folder on Python's path
        assert "Say which version" not in machine.call("--help", module=module).stdout
        assert machine.call("acme", module=module).returncode == 2
