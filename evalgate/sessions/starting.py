"""Agents that start at the same time begin their work at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class StartingLine:
    """Where agents of several sides meet once they have started; safe to use from many threads.

    Who is ready first would otherwise answer its first cases while another still loads, and the other its last ones
    alone. Nobody waits for those who have not begun to start, nor for those whose start failed.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._starting = 0

    @contextmanager
    def meeting(self) -> Iterator[None]:
        """Around a start; left when all starts that are under way have ended."""
        with self._changed:
            self._starting += 1
        try:
            yield
        finally:
            with self._changed:
                self._starting -= 1
                self._changed.notify_all()
                while self._starting:
                    self._changed.wait()
