"""Who asked the judges how often, and what it cost: accounts by criterion, for the results."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from evalgate.model import Usage
from evalgate.plugins import JudgeFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What one criterion asked of the judges.

    `calls`: answered; `cached`: read instead of asked; `retries`: calls made again. `prompt_tokens`, `output_tokens`
    (thoughts among them): of the calls that said so. `cost_usd`: of the calls whose price is known; None where no call
    was priced. `unpriced`: calls of unknown price, so that the cost is a lower bound where it is not 0.
    `failures`: by kind, calls that ended without a reply.
    """

    calls: int = 0
    cached: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    unpriced: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    models: tuple[str, ...] = ()


class _Page:
    """One criterion's account, being written."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.models: set[str] = set()
        self.cost_usd: float | None = None


class Ledger:
    """The accounts of one run; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pages: dict[str, _Page] = {}

    def asked(self, criterion: str, *, model: str, usage: Usage | None, cost_usd: float | None) -> None:
        """A call was answered by `model`."""
        with self._lock:
            page = self._pages.setdefault(criterion, _Page())
            page.models.add(model)
            page.counts["calls"] += 1
            _charge(page, usage, cost_usd)

    def read(self, criterion: str) -> None:
        """A reply was found in the cache."""
        with self._lock:
            self._pages.setdefault(criterion, _Page()).counts["cached"] += 1

    def retried(self, criterion: str) -> None:
        """A call failed and is made again."""
        with self._lock:
            self._pages.setdefault(criterion, _Page()).counts["retries"] += 1

    def failed(self, criterion: str, failure: JudgeFailure, *, cost_usd: float | None = None) -> None:
        """A call ended without a reply, which may have cost something all the same."""
        with self._lock:
            page = self._pages.setdefault(criterion, _Page())
            page.failures[failure.kind.value] += 1
            if failure.usage is not None:
                _charge(page, failure.usage, cost_usd)

    def accounts(self) -> Mapping[str, Account]:
        """All accounts as they stand, by criterion."""
        with self._lock:
            return {name: _closed(page) for name, page in sorted(self._pages.items())}


def _charge(page: _Page, usage: Usage | None, cost_usd: float | None) -> None:
    if usage is not None:
        page.counts["prompt"] += (usage.prompt_tokens or 0) + (usage.tool_use_prompt_tokens or 0)
        page.counts["output"] += (usage.candidates_tokens or 0) + (usage.thoughts_tokens or 0)
    if cost_usd is None:
        page.counts["unpriced"] += 1
    else:
        page.cost_usd = (page.cost_usd or 0.0) + cost_usd


def _closed(page: _Page) -> Account:
    return Account(
        calls=page.counts["calls"],
        cached=page.counts["cached"],
        retries=page.counts["retries"],
        prompt_tokens=page.counts["prompt"],
        output_tokens=page.counts["output"],
        cost_usd=page.cost_usd,
        unpriced=page.counts["unpriced"],
        failures=dict(sorted(page.failures.items())),
        models=tuple(sorted(page.models)),
    )
