"""Who asked the judges how often, and what it cost: the books of one run, by criterion and model."""

from __future__ import annotations

import threading
from collections import Counter

from evalgate.model import JudgeUse, Usage
from evalgate.plugins import JudgeFailure, JudgeRequest


class _Page:
    """What one criterion asked of one model, being written."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.cost_usd: float | None = None

    def charge(self, usage: Usage | None, cost_usd: float | None) -> None:
        """Enter a call that is paid for; None: nobody knows."""
        if usage is not None:
            self.counts["prompt"] += (usage.prompt_tokens or 0) + (usage.tool_use_prompt_tokens or 0)
            self.counts["output"] += (usage.candidates_tokens or 0) + (usage.thoughts_tokens or 0)
        if cost_usd is None:
            self.counts["unpriced"] += 1
        else:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd


class Ledger:
    """The books of one run; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pages: dict[tuple[str, str], _Page] = {}

    def asked(self, request: JudgeRequest, *, usage: Usage | None, cost_usd: float | None) -> None:
        """A call was answered."""
        with self._lock:
            page = self._page(request)
            page.counts["calls"] += 1
            page.charge(usage, cost_usd)

    def read(self, request: JudgeRequest) -> None:
        """A reply was found instead of asked for."""
        with self._lock:
            self._page(request).counts["cached"] += 1

    def retried(self, request: JudgeRequest, failure: JudgeFailure, *, cost_usd: float | None = None) -> None:
        """A call failed, which may have cost something all the same, and is made again."""
        with self._lock:
            page = self._page(request)
            page.counts["retries"] += 1
            if failure.usage is not None:
                page.charge(failure.usage, cost_usd)

    def failed(self, request: JudgeRequest, failure: JudgeFailure, *, cost_usd: float | None = None) -> None:
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

    def _page(self, request: JudgeRequest) -> _Page:
        return self._pages.setdefault((request.criterion, request.model), _Page())


def _closed(criterion: str, model: str, page: _Page) -> JudgeUse:
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
