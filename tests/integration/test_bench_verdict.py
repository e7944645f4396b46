"""The simulation of verdicts: what the last line promises, as far as few draws can tell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from builders.nightly import NIGHTLY

BENCH = Path(__file__).parents[2] / "bench"

pytestmark = pytest.mark.integration


def test_the_simulation_keeps_its_promises_in_small() -> None:
    draws = 2000 if NIGHTLY else 12
    done = subprocess.run(
        [sys.executable, str(BENCH / "verdict.py"), "--draws", str(draws)],
        capture_output=True,
        text=True,
        timeout=3600 if NIGHTLY else 600,
        check=True,
    )
    last = json.loads(done.stdout.splitlines()[-1])
    # four standard errors: of 40 rows one lies beyond two or three
    slack = 4 * (0.05 * 0.95 / draws) ** 0.5
    assert last["false_block_max"] <= 0.05 + slack
    assert last["false_failing_max"] <= 0.05 + slack
    assert last["power_1_of_20"] >= 0.78 - 4 * (0.78 * 0.22 / draws) ** 0.5
    assert last["power_3_of_20"] >= 0.98 - 4 * (0.02 / draws) ** 0.5
    assert last["runs_nothing_changed"] <= 1.3 + 0.4 / draws**0.5
