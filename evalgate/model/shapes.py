"""What every shape of foreign JSON shares: ADK's two spellings of keys, counts and seconds that may
be anything."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, alias_generators
from pydantic_core import PydanticCustomError

from evalgate.model.run import MOST_COUNT, MOST_SECONDS
from evalgate.values import JsonObject


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


# before: a number that pydantic would refuse; after: one that it read from a text
Count: TypeAlias = Annotated[int | None, BeforeValidator(count), AfterValidator(count)]
Seconds: TypeAlias = Annotated[float | None, BeforeValidator(seconds), AfterValidator(seconds)]


_LONGEST_KEY = 100
"""Characters; no key of ours is so long, and pydantic takes the square of the time."""


@lru_cache(maxsize=4096)  # files repeat the same few thousands of times
def to_snake(key: str) -> str:
    """A key in snake_case; one that is too long to be known stays as it is."""
    return alias_generators.to_snake(key) if len(key) <= _LONGEST_KEY else key


@lru_cache(maxsize=4096)
def to_camel(key: str) -> str:
    """A key in camelCase; one that is too long to be known stays as it is."""
    return alias_generators.to_camel(key) if len(key) <= _LONGEST_KEY else key


def is_deep(value: Any, *, levels: int) -> bool:
    """True if lists and objects are nested more than `levels` deep."""
    level = [value]
    for _ in range(levels):
        level = [
            inner
            for node in level
            if isinstance(node, dict | list)
            for inner in (node.values() if isinstance(node, dict) else node)
        ]
    return bool(level)


def _not_deep(value: Any) -> Any:
    if is_deep(value, levels=MOST_LEVELS):
        raise PydanticCustomError(
            "wrong_value", f"lists and objects are nested in more than {MOST_LEVELS} levels"
        )
    return value


MOST_LEVELS = 100
"""Of values that are kept as they are; pydantic writes 255."""
Kept: TypeAlias = Annotated[JsonObject | None, AfterValidator(_not_deep)]
KeptValue: TypeAlias = Annotated[Any, AfterValidator(_not_deep)]


class Wire(BaseModel):
    """A shape that is read in snake_case or camelCase (ADK takes both, even mixed) and written in
    snake_case."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        protected_namespaces=(),
    )

    def compact(self) -> JsonObject:
        """As JSON-ready values, without nulls and defaults."""
        return self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)


def field(key: str) -> str:
    """The snake_case name of a key that is written in one of ADK's two spellings; any other stays
    as it is written.

    `matchType` is `match_type`; `match-type` and `Match_Type` are nothing to ADK, and so to us.
    """
    name = to_snake(key)
    return name if key in (name, to_camel(name)) else key
