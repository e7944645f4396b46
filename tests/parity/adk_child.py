"""The child process in which google-adk answers; what it has answered in this test run is not asked
again."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import select
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SIDE = Path(__file__).parent / "adk_side"
PATIENCE_S = 570.0

Json = dict[str, Any]


class AdkChild:
    """Scripts of adk_side/, run by an interpreter that has imported google-adk once.

    `shared` is a folder that all processes of a test run know: equal questions are answered once.
    """

    def __init__(self, interpreter: Path, shared: Path) -> None:
        self._interpreter = interpreter
        self._shared = shared
        self._process: subprocess.Popen[str] | None = None

    def ask(self, script: str, requests: Iterable[Json]) -> list[Any]:
        """What the script answers to each request, in order."""
        text = "".join(f"{json.dumps(each)}\n" for each in requests)
        name = hashlib.sha256(f"{script}\n{text}".encode()).hexdigest()[:24]
        asked, answered = (self._shared / f"{name}.{kind}" for kind in ("requests", "answers"))
        with (self._shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not answered.exists():
                asked.write_text(text, encoding="utf-8")
                partial = answered.with_suffix(".partial")
                self._run(script, str(asked), str(partial))
                partial.rename(answered)
        return [json.loads(line) for line in answered.read_text("utf-8").splitlines()]

    def close(self) -> None:
        """Let it go."""
        if self._process is not None:
            self._process.communicate()

    def _run(self, script: str, *arguments: str) -> None:
        process = self._process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([script, *arguments]) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE_S)
        code = process.stdout.readline().strip() if ready else "no answer"
        assert code == "0", f"{script}: {code}\n{self._log().read_text('utf-8')[-4000:]}"

    def _started(self) -> subprocess.Popen[str]:
        command = [self._interpreter, SIDE / "serve.py"]
        with self._log().open("w") as log:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def _log(self) -> Path:
        return self._shared / f"{os.getpid()}.log"
