"""The JSON schema of replies that hold one verdict for each of several things."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from evalgate.model import Json

FORCED: Final = 8
"""So many entries a schema insists on at most: some servers refuse a schema with a longer bound as too large."""


def schema(properties: Mapping[str, Any], *, count: int) -> Json:
    """Of `{"verdicts": [...]}` with an entry of these properties for each of `count` things.

    The list may not be shorter: small models leave it empty where they may.
    """
    entry = {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"verdicts": {"type": "array", "items": entry, "minItems": min(count, FORCED)}},
        "required": ["verdicts"],
        "additionalProperties": False,
    }
