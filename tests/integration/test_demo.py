"""The demo shows what it promises: a gate that passes, a change that fails beside its base, and the
comment on it."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_shows_a_change_that_makes_the_agent_worse(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples/demo/demo.py", tmp_path / "demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    first, rest = done.stdout.split("=== 2 of 3")
    second, third = rest.split("=== 3 of 3")
    assert "PASS: All 8 cases passed." in first
    assert "Against the base" not in first
    # what the comment says: both gates, by how much, which cases, and that the base did right
    assert "**Thresholds**: 3 of 8 cases failed (3 new)" in second
    assert "`tool_trajectory_avg_score` dropped from 1.00 to 0.71" in second
    assert "**3** failed (3 new)" in second
    assert '+ renew_loan(book_id="B-102"' in second
    assert '- check_availability(book_id="B-102")' in second
    assert "The base made the expected calls" in second
    # the thresholds hold, and the comparison alone says no
    assert "Thresholds: pass." in third
    assert "Against the base: fail. Worse than the base" in third
