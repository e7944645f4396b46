"""The simulation of gates: its short ways are evalgate's own, and its last line says what the issue asks for."""

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
    # its own check (that runs, comparison and decision as a whole say the same) runs first and would raise
    extent = ["--draws", "480", "--cases", "10000"] if NIGHTLY else ["--draws", "120", "--cases", "500"]
    done = subprocess.run(
        [sys.executable, str(BENCH / "statistics.py"), *extent],
        capture_output=True,
        text=True,
        timeout=3600 if NIGHTLY else 600,
        check=True,
    )
    last = json.loads(done.stdout.splitlines()[-1])
    # what the page promises, as far as so few draws can tell: three standard errors, of the fewest draws of a row
    assert last["default_false_block_max"] <= 0.05 + 3 * (0.05 * 0.95 / 16) ** 0.5
    assert last["default_power_3_of_20"] >= 0.85
    assert last["default_power_1_of_20"] >= 0.70 - 3 * (0.7 * 0.3 / 120) ** 0.5
    assert last["default_call_ratio"] <= 1.6
    assert last["default_call_ratio_flaky"] <= 2.5
    assert last["power_k5_criteria5"] >= 0.75 - 3 * (0.75 * 0.25 / 50) ** 0.5
    assert last["criteria_false_block_max"] <= 0.05 + 3 * (0.05 * 0.95 / 50) ** 0.5
    assert last["judge_false_block_max"] <= 0.05 + 3 * (0.05 * 0.95 / 50) ** 0.5
    assert last["unchanged_false_max"] <= 0.10
    assert last["crash_false_block_max"] <= 0.05 + 3 * (0.05 * 0.95 / 15) ** 0.5
    assert last["false_block_max"] <= 0.05 + 3 * (0.05 * 0.95 / 120) ** 0.5
    assert last["power_k5"] >= 0.65
    assert last["power_two_stage"] >= 0.65
    assert last["two_stage_call_ratio"] <= 0.68
    assert last["compare_10k_mib"] < 1024


def test_scripts_beside_it_still_find_the_standard_librarys_module() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(BENCH)!r}); from statistics import fmean; print(fmean([1, 2]))",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "1.5"
