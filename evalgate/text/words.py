"""Numbers, names and lists as words, for every message and report."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

LARGE = 100
"""Means from here on need no decimals: tokens, seconds."""
MOST_DECIMALS = 12
"""Of a shown number; a number that needs more is shown with all digits."""
TWO_DIGITS = 10
"""The least difference, in units of its last decimal, if it has a decimal less than its numbers."""
DUST_DECIMALS = 8
"""Of two equal means, so that rounding errors beyond them do not show."""
DUST = 1e-9
"""Smaller differences of two means are rounding errors."""
MINUS = "\N{MINUS SIGN}"
"""As wide as a plus sign, unlike the hyphen."""


def nearest(word: str, candidates: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The candidate that `word` probably means, or None; case is ignored. A higher `cutoff` is
    stricter."""
    by_lower_case = {candidate.lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(word.lower(), list(by_lower_case), n=1, cutoff=cutoff)
    return by_lower_case[matches[0]] if matches else None


def did_you_mean(word: str, candidates: Iterable[str], *, fallback: str = "") -> str:
    """The hint with the candidate that `word` probably means; `fallback` if none is near."""
    candidate = nearest(word, candidates)
    return fallback if candidate is None else f"Did you mean `{candidate}`?"


def suggest(word: str, candidates: Iterable[str], *, prefix: str = "") -> str:
    """The same within a message: `did you mean ...?`, after `prefix`."""
    candidate = nearest(word, candidates)
    return "" if candidate is None else f"{prefix}did you mean `{candidate}`?"


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 case`, `2 cases`, `1,204 cases`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def share_of(count: int, total: int, noun: str) -> str:
    """`0 of 1 cases`, `3 of 1,204 cases`: as test runners count, always in the plural."""
    return f"{count:,} of {total:,} {noun}s"


_FAULTS = {
    "extra_forbidden": "unknown key",
    "missing": "required key is missing",
    "string_pattern_mismatch": "not a valid value",
}
"""Our words for Pydantic's types of errors."""


def fault(error: Mapping[str, object]) -> str:
    """One of Pydantic's errors in a user's words: `must be a valid number`."""
    message = (
        _FAULTS.get(str(error["type"]), str(error["msg"]))
        .removeprefix("Value error, ")
        .partition(", unable to ")[0]
    )
    return message.replace("Input should be", "must be")


def fault_with_place(error: Mapping[str, Any], *, most_steps: int | None = None) -> str:
    """One of Pydantic's errors, with its path in front (at most `most_steps` parts of it)."""
    path = ".".join(map(str, error["loc"][:most_steps]))
    return f"{path}: {error['msg']}" if path else str(error["msg"])


@lru_cache(maxsize=4096)
def score(value: float | None, *, beside: float | None = None) -> str:
    """A score with two decimals, with more only if two would mislead; `-` for None, never a false
    1.00.

    Two mislead if a number up to ten would falsely read as a whole one (0.9996), or would be off by
    more than a tenth of itself (0.005). With `beside` (a threshold, another run's value), enough
    decimals are shown to distinguish different numbers: 0.7999 beside 0.8. Whole numbers from 1,000
    on have none, and separators: 1,204."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    if value.is_integer() and abs(value) >= 1000:
        return f"{value:,.0f}"
    decimals = _decimals(value, beside=beside)
    return repr(value) if decimals is None else _fixed(value, decimals)


def change(base: float, head: float, *, delta: float) -> tuple[str, str, str]:
    """Two numbers and the size of their difference, with the fewest decimals at which all three
    agree.

    Both numbers have the same number of decimals. The difference has as many, or one less if
    rounding allows no other agreement (0.333, 0.667, 0.33). Numbers from LARGE on begin without
    decimals, others with those of `score`."""
    least_decimals = 0
    if abs(delta) < DUST:
        base = head = round(head, DUST_DECIMALS)
        delta = 0.0
    if max(abs(base), abs(head)) < LARGE:
        decimal_counts = (_decimals(base, beside=head), _decimals(head, beside=base))
        least_decimals = max(MOST_DECIMALS if count is None else count for count in decimal_counts)
    for decimals in range(least_decimals, least_decimals + 4):
        for delta_decimals in (decimals, decimals - 1):
            texts = (
                _fixed(base, decimals),
                _fixed(head, decimals),
                _fixed(abs(delta), max(delta_decimals, 0)),
            )
            base_number, head_number, size_number = map(_number, texts)
            distance = abs(head_number - base_number)
            # with a decimal less, the size's last digit is worth 10, and is right to half of that
            is_consistent = (
                distance == size_number
                if max(delta_decimals, 0) == decimals
                else abs(distance - 10 * size_number) <= 5
            )
            if is_consistent and (
                size_number >= (1 if delta_decimals >= least_decimals else TWO_DIGITS) or delta == 0
            ):
                return texts
    return (
        _fixed(base, least_decimals),
        _fixed(head, least_decimals),
        _fixed(abs(delta), least_decimals),
    )


def compared(base: float | None, head: float | None) -> tuple[str, str, str]:
    """Two means and head - base with its sign, with decimals that agree; `-` for unknown values."""
    if base is None or head is None:
        return amount(base), amount(head), "-"
    delta = head - base
    base_text, head_text, size_text = change(base, head, delta=delta)
    if delta and size_text.strip("0.,"):
        size_text = f"{'+' if delta > 0 else MINUS}{size_text}"
    return base_text, head_text, size_text


def points(delta: float | None) -> str:
    """A difference of shares in points of 100: `+12 points`, `+0.4 points`, `0 points`; `-` for
    None."""
    if delta is None:
        return "-"
    size = abs(delta) * 100
    text = f"{size:.0f}" if size >= 0.95 else f"{size:.1f}"
    if float(text) == 0:
        return "0 points"
    return f"{'+' if delta > 0 else MINUS}{text} points"


def threshold(value: float | None) -> str:
    """A threshold as the user wrote it, with at least two decimals."""
    text = score(value)
    return text if value is None or float(text.replace(",", "")) == value else repr(value)


def score_and_limit(value: float | None, limit: float | None, *, met: bool) -> str:
    """A score and its threshold, such as `0.79 < 0.80` or `0.85 \N{GREATER-THAN OR EQUAL TO} 0.80`.

    The sign follows the numbers, so that it also fits criteria for which lower is better."""
    text = score(value, beside=limit)
    if value is None or limit is None:
        return text
    if value == limit:
        sign = "="
    elif value < limit:
        sign = "\N{LESS-THAN OR EQUAL TO}" if met else "<"
    else:
        sign = "\N{GREATER-THAN OR EQUAL TO}" if met else ">"
    return f"{text} {sign} {threshold(limit)}"


def _decimals(value: float, *, beside: float | None) -> int | None:
    """The number of decimals that `value` needs; None: all of them."""
    is_alone = beside is None or not math.isfinite(beside) or value == beside
    if is_alone and abs(round(value, 2) - value) < 1e-12:
        return 2
    for decimals in range(2, MOST_DECIMALS + 1):
        approximation = float(f"{value:.{decimals}f}")
        is_false_whole = (
            approximation.is_integer() and not value.is_integer() and abs(approximation) <= 10
        )
        if is_false_whole or abs(approximation - value) > abs(value) / 10:
            continue
        if is_alone or beside is None:
            return decimals
        if approximation not in (float(f"{beside:.{decimals}f}"), beside) and (
            approximation < beside
        ) == (value < beside):
            return decimals
    return None


def _fixed(value: float, decimals: int) -> str:
    """A number with so many decimals; never a negative zero."""
    text = f"{value:,.{decimals}f}"
    return text.removeprefix("-") if _number(text) == 0 else text


def _number(text: str) -> int:
    """The number in units of its last decimal."""
    return int(text.replace(",", "").replace(".", ""))


def percent(share: float) -> str:
    """A share as a whole percentage; 100% or 0% only if it is exact."""
    return f"{share:.0%}" if share in (0.0, 1.0) else f"{min(max(share, 0.01), 0.99):.0%}"


def tokens(count: int) -> str:
    """`840`, `12.3k`, `123k`, `4.1M`: three digits, for a line of figures."""
    if count < 1000:
        return str(count)
    amount, unit = (count / 1000, "k") if count < 999_500 else (count / 1_000_000, "M")
    return f"{amount:.1f}{unit}" if amount < 99.95 else f"{amount:,.0f}{unit}"


def dollars(value: float) -> str:
    """`$1,204.00`, `$0.02`, `$0.004`: two decimals, more only if other values would show as 0."""
    if value == 0 or abs(value) >= 0.01:
        return f"${value:,.2f}"
    return f"${value:.{-math.floor(math.log10(abs(value)))}f}"


def amount(value: float | None) -> str:
    """A quantity, not a score (calls, tokens, seconds): whole numbers without decimals."""
    if value is None or not math.isfinite(value) or not value.is_integer():
        return score(value)
    return f"{value:,.0f}"


def seconds(value: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `1 h 05 min`."""
    if value < 10:
        return f"{value:.1f} s"
    total_seconds = round(value)
    if total_seconds < 60:
        return f"{total_seconds} s"
    minutes, remainder = divmod(total_seconds, 60)
    if minutes < 60:
        return f"{minutes} min {remainder:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def listed(texts: Iterable[str], *, limit: int = 5) -> str:
    """`a, b and c`, or `a, b and 7 more`."""
    names = list(texts)
    if len(names) <= 1:
        return "".join(names)
    if len(names) > limit:
        return f"{', '.join(names[: limit - 1])} and {len(names) - limit + 1} more"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def listed_names(names: Iterable[object], *, limit: int = 5) -> str:
    """`listed` names, each between backticks."""
    return listed((f"`{name}`" for name in names), limit=limit)


def size(count: int) -> str:
    """Bytes with a unit: `900 bytes`, `64 KiB`, `1.5 GiB`."""
    if count < 1024:
        return counted(count, "byte")
    amount = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1024 or unit == "GiB":
            break
    return (
        f"{amount:,.0f} {unit}" if amount.is_integer() or amount >= 100 else f"{amount:.1f} {unit}"
    )


def odds(worth: float) -> str:
    """`43 : 1`: the worth of bets, from 1."""
    if worth >= MOST_ODDS:
        return "over 1,000,000 : 1"
    return (
        f"{worth:.1f} : 1"
        if worth < 10 and round(worth, 1) != round(worth)
        else f"{worth:,.0f} : 1"
    )


MOST_ODDS = 1e6
"""From here on, no exact odds are shown."""
