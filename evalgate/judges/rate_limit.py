"""The rate of calls to a provider: concurrent calls that shrink under pressure, requested pauses,
retries, deadlines.

All callers of a provider share one limiter. Its number of concurrent calls grows by one per round
of successes and is halved when the provider pushes back (429, 503). A failed call is repeated after
a random wait below an exponential ceiling ("full jitter"), or after the provider's own wait. Each
model has a circuit breaker: a model that is down, or out of time, does not affect others. Every
call is made at least once, also to a model that is down: otherwise the order of threads would
decide which questions are asked, and so the verdict."""

from __future__ import annotations

import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from evalgate.config.gate_file import JudgeRule
from evalgate.model import AgentFailure, FailureKind, Outcome, models_of
from evalgate.values import Sentence, frozen_dataclass
from . import models
from .base import RETRIABLE, JudgeFailed, JudgeFailure, JudgeFailureKind

Reply = TypeVar("Reply")

PRESSURE = frozenset({JudgeFailureKind.RATE_LIMITED, JudgeFailureKind.OVERLOADED})
"""The failures of a provider with too many requests: all of its models are slowed down."""


@frozen_dataclass
class RateLimits:
    """The limits of a limiter, in seconds."""

    calls_at_once: int = 32
    """The maximum."""
    attempts: int = 6
    """Per call, with the first one."""
    first_backoff_s: float = 1.0
    longest_backoff_s: float = 30.0
    call_deadline_s: float = 300.0
    """For one call with its attempts and the waits between them, without the wait for a slot,
    which other calls hold."""
    deadline_s: float = math.inf
    """For all calls of one model, while any of them runs or waits."""
    outage_after: int = 3
    """Calls in a row that use up their retries before a model counts as down; until it answers,
    calls are not repeated."""


class Clock:
    """The machine's clock: seconds that only increase, a sleep, and a random number from 0 up to
    1."""

    def __init__(self) -> None:
        self._called_off = threading.Event()

    def now(self) -> float:
        """Seconds since an arbitrary moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> bool:
        """Wait and return True; return False early if all waits are called off."""
        return not self._called_off.wait(max(0.0, seconds))

    def random(self) -> float:
        """A random number, uniform from 0 up to 1."""
        return random.random()  # noqa: S311 - it spreads retries and is not for security

    def call_off(self) -> None:
        """End all sleeps, now and later: the program stops without waiting for a backoff."""
        self._called_off.set()


# --- one model ------------------------------------------------------------------------------------


class CircuitBreaker:
    """Failures and call time of one model; the limiter's lock guards it."""

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits
        self._inside = 0
        self._busy_s = 0.0
        self._busy_since = 0.0
        self.failures_in_row = 0  # calls that used up their retries

    def begin(self, moment: float) -> float:
        """Start a call; return the moment at which the model's time is up, if calls continue."""
        if not self._inside:
            self._busy_since = moment
        self._inside += 1
        return self._busy_since + self._limits.deadline_s - self._busy_s

    def end(self, moment: float) -> None:
        """End a call, however it ended."""
        self._inside -= 1
        if not self._inside:
            self._busy_s += moment - self._busy_since


# --- one provider ---------------------------------------------------------------------------------


