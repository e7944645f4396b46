"""`make demo`, done once for all of pytest's processes: it takes ten seconds."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from builders import once

ROOT = Path(__file__).resolve().parents[2]


def copied(to: Path, factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A copy of the demo's folder in `to`, and what the demo printed."""
    shared = once.made("shared-demo", factory, _show)
    shutil.copytree(shared / "demo", to, symlinks=True)
    return to, (shared / "printed").read_text(encoding="utf-8")


def _show(folder: Path) -> None:
    command = [sys.executable, ROOT / "examples/demo/demo.py", folder / "demo"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "printed").write_text(done.stdout, encoding="utf-8")
