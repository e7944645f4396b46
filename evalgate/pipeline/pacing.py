"""When a trial may start: later, and fewer at once, while its model's provider pushes agents or judges back."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from evalgate.judges import models as model_names
from evalgate.judges.base import JudgeFailure, JudgeFailureKind
from evalgate.judges.rate_limit import RateLimiter, RateLimiters
from evalgate.model import AgentFailure, FailureKind, Outcome

Pace: TypeAlias = Callable[[str, Callable[[], Outcome]], Outcome]
"""Lets one try of a trial through: the agent's key and the try in, what came of it out."""

LONGEST_PAUSE_S = 60.0
"""So long a trial is held back at most for a provider's pause; then it asks for itself, and hears for itself."""
LOOK_S = 1.0


def unpaced(agent: str, attempt: Callable[[], Outcome]) -> Outcome:  # noqa: ARG001 - the shape of a Pace
    """At once."""
    return attempt()


class ProviderPace:
    """A Pace that shares each provider's limiter with the judges; safe to use from many threads.

    Agents call their models out of our sight, so what is shared is what can be seen: an agent that is refused with 429
    slows down the judges of its provider, and where judges are refused fewer trials of that provider's agents are
    started, and later. Providers are known by the models that an agent's events name; until it named one, and where it
    names none, the agent has a limiter of its own.
    """

    def __init__(self, limiters: RateLimiters, *, trials_at_once: int, stop: threading.Event) -> None:
        self._limiters = limiters
        self._trials_at_once = trials_at_once
        self._stop = stop
        self._changed = threading.Condition()
        self._providers: dict[str, frozenset[str]] = {}
        self._under_way: Counter[RateLimiter] = Counter()

    def __call__(self, agent: str, attempt: Callable[[], Outcome]) -> Outcome:
        """See Pace."""
        held = self._enter(agent)
        began = self._limiters.clock.now()
        try:
            outcome = attempt()
        finally:
            self._leave(held)
        self._learn(agent, outcome)
        self._tell(agent, outcome, since=began)
        return outcome

    # --- starting ---------------------------------------------------------------------------------

    def _enter(self, agent: str) -> tuple[RateLimiter, ...]:
        """Wait for the provider's pause and for room; what was taken, to be given back. A stopped run waits for
        nothing."""
        clock = self._limiters.clock
        patience_ends = clock.now() + LONGEST_PAUSE_S
        while True:
            limiters = self._limiters_of(agent)
            pause_s = min(max(each.pause_s for each in limiters), patience_ends - clock.now())
            if pause_s > 0 and not self._stop.is_set() and clock.sleep(min(pause_s, LOOK_S)):
                continue
            with self._changed:
                if self._stop.is_set() or all(self._under_way[each] < self._room(each) for each in limiters):
                    self._under_way.update(limiters)
                    return limiters
                self._changed.wait(LOOK_S)

    def _leave(self, held: tuple[RateLimiter, ...]) -> None:
        with self._changed:
            self._under_way.subtract(held)
            self._changed.notify_all()

    def _room(self, limiter: RateLimiter) -> int:
        return max(1, round(self._trials_at_once * limiter.share))

    # --- telling ----------------------------------------------------------------------------------

    def _limiters_of(self, agent: str) -> tuple[RateLimiter, ...]:
        providers = self._providers.get(agent, frozenset())
        return tuple(self._limiters.of(name) for name in (f"agent {agent}", *sorted(providers)))

    def _learn(self, agent: str, outcome: Outcome) -> None:
        turns = outcome.partial if isinstance(outcome, AgentFailure) else outcome.invocations
        named = {event.model_version for turn in turns for event in turn.events or () if event.model_version}
        found = {provider for name in named if (provider := model_names.parse_name(name).provider)}
        with self._changed:
            self._providers[agent] = self._providers.get(agent, frozenset()) | found

    def _tell(self, agent: str, outcome: Outcome, *, since: float) -> None:
        for limiter in self._limiters_of(agent):
            if not isinstance(outcome, AgentFailure):
                limiter.succeeded(peers=self._trials_at_once)
            elif outcome.kind is FailureKind.RATE_LIMITED:
                limiter.pushed_back(_as_refusal(outcome), since=since)


def _as_refusal(failure: AgentFailure) -> JudgeFailure:
    return JudgeFailure(
        kind=JudgeFailureKind.RATE_LIMITED, message=failure.message, retry_after_s=failure.retry_after_s
    )
