"""Repositories as strangers lay them out: which Python runs the agent, and what is installed for
it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import uv
from builders import packages
from builders.gated_repository import Repository, content
from builders.packages import MINOR, VERSION

pytestmark = pytest.mark.integration

AGENT = """
import sys

import sunshine

def answer(text):
    return f"sunshine {sunshine.VERSION} on {sys.version_info[0]}.{sys.version_info[1]}"
"""
NEXT = f"3.{sys.version_info.minor + 1}"


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packages.mirror(tmp_path_factory.mktemp("mirror"))


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository with an agent in `app/` that needs a package of a local index; python3 is the
    one that runs us."""
    for version in ("1.0", "2.0"):
        packages.wheel(tmp_path / "wheels", "sunshine", version)
    packages.wheel(tmp_path / "wheels", "rain")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    for name, value in {
        "PATH": f"{tmp_path / 'bin'}:{os.defpath}",
        "HOME": str(tmp_path),
        "UV_DEFAULT_INDEX": f"file://{packages.index(tmp_path / 'wheels')}",
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_COMPILE_BYTECODE": "0",
    }.items():
        monkeypatch.setenv(name, value)
    made = Repository(tmp_path / "repo", tmp_path / "asked.log")
    made.write("app/agent.py", AGENT)
    expect(made, f"sunshine 1.0 on {MINOR}")
    made.write("test_config.json", json.dumps({"criteria": {"response_match_score": 1.0}}))
    return made


def expect(repository: Repository, answer: str, **agent: Any) -> None:
    agents = [{"driver": "python", "call": "app.agent:answer", "path": "app", **agent}]
    repository.write("evalgate.yml", json.dumps({"agents": agents}))
    turn = {
        "user_content": content("question 1", "user"),
        "final_response": content(answer, "model"),
    }
    cases = {"eval_set_id": "desk", "eval_cases": [{"eval_id": "one", "conversation": [turn]}]}
    repository.write("tests/eval/evalsets/basic.evalset.json", json.dumps(cases))


def tried(repository: Repository, code: int = 0) -> str:
    done, said = repository.run(base="")
    assert done == code, said
    return re.sub(r" in \d+ s$", " in N s", said, flags=re.MULTILINE)


PROJECT = """[project]
name = "my-agent"
version = "0.1.0"
requires-python = "{python}"
dependencies = ["sunshine<2"]

[project.optional-dependencies]
jupyter = ["no-such-package-anywhere"]
eval = [{eval}]

[dependency-groups]
dev = [{dev}]
"""


def lock(repository: Repository) -> None:
    subprocess.run([uv.find_uv_bin(), "lock", "--quiet"], cwd=repository.root, check=True)


def test_the_starter_pack_with_a_lock_and_a_python_that_is_not_there(
    stranger: Repository, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = PROJECT.format(python=f">=3.10,<{NEXT}", eval='"rain"', dev='"rain"').replace(
        "jupyter", "lint"
    )
    stranger.write("pyproject.toml", project.replace("no-such-package-anywhere", "rain"))
    lock(stranger)
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "automatic")
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS_JSON_URL", str(mirror))
    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-managed")  # whatever this machine has
    said = tried(stranger)
    why = f'no Python here fits `requires-python = ">=3.10,<{NEXT}"` (pyproject.toml)'
    assert f"downloading Python >=3.10,<{NEXT} with uv: {why}\n" in said
    told = f"installing the agent's environment from uv.lock with uv (Python {VERSION}, 3 packages locked) ...\n"
    assert told in said
    assert "installed 2 packages in N s\n" in said
    said = tried(stranger)
    assert "downloading" not in said
    assert "installing" not in said


def test_another_python_of_this_machine(stranger: Repository, tmp_path: Path) -> None:
    other = packages.other_python()
    if other is None:
        pytest.skip("needs the system: another version of Python")
    version, path = other
    (tmp_path / ".pyenv/versions").mkdir(parents=True)
    (tmp_path / f".pyenv/versions/{version}.0").symlink_to(Path(path).parent.parent)
    stranger.write("pyproject.toml", PROJECT.format(python=f"=={version}.*", eval="", dev=""))
    expect(stranger, f"sunshine 1.0 on {version}")
    said = tried(stranger)
    assert f"from pyproject.toml with uv (Python {version}." in said
    # a Python that the user names is taken, and what it does not fit is told
    environment = tmp_path / "venv"
    subprocess.run(
        [uv.find_uv_bin(), "venv", "-q", "--python", sys.executable, str(environment)], check=True
    )
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "sunshine.py").write_text("VERSION = '1.0'\n")
    expect(stranger, f"sunshine 1.0 on {MINOR}", python=str(environment / "bin/python"))
    said = tried(stranger)
    rule = f'`requires-python = "=={version}.*"` (pyproject.toml)'
    assert (
        f"is Python {VERSION}, which does not fit {rule}; set `python` to a version that fits"
        in said
    )


POETRY = f"""[tool.poetry]
name = "my-agent"
package-mode = false

[tool.poetry.dependencies]
python = "^{MINOR}"
sunshine = {{version = "*", python = ">=3.8"}}
rain = {{version = "^9", optional = true}}

[tool.poetry.extras]
other = ["rain"]

[tool.poetry.group.dev.dependencies]
rain = "~1.0"
"""
POETRY_LOCK = """
[[package]]
name = "sunshine"
version = "1.0"

[metadata]
lock-version = "2.1"
python-versions = "{python}"
"""


