"""What each model has of its provider's governor for itself: its own slots, its own time, and whether it is down."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from evalgate.plugins import JudgeFailure, JudgeFailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The bounds of a governor; seconds.

    `calls_at_once`: never more. `attempts`: of one call, the first among them. `call_deadline_s`: one call with all its
    waits. `deadline_s`: all calls of one model, as long as any of them is under way or waits. `outage_after`: calls in
    a row that exhaust their retries until a model is taken to be down; then, for `outage_s`, nobody is kept waiting
    for it.
    """

    calls_at_once: int = 32
    attempts: int = 6
    first_backoff_s: float = 1.0
    longest_backoff_s: float = 30.0
    call_deadline_s: float = 300.0
    deadline_s: float = math.inf
    outage_after: int = 3
    outage_s: float = 60.0


class Throttle:
    """How many calls may be under way: one more a round of successes, half as many at a push (additive increase,
    multiplicative decrease). Its owner locks it."""

    def __init__(self, most: int) -> None:
        self.most = max(1, most)
        self.limit = float(self.most)
        self.under_way = 0
        self._shrunk_at = -math.inf

    def has_room(self, *, kept_free: int = 0) -> bool:
        """Whether one more may start, `kept_free` slots being for others; one may always."""
        return self.under_way < max(1, int(self.limit) - kept_free)

    def shrink(self, *, since: float, now: float) -> None:
        """A call that began at `since` was pushed back. Calls that were under way together count as one push."""
        if since >= self._shrunk_at:
            self.limit = max(1.0, self.limit / 2)
            self._shrunk_at = now

    def grow(self, *, peers: int | None = None) -> None:
        """A call came through; see `Governor.succeeded`."""
        self.limit = min(float(self.most), self.limit + (self.most / (peers or self.most)) ** 2 / self.limit)


class Lane:
    """One model's; its governor locks it."""

    def __init__(self, pace: Pace) -> None:
        self.throttle = Throttle(pace.calls_at_once)
        self._pace = pace
        self._inside = 0
        self._busy_s = 0.0
        self._busy_since = 0.0
        self._exhausted = 0
        self._down: JudgeFailure | None = None
        self._down_until = -math.inf

    def begin(self, now: float) -> float:
        """A call begins; when the model's time is up, while it is inside."""
        if not self._inside:
            self._busy_since = now
        self._inside += 1
        return self._busy_since + self._pace.deadline_s - self._busy_s

    def end(self, now: float) -> None:
        """A call has ended, however it did."""
        self._inside -= 1
        if not self._inside:
            self._busy_s += now - self._busy_since

    def succeeded(self) -> None:
        """It answers."""
        self.throttle.grow()
        self._exhausted = 0
        self._down = None

    def gave_up(self, failure: JudgeFailure, now: float) -> None:
        """A call exhausted its retries."""
        self._exhausted += 1
        if self._exhausted >= self._pace.outage_after:
            self._down = _unasked(failure)
            self._down_until = now + self._pace.outage_s

    def refusal(self, now: float) -> JudgeFailure | None:
        """While the model is down, why."""
        return self._down if now < self._down_until else None

    def asked(self, now: float) -> None:
        """A call goes out; to a model that was down, to look whether it is back, and no other until that is known."""
        if self._down is not None:
            self._down_until = now + self._pace.outage_s


def _unasked(failure: JudgeFailure) -> JudgeFailure:
    """What a question hears that is not asked because others failed: not what they cost, nor half of their replies.
    It has no empty reply of its own either, which ADK would take for an answer."""
    kind = JudgeFailureKind.SERVER_ERROR if failure.kind is JudgeFailureKind.EMPTY else failure.kind
    return dataclasses.replace(failure, kind=kind, usage=None, reply=None)
