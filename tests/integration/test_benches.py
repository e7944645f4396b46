"""Every benchmark starts and ends well, at its smallest size: what it measures is printed as JSON
in its last line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from builders import benches

pytestmark = pytest.mark.integration

SMALL = {
    "assistant.py": ["--evaluations", "20", "--times", "2"],
    "first_agents.py": ["--files", "40", "--agents", "2"],
    "environment.py": ["--environment", sys.prefix, "--megabytes", "10", "--runs", "1"],
    "judge_replies.py": ["--every", "12"],
    "page.py": ["--cases", "20"],
    "pytest_run.py": ["--cases", "2", "--seconds", "0.05", "--pairs", "1"],
    "untouched.py": ["--times", "1"],
    "watching.py": ["--files", "200", "--times", "10", "--folders", "100", "--runs", "2"],
}
BESIDE_ADK = "tests/parity/test_beside_adk.py"
ELSEWHERE = {
    "adk.py": BESIDE_ADK,
    "footprint.py": "test_footprint.py",
    "inputs.py": BESIDE_ADK,
    "isolation.py": "mounts a disk as root",
    "judge.py": BESIDE_ADK,
    "old_verdict.py": "a half of verdict.py",
    "plain_run.py": "a half of pytest_run.py",
    "strangers.py": "test_strangers.py",
    "turns.py": BESIDE_ADK,
    "verdict.py": "test_bench_verdict.py",
}


def is_program(path: Path) -> bool:
    return 'if __name__ == "__main__"' in path.read_text(encoding="utf-8")


def test_no_benchmark_is_forgotten() -> None:
    programs = {path.name for path in benches.BENCH.glob("*.py") if is_program(path)}
    assert programs == SMALL.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_runs_at_its_smallest(name: str) -> None:
    assert benches.figures(name, *SMALL[name])
