"""Counts and seconds that somebody else reports: what nobody can have counted or waited for is unknown."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, BeforeValidator

MOST_COUNT: Final = 2**53 - 1
"""The largest whole number that every reader of JSON keeps exact (RFC 8259, section 6)."""

MOST_SECONDS: Final = 1e9
"""About thirty years."""


def count(value: Any) -> Any:
    """`value`, or None for a number that is no whole one from 0 to MOST_COUNT; what is no number stays as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None if isinstance(value, bool) else value
    return int(value) if 0 <= value <= MOST_COUNT and value == int(value) else None


def seconds(value: Any) -> Any:
    """`value`, or None for a number that is no duration from 0 to MOST_SECONDS; what is no number stays as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None if isinstance(value, bool) else value
    return float(value) if 0 <= value <= MOST_SECONDS else None


# before: a number that pydantic would refuse; after: one that it read from a text
Count: TypeAlias = Annotated[int | None, BeforeValidator(count), AfterValidator(count)]
Seconds: TypeAlias = Annotated[float | None, BeforeValidator(seconds), AfterValidator(seconds)]
