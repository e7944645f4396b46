"""The budget of a run: it counts costs as trials end, and decides whether another trial may
begin."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from evalgate.config.settings import AgentBudget
from evalgate.judges import models
from evalgate.model import Outcome, PlanPart, Usage, turns_of
from evalgate.values import Sentence, Wording


def share_of(limits: AgentBudget, part: PlanPart) -> AgentBudget:
    """The budget of one part, which may be 0. The shares add up to the whole."""

    def share(limit: int | None) -> int | None:
        """The part's share of one limit; the shares of all parts add up to it."""
        return (
            None
            if limit is None
            else limit * part.index // part.of - limit * (part.index - 1) // part.of
        )

    usd = None if limits.usd is None else limits.usd / part.of
    shares = {"agent_calls": share(limits.agent_calls), "tokens": share(limits.tokens), "usd": usd}
    return limits.model_copy(update=shares)


class Budget:
    """Thread-safe. Trials that are running when a limit is reached may finish, because they are
    already paid for. `part`: the part that has a share of these limits; reports name both.

    `ended`: why no further trial may begin; `truncated`: why the last trial that was refused did
    not begin; "" if none was."""

    def __init__(self, limits: AgentBudget, part: PlanPart | None = None) -> None:
        """`limits`: of the whole run."""
        self._all_limits = limits
        """Of all parts, which messages name."""
        self._limits = limits if part is None else share_of(limits, part)
        """Of this part."""
        self._shard = "" if part is None else str(part)
        """"" for the whole run."""
        self._is_limited = limits != AgentBudget()
        """False: costs are not counted."""
        self._lock = threading.Lock()
        self._kept_back = 0
        """Trials whose cost is reserved."""
        self._calls = 0
        """Trials that began."""
        self._tokens = 0
        """Spent by trials that ended."""
        self._usd = 0.0
        """As the tokens, in dollars, without calls of unknown price."""
        self.unpriced: set[str] = set()
        """Models whose price is not known."""
        self.missed_tokens = (0, 0)
        """Tokens reported by events and by models, over the trials in which the events report
        fewer."""
        self.ended: Wording = ""
        self.truncated: Wording = ""

    def begin(self) -> bool:
        """Count a trial as begun and return True, if another may begin."""
        with self._lock:
            for name, spent, unit in (
                ("agent_calls", self._calls, "calls"),
                ("tokens", self._tokens, "tokens"),
                ("usd", self._usd, "usd"),
            ):
                limit = getattr(self._limits, name)
                if limit is None or self.ended:
                    continue
                facts = (getattr(self._all_limits, name), unit, self._shard)
                kept_back = min(self._kept_back * spent / max(self._calls, 1), limit / 2)
                if spent >= limit:
                    self.ended = Sentence("budget_spent", *facts)
                elif self._kept_back and spent + kept_back >= limit:
                    self.ended = Sentence("budget_kept", *facts)
            self.truncated = self.ended or self.truncated
            self._calls += not self.ended
            return not self.ended

    def keep_back(self, trials: int) -> None:
        """Reserve the cost of so many trials, at most half of the budget. The first runs end when
        only the reserve is left, because confirming a failure is worth more than the last first
        runs. `release` ends the reservation."""
        self._kept_back = trials

    def release(self) -> None:
        """Allow the reserve to be spent."""
        with self._lock:
            self._kept_back = 0
            self.ended = ""

    def has_room(self, trials: int) -> bool:
        """True if so many more trials may begin without ending the run."""
        limits = self._limits
        with self._lock:
            is_over = limits.agent_calls is not None and self._calls + trials > limits.agent_calls
            # the tokens and dollars of future trials are unknown
            return not (
                self.ended or is_over or limits.tokens is not None or limits.usd is not None
            )

    def spend(self, outcome: Outcome) -> None:
        """Add the tokens and dollars of a trial's model calls."""
        call_tokens = tokens_of(calls_of(outcome)) or 0
        event_tokens = (
            tokens_of(call for turn in turns_of(outcome) for call in turn.event_calls) or 0
        )
        if event_tokens < call_tokens:
            with self._lock:
                self.missed_tokens = (
                    self.missed_tokens[0] + event_tokens,
                    self.missed_tokens[1] + call_tokens,
                )
        if not self._is_limited:
            return
        for usage, model, cost in costs_of(outcome):
            with self._lock:
                self._tokens += tokens_of([(usage, model)]) or 0
                self._usd += cost or 0.0
                if cost is None:
                    self.unpriced.add(model or "a model without a name")


def tokens_of(calls: Iterable[tuple[Usage, str]]) -> int | None:
    """All tokens of model calls: for each call the larger of its total and the sum of its parts.
    None if no call reported tokens."""
    totals = []
    for usage, _ in calls:
        counts = (
            usage.prompt_tokens,
            usage.tool_use_prompt_tokens,
            usage.candidates_tokens,
            usage.thoughts_tokens,
        )
        if usage.total_tokens is not None or any(count is not None for count in counts):
            totals.append(max(usage.total_tokens or 0, sum(count or 0 for count in counts)))
    return sum(totals) if totals else None


def calls_of(outcome: Outcome) -> list[tuple[Usage, str]]:
    """Usage and model name of each model call of a trial. For each turn, the source with more
    tokens: the turn's events or the models' own responses."""
    return [
        call
        for turn in turns_of(outcome)
        for call in max(turn.event_calls, turn.model_calls, key=lambda calls: tokens_of(calls) or 0)
    ]


def costs_of(outcome: Outcome) -> Iterator[tuple[Usage, str, float | None]]:
    """The model calls of a trial with their cost in dollars; None if no price is known."""
    for usage, model in calls_of(outcome):
        yield usage, model, models.cost_usd(model, usage)
