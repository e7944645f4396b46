"""The gate's environment and memory, as an agent sees them that runs as the same user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not Path("/proc/self/environ").exists(), reason="needs the system: only Linux has /proc"
    ),
    pytest.mark.skipif(
        os.geteuid() != 0, reason="needs the system: root, to start processes of another user"
    ),
]

ROOT = Path(__file__).parents[2]
USER = 12_345
GATE = """
import ctypes, os, subprocess, sys
sys.path.insert(0, {root!r})
from evalgate.system import process

os.setgroups([]); os.setgid({user}); os.setuid({user})  # root of a container may not trace; root of this machine may
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # changing the user closed it
if {closed}:
    assert process.close_to_other_processes()
for name in ("environ", "maps"):
    agent = ["cat", f"/proc/{{os.getpid()}}/{{name}}"]
    done = subprocess.run(agent, capture_output=True, env={env!r})
    print(name, "readable" if done.stdout else "closed")
    own = subprocess.run(["cat", "/proc/self/" + name], capture_output=True, env={env!r})
    print("a child's", "readable" if own.stdout else "closed")
"""
OPEN = "a child's readable"


@pytest.mark.parametrize(
    ("closed", "expected"),
    [
        (True, ["environ closed", OPEN, "maps closed", OPEN]),
        # or the test would prove nothing
        (False, ["environ readable", OPEN, "maps readable", OPEN]),
    ],
)
def test_processes_of_the_same_user_cannot_look_into_the_gate(
    expected: list[str], *, closed: bool
) -> None:
    code = GATE.format(root=str(ROOT), closed=closed, user=USER, env={"PATH": os.environ["PATH"]})
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.stdout.splitlines() == expected, done.stderr
