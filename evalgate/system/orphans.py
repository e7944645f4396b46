"""What hooks of builds leave running: an installer waits for it as long as it holds the pipe that a hook wrote to."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

GRACE_S = 5.0
"""How long they may go on once the installer has no child of its own any more."""


class Orphans:
    """Ends what is left of an installer's children while it waits. Linux alone: elsewhere nothing is found."""

    def __init__(self, program: str) -> None:
        """`program`: as the installer was started, behind whatever drops its rights."""
        self._program = os.fsencode(program)
        self._since: float | None = None

    def look(self, pid: int) -> None:
        """To be called every second or so; `pid`: of the child that is the installer, or will start it."""
        left = self._left(pid)
        if not left:
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
        elif time.monotonic() - self._since >= GRACE_S:
            for each in left:
                with contextlib.suppress(OSError):  # it has ended
                    os.kill(each, signal.SIGKILL)

    def _left(self, pid: int) -> set[int]:
        parents = dict(_running())
        above = {child: parent for child, parent in parents.items() if child == pid or pid in _line(child, parents)}
        installer = next((each for each in above if _first_argument(each) == self._program), None)
        if installer is None or installer in parents.values():
            return set()
        others = parents.keys() - {installer, os.getpid(), *_line(installer, parents)}
        user, pipes = _user(installer), _pipes(installer)
        # of another user's processes nobody sees the pipes, and all of an installer's user are its own
        is_apart = user != os.getuid()
        return {each for each in others if (is_apart and _user(each) == user) or pipes & _pipes(each)}


def _running() -> Iterator[tuple[int, int]]:
    """Every process that has not ended, with its parent."""
    for place in _listed(Path("/proc")):
        with contextlib.suppress(OSError, IndexError):  # it is gone, or no process
            # the name of the program, in parentheses, may hold anything
            about = (place / "stat").read_bytes().rpartition(b")")[2].split()
            if place.name.isdecimal() and about[0] not in (b"Z", b"X"):
                yield int(place.name), int(about[1])


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _line(pid: int, parents: Mapping[int, int]) -> set[int]:
    """All that are above a process."""
    found: set[int] = set()
    while (pid := parents.get(pid, 0)) and pid not in found:
        found.add(pid)
    return found


def _first_argument(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
    return b""


def _user(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}").stat().st_uid
    return None


def _pipes(pid: int) -> set[str]:
    found = set()
    for place in _listed(Path(f"/proc/{pid}/fd")):
        with contextlib.suppress(OSError):
            found.add(str(place.readlink()))
    return {link for link in found if link.startswith("pipe:")}
