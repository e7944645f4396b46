"""Progress on a terminal: one line that moves."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from evalgate.model import AgentFailure, Outcome, TrialKey
from evalgate.plugins import Watcher
from evalgate.text import words


def watch(stream: TextIO) -> Watcher:
    """The watcher of a terminal."""
    return LiveWatcher(Console(file=stream))


class LiveWatcher:
    """A progress bar with the number of failed agents."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("[progress.description]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[failures]}"),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._failures = 0

    def begin(self, *, trials: int, done: int) -> None:
        """See Watcher."""
        self._progress.start()
        self._task = self._progress.add_task("running", total=trials, completed=done, failures="")

    def trial_done(self, key: TrialKey, outcome: Outcome, seconds: float) -> None:  # noqa: ARG002 - the shape of Watcher
        """See Watcher."""
        if self._task is None:
            return
        self._failures += isinstance(outcome, AgentFailure)
        failures = words.counted(self._failures, "agent failure") if self._failures else ""
        self._progress.update(self._task, advance=1, failures=failures)

    def say(self, line: str) -> None:
        """See Watcher."""
        self._progress.console.print(line, markup=False, highlight=False)

    def end(self) -> None:
        """See Watcher."""
        self._progress.stop()
