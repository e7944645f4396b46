"""What judging spends: the budget of a run, and the books by criterion and model."""

from __future__ import annotations

import threading
from collections import Counter

from evalgate.config.gate_file import BudgetRule
from evalgate.errors import ConfigError
from evalgate.judges.base import JudgeFailed, JudgeFailure, JudgeFailureKind, JudgeRequest
from evalgate.model import JudgeUse, Usage


class JudgeBudget:
    """Counts what is spent and what is under way; safe to use from many threads.

    A call under way is taken to cost as much as the calls so far did on average, so that many at
    once go beyond the bounds by little: by what the first ones cost, at the most. What only they
    could use up is waited for: calls that fail are free, and their place is the next one's."""

    def __init__(self, limits: BudgetRule) -> None:
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
                    raise JudgeFailed(
                        JudgeFailure(kind=JudgeFailureKind.BUDGET_SPENT, message=message)
                    )
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
        """The limit that is reached if `under_way` more calls are answered, in words; "" without
        one."""
        limits = self._limits
        if limits.calls is not None and self._calls + under_way >= limits.calls:
            return f"{limits.calls:,} calls"
        if limits.tokens is not None and self._reaches(self._tokens, limits.tokens, under_way):
            return f"{limits.tokens:,} tokens"
        if limits.usd is not None and self._reaches(self._cost_usd, limits.usd, under_way):
            return f"${limits.usd:,.2f}"
        return ""

    def _reaches(self, spent: float, limit: float, under_way: int) -> bool:
        """True if the spending, plus calls under way at the average price, reach the limit."""
        if not self._calls:
            return limit <= 0
        return spent * (self._calls + under_way) >= limit * self._calls


def check_priced(limits: BudgetRule, prices: dict[str, bool]) -> None:
    """Refuse a limit in money if the price of a model is unknown; `prices` says by model if it is
    known.

    Raises ConfigError before anything is spent."""
    unknown = sorted(model for model, is_known in prices.items() if not is_known)
    if limits.usd is not None and unknown:
        names = ", ".join(f"`{name}`" for name in unknown)
        raise ConfigError(
            f"no price known for {names}",
            hint="Set the judge budget in calls or tokens.",
        )


class _Account:
    """What one criterion asked of one model, being written."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.cost_usd: float | None = None

    def charge(self, usage: Usage | None, cost_usd: float | None) -> None:
        """Enter a call that is paid for; None: nobody knows."""
        if usage is not None:
            self.counts["prompt"] += (usage.prompt_tokens or 0) + (
                usage.tool_use_prompt_tokens or 0
            )
            self.counts["output"] += (usage.candidates_tokens or 0) + (usage.thoughts_tokens or 0)
        if cost_usd is None:
            self.counts["unpriced"] += 1
        else:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd


class UsageLedger:
    """The books of one run; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pages: dict[tuple[str, str], _Account] = {}

    def add_call(
        self, request: JudgeRequest, *, usage: Usage | None, cost_usd: float | None
    ) -> None:
        """A call was answered."""
        with self._lock:
            page = self._page(request)
            page.counts["calls"] += 1
            page.charge(usage, cost_usd)

    def read(self, request: JudgeRequest) -> None:
        """A reply was found instead of asked for."""
        with self._lock:
            self._page(request).counts["cached"] += 1

    def retried(
        self, request: JudgeRequest, failure: JudgeFailure, *, cost_usd: float | None = None
    ) -> None:
        """A call failed, which may have cost something all the same, and is made again."""
        with self._lock:
            page = self._page(request)
            page.counts["retries"] += 1
            if failure.usage is not None:
                page.charge(failure.usage, cost_usd)

    def failed(
        self, request: JudgeRequest, failure: JudgeFailure, *, cost_usd: float | None = None
    ) -> None:
        """A call ended without a reply, which may have cost something all the same."""
        with self._lock:
            page = self._page(request)
            page.failures[failure.kind.value] += 1
            if failure.usage is not None:
                page.charge(failure.usage, cost_usd)

    def uses(self) -> tuple[JudgeUse, ...]:
        """The books as they stand, in the order of criteria and models."""
        with self._lock:
            return tuple(_closed(*names, page) for names, page in sorted(self._pages.items()))

    def _page(self, request: JudgeRequest) -> _Account:
        return self._pages.setdefault((request.criterion, request.model), _Account())


def _closed(criterion: str, model: str, page: _Account) -> JudgeUse:
    return JudgeUse(
        criterion=criterion,
        model=model,
        calls=page.counts["calls"],
        cached=page.counts["cached"],
        retries=page.counts["retries"],
        prompt_tokens=page.counts["prompt"],
        output_tokens=page.counts["output"],
        cost_usd=page.cost_usd,
        unpriced=page.counts["unpriced"],
        failures=dict(sorted(page.failures.items())),
    )
