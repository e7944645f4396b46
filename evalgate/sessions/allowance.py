"""How much of a case's time is left to its agent: what a simulated user takes to think is not the agent's."""

from __future__ import annotations

import time
from collections.abc import Callable


class Allowance:
    """Seconds that run only within `with`: while the agent is waited for.

    `clock`: seconds since some moment.
    """

    def __init__(self, allowed_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.allowed_s = allowed_s
        self._clock = clock
        self._left_s = allowed_s
        self._began: float | None = None

    def __enter__(self) -> None:
        self._began = self._clock()

    def __exit__(self, *_: object) -> None:
        self._left_s = self.left_s
        self._began = None

    @property
    def left_s(self) -> float:
        """What is left now; 0 where it is spent."""
        spent = 0.0 if self._began is None else self._clock() - self._began
        return max(self._left_s - spent, 0.0)
