"""`evalgate ui` in a process of its own, and a client that has its token."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from builders import forked_command
from builders.zygotes import Birth


@dataclass(frozen=True, slots=True, kw_only=True)
class Ui:
    """What was started; `address` holds the token."""

    address: str
    process: Birth
    client: httpx.Client

    @property
    def origin(self) -> str:
        return self.address.partition("/?")[0]

    def state(self) -> dict[str, Any]:
        return self.client.get("/api/state").raise_for_status().json()

    def ask(self, name: str, **body: Any) -> tuple[int, dict[str, Any]]:
        answer = self.client.post(f"/api/{name}", json=body)
        return answer.status_code, answer.json()

    def run(self, which: str, **more: Any) -> dict[str, Any]:
        """Start a run and wait for its end; what is told of it."""
        status, told = self.ask("run", which=which, **more)
        assert status == 200, told
        return self.ended()

    def ended(self, timeout_s: float = 60.0) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while (told := self.state()["run"])["running"]:
            assert time.monotonic() < deadline, told
            time.sleep(0.05)
        return told


@contextlib.contextmanager
def started(root: Path, *options: str, environment: dict[str, str]) -> Iterator[Ui]:
    log = root.parent / "ui.log"
    heard, said = os.pipe()
    with log.open("w") as errors, os.fdopen(heard) as output:
        process = forked_command.born(
            ["ui", "--no-open", *options],
            said,
            said,
            errors.fileno(),
            cwd=root,
            env={**os.environ, **environment, "ITS_PYTHON": forked_command.zygote().python},
        )
        os.close(said)
        try:
            address = output.readline().strip()
            assert address.startswith("http://127.0.0.1:"), log.read_text()
            token = address.partition("token=")[2]
            origin, headers = address.partition("/?")[0], {"authorization": f"Bearer {token}"}
            transport = httpx.HTTPTransport(retries=5)  # it listens, and answers a moment later
            with httpx.Client(
                base_url=origin, headers=headers, timeout=60, transport=transport
            ) as client:
                yield Ui(address=address, process=process, client=client)
        finally:
            if process.wait(0) is None:
                os.kill(process.pid, signal.SIGTERM)
            process.wait(60)
    assert "Traceback" not in log.read_text()
