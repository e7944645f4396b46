"""Adding a run to a stored history, whatever is stored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from evalgate.errors import UnavailableError
from evalgate.results import history as results_history
from evalgate.results.history import CaseHistory, PastOutcome, PastRun, PastRuns

OUTCOME = PastOutcome(number=1, passes=1, measured=2, runs=2)
RUN = PastRuns(
    runs=(PastRun(number=1, commit="c" * 40, at="2026-01-02T03:04:05Z"),),
    cases=(CaseHistory(suite="s", case_id="a", fingerprint="f", outcomes=(OUTCOME,)),),
)


def held(history: bytes | None) -> Any:
    """A store that holds one history."""
    return SimpleNamespace(
        name="folder x", read=lambda name: history if name == "history.json" else None
    )


def test_runs_are_added() -> None:
    revise = results_history.add_run(RUN)
    once = revise(None)
    twice = revise(once)
    assert twice is not None
    assert [run.number for run in results_history.parse_history(twice).runs] == [1, 2]


def test_an_unreadable_history_starts_anew_and_says_so() -> None:
    warnings: list[str] = []
    history = results_history.add_run(RUN, warn=warnings.append)(b"not JSON")
    assert history is not None
    assert len(results_history.parse_history(history).runs) == 1
    assert "starts over" in warnings[0]


def test_the_history_of_a_later_evalgate_is_never_overwritten() -> None:
    warnings: list[str] = []
    assert results_history.add_run(RUN, warn=warnings.append)(b'{"schema_version": 9}') is None
    assert "later version" in warnings[0]


def test_reading_a_stores_history() -> None:
    assert results_history.read_history(held(None)) == PastRuns()
    stored = results_history.add_run(RUN)(None)
    assert results_history.read_history(held(stored)).cases[0].case_id == "a"


@pytest.mark.parametrize(
    ("history", "why"),
    [
        (b"not JSON", "it is damaged: Invalid JSON"),
        (b'{"schema_version": 9}', "later version"),
        (
            b'{"runs": [{"number": 1, "commit": "", "at": "", "means": {"m": NaN}}], "cases": []}',
            "it is damaged",
        ),
    ],
)
def test_an_unreadable_history_is_not_the_same_as_none(history: bytes, why: str) -> None:
    with pytest.raises(UnavailableError, match=why):
        results_history.read_history(held(history))
