"""Threads, descriptors and child processes (zombies too) that outlive what made them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def children() -> set[str]:
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has just ended
            found.update((task / "children").read_text().split())
    return found


def runs(pid: int | str) -> bool:
    """Whether a process runs; one that is dead and only not reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


@contextlib.contextmanager
def none_expected() -> Iterator[None]:
    """Fails where something is left that was not there before."""
    before = (threading.active_count(), descriptors(), children())
    yield
    assert threading.active_count() <= before[0]
    assert descriptors() <= before[1]
    assert children() <= before[2]
