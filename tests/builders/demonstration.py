"""`make demo`, done once for all of pytest's processes: it takes ten seconds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).resolve().parents[2]


def copied(to: Path, factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A copy of the demo's folder in `to`, and what the demo printed."""
    own = factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared-demo"
    printed = shared / "printed"
    shared.mkdir(exist_ok=True)
    with FileLock(shared / ".lock"):
        if not printed.exists():
            command = [sys.executable, ROOT / "examples/demo/demo.py", shared / "demo"]
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            printed.write_text(done.stdout, encoding="utf-8")
    shutil.copytree(shared / "demo", to, symlinks=True)
    return to, printed.read_text(encoding="utf-8")
