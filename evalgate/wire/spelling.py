"""The two spellings of keys; files repeat the same few thousands of times."""

from __future__ import annotations

import functools

from pydantic.alias_generators import to_camel
from pydantic.alias_generators import to_snake as _to_snake

__all__ = ["field", "to_camel", "to_snake"]

to_snake = functools.lru_cache(maxsize=4096)(_to_snake)


def field(key: str) -> str:
    """The snake_case name of a key that is written in one of ADK's two spellings; any other stays as it is written.

    `matchType` is `match_type`; `match-type` and `Match_Type` are nothing to ADK, and so to us.
    """
    name = to_snake(key)
    return name if key in (name, to_camel(name)) else key
