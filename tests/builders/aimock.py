"""aimock, a server of model APIs that is not ours (npm `@copilotkit/aimock`): installed once,
started, stirred up."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from builders import node

PACKAGE, VERSION = "@copilotkit/aimock", "1.43.0"


@contextmanager
def running(folder: Path, fixtures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The address of a server that answers by `fixtures`, and by nothing else."""
    program = node.package(PACKAGE, VERSION) / "dist" / "cli.js"
    file = folder / "fixtures.json"
    file.write_text(json.dumps({"fixtures": list(fixtures)}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        "node",
        str(program),
        "-p",
        str(port),
        "-f",
        str(file),
        "--log-level",
        "silent",
        "--strict",
    ]
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
