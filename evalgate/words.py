"""How numbers, names and lists read in every message and report."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `word` was probably meant to be, or None; case is ignored."""
    lowered = {candidate.lower(): candidate for candidate in candidates}
    found = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[found[0]] if found else None


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 case`, `2 cases`, `1,204 cases`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def score(value: float | None) -> str:
    """A score with two decimals, a third only where two would hide a difference from a round number; `-` for None.

    Rounds toward the nearer number but never up to a threshold-like 1.00 that was not reached: 0.9996 reads 0.999.
    """
    if value is None:
        return "-"
    if math.isnan(value):
        return "nan"
    rounded = round(value, 2)
    if rounded == value or abs(rounded - value) < 1e-12:
        return f"{value:.2f}"
    return f"{math.floor(value * 1000) / 1000:.3f}"


def percent(share: float) -> str:
    """A share as a whole percentage that says 100 % or 0 % only when it is so."""
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    return f"{min(max(share, 0.01), 0.99):.0%}"


def seconds(value: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `1 h 05 min`."""
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def listed(items: Iterable[str], *, limit: int = 5) -> str:
    """`a, b and c`, or `a, b and 7 more`."""
    names = list(items)
    if len(names) <= 1:
        return "".join(names)
    if len(names) > limit:
        return f"{', '.join(names[: limit - 1])} and {len(names) - limit + 1} more"
    return f"{', '.join(names[:-1])} and {names[-1]}"
