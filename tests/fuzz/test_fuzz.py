"""Inputs of each family that are nearly right, and all that was once found: no crash, nothing over
2 s or 200 MB."""

from __future__ import annotations

import time

import pytest
from builders.nightly import NIGHTLY

from fuzz import engine, families

INPUTS = 100
NIGHTLY_SECONDS = 120.0


@pytest.mark.parametrize("name", list(families.FAMILIES))
def test_whatever_is_read_is_read_in_time(name: str) -> None:
    family = families.FAMILIES[name]
    extent = (
        {"seconds": NIGHTLY_SECONDS, "seed": time.time_ns()}
        if NIGHTLY
        else {"most": INPUTS, "seed": 20}
    )
    print(extent)  # shown where it fails
    found = engine.run(family.read, family.all_seeds(), **extent)
    assert not found, [(each.what, each.data[:200]) for each in found]


def test_a_fault_would_be_found() -> None:
    """Each kind of fault, in readers that have it."""
    kept = []

    def crash(data: bytes) -> None:
        if b"9" in data:
            raise ZeroDivisionError

    assert engine.fault(crash, b"9") == "ZeroDivisionError in ?"
    assert engine.fault(crash, b"1") == ""
    assert (
        engine.fault(lambda _: kept.append(b"x" * (2 * engine.MOST_BYTES)), b"")
        == "takes much memory"
    )
    kept.clear()
    assert [each.what for each in engine.run(crash, [b'{"a": [1, 9]}'], seconds=0.1, seed=1)] == [
        "ZeroDivisionError in ?"
    ]
