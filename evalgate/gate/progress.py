"""Progress while trials run: lines for a log, one line that moves on a terminal."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, TextIO

from evalgate.config.context import Watcher
from evalgate.model import AgentFailure, FailureKind, Outcome, TrialKey, VerdictKind
from evalgate.runner import budget
from evalgate.text import plain, words, workflow_commands

if TYPE_CHECKING:
    from rich.progress import TaskID

PLAIN_EVERY_S = 15.0
BAR_FROM = 100
"""In a terminal of fewer columns the words need the room."""
ENOUGH_S = 2.0
"""From then on a rate says something."""
SHOWN = {
    VerdictKind.PASS: "pass",
    VerdictKind.FAIL: "fail",
    VerdictKind.NOT_MEASURED: "not measured",
    VerdictKind.INCONCLUSIVE: "inconclusive",
}


def watch(stream: TextIO) -> Watcher:
    """The watcher that suits the stream."""
    return LiveWatcher(stream) if stream.isatty() else PlainWatcher(stream)


class _Progress:
    """What is known while trials run: how they were scored, how fast they come."""

    def __init__(self) -> None:
        self.total = self.done = 0
        self.kinds: Counter[VerdictKind] = Counter()
        self.failures: Counter[str] = Counter()
        self._run = 0
        self._started = self._counted_from = time.monotonic()

    def begin(self, *, trials: int, done: int) -> None:
        """Begin to count trials anew: those of an earlier phase were already shown."""
        self.kinds.clear()
        self.total = trials
        self.done = done
        self._run = 0
        self._started = self._counted_from = time.monotonic()

    def add(
        self,
        outcome: Outcome,
        seconds: float,
        *,
        of_base: bool,
        kind: VerdictKind | None,
        is_known: bool,
    ) -> str:
        """Count a trial; what it says of an agent that failed, the first time."""
        # what came before it was installing: none of the others waits for that
        if not self._run and not is_known:
            self._counted_from = max(self._started, time.monotonic() - seconds)
        self.done += 1
        self._run += not is_known
        if kind is not None and not of_base:
            self.kinds[kind] += 1
        if not isinstance(outcome, AgentFailure):
            return ""
        who = "simulated user" if outcome.kind is FailureKind.SIMULATOR else "agent"
        message = f"{'the base: ' if of_base else ''}the {who} failed: {outcome.message}"
        self.failures[message] += 1
        return message if self.failures[message] == 1 else ""

    @property
    def seconds(self) -> float:
        """Since these trials began."""
        return time.monotonic() - self._started

    def counts(self) -> str:
        """`30 pass, 2 fail, 1 not measured`; "" as long as nothing was scored."""
        return ", ".join(
            f"{self.kinds[kind]:,} {word}" for kind, word in SHOWN.items() if self.kinds[kind]
        )

    def pace(self) -> str:
        """`2.5/s, about 40 s left`; "" if that is not known yet, or all is done."""
        seconds = time.monotonic() - self._counted_from
        remaining_trials = self.total - self.done
        if seconds < ENOUGH_S or not self._run or remaining_trials <= 0:
            return ""
        rate = self._run / seconds
        rate_text = f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min"
        return f"{rate_text}, about {words.seconds(round(remaining_trials / rate))} left"


class PlainWatcher:
    """A line at the start, one every few seconds, one at the end; agent failures as they come, the
    first of a kind. With `times` also one on how long the first trial took from here."""

    def __init__(
        self, stream: TextIO, *, every_s: float = PLAIN_EVERY_S, times: bool = False
    ) -> None:
        self._stream = stream
        self._every_s = every_s
        self._lock = threading.Lock()
        self._now = _Progress()
        self._reruns = ""
        self._spoke = 0.0
        self._began = time.monotonic() if times else None

    def begin(self, *, trials: int, done: int, reason: str = "") -> None:
        """See Watcher."""
        self._now.begin(trials=trials, done=done)
        self._reruns = " reruns" if reason else ""
        self._spoke = time.monotonic()
        self.say(
            f"{words.counted(trials, 'rerun')} {reason}"
            if reason
            else f"running {words.counted(trials, 'trial')}"
        )

    def trial_done(
        self,
        key: TrialKey,
        outcome: Outcome,
        seconds: float,
        *,
        of_base: bool = False,
        kind: VerdictKind | None = None,
        is_known: bool = False,
        judges_usd: float = 0.0,  # noqa: ARG002 - the shape of Watcher
    ) -> None:
        """See Watcher."""
        with self._lock:
            new_failure = self._now.add(
                outcome, seconds, of_base=of_base, kind=kind, is_known=is_known
            )
            moment = time.monotonic()
            speaks = moment - self._spoke >= self._every_s
            self._spoke = moment if speaks else self._spoke
            began = self._began
            if not is_known:
                self._began = None
        if began is not None and not is_known:
            self.say(f"time: first trial after {moment - began:.1f} s")
        if new_failure:
            self.say(f"{key}: {new_failure}")
        if speaks:
            self.say(self._state())

    def say(self, line: str) -> None:
        """See Watcher; one line that hides nothing and is no workflow command, whatever is in
        it."""
        self._stream.write(workflow_commands.disarm(plain.one_line(line)) + "\n")
        self._stream.flush()

    def end(self) -> None:
        """See Watcher."""
        self.say(self._state())

    def _state(self) -> str:
        tally = self._now
        failures = sum(tally.failures.values())
        parts = (
            f"{tally.done}/{tally.total}{self._reruns} in {words.seconds(tally.seconds)}",
            tally.counts(),
            tally.pace(),
            words.counted(failures, "agent failure") if failures else "",
        )
        return ", ".join(part for part in parts if part)


class LiveWatcher:
    """A progress bar: how the trials were scored, how fast they come, what they have cost, how long
    it will take."""

    def __init__(self, stream: TextIO) -> None:
        # takes a twentieth of a second to load, and a log needs none of it
        from rich import progress  # noqa: PLC0415 - as said above
        from rich.console import Console  # noqa: PLC0415 - as said above
        from rich.table import Column  # noqa: PLC0415 - as said above

        console = Console(file=stream)
        column = Column(ratio=1, no_wrap=True)  # cut off at its end if there is no room
        self._progress = progress.Progress(
            *([progress.BarColumn(bar_width=20)] if console.width >= BAR_FROM else []),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("{task.description}", markup=False, table_column=column),
            console=console,
            transient=True,
            expand=True,
        )
        self._task: TaskID | None = None
        self._lock = threading.Lock()
        self._now = _Progress()
        self._why = ""
        self._agents_usd = 0.0
        self._judges_usd = 0.0

    def begin(self, *, trials: int, done: int, reason: str = "") -> None:
        """See Watcher."""
        self._now.begin(trials=trials, done=done)
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._progress.start()
        self._why = f"rerunning {reason}" if reason else ""
        self._task = self._progress.add_task(self._why, total=trials, completed=done)

    def trial_done(
        self,
        key: TrialKey,  # noqa: ARG002 - the shape of Watcher
        outcome: Outcome,
        seconds: float,
        *,
        of_base: bool = False,
        kind: VerdictKind | None = None,
        is_known: bool = False,
        judges_usd: float = 0.0,
    ) -> None:
        """See Watcher."""
        if self._task is None:
            return
        cost = 0.0 if is_known else sum(cost or 0.0 for _, _, cost in budget.costs_of(outcome))
        with self._lock:
            self._now.add(outcome, seconds, of_base=of_base, kind=kind, is_known=is_known)
            self._agents_usd += cost
            self._judges_usd = max(self._judges_usd, judges_usd)
            self._progress.update(self._task, advance=1, description=self._state())

    def say(self, line: str) -> None:
        """See Watcher."""
        self._progress.console.print(plain.one_line(line), markup=False, highlight=False)

    def end(self) -> None:
        """See Watcher."""
        self._progress.stop()

    def _state(self) -> str:
        tally = self._now
        usd = self._agents_usd + self._judges_usd
        failures = sum(tally.failures.values())
        parts = (
            self._why,
            tally.counts(),
            tally.pace(),
            words.dollars(usd) if usd else "",
            words.counted(failures, "agent failure") if failures else "",
        )
        return ", ".join(part for part in parts if part)
