"""Progress while trials run: lines for a log, a progress bar at a terminal."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from evalgate.config.context import Watcher
from evalgate.model import AgentFailure, FailureKind, Outcome, TrialKey, VerdictKind
from evalgate.runner import budget
from evalgate.text import plain, words

if TYPE_CHECKING:
    from rich.progress import TaskID

PLAIN_EVERY_S = 15.0
"""The pause between two lines about the state."""
BAR_FROM = 100
"""Terminals with fewer columns need the room for words."""
ENOUGH_S = 2.0
"""The time after which a rate is shown."""


def watch(stream: TextIO) -> Watcher:
    """The watcher that suits the stream."""
    return LiveWatcher(stream) if stream.isatty() else PlainWatcher(stream)


class _ProgressWatcher(Watcher):
    """Counts trials, with their scores and their rate, for a watcher that shows them."""

    def __init__(self) -> None:
        """The lock is for `trial_done`, which many threads call."""
        self._lock = threading.Lock()
        self._total = self._done = 0
        """Trials that were announced, and trials that ended."""
        self._kinds: Counter[VerdictKind] = Counter()
        """Of head's trials."""
        self._failures: Counter[str] = Counter()
        """Of both sides, by message: each message is shown once."""
        self._reason = ""
        """Of reruns; empty for the first runs."""
        self._agents_usd = self._judges_usd = 0.0
        """In dollars: a sum over trials, and the highest sum that the judges reported."""
        self._run = 0
        """Trials that ended and came from no journal: only they show the rate."""
        self._started = self._counted_from = time.monotonic()
        """Monotonic; the second one becomes the start of the first trial, after all
        installation."""

    def begin(self, *, trials: int, reason: str = "") -> None:
        """See Watcher. Trials are counted anew, except for the next round of the same reruns."""
        is_round = reason.partition(" ")[0] == self._reason.partition(" ")[0] != ""
        is_repeated = reason == self._reason != ""
        self._reason = reason
        if not is_round:
            self._kinds.clear()
            self._total = self._done = self._run = 0
            self._started = self._counted_from = time.monotonic()
        self._total += trials
        self._show_beginning(is_repeated=is_repeated)

    def trial_done(
        self,
        key: TrialKey,
        outcome: Outcome,
        seconds: float,
        *,
        of_base: bool = False,
        kind: VerdictKind | None = None,
        is_known: bool = False,
        judges_usd: float = 0.0,
    ) -> None:
        """See Watcher."""
        with self._lock:
            if not is_known:
                self._agents_usd += sum(cost or 0.0 for _, _, cost in budget.costs_of(outcome))
                # the time before it was installation, which later trials do not need
                if not self._run:
                    self._counted_from = max(self._started, time.monotonic() - seconds)
            self._judges_usd = max(self._judges_usd, judges_usd)
            self._done += 1
            self._run += not is_known
            if kind is not None and not of_base:
                self._kinds[kind] += 1
            message = ""
            if isinstance(outcome, AgentFailure):
                role = "simulated user" if outcome.kind is FailureKind.SIMULATOR else "agent"
                message = f"{'the base: ' if of_base else ''}the {role} failed: {outcome.message}"
                self._failures[message] += 1
            is_new = self._failures[message] == 1
            self._show_trial(f"{key}: {message}" if is_new else "", is_known=is_known)

    def _show_beginning(self, *, is_repeated: bool) -> None:
        """Show that trials begin; `is_repeated`: for the same reason as before."""

    def _show_trial(self, new_failure: str, *, is_known: bool) -> None:
        """Show a trial. `new_failure`: the failure of its agent, at its first occurrence."""

    def _state(self, first_text: str) -> str:
        """One line, after `first_text`: verdicts, rate, cost, and failures of the agent."""
        failures = sum(self._failures.values())
        kinds = (
            f"{self._kinds[kind]:,} {kind.value.replace('_', ' ')}"
            for kind in VerdictKind
            if self._kinds[kind]
        )
        texts = (
            first_text,
            *kinds,  # `30 pass`, `2 fail`
            self._pace(),
            self._cost(),
            words.counted(failures, "agent failure") if failures else "",
        )
        return ", ".join(filter(None, texts))

    def _pace(self) -> str:
        """`2.5/s, about 40 s left`; "" if it is unknown, or no trial is left."""
        seconds = time.monotonic() - self._counted_from
        remaining_trials = self._total - self._done
        if seconds < ENOUGH_S or not self._run or remaining_trials <= 0:
            return ""
        rate = self._run / seconds
        rate_text = f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min"
        return f"{rate_text}, about {words.seconds(round(remaining_trials / rate))} left"

    def _cost(self) -> str:
        """`$0.12 of about $0.40`, judges included; "" if nothing is known of it."""
        usd = self._agents_usd + self._judges_usd
        if not usd or not self._pace() or self._reason:
            return words.dollars(usd) if usd else ""
        whole = usd * (self._run + self._total - self._done) / self._run
        return f"{words.dollars(usd)} of about {words.dollars(whole)}"


