"""The shape of what is told of progress."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from evalgate.model import Outcome, TrialKey, VerdictKind


class Watcher(Protocol):
    """Told of progress while trials run; rich on a terminal, plain lines in CI."""

    def begin(self, *, trials: int, done: int, why: str = "") -> None:
        """`trials` in all, `done` of them taken from the journal. `why`: what reruns are for, "" for the first runs."""

    def trial_done(
        self,
        key: TrialKey,
        outcome: Outcome,
        seconds: float,
        *,
        of_base: bool = False,
        kind: VerdictKind | None = None,
        known: bool = False,
        judges_usd: float = 0.0,
    ) -> None:
        """One trial ended, of head or of the base: how it was scored, whether it was `known` and so cost nothing, and
        what judges have taken until now."""

    def say(self, line: str) -> None:
        """A line for people."""

    def end(self) -> None:
        """No more will come."""


@dataclass(frozen=True, slots=True)
class SilentWatcher:
    """Watches and says nothing."""

    lines: list[str] = field(default_factory=list)

    def begin(self, *, trials: int, done: int, why: str = "") -> None:
        """See Watcher."""

    def trial_done(self, key: TrialKey, outcome: Outcome, seconds: float, **more: Any) -> None:
        """See Watcher."""

    def say(self, line: str) -> None:
        """Keep the line."""
        self.lines.append(line)

    def end(self) -> None:
        """See Watcher."""
