"""What it costs to compare an agent's environment with its seal, before each run that uses it.

    python bench/environment.py [--environment .venv-adk] [--megabytes 300] [--runs 5]

Reads at most so many megabytes of the environment, whole packages by name, linked into a folder of
its own. Prints seconds of the clock and of the processor (the best of the runs, with files in the
system's cache): on a busy machine only the second mean something. The last line is JSON."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

from evalgate.system import seals


def link(source: Path, to: Path, limit: int) -> tuple[int, int]:
    """Link packages of an environment until there are `limit` bytes; how many files, and bytes."""
    files = size = 0
    for package in sorted(next(source.glob("lib/python3*/site-packages")).iterdir()):
        found = [
            path
            for path in ([*package.rglob("*")] if package.is_dir() else [package])
            if path.is_file()
        ]
        bytes_ = sum(path.stat().st_size for path in found)
        if size + bytes_ > limit:
            continue
        for path in found:
            copy = to / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, copy)
            except OSError:
                shutil.copyfile(path, copy)
        files, size = files + len(found), size + bytes_
    return files, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environment", type=Path, default=Path(".venv-adk"))
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    source = options.environment.resolve()
    with tempfile.TemporaryDirectory(prefix="evalgate-bench-") as name:
        folder = Path(name, "env-bench")
        files, size = link(source, folder, options.megabytes * 10**6)
        seals.write(folder, key=b"key", note="")
        taken = []
        for _ in range(options.runs):
            began, worked = time.perf_counter(), time.process_time()
            why, _ = seals.compare(folder, key=b"key")
            taken.append((time.perf_counter() - began, time.process_time() - worked))
            assert why == "", why
    wall_s, cpu_s = min(taken)[0], min(cpu for _, cpu in taken)
    print(f"{files} files, {size / 1e6:.0f} MB: {wall_s:.2f} s, {cpu_s:.2f} s of the processor")
    print(
        json.dumps({"files": files, "megabytes": size // 10**6, "wall_s": wall_s, "cpu_s": cpu_s})
    )


if __name__ == "__main__":
    main()
