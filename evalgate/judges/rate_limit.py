"""How fast a provider is called: calls at once that shrink under pressure, waits that it asked for,
retries, deadlines.

One limiter a provider, shared by everything that calls it. The number of calls at once grows by one
a round of successes and is halved when the provider pushes back (429, 503). A failed call is asked
again after a random wait below an exponential ceiling ("full jitter"), or after as long as the
provider said. One circuit breaker a model: one that is down, or whose time is up, harms no other
model. Every call goes out once, also to a model that is down: else it would hang on the order of
threads which questions are asked, and with them the verdict."""

from __future__ import annotations

import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias, TypeVar

from evalgate.config.gate_file import JudgeRule
from evalgate.judges import models
from evalgate.judges.base import JudgeFailed, JudgeFailure, JudgeFailureKind
from evalgate.model import AgentFailure, FailureKind, Outcome
from evalgate.text import words
from evalgate.values import frozen_dataclass

Reply = TypeVar("Reply")

PRESSURE = frozenset({JudgeFailureKind.RATE_LIMITED, JudgeFailureKind.OVERLOADED})
"""What a provider says when it is asked too much: all of its models are asked less."""


@frozen_dataclass
class RateLimits:
    """The bounds of a limiter; seconds.

    `calls_at_once`: never more. `attempts`: of one call, the first among them. `call_deadline_s`:
    one call with all its attempts and the waits between them, but not the wait for a slot, which
    others hold. `deadline_s`: all calls of one model, as long as any of them is under way or waits.
    `outage_after`: calls in a row that exhaust their retries until a model is taken to be down;
    until it answers, no call is made again."""

    calls_at_once: int = 32
    attempts: int = 6
    first_backoff_s: float = 1.0
    longest_backoff_s: float = 30.0
    call_deadline_s: float = 300.0
    deadline_s: float = math.inf
    outage_after: int = 3


