"""aimock, a server of model APIs that is not ours (npm `@copilotkit/aimock`): installed once, started, stirred up."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

PACKAGE, VERSION = "@copilotkit/aimock", "1.43.0"
ROOT = Path(__file__).parents[2]
INSTALL_S = 120
"""So long npm may take; where there is no registry it gives up sooner by itself."""


def command_line() -> Path:
    """aimock's program. Skips the test, with the reason, where it is not there and cannot be installed.

    It is taken from the node_modules in EVALGATE_TEST_NODE, else from a folder below .cache, where npm puts it.
    """
    if shutil.which("node") is None:
        pytest.skip("there is no node to run aimock")
    named = os.environ.get("EVALGATE_TEST_NODE")
    home = Path(named) if named else ROOT / ".cache" / "node" / f"aimock-{VERSION}"
    program = home / "node_modules" / PACKAGE / "dist" / "cli.js"
    if not program.exists() and not named:
        _install(home)
    if not program.exists():
        pytest.skip(f"{PACKAGE} is not in {home}")
    return program


def _install(home: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no npm to install aimock")
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as lock:  # tests on several processes want it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (home / "node_modules" / PACKAGE).exists():
            return
        options = ["--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--fetch-retries=1", "--loglevel=error"]
        command = ["npm", "install", *options, "--prefix", str(home), f"{PACKAGE}@{VERSION}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm install {PACKAGE} took longer than {INSTALL_S} s")
        if done.returncode:
            pytest.skip(f"npm cannot install {PACKAGE}: {done.stderr.strip()[-200:]}")


@contextmanager
def running(folder: Path, fixtures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The address of a server that answers by `fixtures`, and by nothing else."""
    program = command_line()
    file = folder / "fixtures.json"
    file.write_text(json.dumps({"fixtures": list(fixtures)}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["node", str(program), "-p", str(port), "-f", str(file), "--log-level", "silent", "--strict"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            try:
                requests.get(f"{url}/__aimock/chaos", timeout=1)
                break
            except requests.ConnectionError:
                time.sleep(0.05)
        yield url
    finally:
        child.terminate()
        child.wait(timeout=10)


def set_chaos(url: str, **rates: float) -> None:
    """How often each fault happens from now on, from 0 to 1; none where nothing is said."""
    requests.delete(f"{url}/__aimock/chaos", timeout=5)
    requests.post(f"{url}/__aimock/chaos", json=rates, timeout=5)
