"""The governors of a run, one a provider, for judges and agents alike."""

from __future__ import annotations

import math
import threading

from evalgate.judging.clock import Clock
from evalgate.judging.governor import Governor
from evalgate.judging.lanes import Pace
from evalgate.judging.options import JudgeDefaults


class Governors:
    """Safe to use from many threads. `clock`: what all of them wait by."""

    def __init__(self, pace: Pace, clock: Clock) -> None:
        self.clock = clock
        self._pace = pace
        self._lock = threading.Lock()
        self._by_provider: dict[str, Governor] = {}

    def of(self, provider: str) -> Governor:
        """The governor of a provider; the same one for everybody who asks."""
        with self._lock:
            governor = self._by_provider.get(provider)
            if governor is None:
                governor = self._by_provider[provider] = Governor(self._pace, self.clock, provider=provider)
            return governor


def paced_by(defaults: JudgeDefaults, clock: Clock) -> Governors:
    """Governors that keep to what evalgate.yml says of judges."""
    deadline_s = math.inf if defaults.deadline_s is None else defaults.deadline_s
    return Governors(Pace(calls_at_once=defaults.calls_at_once, deadline_s=deadline_s), clock)
