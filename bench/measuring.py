"""Whole commands, measured from outside: wall, CPU of all children, peak memory of the process
tree."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

POLL_S = 0.25
"""How often memory is looked at: reading it stops the process that is measured, and takes CPU that
it could use."""


@dataclass(frozen=True)
class Measured:
    """Seconds, and MiB (proportional set size, so that shared pages count once)."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    code: int


def measure(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], log: Path
) -> Measured:
    """Run a command to its end."""
    with log.open("wb") as out:
        started = time.monotonic()
        before = os.times()
        process = subprocess.Popen(
            command, cwd=cwd, env=dict(environment), stdout=out, stderr=subprocess.STDOUT
        )
        peak = [0.0]
        watcher = threading.Thread(target=_watch, args=(process.pid, peak), daemon=True)
        watcher.start()
        code = process.wait()
        wall_s = time.monotonic() - started
        after = os.times()
    watcher.join()
    cpu_s = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return Measured(wall_s=wall_s, cpu_s=cpu_s, peak_mib=peak[0], code=code)


def alternate(runs: int, *commands: Callable[[], Measured]) -> list[list[Measured]]:
    """A B A B ...: what drifts on the machine hits all alike."""
    results: list[list[Measured]] = [[] for _ in commands]
    for _ in range(runs):
        for command, taken in zip(commands, results, strict=True):
            taken.append(command())
    return results


def ratio(ours: Sequence[Measured], theirs: Sequence[Measured], figure: str) -> float:
    """The median of the pairwise ratios."""
    pairs = zip(ours, theirs, strict=True)
    return round(median(getattr(a, figure) / getattr(b, figure) for a, b in pairs), 3)


def middle(taken: Sequence[Measured], figure: str) -> float:
    """The median of a figure."""
    return round(median(getattr(each, figure) for each in taken), 2)


def _watch(pid: int, peak: list[float]) -> None:
    while True:
        total = sum(_pss_kib(each) for each in _tree(pid))
        if total == 0:
            return
        peak[0] = max(peak[0], total / 1024)
        time.sleep(POLL_S)


def _tree(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        try:
            for task in Path(f"/proc/{each}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def _pss_kib(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
