"""What judging took, in words: calls, tokens and money, by criterion and in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from evalgate import words
from evalgate.model import USER_SIMULATOR, JudgeUse

HEADER = ("Criterion", "Judge", "Calls", "Cached", "Retries", "Failed", "Tokens in", "Tokens out", "Cost")
NOTHING = "-"
UNKNOWN = "unknown"


def total(uses: Sequence[JudgeUse]) -> JudgeUse:
    """All of them as one, which names no criterion and no model. A cost is None only where no call was priced."""
    failures: Counter[str] = Counter()
    for use in uses:
        failures.update(use.failures)
    priced = [use.cost_usd for use in uses if use.cost_usd is not None]
    return JudgeUse(
        criterion="",
        model="",
        calls=sum(use.calls for use in uses),
        cached=sum(use.cached for use in uses),
        retries=sum(use.retries for use in uses),
        prompt_tokens=sum(use.prompt_tokens for use in uses),
        output_tokens=sum(use.output_tokens for use in uses),
        cost_usd=sum(priced) if priced else None,
        unpriced=sum(use.unpriced for use in uses),
        failures=failures,
    )


def cost(use: JudgeUse) -> str:
    """`$0.02`, `at least $0.02` or `unknown` where prices are missing; `-` where nothing was paid. Never a false $0."""
    if use.cost_usd is None:
        return UNKNOWN if use.unpriced else NOTHING
    return f"{'at least ' if use.unpriced else ''}{words.dollars(use.cost_usd)}"


def exact_cost_usd(uses: Sequence[JudgeUse]) -> float | None:
    """US dollars of all calls; None where any of them is of unknown price."""
    whole = total(uses)
    return None if whole.unpriced else whole.cost_usd or 0.0


def figure(uses: Sequence[JudgeUse]) -> str:
    """`36 calls, 84 cached, $0.02`; "" where no judge was asked."""
    if not uses:
        return ""
    whole = total(uses)
    failed = sum(whole.failures.values())
    played = sum(use.calls for use in uses if use.criterion == USER_SIMULATOR)
    spent = {NOTHING: "", UNKNOWN: "cost unknown"}.get(cost(whole), cost(whole))
    said = (
        words.counted(whole.calls, "call") + (f" ({played:,} by simulated users)" if played else ""),
        f"{whole.cached:,} cached" if whole.cached else "",
        f"{failed:,} failed" if failed else "",
        spent,
    )
    return ", ".join(each for each in said if each)


def asker(use: JudgeUse) -> str:
    """Who asked: a criterion, or the simulated users."""
    return "simulated users" if use.criterion == USER_SIMULATOR else use.criterion


def amounts(use: JudgeUse) -> tuple[str, ...]:
    """The cells of a row after criterion and judge, as HEADER names them; `-` where no tokens are known."""
    return (
        f"{use.calls:,}",
        f"{use.cached:,}",
        f"{use.retries:,}",
        _failed(use),
        words.tokens(use.prompt_tokens) if use.prompt_tokens else NOTHING,
        words.tokens(use.output_tokens) if use.output_tokens else NOTHING,
        cost(use),
    )


def _failed(use: JudgeUse) -> str:
    """`3 (2 timeout, 1 blocked)`; 0 without any."""
    if not use.failures:
        return "0"
    kinds = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in sorted(use.failures.items()))
    return f"{sum(use.failures.values()):,} ({kinds})"
