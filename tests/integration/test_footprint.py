"""What one case costs a person who follows it, and us: it enters few functions, and nothing of it
is done twice."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
TWICE = {  # once for head, once for the base
    "judge_case": 2,
    "discover": 3,  # and that of the gate, which calls the one for head
    "parse_outcome": 0,  # reports take transcripts from memory
}
MOST = {"files": 105, "functions": 1_100}
"""Of evalgate, entered by one case; whoever needs more writes the reason beside it.
Methods that create a value whole in place of a correction afterwards are some of them; a few are
entered only if a thread has to wait."""


def test_one_case_enters_few_functions_and_does_nothing_twice() -> None:
    command = [sys.executable, ROOT / "bench/footprint.py", "--calls", *TWICE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    calls = dict(
        line.split() for line in done.stdout.splitlines() if line.partition(" ")[0] in TWICE
    )
    assert calls == {name: str(count) for name, count in TWICE.items()}, done.stdout + done.stderr
    words = done.stdout.split()
    entered = {name: int(words[words.index(name) + 1]) for name in MOST}
    assert all(entered[name] <= most for name, most in MOST.items()), entered
