"""How long to wait before asking GitHub again, by its headers, and for how long in all."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from evalgate.system import http
from evalgate.system.http import Answer

SECONDARY_WAIT_S = 60.0
"""GitHub's advice for a secondary limit that names no time: at least a minute."""
_SECONDARY_SIGNS = (b"secondary rate limit", b"abuse detection", b"submitted too quickly")
_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a client sees of the world beside the network; `now`: seconds since 1970, `chance`: 0 up to 1."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random


def limit_wait(answer: Answer, *, now: float) -> float | None:
    """Seconds that a rate limit asks to wait; None where `answer` tells of no limit.

    Primary limits come with `x-ratelimit-remaining: 0` and a reset time, secondary ones with `Retry-After` or only in
    words, as 403, 429, or 422 for content that was created too quickly.
    """
    limited = answer.status == 429 or any(sign in answer.body.lower() for sign in _SECONDARY_SIGNS)
    exhausted = answer.headers.get("x-ratelimit-remaining") == "0"
    if answer.status not in (403, 429, 422) or (answer.status == 422 and not limited):
        return None
    asked = http.parse_retry_after(answer.headers, now=datetime.fromtimestamp(now, tz=UTC))
    if asked is not None:
        return asked
    reset = answer.headers.get("x-ratelimit-reset", "")
    if exhausted and reset.isascii() and reset.isdigit() and len(reset) < 12:
        return max(0.0, int(reset) - now) + 1
    return SECONDARY_WAIT_S if limited or exhausted else None


def backoff(tries: int, *, chance: float) -> float:
    """Seconds before try number `tries` + 1, doubled each time, half of it left to chance."""
    whole = min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** min(tries, 10))
    return whole * (0.5 + chance / 2)


class Patience:
    """The time that may be spent waiting, over all requests of a client."""

    def __init__(self, most_s: float, world: World) -> None:
        self._left_s = most_s
        self._world = world

    def wait(self, seconds: float) -> bool:
        """Sleep, if so much time is left; else do nothing and say False."""
        if seconds > self._left_s:
            return False
        self._left_s -= seconds
        self._world.sleep(seconds)
        return True
