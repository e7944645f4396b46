"""Processes without threads that have imported what takes long, and what they become in forks
(forking)."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
ANSWER_S = 90.0


class Zygote:
    """An interpreter that runs a script of this folder, which ends when this process does."""

    def __init__(self, python: str, script: str, *arguments: str) -> None:
        self._door, inner = socket.socketpair()
        with inner:
            self._process = subprocess.Popen(
                [python, str(HERE / script), *arguments],
                stdin=inner,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # a fork has none of the threads that numpy starts
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def become(self, request: Mapping[str, object], *streams: int) -> Birth:
        """A process with these standard streams, which are the caller's to close."""
        status, theirs = os.pipe()
        asked, asking = os.pipe()
        try:
            with contextlib.suppress(OSError):  # it is gone: nothing will be said
                socket.send_fds(self._door, [b"."], [*streams, theirs, asked])
        finally:
            os.close(theirs)
            os.close(asked)
        with contextlib.suppress(BrokenPipeError), os.fdopen(asking, "w") as pipe:
            json.dump(request, pipe)
        born = Birth(status)
        assert born.pid is not None, f"no process came to be: {self.close()}"
        return born

    def close(self) -> str:
        """Let it go; what it said, which is nothing unless it broke."""
        self._door.close()
        stdout, stderr = self._process.communicate()
        return (stdout + stderr).decode()


class Birth:
    """What is said of a process that was forked: its id, and later its end."""

    def __init__(self, status: int) -> None:
        self._status = status
        self.returncode: int | None = None
        self.pid = self._next(ANSWER_S)

    def wait(self, timeout_s: float | None) -> int | None:
        """The exit code, or minus the signal that ended it; None where it runs on."""
        if self.returncode is None:
            self.returncode = self._next(timeout_s)
            if self.returncode is not None:
                os.close(self._status)
        return self.returncode

    def _next(self, timeout_s: float | None) -> int | None:
        if not select.select([self._status], [], [], timeout_s)[0]:
            return None
        said = os.read(self._status, struct.calcsize("i"))
        return struct.unpack("i", said)[0] if said else None
