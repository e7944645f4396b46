"""Which cases do not decide yet, as far as the stores tell."""

from __future__ import annotations

import pytest

from evalgate.baseline.store import Store
from evalgate.errors import UnavailableError
from evalgate.model import Run
from evalgate.wiring import saving
from tests.unit.pipeline.test_measure import SUITES

RUN = Run(suites=SUITES, trials=(), transcripts={})  # type: ignore[arg-type]  # nobody looks at what agents said
EMPTY = b'{"schema_version": 1, "runs": [], "cases": []}'


class Shelf:
    """A store with one file, or one that is out of reach."""

    name = "shelf"

    def __init__(self, ledger: bytes | None, *, reachable: bool = True) -> None:
        self._ledger, self._reachable = ledger, reachable

    def read(self, name: str) -> bytes | None:
        if not self._reachable:
            raise UnavailableError("no network")
        return self._ledger


@pytest.mark.parametrize(
    ("shelves", "unreliable", "warned"),
    [
        ([Shelf(None)], 5, ""),  # the first runs of all: no case has shown anything yet
        ([Shelf(EMPTY)], 5, ""),
        ([Shelf(None, reachable=False)], 0, "ledger of the shelf was not read: no network"),  # lets nobody off
        ([Shelf(None, reachable=False), Shelf(None)], 0, "ledger of the shelf"),
        ([Shelf(b"{")], 0, "ledger of the shelf was not read: it is damaged"),
        ([Shelf(b'{"schema_version": 99}')], 0, "later version"),
        ([Shelf(b"{"), Shelf(EMPTY)], 5, "ledger of the shelf"),  # the other one knows, and the damage is told
        ([], 0, "no store"),  # a folder that the commit brings along is no store
    ],
)
def test_a_ledger_that_cannot_be_read_lets_no_case_off(shelves: list[Store], unreliable: int, warned: str) -> None:
    said: list[str] = []
    past = saving.past_of(shelves, admission=3, say=said.append)
    assert len(saving.unreliable(past, RUN, admission=3, say=said.append)) == unreliable
    assert bool(said) is bool(warned)
    assert [problem.code for problem in past.problems] == ["ledger-unread"] * bool(warned)
    assert all(warned in problem.message for problem in past.problems)
    assert all(("every case decides" in problem.hint) is (unreliable == 0) for problem in past.problems)


def test_without_admission_a_damaged_ledger_only_costs_the_trends() -> None:
    (problem,) = saving.past_of([Shelf(b"{")], admission=0, say=lambda _: None).problems
    assert not problem.hint
    assert not saving.past_of([], admission=0, say=lambda _: None).problems
