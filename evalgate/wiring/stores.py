"""How old a base's results are, and whether they are stale."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

from evalgate.model import BaseOrigin
from evalgate.settings import Settings

DAY_S = 86_400


def aged(origin: BaseOrigin, *, settings: Settings, now: datetime) -> BaseOrigin:
    """The origin with the age of its results in days, and a note where they are older than `max_baseline_age`."""
    try:
        measured = datetime.fromisoformat(origin.measured_at)
    except ValueError:
        return origin
    if measured.tzinfo is None:
        measured = measured.replace(tzinfo=UTC)
    age_days = max(0.0, (now - measured).total_seconds() / DAY_S)
    notes = origin.notes
    if age_days > settings.max_baseline_age:
        most = settings.max_baseline_age
        stale = f"the base's results are {age_days:.0f} days old, more than max-baseline-age ({most:g})"
        notes = (*notes, stale)
    return dataclasses.replace(origin, age_days=age_days, notes=notes)