class PlainWatcher(_ProgressWatcher):
    """A line at the start, one every few seconds, one at the end; and each kind of agent failure
    once. With `times` also the time until the end of the first trial. `show_progress` gets the
    number of trials that ended and of all, every few seconds."""

    def __init__(
        self,
        stream: TextIO,
        *,
        every_s: float = PLAIN_EVERY_S,
        times: bool = False,
        show_progress: Callable[[int, int], object] | None = None,
    ) -> None:
        super().__init__()
        self._show_progress = show_progress
        self._stream = stream
        self._every_s = every_s
        self._last_line_at = 0.0
        """Monotonic, as all times here."""
        self._first_started_at = time.monotonic() if times else None
        """None if the time until the first trial's end is not shown, or was shown."""

    def _show_beginning(self, *, is_repeated: bool) -> None:
        """A line, unless the same reruns go on; the next line is due after the usual pause."""
        self._last_line_at = time.monotonic()
        if not is_repeated:
            self.say(self._reason or f"running {words.counted(self._total, 'trial')}")

    def _show_trial(self, new_failure: str, *, is_known: bool) -> None:
        """A line for a new failure, and one for the state if that is due."""
        moment = time.monotonic()
        if self._first_started_at is not None and not is_known:
            self.say(f"time: first trial after {moment - self._first_started_at:.1f} s")
            self._first_started_at = None
        if new_failure:
            self.say(new_failure)
        is_last = not self._reason and self._done >= self._total
        if moment - self._last_line_at >= self._every_s and not is_last:
            self._last_line_at = moment
            self._say_state()
            if self._show_progress is not None:
                self._show_progress(self._done, self._total)

    def say(self, line: str) -> None:
        """See Watcher. The line hides nothing and is not a workflow command, whatever it
        contains."""
        self._stream.write(plain.disarm(plain.one_line(line)) + "\n")
        self._stream.flush()

    def end(self) -> None:
        """See Watcher; reruns go on for some rounds, and the report tells of them."""
        if not self._reason:
            self._say_state()

    def _say_state(self) -> None:
        """A line with the number of ended trials, the time, and the rest of the state."""
        noun = " reruns" if self._reason else ""
        seconds = words.seconds(time.monotonic() - self._started)
        self.say(self._state(f"{self._done}/{self._total}{noun} in {seconds}"))


class LiveWatcher(_ProgressWatcher):
    """A progress bar with scores, rate, cost and the remaining time."""

    def __init__(self, stream: TextIO) -> None:
        """Imports rich only here: it takes a twentieth of a second to load, and a log does not need
        it."""
        from rich import progress  # noqa: PLC0415 - as said above
        from rich.console import Console  # noqa: PLC0415 - as said above
        from rich.table import Column  # noqa: PLC0415 - as said above

        super().__init__()
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
        """The bar; None before the first trials."""

    def _show_beginning(self, *, is_repeated: bool) -> None:  # noqa: ARG002 - of lines
        """Replace the bar by one that counts the new trials, too."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._progress.start()
        self._task = self._progress.add_task(self._reason, total=self._total, completed=self._done)

    def _show_trial(self, new_failure: str, *, is_known: bool) -> None:  # noqa: ARG002 - of lines
        """Move the bar; a failure is only counted, as there is no room for its message."""
        if self._task is not None:
            description = self._state(self._reason)
            self._progress.update(self._task, advance=1, description=description)

    def say(self, line: str) -> None:
        """See Watcher."""
        self._progress.console.print(plain.one_line(line), markup=False, highlight=False)

    def end(self) -> None:
        """See Watcher."""
        self._progress.stop()
