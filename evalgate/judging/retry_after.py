"""How long Google asks to wait in the body of an error: RetryInfo and QuotaFailure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)s\s*$")
_DAILY = re.compile(r"per[-_ ]?day", re.IGNORECASE)


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