class Clock:
    """The machine's: seconds that only go forward, a sleep, and a number from 0 up to 1."""

    def __init__(self) -> None:
        self._called_off = threading.Event()

    def now(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> bool:
        """Wait and return True; return False, early, if all waits are called off."""
        return not self._called_off.wait(max(0.0, seconds))

    def random(self) -> float:
        """Evenly from 0 up to 1."""
        return random.random()  # noqa: S311 - it spreads retries, it guards nothing

    def call_off(self) -> None:
        """End all sleeps, now and from now on: the program stops, and nobody waits for a
        backoff."""
        self._called_off.set()


# --- one model ------------------------------------------------------------------------------------


class CircuitBreaker:
    """Failures and call time of one model; the limiter's lock guards it."""

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits
        self._inside = 0
        self._busy_s = 0.0
        self._busy_since = 0.0
        self._exhausted = 0

    @property
    def is_down(self) -> bool:
        """True if `outage_after` calls in a row have failed."""
        return self._exhausted >= self._limits.outage_after

    def begin(self, moment: float) -> float:
        """A call begins; when the model's time is up, while it is inside."""
        if not self._inside:
            self._busy_since = moment
        self._inside += 1
        return self._busy_since + self._limits.deadline_s - self._busy_s

    def end(self, moment: float) -> None:
        """A call has ended, however it did."""
        self._inside -= 1
        if not self._inside:
            self._busy_s += moment - self._busy_since

    def succeeded(self) -> None:
        """It answers."""
        self._exhausted = 0

    def failed(self) -> None:
        """A call exhausted its retries."""
        self._exhausted += 1


# --- one provider ---------------------------------------------------------------------------------


class RateLimiter:
    """Lets calls of one provider through; safe to use from many threads."""

    def __init__(self, limits: RateLimits, clock: Clock, *, provider: str = "") -> None:
        self._limits = limits
        self._clock = clock
        self._provider = provider
        self._changed = threading.Condition()
        self._most = max(1, limits.calls_at_once)
        self._limit = float(self._most)
        self._shrunk_at = -math.inf
        self._under_way: Counter[str] = Counter()
        self._breakers: dict[str, CircuitBreaker] = {}
        self._paused_until = -math.inf

    @property
    def calls_at_once(self) -> int:
        """How many calls it lets through at once by now."""
        return int(self._limit)

    @property
    def share(self) -> float:
        """The current limit as a fraction of the maximum: 1 without pushback."""
        return self._limit / self._most

    @property
    def pause_s(self) -> float:
        """Seconds until the provider accepts calls again; 0 if it asked for no pause."""
        return max(0.0, self._paused_until - self._clock.now())

    def run(
        self,
        call: Callable[[], Reply],
        *,
        model: str = "",
        retried: Callable[[JudgeFailure], None] = lambda _: None,
    ) -> Reply:
        """Return the result of `call` to `model`, retried within the limits; `retried` gets each
        failure except the last.

        Raises JudgeFailed: the last failure, with what was tried."""
        with self._changed:
            breaker = self._breakers.setdefault(model, CircuitBreaker(self._limits))
            model_deadline = breaker.begin(self._clock.now())
        try:
            return self._insist(call, model, model_deadline=model_deadline, retried=retried)
        finally:
            with self._changed:
                breaker.end(self._clock.now())

    def _insist(
        self,
        call: Callable[[], Reply],
        model: str,
        *,
        model_deadline: float,
        retried: Callable[[JudgeFailure], None],
    ) -> Reply:
        started = self._clock.now()
        attempt = 0
        while True:
            attempt += 1
            started += self._enter(
                model,
                call_deadline=started + self._limits.call_deadline_s,
                model_deadline=model_deadline,
            )
            outcome = self._attempt(call, model)
            if not isinstance(outcome, JudgeFailure):
                return outcome
            wait = self._wait_s(outcome, attempt)
            too_late = self._past(
                self._clock.now() + wait, started + self._limits.call_deadline_s, model_deadline
            )
            is_last = attempt >= self._limits.attempts or self._breakers[model].is_down
            if not outcome.retriable or too_late or is_last:
                seconds = self._clock.now() - started
                raise JudgeFailed(
                    self._give_up(outcome, model, attempt=attempt, seconds=seconds, limit=too_late)
                )
            if not self._clock.sleep(wait):
                raise JudgeFailed(outcome)
            retried(outcome)

    def _attempt(self, call: Callable[[], Reply], model: str) -> Reply | JudgeFailure:
        """Call once, in the slot that was taken, and give it back."""
        entered = self._clock.now()
        try:
            reply = call()
        except JudgeFailed as failed:
            self.pushed_back(failed.failure, since=entered)
            return failed.failure
        else:
            with self._changed:
                self._breakers[model].succeeded()
            self.succeeded()
            return reply
        finally:
            with self._changed:
                self._under_way[model] -= 1
                self._changed.notify_all()

    def pushed_back(self, failure: JudgeFailure, *, since: float) -> None:
        """Slow down for a failure of a call that began at `since` (the clock's seconds): for calls
        made elsewhere, too.

        Calls that were under way together count as one push.
        """
        if failure.kind not in PRESSURE:
            return
        with self._changed:
            moment = self._clock.now()
            if since >= self._shrunk_at:
                self._limit = max(1.0, self._limit / 2)
                self._shrunk_at = moment
            if failure.retry_after_s:
                self._paused_until = max(self._paused_until, moment + failure.retry_after_s)

    def succeeded(self, *, peers: int | None = None) -> None:
        """Speed up a little: a call succeeded, here or elsewhere. A round of successes allows one
        more call at once.

        `peers`: the maximum of concurrent calls of this kind, if it is not the limiter's own."""
        with self._changed:
            step = (self._most / (peers or self._most)) ** 2 / self._limit
            self._limit = min(float(self._most), self._limit + step)
            self._changed.notify_all()

    # --- slots ------------------------------------------------------------------------------------

    def _enter(self, model: str, *, call_deadline: float, model_deadline: float) -> float:
        """Wait for a slot and the end of a pause. Return the wait for the slot, which does not
        count against the call. Raises JudgeFailed if it is too late."""
        queued_s = 0.0
        while True:
            with self._changed:
                moment = self._clock.now()
                pause_s = self._paused_until - moment
                limit = self._past(
                    max(moment, self._paused_until), call_deadline + queued_s, model_deadline
                )
                if limit:
                    raise JudgeFailed(self._too_late(pause_s, model=model, limit=limit))
                if pause_s <= 0:
                    if self._has_room(model):
                        self._under_way[model] += 1
                        return queued_s
                    self._changed.wait()
                    queued_s += self._clock.now() - moment
                    continue
            if not self._clock.sleep(pause_s):
                raise JudgeFailed(self._too_late(pause_s, model=model, limit="deadline"))

    def _has_room(self, model: str) -> bool:
        """True if one more call may start. An eighth is reserved for models without a call under
        way: one that hangs would take all."""
        has_idle_models = any(not self._under_way[other_model] for other_model in self._breakers)
        kept_free = self.calls_at_once // 8 if has_idle_models and self._under_way[model] else 0
        return self._under_way.total() < max(1, self.calls_at_once - kept_free)

    # --- waits and ends ---------------------------------------------------------------------------

    def _wait_s(self, failure: JudgeFailure, attempt: int) -> float:
        ceiling = min(
            self._limits.longest_backoff_s, self._limits.first_backoff_s * 2.0 ** (attempt - 1)
        )
        spread = ceiling * self._clock.random()
        if failure.retry_after_s is None:
            return spread
        return failure.retry_after_s + min(spread, 1.0)  # not all at the same moment

    def _past(self, moment: float, call_deadline: float, model_deadline: float) -> str:
        """The setting whose time is up at `moment`, or ""."""
        if moment >= min(call_deadline, model_deadline):
            return "call_deadline" if call_deadline <= model_deadline else "deadline"
        return ""

    def _give_up(
        self, failure: JudgeFailure, model: str, *, attempt: int, seconds: float, limit: str
    ) -> JudgeFailure:
        """The last failure with what was tried; `limit`: the setting whose time is up."""
        if not failure.retriable:
            return failure
        tried = f"tried {words.counted(attempt, 'time')} in {words.seconds(seconds)}"
        if failure.retry_after_s is not None:
            tried += f"; it asks for a pause of {words.seconds(failure.retry_after_s)}"
        if limit:
            tried += f"; to try longer, raise `judge: {{{limit}: ...}}`"
        given_up = replace(failure, message=f"{failure.message} ({tried})")
        with self._changed:
            self._breakers[model].failed()
        return given_up

    def _too_late(self, pause_s: float, *, model: str, limit: str) -> JudgeFailure:
        name = self._provider or "the judge"
        if pause_s > 0:
            pause = words.seconds(pause_s)
            message = (
                f"{name} asks for a pause of {pause}, which is longer than this run waits; "
                f"run it again later, or raise `judge: {{{limit}: ...}}`"
            )
            return JudgeFailure(
                kind=JudgeFailureKind.RATE_LIMITED, message=message, retry_after_s=pause_s
            )
        of = f"`{model}`" if model else name
        which = "one call" if limit == "call_deadline" else "calls"
        message = f"the deadline for {which} to {of} has passed; raise it (`judge: {{{limit}: ...}}`) or run fewer cases"
        return JudgeFailure(kind=JudgeFailureKind.TIMEOUT, message=message)


class RateLimiters:
    """The limiters of a run, one a provider, for judges and agents alike; safe to use from many
    threads.

    `clock`: what all of them wait by.
    """

    def __init__(self, limits: RateLimits, clock: Clock) -> None:
        self.clock = clock
        self._limits = limits
        self._lock = threading.Lock()
        self._by_provider: dict[str, RateLimiter] = {}

    def of(self, provider: str) -> RateLimiter:
        """The limiter of a provider; the same one for everybody who asks."""
        with self._lock:
            limiter = self._by_provider.get(provider)
            if limiter is None:
                limiter = self._by_provider[provider] = RateLimiter(
                    self._limits, self.clock, provider=provider
                )
            return limiter


def limiters_for(defaults: JudgeRule, clock: Clock) -> RateLimiters:
    """Limiters that keep to what evalgate.yml says of judges."""
    deadline_s = math.inf if defaults.deadline is None else defaults.deadline
    limits = RateLimits(
        calls_at_once=defaults.calls_at_once,
        call_deadline_s=defaults.call_deadline,
        deadline_s=deadline_s,
    )
    return RateLimiters(limits, clock)


Pace: TypeAlias = Callable[[str, Callable[[], Outcome]], Outcome]
"""Lets one try of a trial through: the agent's key and the try in, what came of it out."""

LONGEST_PAUSE_S = 60.0
"""So long a trial is held back at most for a provider's pause; then it asks for itself, and hears
for itself."""
LOOK_S = 1.0


class TrialLimiter:
    """A Pace that shares each provider's limiter with the judges; safe to use from many threads.

    Agents call their models directly, so only visible signs are shared: an agent that gets a 429
    slows down the judges of its provider. If judges are refused, fewer trials of that provider's
    agents start, and later. The models that an agent's events name identify its providers; an agent
    that has named none has a limiter of its own."""

    def __init__(
        self, limiters: RateLimiters, *, trials_at_once: int, stop: threading.Event
    ) -> None:
        self._limiters = limiters
        self._trials_at_once = trials_at_once
        self._stop = stop
        self._changed = threading.Condition()
        self._providers: dict[str, frozenset[str]] = {}
        self._under_way: Counter[RateLimiter] = Counter()

    def __call__(self, agent: str, attempt: Callable[[], Outcome]) -> Outcome:
        """See Pace."""
        limiters = self._enter(agent)
        began = self._limiters.clock.now()
        try:
            outcome = attempt()
        finally:
            with self._changed:
                self._under_way.subtract(limiters)
                self._changed.notify_all()
        turns = outcome.partial if isinstance(outcome, AgentFailure) else outcome.invocations
        model_names = {
            event.model_version
            for turn in turns
            for event in turn.events or ()
            if event.model_version
        }
        providers = {
            provider for name in model_names if (provider := models.parse_name(name).provider)
        }
        with self._changed:
            self._providers[agent] = self._providers.get(agent, frozenset()) | providers
        for limiter in self._limiters_of(agent):
            if not isinstance(outcome, AgentFailure):
                limiter.succeeded(peers=self._trials_at_once)
            elif outcome.kind is FailureKind.RATE_LIMITED:
                # an agent says what it likes: judges take its word for no longer than trials do
                wait_s = min(outcome.retry_after_s or 0.0, LONGEST_PAUSE_S)
                kind = JudgeFailureKind.RATE_LIMITED
                limiter.pushed_back(
                    JudgeFailure(kind=kind, message=outcome.message, retry_after_s=wait_s),
                    since=began,
                )
        return outcome

    def _enter(self, agent: str) -> tuple[RateLimiter, ...]:
        """Wait for the provider's pause and for room; what was taken, to be given back. A stopped
        run waits for nothing."""
        clock = self._limiters.clock
        patience_ends = clock.now() + LONGEST_PAUSE_S
        while True:
            limiters = self._limiters_of(agent)
            pause_s = min(max(limiter.pause_s for limiter in limiters), patience_ends - clock.now())
            if pause_s > 0 and not self._stop.is_set() and clock.sleep(min(pause_s, LOOK_S)):
                continue
            with self._changed:
                room = {
                    limiter: max(1, round(self._trials_at_once * limiter.share))
                    for limiter in limiters
                }
                if self._stop.is_set() or all(
                    self._under_way[limiter] < room[limiter] for limiter in limiters
                ):
                    self._under_way.update(limiters)
                    return limiters
                self._changed.wait(LOOK_S)

    def _limiters_of(self, agent: str) -> tuple[RateLimiter, ...]:
        providers = self._providers.get(agent, frozenset())
        return tuple(self._limiters.of(name) for name in (f"agent {agent}", *sorted(providers)))
