"""How a child process is started and bounded, and why it could not be."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

try:
    import resource
except ImportError:  # pragma: no cover - only POSIX systems have it
    resource = None  # type: ignore[assignment]  # absent on other systems


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
        raise ChildStartError(f"{command[0]}: command not found") from None
    except (OSError, ValueError, IndexError) as error:
        name = command[0] if command else "(empty command)"
        raise ChildStartError(f"{name}: {getattr(error, 'strerror', None) or error}") from None


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
