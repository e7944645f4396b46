"""What nearly all our types are: values that never change, and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar, dataclass_transform

T = TypeVar("T")
Json: TypeAlias = Mapping[str, Any]
"""A JSON object that is read."""
JsonObject: TypeAlias = dict[str, Any]
"""A JSON object that is built."""
Environ: TypeAlias = Mapping[str, str]
"""Environment variables by name."""


def mapped_json(
    value: Any, change: Callable[[Any], Any], *, key: Callable[[str], str] = str
) -> Any:
    """The same JSON with `change` made to every value that is neither object nor list, and `key` to
    every key."""
    if isinstance(value, Mapping):
        return {key(str(name)): mapped_json(item, change, key=key) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [mapped_json(item, change, key=key) for item in value]
    return change(value)


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(dataclasses.field, dataclasses.Field),
)
def frozen_dataclass(cls: type[T]) -> type[T]:
    """A dataclass that is frozen, has slots, and takes its fields by name."""
    return dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(cls)
