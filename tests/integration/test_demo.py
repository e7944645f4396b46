"""The demo shows what it promises: a gate that passes, one that fails, and the comment of the failing one."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]


def test_the_demo_shows_a_passing_and_a_failing_gate(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples/demo/demo.py", tmp_path / "demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    first, second = done.stdout.split("=== 2 of 2")
    assert "PASS: All 8 cases passed." in first
    assert "FAIL: 3 of 8 cases" in second
    # the comment: what was asked, what should have been done, what was done
    assert '+ renew_loan(book_id="B-102"' in second
    assert '- check_availability(book_id="B-102")' in second