class RateLimiter:
    """Limits the calls of one provider; safe for many threads."""

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
        """The current limit of concurrent calls."""
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
        """Return the result of `call` to `model`, repeated within the limits; `retried` gets each
        failure except the last.

        Raises JudgeFailed: the last failure, with the number of attempts."""
        with self._changed:
            breaker = self._breakers.setdefault(model, CircuitBreaker(self._limits))
            model_deadline = breaker.begin(self._clock.now())
        started_at = self._clock.now()
        attempt = 0
        try:
            while True:
                attempt += 1
                started_at += self._enter(
                    model,
                    call_deadline=started_at + self._limits.call_deadline_s,
                    model_deadline=model_deadline,
                )
                outcome = self._attempt(call, model)
                if not isinstance(outcome, JudgeFailure):
                    return outcome
                wait_s = self._wait_s(outcome, attempt)
                expired_setting = self._expired_setting(
                    self._clock.now() + wait_s,
                    started_at + self._limits.call_deadline_s,
                    model_deadline,
                )
                if outcome.kind not in RETRIABLE:
                    raise JudgeFailed(outcome)
                is_down = breaker.failures_in_row >= self._limits.outage_after
                if expired_setting or attempt >= self._limits.attempts or is_down:
                    seconds = self._clock.now() - started_at
                    message = Sentence(
                        "judge_attempts",
                        outcome.message,
                        outcome.retry_after_s,
                        attempt,
                        seconds,
                        expired_setting,
                    )
                    with self._changed:
                        breaker.failures_in_row += 1
                    raise JudgeFailed(
                        JudgeFailure(kind=outcome.kind, message=message, usage=outcome.usage)
                    )
                if not self._clock.sleep(wait_s):
                    raise JudgeFailed(outcome)
                retried(outcome)
        finally:
            with self._changed:
                breaker.end(self._clock.now())

    def _attempt(self, call: Callable[[], Reply], model: str) -> Reply | JudgeFailure:
        """Call once in the reserved slot, and free the slot."""
        entered_at = self._clock.now()
        try:
            reply = call()
        except JudgeFailed as error:
            self.pushed_back(error.failure, since=entered_at)
            return error.failure
        else:
            with self._changed:
                self._breakers[model].failures_in_row = 0
            self.succeeded()
            return reply
        finally:
            with self._changed:
                self._under_way[model] -= 1
                self._changed.notify_all()

    def pushed_back(self, failure: JudgeFailure, *, since: float) -> None:
        """Slow down for a failure of a call that began at `since` (the clock's seconds), also for
        calls made elsewhere.

        Concurrent calls count as one push."""
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
        more concurrent call.

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
                expired_setting = self._expired_setting(
                    max(moment, self._paused_until), call_deadline + queued_s, model_deadline
                )
                if expired_setting:
                    raise JudgeFailed(self._too_late(pause_s, model=model, limit=expired_setting))
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
        """True if one more call may start. An eighth is reserved for models without a running call:
        a model that hangs would take all slots."""
        has_idle_models = any(not self._under_way[other_model] for other_model in self._breakers)
        reserved_slots = (
            self.calls_at_once // 8 if has_idle_models and self._under_way[model] else 0
        )
        return self._under_way.total() < max(1, self.calls_at_once - reserved_slots)

    # --- waits and ends ---------------------------------------------------------------------------

    def _wait_s(self, failure: JudgeFailure, attempt: int) -> float:
        ceiling = min(
            self._limits.longest_backoff_s, self._limits.first_backoff_s * 2.0 ** (attempt - 1)
        )
        random_s = ceiling * self._clock.random()
        if failure.retry_after_s is None:
            return random_s
        # a little more, so that calls do not start at the same moment
        return failure.retry_after_s + min(random_s, 1.0)

    def _expired_setting(self, moment: float, call_deadline: float, model_deadline: float) -> str:
        """The setting whose time is up at `moment`, or ""."""
        if moment >= min(call_deadline, model_deadline):
            return "call_deadline" if call_deadline <= model_deadline else "deadline"
        return ""

    def _too_late(self, pause_s: float, *, model: str, limit: str) -> JudgeFailure:
        if pause_s > 0:
            message = Sentence("judge_pause", self._provider, pause_s, limit)
            return JudgeFailure(
                kind=JudgeFailureKind.RATE_LIMITED, message=message, retry_after_s=pause_s
            )
        message = Sentence("judge_deadline", self._provider, model, limit)
        return JudgeFailure(kind=JudgeFailureKind.TIMEOUT, message=message)


class RateLimiters:
    """The limiters of a run, one per provider, for judges and agents; safe for many threads.

    `clock`: the clock of all of them."""

    def __init__(self, limits: RateLimits, clock: Clock) -> None:
        self.clock = clock
        self._limits = limits
        self._lock = threading.Lock()
        self._by_provider: dict[str, RateLimiter] = {}

    def find(self, providers: Iterable[str]) -> dict[str, RateLimiter]:
        """The limiters of those providers that have one."""
        with self._lock:
            return {
                provider: limiter
                for provider in providers
                if (limiter := self._by_provider.get(provider)) is not None
            }

    def of(self, provider: str) -> RateLimiter:
        """The limiter of a provider; the same for all callers."""
        with self._lock:
            return self._by_provider.get(provider) or self._by_provider.setdefault(
                provider, RateLimiter(self._limits, self.clock, provider=provider)
            )


