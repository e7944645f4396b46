"""Processes without threads that have imported what takes long, and what they become in forks
(forking)."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import shutil
import socket
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from builders import forking

HERE = Path(__file__).parent
ANSWER_S = 90.0


class Zygote:
    """An interpreter that runs a script of this folder, which ends when this process does.

    `python`: a program that stands in for it (forked_python)."""

    def __init__(self, python: str, script: str, *arguments: str, **environment: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="zygote-"))
        self.python = str(self._stand_in(python))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self._folder / "door"))
            listener.listen()
            self._process = subprocess.Popen(
                [python, str(HERE / script), *arguments],
                stdin=listener,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # a fork has none of the threads that numpy starts
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment},
            )
            self._door = socket.socket(socket.AF_UNIX)
            self._door.connect(listener.getsockname())
        self._end = atexit.register(self.close)

    @property
    def pid(self) -> int:
        return self._process.pid

    def become(
        self, command: Sequence[str], *streams: int, cwd: Path, environment: Mapping[str, str]
    ) -> Birth:
        """A process with these standard streams, which are the caller's to close."""
        status, theirs = os.pipe()
        asked, asking = os.pipe()
        try:
            with contextlib.suppress(OSError):  # it is gone: nothing will be said
                socket.send_fds(self._door, [b"."], [*streams, theirs, asked])
        finally:
            os.close(theirs)
            os.close(asked)
        with contextlib.suppress(BrokenPipeError), os.fdopen(asking, "wb") as pipe:
            pipe.write(forking.parcel(command, cwd, environment))
        born = Birth(status)
        assert born.pid is not None, f"no process came to be: {self.close()}"
        return born

    def close(self) -> str:
        """Let it go; what it said, which is nothing unless it broke."""
        atexit.unregister(self._end)
        self._door.close()
        stdout, stderr = self._process.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)
        return (stdout + stderr).decode()

    def _stand_in(self, python: str) -> Path:
        program = self._folder / "bin/python"
        program.parent.mkdir()
        (self._folder / "pyvenv.cfg").touch()  # as where the other one is
        program.write_text(f"#!{python} -IS\n{(HERE / 'forked_python.py').read_text()}")
        program.chmod(0o755)
        return program


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
