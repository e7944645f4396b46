"""What it costs that all opens in a checkout are watched: to a process that opens files, to us, and
at the beginning.

    python bench/watching.py [--files 1000] [--times 100] [--folders 10000] [--runs 5]

A child opens and closes each of `files` files `times` times, with the watch and without, in turn.
The last line is JSON, all medians: `opener_cpu_ratio`, the child's CPU (user + system) with the
watch over that without; `opener_us`, what an open takes more, in microseconds; `our_us`, CPU of the
process that watches, for each open; `setup_ms` for a watch of `folders` folders, and `setup_us` for
one of them; `end_ms`. `lost`: runs in which the kernel's queue was full, as it may be on a busy
machine; they are repeated."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from evalgate.system.watching import Watch

OPENER = """
import os, sys
top, files, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
before = os.times()
for _ in range(times):
    for number in range(files):
        os.close(os.open(f"{top}/{number}", os.O_RDONLY))
after = os.times()
print(after.user + after.system - before.user - before.system)
"""


def opener_cpu_s(top: Path, files: int, times: int) -> float:
    command = [sys.executable, "-c", OPENER, str(top), str(files), str(times)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def opening(top: Path, files: int, times: int, runs: int) -> dict[str, float]:
    """With the watch and without, in turn: what drifts on the machine hits both alike."""
    bare: list[float] = []
    watched: list[float] = []
    ours: list[float] = []
    for number in range(files):
        (top / f"{number}").touch()
    opener_cpu_s(top, files, times)  # the files are in the cache
    lost = 0
    while len(bare) < runs:
        without = opener_cpu_s(top, files, times)
        with Watch(top) as watch:
            before = time.process_time()
            with_it = opener_cpu_s(top, files, times)
            count = len(watch.accessed_paths())
            cpu_s = time.process_time() - before
        if watch.why_lost:
            lost += 1
            if lost > 5 * runs:
                raise SystemExit(watch.why_lost)
            continue
        if count != files:
            raise SystemExit(f"{count} of {files} files")
        bare.append(without)
        watched.append(with_it)
        ours.append(cpu_s)
    more = median(a - b for a, b in zip(watched, bare, strict=True))
    return {
        "opener_cpu_ratio": ratio(watched, bare),
        "opener_us": round(more / files / times * 1e6, 2),
        "our_us": round(median(ours) / files / times * 1e6, 2),
        "lost": lost,
    }


def ratio(new: Sequence[float], old: Sequence[float]) -> float:
    return round(median(a / max(b, 0.01) for a, b in zip(new, old, strict=True)), 2)


def beginning(top: Path, folders: int, runs: int) -> dict[str, float]:
    for number in range(folders):
        (top / f"{number % 100}/{number}").mkdir(parents=True)
    setups: list[float] = []
    ends: list[float] = []
    for _ in range(runs):
        began = time.perf_counter()
        with Watch(top) as watch:
            setups.append(time.perf_counter() - began)
            if watch.why_lost:
                raise SystemExit(watch.why_lost)
            began = time.perf_counter()
        ends.append(time.perf_counter() - began)
    setup_s = median(setups)
    return {
        "setup_ms": round(setup_s * 1e3, 1),
        "setup_us": round(setup_s / folders * 1e6, 1),
        "end_ms": round(median(ends) * 1e3, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What the watch of a checkout costs.")
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--folders", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    if sys.platform != "linux":
        raise SystemExit("there is no inotify")
    with tempfile.TemporaryDirectory() as files, tempfile.TemporaryDirectory() as folders:
        print(
            f"{options.files * options.times} opens of {options.files} files, {os.cpu_count()} processors",
            flush=True,
        )
        figures = opening(Path(files), options.files, options.times, options.runs)
        print(json.dumps(figures | beginning(Path(folders), options.folders, options.runs)))


if __name__ == "__main__":
    main()
