"""Adding a run to a stored history, whatever is stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from evalgate.errors import UnavailableError
from evalgate.results import history as results_history
from evalgate.results.history import CaseHistory, PastOutcome, PastRun, PastRuns
from evalgate.results.stores import Revise, StoredRun

OUTCOME = PastOutcome(number=1, passes=1, measured=2, runs=2)
RUN = PastRuns(
    runs=(PastRun(number=1, commit="c" * 40, at="2026-01-02T03:04:05Z"),),
    cases=(CaseHistory(suite="s", case_id="a", fingerprint="f", outcomes=(OUTCOME,)),),
)


class Held:
    """A store that holds one history."""

    name = "folder x"

    def __init__(self, history: bytes | None) -> None:
        self.history = history

    def read(self, name: str) -> bytes | None:
        return self.history if name == "history.json" else None

    def find(self, candidates: Sequence[str]) -> StoredRun | None:
        raise AssertionError

    def save(self, commit: str, results: Path, *, now: datetime, revise: Revise | None = None) -> None:
        raise AssertionError


def test_runs_are_added_and_the_badge_follows() -> None:
    revise = results_history.add_run(RUN)
    once = revise(None)
    twice = revise(once["history.json"])
    history = results_history.parse_history(twice["history.json"])
    assert [run.number for run in history.runs] == [1, 2]
    assert json.loads(twice["badge.json"])["message"] == "0/1 · 1 mixed"
    assert revise(once["history.json"]) == twice, "it may be asked again after a lost race"


def test_an_unreadable_history_starts_anew_and_says_so() -> None:
    warnings: list[str] = []
    files = results_history.add_run(RUN, warn=warnings.append)(b"not JSON")
    assert len(results_history.parse_history(files["history.json"]).runs) == 1
    assert "starts over" in warnings[0]


def test_the_history_of_a_later_evalgate_is_never_overwritten() -> None:
    warnings: list[str] = []
    assert results_history.add_run(RUN, warn=warnings.append)(b'{"schema_version": 9}') == {}
    assert "later version" in warnings[0]


def test_reading_a_stores_history() -> None:
    assert results_history.read_history(Held(None)) is None
    stored = results_history.add_run(RUN)(None)["history.json"]
    read = results_history.read_history(Held(stored))
    assert read is not None
    assert read.cases[0].case_id == "a"


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (b"not JSON", "it is damaged: Invalid JSON"),
        (b'{"schema_version": 9}', "later version"),
        (b'{"runs": [{"number": 1, "commit": "", "at": "", "means": {"m": NaN}}], "cases": []}', "it is damaged"),
    ],
)
def test_an_unreadable_history_is_not_the_same_as_none(held: bytes, why: str) -> None:
    with pytest.raises(UnavailableError, match=why):
        results_history.read_history(Held(held))