def limiters_for(defaults: JudgeRule, clock: Clock) -> RateLimiters:
    """Limiters with the limits for judges in evalgate.yml."""
    limits = RateLimits(
        calls_at_once=defaults.calls_at_once,
        call_deadline_s=defaults.call_deadline,
        deadline_s=math.inf if defaults.deadline is None else defaults.deadline,
    )
    return RateLimiters(limits, clock)


Pace: TypeAlias = Callable[[str, Callable[[], Outcome]], Outcome]
"""Runs one attempt of a trial when its agent's providers allow it: the agent's key and the attempt
in, its outcome out."""

LONGEST_PAUSE_S = 60.0
"""The longest delay of a trial for a provider's pause; after it, the agent asks for itself."""
LOOK_S = 1.0


class TrialLimiter:
    """A Pace that shares each provider's limiter with the judges; safe for many threads.

    Agents call their models directly, so only visible signs are shared: an agent that gets a 429
    slows down the judges of its provider. If judges are refused, fewer trials of that provider's
    agents start, and later. The models in an agent's events identify its providers; an agent
    has also its own limiter. A limiter is made for the first call of a judge or the first 429."""

    def __init__(
        self, limiters: RateLimiters, *, trials_at_once: int, stop: threading.Event
    ) -> None:
        self._limiters = limiters
        self._trials_at_once = trials_at_once
        self._stop = stop
        self._changed = threading.Condition()
        self._names: dict[str, frozenset[str]] = {}  # of the limiters of an agent
        self._under_way: Counter[str] = Counter()

    def __call__(self, agent: str, attempt: Callable[[], Outcome]) -> Outcome:
        """See Pace."""
        names = self._enter(agent)
        started_at = self._limiters.clock.now()
        try:
            outcome = attempt()
        finally:
            with self._changed:
                self._under_way.subtract(names)
                self._changed.notify_all()
        hosts = map(models.parse_name, models_of(outcome))
        providers = {host.provider for host in hosts if host.provider}
        with self._changed:
            names = self._names.get(agent, names) | providers
            self._names[agent] = names
        if not isinstance(outcome, AgentFailure):
            for limiter in self._limiters.find(names).values():
                limiter.succeeded(peers=self._trials_at_once)
        elif outcome.kind is FailureKind.RATE_LIMITED:
            # an agent says what it likes: judges take its word for no longer than trials do
            wait_s = min(outcome.retry_after_s or 0.0, LONGEST_PAUSE_S)
            kind = JudgeFailureKind.RATE_LIMITED
            failure = JudgeFailure(kind=kind, message=outcome.message, retry_after_s=wait_s)
            for name in names:
                self._limiters.of(name).pushed_back(failure, since=started_at)
        return outcome

    def _enter(self, agent: str) -> frozenset[str]:
        """Wait for the providers' pauses and for room; return the names of their limiters, which
        the caller frees. A stopped run does not wait."""
        clock = self._limiters.clock
        latest_start = clock.now() + LONGEST_PAUSE_S
        while True:
            names = self._names.get(agent, frozenset({f"agent {agent}"}))
            limiters = self._limiters.find(names)
            longest_pause_s = max((limiter.pause_s for limiter in limiters.values()), default=0.0)
            pause_s = min(longest_pause_s, latest_start - clock.now())
            if pause_s > 0 and not self._stop.is_set() and clock.sleep(min(pause_s, LOOK_S)):
                continue
            with self._changed:
                if self._stop.is_set() or all(
                    self._under_way[name] < max(1, round(self._trials_at_once * limiter.share))
                    for name, limiter in limiters.items()
                ):
                    self._under_way.update(names)
                    return names
                self._changed.wait(LOOK_S)
