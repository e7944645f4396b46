"""The simulation of verdicts: what the last line promises, as far as few draws can tell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from builders.nightly import BY_NIGHT, NIGHTLY

BENCH = Path(__file__).parents[2] / "bench"

pytestmark = pytest.mark.integration


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCH / "verdict.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=3600 if NIGHTLY else 600,
        check=True,
    )


def test_the_simulation_keeps_its_promises_in_small() -> None:
    draws = 2000 if NIGHTLY else 2
    # two draws of a thousand cases take as long as all others, and tell no more
    rows = () if NIGHTLY else ("--largest", "200")
    done = simulate("--draws", str(draws), "--no-old", *rows)
    last = json.loads(done.stdout.splitlines()[-1])
    # four standard errors: of 40 rows one lies beyond two or three
    slack = 4 * (0.05 * 0.95 / draws) ** 0.5
    assert last["false_block_max"] <= 0.05 + slack
    assert last["false_failing_max"] <= 0.05 + slack
    assert last["power_1_of_20"] >= 0.78 - 4 * (0.78 * 0.22 / draws) ** 0.5
    assert last["power_3_of_20"] >= 0.98 - 4 * (0.02 / draws) ** 0.5
    assert last["runs_nothing_changed"] <= 1.3 + 0.4 / draws**0.5


@BY_NIGHT
def test_the_rules_before_the_purse_decide_the_same_pull_requests() -> None:
    draws = 12
    done = simulate("--draws", "1", "--old-draws", str(draws))
    if "no old rules" in done.stderr:
        assert all(line.endswith("| - | - |") for line in done.stdout.splitlines()[2:-1])
        pytest.skip(f"needs the history: {done.stderr.splitlines()[0]}")
    last = json.loads(done.stdout.splitlines()[-1])
    # docs/statistics.md of that commit says so of cases that pass 1 time in 10 when they broke;
    # four standard errors
    assert last["old_power_1_of_20"] >= 0.72 - 4 * (0.72 * 0.28 / draws) ** 0.5
    assert last["old_power_3_of_20"] >= 0.97 - 4 * (0.97 * 0.03 / draws) ** 0.5
    assert 1 < last["old_runs_nothing_changed"] <= 1.3 + 0.4 / draws**0.5
