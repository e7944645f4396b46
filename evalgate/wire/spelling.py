"""The two spellings of keys; files repeat the same few thousands of times."""

from __future__ import annotations

import functools

from pydantic.alias_generators import to_camel
from pydantic.alias_generators import to_snake as _to_snake

__all__ = ["to_camel", "to_snake"]

to_snake = functools.lru_cache(maxsize=4096)(_to_snake)
