"""How many of Hypothesis's examples a property is tried on, and whether they are the same each
time."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, settings

from builders.nightly import NIGHTLY

FEW = 20
"""A property's examples in `make test` and on pull requests, whatever it asks for."""
NIGHTLY_TIMES = 10
"""How many times as many as it asks for by night."""


def load() -> None:
    """Register the profiles, and take the one of the hour."""
    # how long an example takes says more of the machine than of the code
    patient = settings(
        settings.get_profile("default"), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    # the same examples each time: a change that is green stays green
    settings.register_profile("ci", patient, max_examples=FEW, derandomize=True, database=None)
    settings.register_profile("nightly", patient, max_examples=100 * NIGHTLY_TIMES, print_blob=True)
    settings.load_profile("nightly" if NIGHTLY else "ci")


def give(items: Iterable[pytest.Item]) -> None:
    """Bound or raise what tests ask for themselves, too: a profile alone gives way to them."""
    for item in items:
        test = getattr(item, "obj", None)
        own = getattr(test, "_hypothesis_internal_use_settings", None)
        if own is not None and own.max_examples != settings.default.max_examples:
            count = extent(own.max_examples, settings.get_current_profile_name())
            test._hypothesis_internal_use_settings = settings(own, max_examples=count)


def extent(wanted: int, profile: str) -> int:
    """How many examples a property gets that asks for `wanted`."""
    return {"ci": min(wanted, FEW), "nightly": wanted * NIGHTLY_TIMES}.get(profile, wanted)
