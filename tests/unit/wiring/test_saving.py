"""Which cases do not decide yet, as far as the stores tell."""

from __future__ import annotations

import pytest

from evalgate.baseline.store import Store
from evalgate.errors import UnavailableError
from evalgate.model import Run
from evalgate.wiring import saving
from tests.unit.pipeline.test_measure import SUITES

RUN = Run(suites=SUITES, trials=(), transcripts={})  # type: ignore[arg-type]  # nobody looks at what agents said


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
    ("shelves", "unreliable"),
    [
        ([Shelf(None)], 5),  # the first runs of all: no case has shown anything yet
        ([Shelf(None, reachable=False)], 0),  # an outage lets nobody off
        ([Shelf(None, reachable=False), Shelf(None)], 0),
    ],
)
def test_a_ledger_that_cannot_be_read_lets_no_case_off(shelves: list[Store], unreliable: int) -> None:
    said: list[str] = []
    past = saving.past_of(shelves, say=said.append)
    assert len(saving.unreliable(past, RUN, admission=3, say=said.append)) == unreliable
    assert bool(said) is (unreliable == 0)
