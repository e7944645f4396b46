"""What nearly all our types are: values that never change, and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar, dataclass_transform

T = TypeVar("T")
Json: TypeAlias = Mapping[str, Any]
"""A JSON object that is read."""
JsonObject: TypeAlias = dict[str, Any]
"""A JSON object that is built."""
Environ: TypeAlias = Mapping[str, str]
"""Environment variables by name."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field, dataclasses.Field))
def frozen_dataclass(cls: type[T]) -> type[T]:
    """A dataclass that is frozen, has slots, and takes its fields by name."""
    return dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(cls)
