"""The base of nearly all our types: immutable values, and JSON."""

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
    document: Any, change: Callable[[Any], Any], *, key: Callable[[str], str] = str
) -> Any:
    """The same JSON with `change` applied to every leaf, and `key` to every key."""
    if isinstance(document, Mapping):
        return {
            key(str(name)): mapped_json(member, change, key=key)
            for name, member in document.items()
        }
    if isinstance(document, list | tuple):
        return [mapped_json(member, change, key=key) for member in document]
    return change(document)


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(dataclasses.field, dataclasses.Field),
)
def frozen_dataclass(cls: type[T]) -> type[T]:
    """A frozen dataclass with slots and keyword-only fields."""
    return dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(cls)
