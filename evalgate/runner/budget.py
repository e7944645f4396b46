"""What running agents may cost: counted as trials end, asked before each begins."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

from evalgate.config.settings import AgentBudget
from evalgate.judges import models
from evalgate.model import AgentFailure, Invocation, Outcome, Shard, Usage
from evalgate.text.phrases import phrase


def share_of(limits: AgentBudget, shard: Shard) -> AgentBudget:
    """The part of one machine, which may be 0; the parts add up to the whole."""

    def part(total: int | None) -> int | None:
        return (
            None
            if total is None
            else total * shard.index // shard.of - total * (shard.index - 1) // shard.of
        )

    usd = None if limits.usd is None else limits.usd / shard.of
    parts = {"agent_calls": part(limits.agent_calls), "tokens": part(limits.tokens), "usd": usd}
    return limits.model_copy(update=parts)


class Budget:
    """Safe for many threads. Trials under way when a bound is met are let end: they are paid for
    already.

    `ended`: why no further trial may begin; `truncated`: why the last one that could not begin did
    not; else ""."""

    def __init__(self, limits: AgentBudget) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._kept_back = 0
        self._calls = 0
        self._tokens = 0
        self._usd = 0.0
        self.unpriced: set[str] = set()
        self.untold = (0, 0)
        """Tokens reported by events and by models, of trials in which the events report fewer."""
        self.ended = ""
        self.truncated = ""

    def begin(self) -> bool:
        """Count a trial as begun if one more may begin; True if so."""
        with self._lock:
            self.ended = self.ended or self._end_reason()
            self.truncated = self.ended or self.truncated
            self._calls += not self.ended
            return not self.ended

    def keep_back(self, trials: int) -> None:
        """Let the first runs end while there is room for so many, or for half of all. Confirming a
        failure is worth more than the last of the first runs, which `release` ends."""
        self._kept_back = trials

    def release(self) -> None:
        """Let the reserve be spent."""
        with self._lock:
            self._kept_back = 0
            self.ended = ""

    def _end_reason(self) -> str:
        limits = self._limits
        for limit, spent, unit in (
            (limits.agent_calls, self._calls, "calls"),
            (limits.tokens, self._tokens, "tokens"),
            (limits.usd, self._usd, "usd"),
        ):
            if limit is None:
                continue
            if spent >= limit:
                return phrase("budget_spent", limit, unit)
            kept_back = min(self._kept_back * spent / max(self._calls, 1), limit / 2)
            if self._kept_back and spent + kept_back >= limit:
                return phrase("budget_kept", limit, unit)
        return ""

    def has_room(self, trials: int) -> bool:
        """True if so many more trials may begin without ending the run."""
        limits = self._limits
        with self._lock:
            is_over = limits.agent_calls is not None and self._calls + trials > limits.agent_calls
            # what they will take is not known
            return not (
                self.ended or is_over or limits.tokens is not None or limits.usd is not None
            )

    def spend(self, outcome: Outcome) -> None:
        """Count what the model calls of a trial took."""
        call_tokens = tokens_of(calls_of(outcome)) or 0
        event_tokens = tokens_of(call for turn in _turns(outcome) for call in turn.event_calls) or 0
        if event_tokens < call_tokens:
            with self._lock:
                self.untold = (self.untold[0] + event_tokens, self.untold[1] + call_tokens)
        if self._limits == AgentBudget():
            return
        for usage, model, cost in costs_of(outcome):
            with self._lock:
                self._tokens += tokens_of([(usage, model)]) or 0
                self._usd += cost or 0.0
                if cost is None:
                    self.unpriced.add(model or "a model without a name")


def tokens_of(calls: Iterable[tuple[Usage, str]]) -> int | None:
    """All tokens of model calls: for each the larger of its total and the sum of its parts; None if
    no call reported any."""
    totals = [
        max(
            count
            for count in (usage.total_tokens, sum(part_counts) if part_counts else None)
            if count is not None
        )
        for usage, _ in calls
        if (part_counts := [count for count in _parts(usage) if count is not None])
        or usage.total_tokens is not None
    ]
    return sum(totals) if totals else None


def _parts(usage: Usage) -> tuple[int | None, ...]:
    return (
        usage.prompt_tokens,
        usage.tool_use_prompt_tokens,
        usage.candidates_tokens,
        usage.thoughts_tokens,
    )


def calls_of(outcome: Outcome) -> list[tuple[Usage, str]]:
    """The usage of each model call of a trial, and the model: as a turn's events report it or, if
    that is more, as the models' answers did before the agent made events of them."""
    return [
        call
        for turn in _turns(outcome)
        for call in max(turn.event_calls, turn.model_calls, key=lambda calls: tokens_of(calls) or 0)
    ]


def _turns(outcome: Outcome) -> Sequence[Invocation]:
    return outcome.partial if isinstance(outcome, AgentFailure) else outcome.invocations


def costs_of(outcome: Outcome) -> Iterator[tuple[Usage, str, float | None]]:
    """The model calls of a trial, and the cost of each: None if no price is known."""
    for usage, model in calls_of(outcome):
        name = models.parse_name(model)
        yield usage, model, models.cost_usd(model=name.name, provider=name.priced_as, usage=usage)
