"""When two calls are the same call: one spelling for equal arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from evalgate.model import Json

EXACT_FLOATS = 2.0**53
REDACTED = "***"


def text(args: Json) -> str:
    """Arguments as one text: keys in order, and whole numbers alike however they are written (2.0 is 2)."""
    return json.dumps(_plain(args), sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def ordered(value: Any) -> Any:
    """The same JSON with the keys of every object in order."""
    if isinstance(value, Mapping):
        return {key: ordered(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [ordered(item) for item in value]
    return value


def redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """The same JSON with every text, keys included, as `redact` writes it."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(str(key)): redacted(item, redact) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item, redact) for item in value]
    return value


def covers(recorded: Any, actual: Any) -> bool:
    """Whether two values are equal where `***` in a recorded text stands for anything that was taken out there."""
    if isinstance(recorded, str) and REDACTED in recorded:
        pattern = ".*".join(re.escape(piece) for piece in recorded.split(REDACTED))
        return isinstance(actual, str) and re.fullmatch(pattern, actual, re.DOTALL) is not None
    if isinstance(recorded, Mapping):
        return (
            isinstance(actual, Mapping)
            and recorded.keys() == actual.keys()
            and all(covers(item, actual[key]) for key, item in recorded.items())
        )
    if isinstance(recorded, list | tuple):
        return (
            isinstance(actual, list | tuple)
            and len(recorded) == len(actual)
            and all(covers(one, other) for one, other in zip(recorded, actual, strict=True))
        )
    return text({"": recorded}) == text({"": actual})


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT_FLOATS:
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
