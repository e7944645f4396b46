"""The benchmarks beside google-adk start and end well, at their smallest size."""

from __future__ import annotations

import pytest
from builders import benches
from parity.adk_child import AdkChild

pytestmark = pytest.mark.parity

SMALL = {
    "adk.py": ["--sizes", "10", "--score", "50", "--runs", "1"],
    "inputs.py": ["--rounds", "1", "--trials", "2"],
    "judge.py": ["--cases", "4", "--samples", "3", "--latency", "0.01"],
    "turns.py": ["--turns", "10,20", "--rounds", "1"],
}


@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_runs_at_its_smallest(name: str, adk: AdkChild) -> None:
    assert benches.figures(name, *SMALL[name], EVALGATE_TEST_ADK=adk.python)
