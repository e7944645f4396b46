"""Places in a configured text or request that are filled in: `{text}` from a conversation, `${NAME}` from variables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_PLACE = re.compile(r"\{([a-z_]+)\}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def names_in(shape: Any) -> frozenset[str]:
    """Every `{name}` in the texts of a JSON shape."""
    match shape:
        case str():
            return frozenset(_PLACE.findall(shape))
        case dict():
            return frozenset[str]().union(*(names_in(key) | names_in(value) for key, value in shape.items()))
        case list() | tuple():
            return frozenset[str]().union(*(names_in(item) for item in shape))
        case _:
            return frozenset()


def fill(shape: Any, values: Mapping[str, Any]) -> Any:
    """The shape with its `{name}`s filled in; a text that is nothing but one becomes the value itself.

    Names that are not among `values` stay as they are: they may be JSON braces of the user's own.
    """
    match shape:
        case str():
            return _fill_text(shape, values)
        case dict():
            return {_worded(fill(key, values)): fill(value, values) for key, value in shape.items()}
        case list() | tuple():
            return [fill(item, values) for item in shape]
        case _:
            return shape


def _fill_text(text: str, values: Mapping[str, Any]) -> Any:
    whole = _PLACE.fullmatch(text)
    if whole and whole[1] in values:
        return values[whole[1]]
    return _PLACE.sub(lambda found: _worded(values[found[1]]) if found[1] in values else found[0], text)


def _worded(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def expand(text: str, environment: Mapping[str, str]) -> str:
    """The text with `${NAME}` replaced by the variable's value. Raises KeyError with the name of one that is absent."""
    return _VARIABLE.sub(lambda found: environment[found[1]], text)
