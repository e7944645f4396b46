"""How long a server asks to wait: Retry-After in seconds or as a date."""

from __future__ import annotations

import email.utils
import math
from collections.abc import Mapping
from datetime import UTC, datetime


def parse_retry_after(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Seconds to wait by `Retry-After` (RFC 9110: seconds or a date) or `retry-after-ms`; None where unsaid.

    Header names in lower case. A date in the past is 0.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _number(value)
    return seconds if seconds is not None else _until(value, now=now)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(text: str, *, now: datetime) -> float | None:
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
