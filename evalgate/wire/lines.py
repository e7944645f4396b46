"""One JSON value as one line of UTF-8: the journal and results.json have hundreds of thousands."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, to_json


def encode(value: Any) -> bytes:
    """Compact, strict JSON without a line end, of values that came as JSON.

    JSON has no NaN and no Infinity (RFC 8259): they become the texts that `not_finite.NAMES` lists.
    """
    try:
        return to_json(value, inf_nan_mode="strings")
    except PydanticSerializationError:
        # lone surrogates come in agents' answers: escaped they survive, in UTF-8 they cannot; or very deep values
        text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
        if "NaN" in text or "Infinity" in text:
            named = json.loads(text, parse_constant=str)
            text = json.dumps(named, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
        return text.encode()
