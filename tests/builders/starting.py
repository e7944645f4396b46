"""The moment in which a process of ours is still being loaded."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

import pytest

PATIENCE_S = 30.0


def wait_until_loading(process: subprocess.Popen[str]) -> None:
    """Until it, or a child that it watches, has loaded a module that ours import: more of them are
    still to come. Skips where that is not told."""
    if not Path("/proc/self/maps").exists():
        pytest.skip("needs the system: only Linux tells what a process has loaded")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            for pid in (str(process.pid), *children.read_text(encoding="ascii").split()):
                if "pydantic_core" in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8"):
                    return
        assert process.poll() is None, process.communicate()
        os.sched_yield()
    raise AssertionError("it never loaded anything")
