"""Progress while trials run: lines for a log, one line that moves on a terminal."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, TextIO

from evalgate.model import AgentFailure, FailureKind, Outcome, TrialKey
from evalgate.model.watcher import Watcher
from evalgate.text import plain, words, workflow_commands

if TYPE_CHECKING:
    from rich.progress import TaskID

PLAIN_EVERY_S = 15.0


def watch(stream: TextIO) -> Watcher:
    """The watcher that suits the stream."""
    return LiveWatcher(stream) if stream.isatty() else PlainWatcher(stream)


class PlainWatcher:
    """A line at the start, one every few seconds, one at the end; agent failures as they come, the first of a kind."""

    def __init__(self, stream: TextIO, *, every_s: float = PLAIN_EVERY_S) -> None:
        self._stream = stream
        self._every_s = every_s
        self._lock = threading.Lock()
        self._trials = 0
        self._done = 0
        self._reruns = ""
        self._failures: Counter[str] = Counter()
        self._spoke = 0.0
        self._started = 0.0

    def begin(self, *, trials: int, done: int, why: str = "") -> None:
        """See Watcher."""
        self._trials, self._done, self._reruns = trials, done, " reruns" if why else ""
        self._started = self._spoke = time.monotonic()
        self.say(f"{words.counted(trials, 'rerun')} {why}" if why else f"running {words.counted(trials, 'trial')}")

    def trial_done(
        self,
        key: TrialKey,
        outcome: Outcome,
        seconds: float,  # noqa: ARG002 - the shape of Watcher
        *,
        of_base: bool = False,
    ) -> None:
        """See Watcher."""
        with self._lock:
            self._done += 1
            new_failure = ""
            if isinstance(outcome, AgentFailure):
                who = "simulated user" if outcome.kind is FailureKind.SIMULATOR else "agent"
                said = f"{'the base: ' if of_base else ''}the {who} failed: {outcome.message}"
                self._failures[said] += 1
                new_failure = said if self._failures[said] == 1 else ""
            now = time.monotonic()
            speaks = now - self._spoke >= self._every_s
            self._spoke = now if speaks else self._spoke
        if new_failure:
            self.say(f"{key}: {new_failure}")
        if speaks:
            self.say(self._state())

    def say(self, line: str) -> None:
        """See Watcher; one line that hides nothing and is no workflow command, whatever is in it."""
        self._stream.write(workflow_commands.disarm(plain.one_line(line)) + "\n")
        self._stream.flush()

    def end(self) -> None:
        """See Watcher."""
        self.say(self._state())

    def _state(self) -> str:
        failures = sum(self._failures.values())
        tail = f", {words.counted(failures, 'agent failure')}" if failures else ""
        return f"{self._done}/{self._trials}{self._reruns} in {words.seconds(time.monotonic() - self._started)}{tail}"


class LiveWatcher:
    """A progress bar with the number of failed agents."""

    def __init__(self, stream: TextIO) -> None:
        # takes a twentieth of a second to load, and a log needs none of it
        from rich import progress  # noqa: PLC0415 - as said above
        from rich.console import Console  # noqa: PLC0415 - as said above

        self._progress = progress.Progress(
            progress.TextColumn("[progress.description]{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.fields[failures]}"),
            console=Console(file=stream),
            transient=True,
        )
        self._task: TaskID | None = None
        self._failures = 0

    def begin(self, *, trials: int, done: int, why: str = "") -> None:
        """See Watcher."""
        self._progress.start()
        self._task = self._progress.add_task(
            f"rerunning {why}" if why else "running", total=trials, completed=done, failures=""
        )

    def trial_done(
        self,
        key: TrialKey,  # noqa: ARG002 - the shape of Watcher
        outcome: Outcome,
        seconds: float,  # noqa: ARG002 - the shape of Watcher
        *,
        of_base: bool = False,  # noqa: ARG002 - the shape of Watcher
    ) -> None:
        """See Watcher."""
        if self._task is None:
            return
        self._failures += isinstance(outcome, AgentFailure)
        failures = words.counted(self._failures, "agent failure") if self._failures else ""
        self._progress.update(self._task, advance=1, failures=failures)

    def say(self, line: str) -> None:
        """See Watcher."""
        self._progress.console.print(plain.one_line(line), markup=False, highlight=False)

    def end(self) -> None:
        """See Watcher."""
        self._progress.stop()
