"""What running agents may cost: counted as trials end, asked before each begins."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

from evalgate.config.settings import AgentBudget
from evalgate.judges import models
from evalgate.model import AgentFailure, Invocation, Outcome, Shard, Usage
from evalgate.text import words


def share_of(limits: AgentBudget, shard: Shard) -> AgentBudget:
    """The part of one machine, which may be 0; the parts add up to the whole."""

    def part(whole: int | None) -> int | None:
        return None if whole is None else whole * shard.index // shard.of - whole * (shard.index - 1) // shard.of

    usd = None if limits.usd is None else limits.usd / shard.of
    parts = {"agent_calls": part(limits.agent_calls), "tokens": part(limits.tokens), "usd": usd}
    return limits.model_copy(update=parts)


class Budget:
    """Safe for many threads. Trials under way when a bound is met are let end: they are paid for already."""

    def __init__(self, limits: AgentBudget) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._calls = 0
        self._tokens = 0
        self._usd = 0.0
        self.unpriced: set[str] = set()
        self.untold = (0, 0)
        """Tokens that events told and that models did, of the trials in which events told fewer."""
        self.ended = ""

    def begin(self) -> bool:
        """Whether a further trial may begin; it is counted as begun."""
        limits = self._limits
        with self._lock:
            if self.ended:
                return False
            if limits.agent_calls is not None and self._calls >= limits.agent_calls:
                self.ended = f"the budget of {words.counted(limits.agent_calls, 'agent run')} is spent"
            elif limits.tokens is not None and self._tokens >= limits.tokens:
                self.ended = f"the budget of {limits.tokens:,} agent tokens is spent"
            elif limits.usd is not None and self._usd >= limits.usd:
                self.ended = f"the budget of ${limits.usd:g} for agents is spent"
            else:
                self._calls += 1
            return not self.ended

    def has_room(self, trials: int) -> bool:
        """Whether so many further trials may begin without ending the run."""
        limits = self._limits
        with self._lock:
            is_over = limits.agent_calls is not None and self._calls + trials > limits.agent_calls
            # what they will take is not known
            return not (self.ended or is_over or limits.tokens is not None or limits.usd is not None)

    def spend(self, outcome: Outcome) -> None:
        """Count what the model calls of a trial took."""
        known = tokens_of(calls_of(outcome)) or 0
        told = tokens_of(call for turn in _turns(outcome) for call in turn.told_calls) or 0
        if told < known:
            with self._lock:
                self.untold = (self.untold[0] + told, self.untold[1] + known)
        if self._limits == AgentBudget():
            return
        for usage, model, cost in costs_of(outcome):
            with self._lock:
                self._tokens += tokens_of([(usage, model)]) or 0
                self._usd += cost or 0.0
                if cost is None:
                    self.unpriced.add(model or "a model without a name")


def tokens_of(calls: Iterable[tuple[Usage, str]]) -> int | None:
    """All tokens of model calls, of each the larger of the total that it told and that of its parts; None where none
    told any."""
    found = [
        max(count for count in (usage.total_tokens, sum(known) if known else None) if count is not None)
        for usage, _ in calls
        if (known := [count for count in _parts(usage) if count is not None]) or usage.total_tokens is not None
    ]
    return sum(found) if found else None


def _parts(usage: Usage) -> tuple[int | None, ...]:
    return usage.prompt_tokens, usage.tool_use_prompt_tokens, usage.candidates_tokens, usage.thoughts_tokens


def calls_of(outcome: Outcome) -> list[tuple[Usage, str]]:
    """What each model call of a trial took, and the model: as the events tell of a turn or, where that is more, as the
    models' answers did before the agent made events of them."""
    return [
        call
        for turn in _turns(outcome)
        for call in max(turn.told_calls, turn.model_calls, key=lambda calls: tokens_of(calls) or 0)
    ]


def _turns(outcome: Outcome) -> Sequence[Invocation]:
    return outcome.partial if isinstance(outcome, AgentFailure) else outcome.invocations


def costs_of(outcome: Outcome) -> Iterator[tuple[Usage, str, float | None]]:
    """The model calls of a trial, and what each cost: None where no price is known."""
    for usage, model in calls_of(outcome):
        name = models.parse_name(model)
        yield usage, model, models.cost_usd(model=name.name, provider=name.priced_as, usage=usage)
