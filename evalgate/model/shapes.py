"""Common parts of shapes for foreign JSON: ADK's two spellings of keys, and tolerant counts and
seconds."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, alias_generators
from pydantic_core import PydanticCustomError

from evalgate.values import JsonObject
from .conversation import MOST_SECONDS
from .run import MOST_COUNT


def seconds(value: Any, *, most: float = MOST_SECONDS) -> Any:
    """`value`, or None for a number that is not a duration from 0 to `most`; non-numbers are
    unchanged."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None if isinstance(value, bool) else value
    return float(value) if 0 <= value <= most else None


def count(value: Any) -> Any:
    """`value`, or None for a number that is not an integer from 0 to MOST_COUNT; non-numbers are
    unchanged."""
    number = seconds(value, most=MOST_COUNT)
    if not isinstance(number, float):
        return number
    return int(number) if number.is_integer() else None


Count: TypeAlias = Annotated[int | None, BeforeValidator(count), AfterValidator(count)]
"""A count of a foreign file; None if its number is no count. The first validator sees a number that
pydantic would reject, the second one a number that pydantic read from a text."""
Seconds: TypeAlias = Annotated[float | None, BeforeValidator(seconds), AfterValidator(seconds)]
"""The same for a duration in seconds."""


_LONGEST_KEY = 100
"""Characters. No known key is longer, and pydantic's conversion takes quadratic time."""


@lru_cache(maxsize=4096)  # files repeat the same few keys thousands of times
def to_snake(key: str) -> str:
    """A key in snake_case; unchanged if it is too long to be known."""
    return alias_generators.to_snake(key) if len(key) <= _LONGEST_KEY else key


def to_fields(raw: Any) -> JsonObject:
    """The members of a JSON object by their keys in snake_case; empty for other values."""
    return {to_snake(key): value for key, value in raw.items()} if isinstance(raw, dict) else {}


@lru_cache(maxsize=4096)
def to_camel(key: str) -> str:
    """A key in camelCase; unchanged if it is too long to be known."""
    return alias_generators.to_camel(key) if len(key) <= _LONGEST_KEY else key


def is_deep(value: Any, *, levels: int) -> bool:
    """True if lists and objects are nested more than `levels` deep."""
    level_values = [value]
    for _ in range(levels):
        level_values = [
            member
            for node in level_values
            if isinstance(node, dict | list)
            for member in (node.values() if isinstance(node, dict) else node)
        ]
    return bool(level_values)


def _not_deep(value: Any) -> Any:
    """`value`, if other readers can take it."""
    if is_deep(value, levels=MOST_LEVELS):
        raise PydanticCustomError(
            "wrong_value", f"lists and objects are nested in more than {MOST_LEVELS} levels"
        )
    return value


MOST_LEVELS = 100
"""The most levels of stored values; pydantic writes at most 255."""
Kept: TypeAlias = Annotated[JsonObject | None, AfterValidator(_not_deep)]
"""An object of a foreign file that results keep as it is."""
KeptValue: TypeAlias = Annotated[Any, AfterValidator(_not_deep)]
"""The same for any JSON value."""


class Wire(BaseModel):
    """A shape that is read in snake_case or camelCase (ADK accepts both, even mixed) and written in
    snake_case."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        protected_namespaces=(),
    )

    def compact(self) -> JsonObject:
        """The shape as JSON values, without nulls and defaults."""
        return self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)


def field(key: str) -> str:
    """The snake_case name of a key in one of ADK's two spellings; any other key is unchanged.

    `matchType` is `match_type`; `match-type` and `Match_Type` are unknown to ADK."""
    name = to_snake(key)
    return name if key in (name, to_camel(name)) else key
