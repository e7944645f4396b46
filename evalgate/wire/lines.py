"""One JSON value as one line of UTF-8: the journal and results.json have hundreds of thousands."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, to_json


def encode(value: Any) -> bytes:
    """Compact JSON without a line end, of values that came as JSON."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        # lone surrogates come in agents' answers: escaped they survive, in UTF-8 they cannot; or very deep values
        return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