def test_a_project_of_poetry(stranger: Repository) -> None:
    """Locked versions count, and no package has to be built."""
    stranger.write("pyproject.toml", POETRY)
    stranger.write("poetry.lock", POETRY_LOCK.format(python=f"^{MINOR}"))
    said = tried(stranger)
    assert (
        f"installing the agent's environment from pyproject.toml with uv (Python {VERSION}) ...\n"
        in said
    )
    assert "installed 2 packages in N s\n" in said
    stranger.write("poetry.lock", POETRY_LOCK.format(python="<3.8"))
    said = tried(stranger, 3)
    rules = f'`python = "^{MINOR}"` (pyproject.toml) and `python-versions = "<3.8"` (poetry.lock)'
    assert (
        f"no Python fits {rules}: change one of them (`uv lock` or `poetry lock` make a lock anew)"
        in said
    )
    stranger.write("poetry.lock", "")
    stranger.write("pyproject.toml", POETRY.replace('"~1.0"', '"not a version"'))
    said = tried(stranger, 3)
    assert "pyproject.toml cannot be read as a project of Poetry: " in said


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        # as an editor on Windows writes it
        ("utf-8", "sunshine==1.0\r\n-r more/dev.txt\r\n"),
        ("utf-8-sig", "# für alle\r\nsunshine==1.0\r\n"),
        # as `pip freeze > requirements.txt` does in PowerShell
        ("utf-16", "sunshine==1.0\r\n-r more/dev.txt\r\n"),
    ],
)
def test_requirements_written_on_windows(stranger: Repository, encoding: str, text: str) -> None:
    stranger.write("app/more/dev.txt", "rain\r\n")
    (stranger.root / "app/requirements.txt").write_bytes(text.encode(encoding))
    assert "installing the agent's environment from app/requirements.txt with uv" in tried(stranger)
    # what is included counts, in whatever encoding
    stranger.write("app/more/dev.txt", "rain>1\r\n")
    assert ("app/requirements.txt failed" in stranger.run(base="")[1]) == ("-r" in text)


def test_an_extra_that_cannot_be_installed(stranger: Repository) -> None:
    """As agents-cli lays projects out. The evaluation does not need it; that it is missing is told
    in each run."""
    stranger.write(
        "pyproject.toml", PROJECT.format(python=">=3.10", eval='"no-such-package"', dev='"rain"')
    )
    for _ in range(2):
        said = tried(stranger)
        assert (
            "warning: installed without extra eval, group dev of pyproject.toml, which cannot be installed"
            in said
        )
        assert "no-such-package was not found" in said
    stranger.write("pyproject.toml", PROJECT.format(python=">=3.10", eval='"rain"', dev='"rain"'))
    said = tried(stranger)
    assert "installed 2 packages" in said
    assert "warning: installed" not in said


@pytest.mark.parametrize(
    ("files", "python", "code", "words"),
    [
        # what the author works with, and what installers hold to
        (
            {
                ".python-version": "3.8\n",
                "pyproject.toml": PROJECT.format(python=">=3.10", eval="", dev=""),
            },
            "auto",
            0,
            'warning: `3.8` (.python-version) does not fit `requires-python = ">=3.10"` (pyproject.toml)',
        ),
        # nothing but the author's own
        (
            {".python-version": f"{MINOR}\n", "requirements.txt": "sunshine<2"},
            "auto",
            0,
            f"uv (Python {VERSION})",
        ),
        (
            {".python-version": "3.29\n", "requirements.txt": "sunshine<2"},
            "auto",
            3,
            "no Python here fits `3.29` (.python-version), and uv could not download one",
        ),
        (
            {".python-version": "my-environment\n", "requirements.txt": "sunshine<2"},
            "auto",
            0,
            "`my-environment` (.python-version) is not a version of Python and is not followed",
        ),
        # the user's own
        ({"requirements.txt": "sunshine<2"}, float(MINOR), 0, f"uv (Python {VERSION})"),
        (
            {"pyproject.toml": PROJECT.format(python=">=3.10", eval="", dev="")},
            "3.9",
            3,
            'no Python fits `python: "3.9"` (as configured) and `requires-python = ">=3.10"` (pyproject.toml)',
        ),
        # YAML and GitHub read 3.10 without quotes as a number
        (
            {"requirements.txt": "sunshine<2"},
            3.10,
            3,
            'no Python fits `python: "3.1"` (as configured): correct it (3.10 takes quotes)',
        ),
        # what is no rule at all
        (
            {"pyproject.toml": PROJECT.format(python="^3.10", eval="", dev="")},
            "auto",
            3,
            '`requires-python = "^3.10"` (pyproject.toml) is not a version specifier such as `>=3.10,<3.13`',
        ),
        # a project above the folder with the requirements says nothing of them
        (
            {
                "pyproject.toml": PROJECT.format(python="<3", eval="", dev=""),
                "app/requirements.txt": "sunshine<2",
            },
            "auto",
            0,
            "from app/requirements.txt",
        ),
    ],
)
def test_what_says_which_python(
    stranger: Repository, files: dict[str, str], python: str | float, code: int, words: str
) -> None:
    for name, text in files.items():
        stranger.write(name, text)
    expect(stranger, f"sunshine 1.0 on {MINOR}", python=python)
    assert words in tried(stranger, code)
