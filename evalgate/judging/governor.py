"""How fast a provider is called: slots that shrink under pressure, waits that it asked for, retries and deadlines.

One governor a provider, shared by everything that calls it. The number of calls at once grows by one a round of
successes and is halved when the provider pushes back (429, 503). What one model suffers alone - errors of its own, no
answer in time, an outage, its deadline - is its lane's and harms no other model. A failed call is asked again after a
random wait below an exponential ceiling ("full jitter"), or after as long as the provider said.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable
from typing import TypeVar

from evalgate.judging.clock import Clock
from evalgate.judging.lanes import Lane, Pace, Throttle
from evalgate.plugins import JudgeFailed, JudgeFailure, JudgeFailureKind
from evalgate.text import words

Reply = TypeVar("Reply")

PRESSURE = frozenset({JudgeFailureKind.RATE_LIMITED, JudgeFailureKind.OVERLOADED})
"""What a provider says when it is asked too much: all of its models are asked less."""
TROUBLE = frozenset({JudgeFailureKind.SERVER_ERROR, JudgeFailureKind.TIMEOUT})
"""What may be too much for one model, or its own fault: that model is asked less."""


class Governor:
    """Lets calls of one provider through; safe to use from many threads."""

    def __init__(self, pace: Pace, clock: Clock, *, provider: str = "") -> None:
        self._pace = pace
        self._clock = clock
        self._provider = provider
        self._changed = threading.Condition()
        self._shared = Throttle(pace.calls_at_once)
        self._lanes: dict[str, Lane] = {}
        self._paused_until = -math.inf

    @property
    def calls_at_once(self) -> int:
        """How many calls it lets through at once by now."""
        return int(self._shared.limit)

    @property
    def share(self) -> float:
        """That, as a part of what it may let through at most: 1 where nobody pushed back."""
        return self._shared.limit / self._shared.most

    @property
    def pause_s(self) -> float:
        """Seconds until the provider wants to hear of anybody again; 0 where it did not say."""
        return max(0.0, self._paused_until - self._clock.now())

    def run(
        self, call: Callable[[], Reply], *, model: str = "", retried: Callable[[JudgeFailure], None] = lambda _: None
    ) -> Reply:
        """What `call` to `model` returns, asked again within the pace; `retried` is told of each failure that was not
        the last.

        Raises JudgeFailed: the last failure, with what was tried.
        """
        with self._changed:
            lane = self._lanes.setdefault(model, Lane(self._pace))
            started = self._clock.now()
            ends_at = min(started + self._pace.call_deadline_s, lane.begin(started))
        try:
            return self._insist(call, lane, ends_at=ends_at, model=model, retried=retried)
        finally:
            with self._changed:
                lane.end(self._clock.now())

    def _insist(
        self,
        call: Callable[[], Reply],
        lane: Lane,
        *,
        ends_at: float,
        model: str,
        retried: Callable[[JudgeFailure], None],
    ) -> Reply:
        started = self._clock.now()
        attempt = 0
        while True:
            attempt += 1
            self._enter(lane, ends_at=ends_at, model=model)
            outcome = self._attempt(call, lane)
            if not isinstance(outcome, JudgeFailure):
                return outcome
            wait = self._wait_s(outcome, attempt)
            late = self._clock.now() + wait > ends_at
            if not outcome.retriable or late or attempt >= self._pace.attempts:
                raise JudgeFailed(self._given_up(outcome, lane, attempt=attempt, seconds=self._clock.now() - started))
            if not self._clock.sleep(wait):
                raise JudgeFailed(outcome)
            retried(outcome)

    def _attempt(self, call: Callable[[], Reply], lane: Lane) -> Reply | JudgeFailure:
        """Call once, in the slot that was taken, and give it back."""
        entered = self._clock.now()
        try:
            reply = call()
        except JudgeFailed as failed:
            failure = failed.failure
        else:
            with self._changed:
                lane.succeeded()
            self.succeeded()
            return reply
        finally:
            self._leave(lane)
        self.pushed_back(failure, since=entered)
        if failure.kind in TROUBLE:
            with self._changed:
                lane.throttle.shrink(since=entered, now=self._clock.now())
        return failure

    def pushed_back(self, failure: JudgeFailure, *, since: float) -> None:
        """Slow down for a failure of a call that began at `since` (the clock's seconds): for calls made elsewhere, too.

        Calls that were under way together count as one push.
        """
        if failure.kind not in PRESSURE:
            return
        with self._changed:
            now = self._clock.now()
            self._shared.shrink(since=since, now=now)
            if failure.retry_after_s:
                self._paused_until = max(self._paused_until, now + failure.retry_after_s)

    def succeeded(self, *, peers: int | None = None) -> None:
        """Speed up a little: a call came through, here or elsewhere. A round of successes lets one more through.

        `peers`: how many calls of its kind go at once at most, where that is not the pace's number.
        """
        with self._changed:
            self._shared.grow(peers=peers)
            self._changed.notify_all()

    # --- slots ------------------------------------------------------------------------------------

    def _enter(self, lane: Lane, *, ends_at: float, model: str) -> None:
        """Wait for a slot and for the end of a pause. Raises JudgeFailed where that is too late."""
        while True:
            with self._changed:
                now = self._clock.now()
                if (refusal := lane.refusal(now)) is not None:
                    raise JudgeFailed(refusal)
                pause_s = self._paused_until - now
                if now >= ends_at or self._paused_until > ends_at:
                    raise JudgeFailed(self._too_late(pause_s, model=model))
                if pause_s <= 0:
                    if self._take(lane):
                        return
                    self._changed.wait()
                    continue
            if not self._clock.sleep(pause_s):
                raise JudgeFailed(self._too_late(pause_s, model=model))

    def _take(self, lane: Lane) -> bool:
        """A slot of the provider's and of the model's own, if both are free. An eighth is kept for models that have
        none: one that hangs would hold them all."""
        others = any(not each.throttle.under_way for each in self._lanes.values())
        kept_free = self.calls_at_once // 8 if others and lane.throttle.under_way else 0
        if not (self._shared.has_room(kept_free=kept_free) and lane.throttle.has_room()):
            return False
        self._shared.under_way += 1
        lane.throttle.under_way += 1
        lane.asked(self._clock.now())
        return True

    def _leave(self, lane: Lane) -> None:
        with self._changed:
            self._shared.under_way -= 1
            lane.throttle.under_way -= 1
            self._changed.notify_all()

    # --- waits and ends ---------------------------------------------------------------------------

    def _wait_s(self, failure: JudgeFailure, attempt: int) -> float:
        ceiling = min(self._pace.longest_backoff_s, self._pace.first_backoff_s * 2.0 ** (attempt - 1))
        spread = ceiling * self._clock.random()
        if failure.retry_after_s is None:
            return spread
        return failure.retry_after_s + min(spread, 1.0)  # not all at the same moment

    def _given_up(self, failure: JudgeFailure, lane: Lane, *, attempt: int, seconds: float) -> JudgeFailure:
        if not failure.retriable:
            return failure
        tried = f"tried {words.counted(attempt, 'time')} in {words.seconds(seconds)}"
        if failure.retry_after_s is not None:
            tried += f"; it asks to wait {words.seconds(failure.retry_after_s)}"
        given_up = dataclasses.replace(failure, message=f"{failure.message} ({tried})")
        with self._changed:
            lane.gave_up(given_up, self._clock.now())
        return given_up

    def _too_late(self, pause_s: float, *, model: str) -> JudgeFailure:
        name = self._provider or "the judge"
        if pause_s > 0:
            message = f"{name} asks to wait {words.seconds(pause_s)}, longer than this run waits; run it again later"
            return JudgeFailure(kind=JudgeFailureKind.RATE_LIMITED, message=message, retry_after_s=pause_s)
        of = f"`{model}`" if model else name
        message = f"the time for calls of {of} is up; allow more (`judge: {{deadline: ...}}`), or fewer cases"
        return JudgeFailure(kind=JudgeFailureKind.TIMEOUT, message=message)
