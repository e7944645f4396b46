"""The two spellings of keys; files repeat the same few thousands of times."""

from __future__ import annotations

import functools
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic.alias_generators import to_snake as _to_snake

# -- Counts and seconds that somebody else reports --

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


# -- The manners of every wire shape --


class Wire(BaseModel):
    """A shape that is read in snake_case or camelCase (ADK takes both, even mixed) and written in snake_case."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        protected_namespaces=(),
    )

    def compact(self) -> dict[str, Any]:
        """As JSON-ready values, without nulls and defaults."""
        return self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)


__all__ = ["field", "to_camel", "to_snake"]

to_snake = functools.lru_cache(maxsize=4096)(_to_snake)


def field(key: str) -> str:
    """The snake_case name of a key that is written in one of ADK's two spellings; any other stays as it is written.

    `matchType` is `match_type`; `match-type` and `Match_Type` are nothing to ADK, and so to us.
    """
    name = to_snake(key)
    return name if key in (name, to_camel(name)) else key
