"""How long a provider asks to wait: Retry-After in seconds or as a date, and Google's RetryInfo and QuotaFailure."""

from __future__ import annotations

import email.utils
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)s\s*$")
_DAILY = re.compile(r"per[-_ ]?day", re.IGNORECASE)


def parse_header(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Seconds to wait by `Retry-After` (RFC 9110: seconds or a date) or `retry-after-ms`; None where unsaid.

    Header names in lower case. A date in the past is 0.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _number(value)
    return seconds if seconds is not None else _until(value, now=now)


def parse_google(details: Iterable[Any]) -> float | None:
    """Seconds to wait by a `google.rpc.RetryInfo` among the details of an error; Gemini sends no header."""
    for detail in _typed(details, "RetryInfo"):
        found = _DURATION.match(str(detail.get("retryDelay", "")))
        if found:
            return float(found[1])
    return None


def is_daily_quota(details: Iterable[Any]) -> bool:
    """Whether a `google.rpc.QuotaFailure` names a quota of the day, which no run can outwait."""
    for detail in _typed(details, "QuotaFailure"):
        violations = detail.get("violations")
        for violation in violations if isinstance(violations, list) else []:
            if isinstance(violation, Mapping) and _DAILY.search(
                f"{violation.get('quotaId')} {violation.get('subject')}"
            ):
                return True
    return False


def _typed(details: Iterable[Any], name: str) -> Iterable[Mapping[str, Any]]:
    return (each for each in details if isinstance(each, Mapping) and str(each.get("@type", "")).endswith(f".{name}"))


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
