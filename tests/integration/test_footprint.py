"""What one case costs a person who follows it, and us: nothing of it is done twice."""

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
MOST = {"files": 121, "functions": 1190}
"""What a person reads who follows one case. Whoever makes it less lowers them."""


def test_one_case_enters_few_functions_and_nothing_is_done_twice() -> None:
    command = [sys.executable, ROOT / "bench/footprint.py", "--calls", *TWICE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    words = done.stdout.split()[-4:]  # files N functions N
    entered = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    assert all(entered[name] <= MOST[name] for name in MOST), entered
    calls = dict(
        line.split() for line in done.stdout.splitlines() if line.partition(" ")[0] in TWICE
    )
    assert calls == {name: str(count) for name, count in TWICE.items()}, done.stdout + done.stderr
