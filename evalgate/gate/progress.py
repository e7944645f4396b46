"""Progress while trials run: lines for a log, a progress bar at a terminal."""

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
"""Terminals with fewer columns need the room for words."""
ENOUGH_S = 2.0
"""The time after which a rate is shown."""
KIND_WORDS = {
    VerdictKind.PASS: "pass",
    VerdictKind.FAIL: "fail",
    VerdictKind.NOT_MEASURED: "not measured",
    VerdictKind.INCONCLUSIVE: "inconclusive",
}


def watch(stream: TextIO) -> Watcher:
    """The watcher that suits the stream."""
    return LiveWatcher(stream) if stream.isatty() else PlainWatcher(stream)


class _Progress:
    """The progress of trials: their scores and their rate."""

    def __init__(self) -> None:
        self.total = self.done = 0
        self.kinds: Counter[VerdictKind] = Counter()
        self.failures: Counter[str] = Counter()
        self.reason = ""
        self._agents_usd = self._judges_usd = 0.0
        self._run = 0
        self._started = self._counted_from = time.monotonic()

    def begin(self, *, trials: int, done: int, reason: str) -> bool:
        """Begin to count trials anew, except for the next round of the same reruns; True if there
        is a line to say of them."""
        is_said = reason != self.reason or not reason
        is_round = reason.partition(" ")[0] == self.reason.partition(" ")[0] != ""
        self.reason = reason
        if is_round:
            self.total += trials
            self.done += done
            return is_said
        self.kinds.clear()
        self.total = trials
        self.done = done
        self._run = 0
        self._started = self._counted_from = time.monotonic()
        return is_said

    def add(
        self,
        outcome: Outcome,
        seconds: float,
        *,
        of_base: bool,
        kind: VerdictKind | None,
        is_known: bool,
        judges_usd: float = 0.0,
    ) -> str:
        """Count a trial; return the message of an agent failure at its first occurrence."""
        if not is_known:
            self._agents_usd += sum(cost or 0.0 for _, _, cost in budget.costs_of(outcome))
        self._judges_usd = max(self._judges_usd, judges_usd)
        # the time before it was installation, which later trials do not need
        if not self._run and not is_known:
            self._counted_from = max(self._started, time.monotonic() - seconds)
        self.done += 1
        self._run += not is_known
        if kind is not None and not of_base:
            self.kinds[kind] += 1
        if not isinstance(outcome, AgentFailure):
            return ""
        role = "simulated user" if outcome.kind is FailureKind.SIMULATOR else "agent"
        message = f"{'the base: ' if of_base else ''}the {role} failed: {outcome.message}"
        self.failures[message] += 1
        return message if self.failures[message] == 1 else ""

    @property
    def seconds(self) -> float:
        """Seconds since these trials began."""
        return time.monotonic() - self._started

    def counts(self) -> str:
        """`30 pass, 2 fail, 1 not measured`; "" if nothing was scored yet."""
        return ", ".join(
            f"{self.kinds[kind]:,} {word}" for kind, word in KIND_WORDS.items() if self.kinds[kind]
        )

    def pace(self) -> str:
        """`2.5/s, about 40 s left`; "" if it is unknown, or no trial is left."""
        seconds = time.monotonic() - self._counted_from
        remaining_trials = self.total - self.done
        if seconds < ENOUGH_S or not self._run or remaining_trials <= 0:
            return ""
        rate = self._run / seconds
        rate_text = f"{rate:.1f}/s" if rate >= 1 else f"{rate * 60:.1f}/min"
        return f"{rate_text}, about {words.seconds(round(remaining_trials / rate))} left"

    def cost(self) -> str:
        """`$0.12 of about $0.40`, judges included; "" if nothing is known of it."""
        usd = self._agents_usd + self._judges_usd
        if not usd or not self.pace() or self.reason:
            return words.dollars(usd) if usd else ""
        whole = usd * (self._run + self.total - self.done) / self._run
        return f"{words.dollars(usd)} of about {words.dollars(whole)}"


class PlainWatcher:
    """A line at the start, one every few seconds, one at the end; and each kind of agent failure
    once. With `times` also the time until the end of the first trial."""

    def __init__(
        self, stream: TextIO, *, every_s: float = PLAIN_EVERY_S, times: bool = False
    ) -> None:
        self._stream = stream
        self._every_s = every_s
        self._lock = threading.Lock()
        self._tally = _Progress()
        self._last_line_at = 0.0
        self._first_started_at = time.monotonic() if times else None

    def begin(self, *, trials: int, done: int, reason: str = "") -> None:
        """See Watcher."""
        is_said = self._tally.begin(trials=trials, done=done, reason=reason)
        self._last_line_at = time.monotonic()
        if is_said:
            self.say(reason or f"running {words.counted(trials, 'trial')}")

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
            new_failure = self._tally.add(
                outcome,
                seconds,
                of_base=of_base,
                kind=kind,
                is_known=is_known,
                judges_usd=judges_usd,
            )
            moment = time.monotonic()
            is_last = not self._tally.reason and self._tally.done >= self._tally.total
            is_due = moment - self._last_line_at >= self._every_s and not is_last
            self._last_line_at = moment if is_due else self._last_line_at
            first_started_at = self._first_started_at
            if not is_known:
                self._first_started_at = None
        if first_started_at is not None and not is_known:
            self.say(f"time: first trial after {moment - first_started_at:.1f} s")
        if new_failure:
            self.say(f"{key}: {new_failure}")
        if is_due:
            self.say(self._state())

    def say(self, line: str) -> None:
        """See Watcher. The line hides nothing and is not a workflow command, whatever it
        contains."""
        self._stream.write(workflow_commands.disarm(plain.one_line(line)) + "\n")
        self._stream.flush()

    def end(self) -> None:
        """See Watcher; reruns go on for some rounds, and the report tells of them."""
        if not self._tally.reason:
            self.say(self._state())

    def _state(self) -> str:
        tally = self._tally
        failures = sum(tally.failures.values())
        texts = (
            f"{tally.done}/{tally.total}{' reruns' if tally.reason else ''} in {words.seconds(tally.seconds)}",
            tally.counts(),
            tally.pace(),
            tally.cost(),
            words.counted(failures, "agent failure") if failures else "",
        )
        return ", ".join(text for text in texts if text)


class LiveWatcher:
    """A progress bar with scores, rate, cost and the remaining time."""

    def __init__(self, stream: TextIO) -> None:
        # it takes a twentieth of a second to load, and a log does not need it
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
        self._tally = _Progress()

    def begin(self, *, trials: int, done: int, reason: str = "") -> None:
        """See Watcher."""
        tally = self._tally
        tally.begin(trials=trials, done=done, reason=reason)
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._progress.start()
        self._task = self._progress.add_task(reason, total=tally.total, completed=tally.done)

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
        with self._lock:
            self._tally.add(
                outcome,
                seconds,
                of_base=of_base,
                kind=kind,
                is_known=is_known,
                judges_usd=judges_usd,
            )
            self._progress.update(self._task, advance=1, description=self._state())

    def say(self, line: str) -> None:
        """See Watcher."""
        self._progress.console.print(plain.one_line(line), markup=False, highlight=False)

    def end(self) -> None:
        """See Watcher."""
        self._progress.stop()

    def _state(self) -> str:
        tally = self._tally
        failures = sum(tally.failures.values())
        texts = (
            tally.reason,
            tally.counts(),
            tally.pace(),
            tally.cost(),
            words.counted(failures, "agent failure") if failures else "",
        )
        return ", ".join(text for text in texts if text)
