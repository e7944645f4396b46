"""What it costs that agents run as other users: a whole run with it over one without it, and what
the copy takes.

    python bench/isolation.py [--runs 5] [--trees 20,500,2000] [--on-this-disk]

Needs root and setpriv, or bubblewrap, and google-adk in an environment that every user can reach,
which EVALGATE_TEST_ADK names (`/var/tmp/adk/bin/python`; nothing below /root). Runs alternate and
differ in --isolate alone: one case with the ADK agent of this folder, whose scripted model answers
at once, so that all of it is start-up; then the same in checkouts with more files, of 10 KB each.
Prints ratios (medians); the last line is JSON.

Root measures on a disk of its own, an image with a journaled ext4 like that of GitHub's runners,
mounted for this process at /var/tmp. An ext4 without a journal (some virtual machines) passes over
each inode that was deleted in the last minutes when it looks for a free one: copies that follow
each other, as here, then take a hundred times as long."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import adk
import measuring
from measuring import Measured

FILE_BYTES = 10_000


def workplace(folder: Path, files: int) -> Path:
    """A repository with the agent, one case, and `files` others that cannot be compressed."""
    folder.chmod(0o755)
    adk.workplace(folder, 1)
    (folder / ".git").mkdir()
    content = random.Random(0)
    for number in range(files):
        place = folder / "data" / str(number % 50)
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.bin").write_bytes(content.randbytes(FILE_BYTES))
    return folder


def run(folder: Path, *, isolate: bool) -> Measured:
    shutil.rmtree(folder / "evalgate-report", ignore_errors=True)
    options = ["--isolate" if isolate else "--no-isolate", "--workers", "1"]
    command = [
        str(adk.EVALGATE),
        "run",
        "--fresh",
        "--agent",
        "adk:desk_agent",
        "--python",
        str(adk.ADK_PYTHON),
        *options,
    ]
    log = folder / "evalgate.log"
    measured = measuring.measure(command, cwd=folder, environment=adk.environment(), log=log)
    if measured.code != 0:
        raise SystemExit(f"evalgate ended with {measured.code}:\n{log.read_text()[-3000:]}")
    return measured


def beside_each_other(files: int, runs: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = workplace(Path(name), files)
        run(folder, isolate=True)  # what is read for the first time
        new, old = measuring.alternate(
            runs, lambda: run(folder, isolate=True), lambda: run(folder, isolate=False)
        )
    figures = {
        "wall_ratio": measuring.ratio(new, old, "wall_s"),
        "wall_s": measuring.middle(new, "wall_s"),
        "wall_without_s": measuring.middle(old, "wall_s"),
        "cpu_ratio": measuring.ratio(new, old, "cpu_s"),
    }
    print(f"{files:>6} files of {FILE_BYTES // 1000} KB  {figures}", flush=True)
    return figures


def on_an_own_disk() -> int:
    """This program again, with an empty journaled file system for its temporary files."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        image = Path(name) / "disk"
        with image.open("wb") as file:
            file.truncate(4 << 30)  # sparse
        subprocess.run(["mkfs.ext4", "-q", image], check=True)
        script = 'mount -o loop "$1" /var/tmp && chmod 1777 /var/tmp && shift && exec "$@"'
        this = [sys.executable, *sys.argv, "--on-this-disk"]
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", image, *this], check=False
        ).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description="What isolation costs.")
    parser.add_argument("--on-this-disk", action="store_true", help="also as root")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--trees", default="20,500,2000")
    options = parser.parse_args()
    if not os.access(adk.ADK_PYTHON, os.X_OK):
        raise SystemExit(f"there is no {adk.ADK_PYTHON}: set EVALGATE_TEST_ADK")
    if os.geteuid() == 0 and not options.on_this_disk:
        raise SystemExit(on_an_own_disk())
    print(
        json.dumps(
            {
                files: beside_each_other(int(files), options.runs)
                for files in options.trees.split(",")
            }
        )
    )


if __name__ == "__main__":
    main()
