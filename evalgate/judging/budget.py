"""What judging may spend at most, in calls, tokens and money, and the refusal of the call that would go beyond."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from evalgate.errors import ConfigError
from evalgate.plugins import JudgeFailed, JudgeFailure, JudgeFailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Upper bounds of one run; None: no bound. `calls` counts answered calls: a refused one costs nothing."""

    calls: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None


class Budget:
    """Counts what is spent and what is under way; safe to use from many threads.

    A call under way is taken to cost as much as the calls so far did on average, so that many at once go beyond the
    bounds by little: by what the first ones cost, at the most. What only they could use up is waited for: calls that
    fail are free, and their place is the next one's.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._changed = threading.Condition()
        self._calls = 0
        self._tokens = 0
        self._cost_usd = 0.0
        self._under_way = 0

    def reserve(self) -> None:
        """Take one call into account right before it is made. Raises JudgeFailed(BUDGET_SPENT)."""
        with self._changed:
            while self._spent(self._under_way):
                spent = self._spent(0)
                if spent:
                    message = f"the judges' budget of {spent} is spent; raise it, or judge fewer cases or samples"
                    raise JudgeFailed(JudgeFailure(kind=JudgeFailureKind.BUDGET_SPENT, message=message))
                self._changed.wait()
            self._under_way += 1

    def settle(self, *, tokens: int | None, cost_usd: float | None) -> None:
        """The reserved call was answered, at this price."""
        with self._changed:
            self._under_way -= 1
            self._calls += 1
            self._tokens += tokens or 0
            self._cost_usd += cost_usd or 0.0
            self._changed.notify_all()

    def release(self) -> None:
        """The reserved call failed, for free."""
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def _spent(self, under_way: int) -> str:
        """The bound that is reached if `under_way` calls are answered as well, in words; "" where none is."""
        limits = self._limits
        if limits.calls is not None and self._calls + under_way >= limits.calls:
            return f"{limits.calls:,} calls"
        if limits.tokens is not None and self._reaches(self._tokens, limits.tokens, under_way):
            return f"{limits.tokens:,} tokens"
        if limits.cost_usd is not None and self._reaches(self._cost_usd, limits.cost_usd, under_way):
            return f"${limits.cost_usd:,.2f}"
        return ""

    def _reaches(self, spent: float, limit: float, under_way: int) -> bool:
        """Whether what is spent, and what is under way at the average price, reach the limit."""
        if not self._calls:
            return limit <= 0
        return spent * (self._calls + under_way) >= limit * self._calls


def check_priced(limits: Limits, prices: dict[str, bool]) -> None:
    """Refuse a bound in money where the price of a model is unknown: `prices` says by model whether it is known.

    Raises ConfigError before anything is spent.
    """
    unknown = sorted(model for model, known in prices.items() if not known)
    if limits.cost_usd is not None and unknown:
        names = ", ".join(f"`{name}`" for name in unknown)
        raise ConfigError(
            f"the judges' budget is in money, and nobody knows the price of {names}",
            hint="Set the budget in calls or tokens instead.",
        )
