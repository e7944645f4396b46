"""How a child process is started and bounded, and why it could not be."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

try:
    import resource
except ImportError:  # pragma: no cover - only POSIX systems have it
    resource = None  # type: ignore[assignment]  # absent on other systems

FIRST_LINE_BYTES = 256


class ChildStartError(Exception):
    """The command could not be started; the message says why, in words for a user."""


def start(
    command: Sequence[str], *, cwd: str, environment: Mapping[str, str], reads_input: bool
) -> subprocess.Popen[bytes]:
    """The process, in a session of its own, with pipes. Raises ChildStartError."""
    try:
        return subprocess.Popen(
            list(command),
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.PIPE if reads_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if error.filename == cwd:
            raise ChildStartError(f"the folder {cwd} does not exist") from None
        raise ChildStartError(f"{command[0]}: {_not_found(command[0], cwd=cwd, environment=environment)}") from None
    except (OSError, ValueError, IndexError) as error:
        name = command[0] if command else "(empty command)"
        raise ChildStartError(f"{name}: {getattr(error, 'strerror', None) or error}") from None


def _not_found(program: str, *, cwd: str, environment: Mapping[str, str]) -> str:
    """What the system did not find: the program, or what the program itself is started with."""
    first = _first_line(program, cwd=cwd, folders=[""] if "/" in program else os.get_exec_path(environment))
    if first is None:
        return "command not found"
    if not first.startswith(b"#!"):
        return "the file is there, but the loader that it needs is not; it may be built for another system"
    shown = first.removeprefix(b"#!").decode("utf-8", "replace").strip()
    why = " (the line ends in CR LF, as on Windows: save the file with LF)" if first.endswith(b"\r") else ""
    return f"the file is there, but the interpreter that its first line names is not: {shown}{why}"


def _first_line(program: str, *, cwd: str, folders: Sequence[str]) -> bytes | None:
    for folder in folders:
        path = Path(cwd, folder, program)
        with contextlib.suppress(OSError):
            if path.is_file():
                with path.open("rb") as file:
                    return file.readline(FIRST_LINE_BYTES).rstrip(b"\n")
    return None


def exit_fd(pid: int) -> tuple[int, ...]:
    """A descriptor that becomes readable when the child ends; none where the system has no such thing."""
    try:
        return (os.pidfd_open(pid),)
    except (AttributeError, OSError):
        return ()


def cap_memory(pid: int, limit: int) -> bool:
    """Bound the private memory of a running process in bytes; False where the system does not do that."""
    if resource is None or not hasattr(resource, "prlimit"):
        return False
    try:
        resource.prlimit(pid, resource.RLIMIT_DATA, (limit, limit))
    except (OSError, ValueError):
        return False
    return True
