"""The cost of judges: the budget of a run, and the ledger by criterion and model."""

from __future__ import annotations

import threading
from typing import Any

from evalgate.config.gate_file import BudgetRule
from evalgate.errors import ConfigError
from evalgate.judges.base import JudgeFailed, JudgeFailure, JudgeFailureKind, JudgeRequest
from evalgate.model import JudgeUse, Usage
from evalgate.model.run import total_of
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

    def settle(
        self, tokens: int | None = None, cost_usd: float | None = None, *, is_paid: bool = True
    ) -> None:
        """Enter the cost of a reserved call. It was answered, or failed for free if it is not
        paid."""
        with self._changed:
            self._under_way -= 1
            if is_paid:
                self._calls += 1
                self._tokens += tokens or 0
                self._cost_usd += cost_usd or 0.0
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


class UsageLedger:
    """The use of judges in one run; safe for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uses: dict[tuple[str, str], JudgeUse] = {}

    def add(
        self,
        request: JudgeRequest,
        *,
        usage: Usage | None = None,
        cost_usd: float | None = None,
        **counts: Any,
    ) -> None:
        """Enter a call. `counts`: fields of `JudgeUse`, such as `cached=1`. An answered call, and
        one with a known `usage`, was paid for, at an unknown price if `cost_usd` is None."""
        is_paid = usage is not None or "calls" in counts
        tokens = usage or Usage()
        use = JudgeUse(
            criterion=request.criterion,
            model=request.model,
            prompt_tokens=(tokens.prompt_tokens or 0) + (tokens.tool_use_prompt_tokens or 0),
            output_tokens=(tokens.candidates_tokens or 0) + (tokens.thoughts_tokens or 0),
            cost_usd=cost_usd,
            unpriced=int(is_paid and cost_usd is None),
            **counts,
        )
        key = (request.criterion, request.model)
        with self._lock:
            uses = [self._uses[key], use] if key in self._uses else [use]
            self._uses[key] = total_of(uses, criterion=use.criterion, model=use.model)

    def uses(self) -> tuple[JudgeUse, ...]:
        """The current use, ordered by criterion and model."""
        with self._lock:
            return tuple(use for _, use in sorted(self._uses.items()))
