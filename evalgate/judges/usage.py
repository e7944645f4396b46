"""The cost of judges: the budget of a run, and the ledger by criterion and model."""

from __future__ import annotations

import threading
from collections import Counter

from evalgate.config.gate_file import BudgetRule
from evalgate.errors import ConfigError
from evalgate.judges.base import JudgeFailed, JudgeFailure, JudgeFailureKind, JudgeRequest
from evalgate.model import JudgeUse, Usage
from evalgate.values import Sentence


class JudgeBudget:
    """Counts completed calls and running calls; safe for many threads.

    A running call is expected to cost the average of the calls so far, so that concurrent calls
    exceed the limits only by little: at most by the cost of the first ones. If only running calls
    could use up the budget, others wait: failed calls are free and leave room."""

    def __init__(self, limits: BudgetRule) -> None:
        self._limits = limits
        self._changed = threading.Condition()
        self._calls = 0
        self._tokens = 0
        self._cost_usd = 0.0
        self._under_way = 0

    def reserve(self) -> None:
        """Reserve one call right before it is made. Raises JudgeFailed(BUDGET_SPENT)."""
        with self._changed:
            while self._reached_limit(self._under_way):
                reached_limit = self._reached_limit(0)
                if reached_limit:
                    message = Sentence("judges_budget_spent", *reached_limit)
                    raise JudgeFailed(
                        JudgeFailure(kind=JudgeFailureKind.BUDGET_SPENT, message=message)
                    )
                self._changed.wait()
            self._under_way += 1

    def settle(self, *, tokens: int | None, cost_usd: float | None) -> None:
        """Enter the cost of a reserved call that was answered."""
        with self._changed:
            self._under_way -= 1
            self._calls += 1
            self._tokens += tokens or 0
            self._cost_usd += cost_usd or 0.0
            self._changed.notify_all()

    def release(self) -> None:
        """Release a reserved call that failed for free."""
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    def _reached_limit(self, under_way: int) -> tuple[str, float] | None:
        """The limit that is reached if `under_way` more calls are answered: its unit, and its
        number."""
        limits = self._limits
        if limits.calls is not None and self._calls + under_way >= limits.calls:
            return "calls", limits.calls
        if limits.tokens is not None and self._reaches(self._tokens, limits.tokens, under_way):
            return "tokens", limits.tokens
        if limits.usd is not None and self._reaches(self._cost_usd, limits.usd, under_way):
            return "usd", limits.usd
        return None

    def _reaches(self, spent: float, limit: float, under_way: int) -> bool:
        """True if the spending, plus calls under way at the average price, reach the limit."""
        if not self._calls:
            return limit <= 0
        return spent * (self._calls + under_way) >= limit * self._calls


def check_priced(limits: BudgetRule, prices: dict[str, bool]) -> None:
    """Refuse a limit in money if the price of a model is unknown; `prices`: by model, whether it is
    known.

    Raises ConfigError before anything is spent."""
    unpriced_models = sorted(model for model, is_known in prices.items() if not is_known)
    if limits.usd is not None and unpriced_models:
        names = ", ".join(f"`{name}`" for name in unpriced_models)
        raise ConfigError(
            f"no price known for {names}",
            hint="Set the judge budget in calls or tokens.",
        )


class _Account:
    """The calls of one criterion to one model, while they are counted."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.cost_usd: float | None = None

    def charge(self, usage: Usage | None, cost_usd: float | None) -> None:
        """Enter a paid call; `cost_usd` None: unknown."""
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
    """The ledger of one run; safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pages: dict[tuple[str, str], _Account] = {}

    def add_call(
        self, request: JudgeRequest, *, usage: Usage | None, cost_usd: float | None
    ) -> None:
        """Enter an answered call."""
        with self._lock:
            page = self._page(request)
            page.counts["calls"] += 1
            page.charge(usage, cost_usd)

    def read(self, request: JudgeRequest) -> None:
        """Enter a reply that was read instead of requested."""
        with self._lock:
            self._page(request).counts["cached"] += 1

    def retried(
        self, request: JudgeRequest, failure: JudgeFailure, *, cost_usd: float | None = None
    ) -> None:
        """Enter a failed call that is repeated; it may have cost something."""
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
        """The current use, ordered by criterion and model."""
        with self._lock:
            return tuple(_judge_use(*names, page) for names, page in sorted(self._pages.items()))

    def _page(self, request: JudgeRequest) -> _Account:
        return self._pages.setdefault((request.criterion, request.model), _Account())


def _judge_use(criterion: str, model: str, page: _Account) -> JudgeUse:
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
