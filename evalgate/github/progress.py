"""The running state of a long run, told seldom enough for GitHub's limits and never at the run's expense."""

from __future__ import annotations

from collections.abc import Callable

from evalgate.errors import EvalgateError
from evalgate.text import markdown, words

QUIET_S = 60.0
EVERY_S = 30.0
SHARE = 0.05


class Progress:
    """Calls `tell(done, total)` once a run is long, then at most every half minute, and ever more seldom.

    The first failure is the last try: a run never waits for a comment that cannot be written.
    """

    def __init__(self, tell: Callable[[int, int], object], *, now: Callable[[], float]) -> None:
        self._tell = tell
        self._now = now
        self._started = now()
        self._told: float | None = None
        self.failure: EvalgateError | None = None

    def report(self, done: int, total: int) -> bool:
        """Tell, if it is time; whether it was told."""
        now = self._now()
        elapsed = now - self._started
        if self.failure is not None or done >= total or elapsed < QUIET_S:
            return False
        if self._told is not None and now - self._told < max(EVERY_S, elapsed * SHARE):
            return False
        self._told = now
        try:
            self._tell(done, total)
        except EvalgateError as failure:
            self.failure = failure
            return False
        return True


def render_progress(done: int, total: int, *, failed: int = 0) -> str:
    """What the comment and the check run say meanwhile."""
    beside = f" {words.counted(failed, 'case')} failed so far." if failed else ""
    return markdown.alert("NOTE", f"In progress: {done:,}/{words.counted(total, 'run')} of cases.{beside}")
