"""Every benchmark starts and ends well, at its smallest size: what it measures is printed as JSON
in its last line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from builders.nightly import BY_NIGHT

BENCH = Path(__file__).parents[2] / "bench"
ADK = Path(__file__).parents[2] / ".venv-adk/bin/python"

pytestmark = pytest.mark.integration

SMALL = {
    "adk.py": ["--sizes", "10", "--score", "50", "--runs", "1"],
    "assistant.py": ["--evaluations", "20", "--times", "2"],
    "first_agents.py": ["--files", "40", "--agents", "2"],
    "environment.py": ["--environment", sys.prefix, "--megabytes", "10", "--runs", "1"],
    "inputs.py": ["--rounds", "1", "--trials", "2"],
    "judge.py": ["--cases", "4", "--samples", "3", "--latency", "0.01"],
    "judge_replies.py": ["--every", "12"],
    "page.py": ["--cases", "20"],
    "pytest_run.py": ["--cases", "2", "--seconds", "0.05", "--pairs", "1"],
    "untouched.py": ["--times", "1"],
    "watching.py": ["--files", "200", "--times", "10", "--folders", "100", "--runs", "2"],
    "turns.py": ["--turns", "10,100", "--rounds", "1"],
}
BESIDE_ADK = {"adk.py", "judge.py", "turns.py"}
"""They run google-adk in an environment of its own, which takes half a minute: by night."""
ELSEWHERE = {
    "footprint.py": "test_footprint.py",
    "isolation.py": "mounts a disk as root",
    "old_verdict.py": "a half of verdict.py",
    "plain_run.py": "a half of pytest_run.py",
    "strangers.py": "test_strangers.py",
    "verdict.py": "test_bench_verdict.py",
}


def is_program(path: Path) -> bool:
    return 'if __name__ == "__main__"' in path.read_text(encoding="utf-8")


def test_no_benchmark_is_forgotten() -> None:
    programs = {path.name for path in BENCH.glob("*.py") if is_program(path)}
    assert programs == SMALL.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=BY_NIGHT if name in BESIDE_ADK else ()) for name in SMALL]
)
def test_a_benchmark_runs_at_its_smallest(name: str) -> None:
    if name in BESIDE_ADK and not ADK.exists():
        pytest.skip("no interpreter with google-adk: make .venv-adk")
    command = [sys.executable, str(BENCH / name), *SMALL[name]]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert json.loads(ended.stdout.splitlines()[-1])
