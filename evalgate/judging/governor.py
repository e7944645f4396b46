"""How fast a provider is called: slots that shrink under pressure, waits that it asked for, retries and deadlines.

One governor a provider, shared by everything that calls it. The number of calls at once grows by one a round of
successes and is halved when the provider pushes back (additive increase, multiplicative decrease). A failed call is
asked again after a random wait below an exponential ceiling ("full jitter"), or after as long as the provider said.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from evalgate import words
from evalgate.judging.clock import Clock
from evalgate.plugins import JudgeFailed, JudgeFailure, JudgeFailureKind

Reply = TypeVar("Reply")

PRESSURE = frozenset({JudgeFailureKind.RATE_LIMITED, JudgeFailureKind.SERVER_ERROR, JudgeFailureKind.TIMEOUT})
"""What a provider says, or leaves unsaid, when it is asked too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The bounds of a governor; seconds.

    `calls_at_once`: never more. `attempts`: of one call, the first among them. `call_deadline_s`: one call with all its
    waits. `deadline_s`: everything, from the first call on. `outage_after`: calls in a row that exhaust their retries
    until the provider is taken to be down; then, for `outage_s`, nobody is kept waiting for it.
    """

    calls_at_once: int = 32
    attempts: int = 6
    first_backoff_s: float = 1.0
    longest_backoff_s: float = 30.0
    call_deadline_s: float = 300.0
    deadline_s: float = math.inf
    outage_after: int = 3
    outage_s: float = 60.0


class Governor:
    """Lets calls of one provider through; safe to use from many threads."""

    def __init__(self, pace: Pace, clock: Clock, *, provider: str = "") -> None:
        self._pace = pace
        self._clock = clock
        self._provider = provider
        self._changed = threading.Condition()
        self._limit = float(max(1, pace.calls_at_once))
        self._under_way = 0
        self._paused_until = -math.inf
        self._shrunk_at = -math.inf
        self._ends_at: float | None = None
        self._exhausted = 0
        self._down: JudgeFailure | None = None
        self._down_until = -math.inf

    @property
    def calls_at_once(self) -> int:
        """How many calls it lets through at once by now."""
        return int(self._limit)

    @property
    def share(self) -> float:
        """That, as a part of what it may let through at most: 1 where nobody pushed back."""
        return self._limit / max(1, self._pace.calls_at_once)

    @property
    def pause_s(self) -> float:
        """Seconds until the provider wants to hear of anybody again; 0 where it did not say."""
        return max(0.0, self._paused_until - self._clock.now())

    def run(self, call: Callable[[], Reply], *, retried: Callable[[JudgeFailure], None] = lambda _: None) -> Reply:
        """What `call` returns, asked again within the pace; `retried` is told of each failure that was not the last.

        Raises JudgeFailed: the last failure, with what was tried.
        """
        started = self._clock.now()
        ends_at = min(started + self._pace.call_deadline_s, self._deadline(started))
        attempt = 0
        while True:
            attempt += 1
            outcome = self._attempt(call, ends_at)
            if not isinstance(outcome, JudgeFailure):
                return outcome
            wait = self._wait_s(outcome, attempt)
            late = self._clock.now() + wait > ends_at
            if not outcome.retriable or late or attempt >= self._pace.attempts:
                raise JudgeFailed(self._given_up(outcome, attempt=attempt, seconds=self._clock.now() - started))
            retried(outcome)
            if not self._clock.sleep(wait):
                raise JudgeFailed(outcome)

    def _attempt(self, call: Callable[[], Reply], ends_at: float) -> Reply | JudgeFailure:
        """Call once, in a slot. Raises JudgeFailed where no slot comes in time."""
        self._enter(ends_at)
        entered = self._clock.now()
        try:
            reply = call()
        except JudgeFailed as failed:
            failure = failed.failure
        else:
            self.succeeded()
            return reply
        finally:
            self._leave()
        self.pushed_back(failure, since=entered)
        return failure

    def pushed_back(self, failure: JudgeFailure, *, since: float) -> None:
        """Slow down for a failure of a call that began at `since` (the clock's seconds): for calls made elsewhere, too.

        Calls that were under way together count as one push.
        """
        if failure.kind not in PRESSURE:
            return
        with self._changed:
            now = self._clock.now()
            if since >= self._shrunk_at:
                self._limit = max(1.0, self._limit / 2)
                self._shrunk_at = now
            if failure.retry_after_s:
                self._paused_until = max(self._paused_until, now + failure.retry_after_s)

    def succeeded(self, *, peers: int | None = None) -> None:
        """Speed up a little: a call came through, here or elsewhere. A round of successes lets one more through.

        `peers`: how many calls of its kind go at once at most, where that is not the pace's number.
        """
        most = max(1, self._pace.calls_at_once)
        with self._changed:
            self._limit = min(float(most), self._limit + (most / (peers or most)) ** 2 / self._limit)
            self._exhausted = 0
            self._down = None
            self._changed.notify_all()

    # --- slots ------------------------------------------------------------------------------------

    def _deadline(self, now: float) -> float:
        with self._changed:
            if self._ends_at is None:
                self._ends_at = now + self._pace.deadline_s
            return self._ends_at

    def _enter(self, ends_at: float) -> None:
        """Wait for a slot and for the end of a pause. Raises JudgeFailed where that is too late."""
        while True:
            with self._changed:
                self._refuse_when_down()
                now = self._clock.now()
                pause_s = self._paused_until - now
                if max(now, self._paused_until) > ends_at:
                    raise JudgeFailed(self._too_late(pause_s))
                if pause_s <= 0 and self._under_way < int(self._limit):
                    self._under_way += 1
                    return
                if pause_s <= 0:
                    self._changed.wait()
                    continue
            if not self._clock.sleep(pause_s):
                raise JudgeFailed(self._too_late(pause_s))

    def _leave(self) -> None:
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    # --- waits and ends ---------------------------------------------------------------------------

    def _wait_s(self, failure: JudgeFailure, attempt: int) -> float:
        ceiling = min(self._pace.longest_backoff_s, self._pace.first_backoff_s * 2.0 ** (attempt - 1))
        spread = ceiling * self._clock.random()
        if failure.retry_after_s is None:
            return spread
        return failure.retry_after_s + min(spread, 1.0)  # not all at the same moment

    def _given_up(self, failure: JudgeFailure, *, attempt: int, seconds: float) -> JudgeFailure:
        if not failure.retriable:
            return failure
        tried = f"tried {words.counted(attempt, 'time')} in {words.seconds(seconds)}"
        if failure.retry_after_s is not None:
            tried += f"; it asks to wait {words.seconds(failure.retry_after_s)}"
        given_up = dataclasses.replace(failure, message=f"{failure.message} ({tried})")
        with self._changed:
            self._exhausted += 1
            if self._exhausted >= self._pace.outage_after:
                self._down = given_up
                self._down_until = self._clock.now() + self._pace.outage_s
        return given_up

    def _too_late(self, pause_s: float) -> JudgeFailure:
        name = self._provider or "the judge"
        if pause_s > 0:
            message = f"{name} asks to wait {words.seconds(pause_s)}, longer than this run waits; run it again later"
            return JudgeFailure(kind=JudgeFailureKind.RATE_LIMITED, message=message, retry_after_s=pause_s)
        message = f"the time for calls of {name} is up; allow more, or fewer cases"
        return JudgeFailure(kind=JudgeFailureKind.TIMEOUT, message=message)

    def _refuse_when_down(self) -> None:
        """While the provider is down, fail at once; after that, one call looks whether it is back."""
        if self._down is None:
            return
        now = self._clock.now()
        if now < self._down_until:
            raise JudgeFailed(self._down)
        self._down_until = now + self._pace.outage_s
