"""Time and chance as the governor sees them, so that a test can hold both in its hands."""

from __future__ import annotations

import random
import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that only go forward, a sleep, and a number from 0 up to 1."""

    def now(self) -> float:
        """Seconds since some moment."""

    def sleep(self, seconds: float) -> bool:
        """Wait that long and answer True; False, and sooner, where all waits were called off."""

    def random(self) -> float:
        """Evenly from 0 up to 1."""

    def call_off(self) -> None:
        """End all sleeps, now and from now on: the program stops, and nobody waits for a backoff."""


class SystemClock:
    """The machine's clock."""

    def __init__(self) -> None:
        self._called_off = threading.Event()

    def now(self) -> float:
        """See Clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> bool:
        """See Clock."""
        return not self._called_off.wait(max(0.0, seconds))

    def random(self) -> float:
        """See Clock."""
        return random.random()  # noqa: S311 - it spreads retries, it guards nothing

    def call_off(self) -> None:
        """See Clock."""
        self._called_off.set()
