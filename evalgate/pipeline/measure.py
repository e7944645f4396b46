"""Measuring one side, or both side by side: trials and grades, from the journals where they are known, into Runs."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Collection, Container, Iterator, Sequence
from datetime import datetime

from evalgate.model import FRESH, Run, TrialKey
from evalgate.pipeline import fingerprints, trials
from evalgate.pipeline.abreast import Abreast
from evalgate.pipeline.budget import Budget
from evalgate.pipeline.desk import Addresses, Bench, Desk, Side
from evalgate.pipeline.trials import Task


class Measuring:
    """Sides that are measured together: the same cases, the same criteria, trials of all sides interleaved.

    Trials that a side's journal holds are not run again, grades that it holds are not asked for again. When `stop` is
    set (Ctrl-C), what is running ends and the Runs are marked incomplete; when the budget is spent, no trial is begun
    any more and the Runs are marked truncated.
    """

    def __init__(self, sides: Sequence[Side], bench: Bench, *, seed: int, now: datetime) -> None:
        self._sides = tuple(sides)
        self._bench = bench
        self._seed = seed
        self._now = now
        self._started = time.monotonic()
        self._budget = Budget(bench.limits)
        self._desks = [Desk(side, bench, budget=self._budget, seed=seed) for side in self._sides]
        self._repeats = 0
        self._more = 0
        self._repeated: frozenset[tuple[str, str]] = frozenset()
        self._wanted = 0
        self._fresh = 0
        self._idle: frozenset[int] = frozenset()
        self._cut_off = False

    def first(self, repeats: int) -> None:
        """Run every case `repeats` times. Raises UnavailableError when a journal cannot be written: what cannot be
        kept must not be paid for."""
        self._repeats = repeats
        self._carry_out(range(repeats), only=None)

    def again(self, cases: Collection[tuple[str, str]], *, more: int) -> None:
        """Run these cases `more` times more on every side. Raises as `first` does."""
        self._more, self._repeated = more, frozenset(cases)
        self._carry_out(range(self._repeats, self._repeats + more), only=self._repeated)

    def confirm(self, cases: Collection[tuple[str, str]], *, side: int | None = None) -> None:
        """One fresh run of these cases on every side, or on one, which is in no mean. Raises as `first` does."""
        self._fresh += 1
        self._idle = frozenset() if side is None else frozenset(range(len(self._sides))) - {side}
        self._carry_out([FRESH + self._fresh - 1], only=frozenset(cases))
        self._idle = frozenset()

    @property
    def goes_on(self) -> bool:
        """Whether the budget lasts. What is asked for after Ctrl-C does not run, and makes the Runs incomplete."""
        return not self._budget.ended

    @property
    def unpriced(self) -> frozenset[str]:
        """Models whose price is not known: a budget in dollars cannot count them."""
        return frozenset(self._budget.unpriced)

    def knows(self, task: Task) -> bool:
        """Whether the side's journal has this trial."""
        return self._sides[task.side].journal.knows(self.addresses(task).trial)

    def addresses(self, task: Task) -> Addresses:
        """Where the side's journal keeps what comes of a task."""
        return self._desks[task.side].addresses(task)

    def keys(self, side: int) -> frozenset[TrialKey]:
        """The trials that a side has, fresh ones aside."""
        return frozenset(self._desks[side].graded)

    def setting(self, task: Task, criterion: str) -> str:
        """The fingerprint of a criterion's settings."""
        return self._desks[task.side].setting(task, criterion)

    def fingerprint(self, task: Task) -> str:
        """The fingerprint of the case, references and rubrics included."""
        return self._desks[task.side].fingerprint(
            task, asked=fingerprints.of_task(task.case, simulator=task.suite.simulator)
        )

    def run(self, side: int) -> Run:
        """What a side gave until now."""
        desk, of = self._desks[side], self._sides[side]
        keys = [
            TrialKey(suite=suite.key, case_id=case.case_id, repeat=repeat)
            for suite in of.suites
            for case in suite.eval_set.cases
            if (suite.key, case.case_id) not in of.skipped
            for repeat in self._repeats_of(suite.key, case.case_id)
        ]
        return Run(
            suites=of.suites,
            trials=tuple(desk.graded[key] for key in keys if key in desk.graded),
            transcripts=of.journal,
            repeats=self._repeats,
            more=self._more,
            repeated=self._repeated,
            confirmations=tuple(sorted(desk.fresh, key=lambda trial: trial.key)),
            truncated=self._budget.ended,
            seed=self._seed,
            started_at=self._now.isoformat(timespec="seconds"),
            seconds=time.monotonic() - self._started,
            complete=not self._cut_off,
            agents={key: dict(agent.about()) for key, agent in of.agents.items()},
            fingerprints=desk.fingerprints,
            codes=desk.codes,
            models=frozenset(desk.models),
        )

    def _is_skipped(self, task: Task) -> bool:
        return task.side in self._idle or (task.suite.key, task.case.case_id) in self._sides[task.side].skipped

    def _repeats_of(self, suite: str, case_id: str) -> range:
        return range(self._repeats + (self._more if (suite, case_id) in self._repeated else 0))

    def _carry_out(self, repeats: Sequence[int], *, only: Container[tuple[str, str]] | None) -> None:
        bench = self._bench
        cases = [
            (suite.key, case.case_id)
            for suite in self._sides[0].suites
            for case in suite.eval_set.cases
            if only is None or (suite.key, case.case_id) in only
        ]
        planned = [
            0 if at in self._idle else sum(case not in side.skipped for case in cases) * len(repeats)
            for at, side in enumerate(self._sides)
        ]
        wanted, before = sum(planned), self._served()
        if bench.stop.is_set():
            self._cut_off = self._cut_off or wanted > 0
            return
        bench.watcher.begin(trials=wanted, done=0)
        try:
            order = self._order(repeats, only=only, planned=planned) if len(self._sides) > 1 else None
            results = trials.map_bounded(
                lambda task: self._serve(task, order),
                order or self._tasks(repeats, only=only),
                threads=bench.concurrency,
                stop=bench.stop,
                abort=self._close,
            )
            with contextlib.closing(results):
                for _ in results:
                    pass
        except KeyboardInterrupt:
            bench.stop.set()
            bench.watcher.say("Interrupted. Completed runs are saved; continue with --resume")
        finally:
            bench.watcher.end()
            self._cut_off = self._cut_off or (bench.stop.is_set() and self._served() - before < wanted)

    def _tasks(self, repeats: Sequence[int], *, only: Container[tuple[str, str]] | None) -> Iterator[Task]:
        every = trials.tasks([side.suites for side in self._sides], repeats, only=only)
        return (task for task in every if not self._is_skipped(task))

    def _order(
        self, repeats: Sequence[int], *, only: Container[tuple[str, str]] | None, planned: Sequence[int]
    ) -> Abreast:
        """`planned`: how many trials each side is to have."""
        known: set[tuple[int, TrialKey]] = set()
        if any(side.journal.trials or side.absent for side in self._sides):
            known.update((task.side, task.key) for task in self._tasks(repeats, only=only) if self._is_quick(task))
        kept = Counter(side for side, _ in known)
        return Abreast(
            self._tasks(repeats, only=only),
            left=[number - kept[side] for side, number in enumerate(planned)],
            known=lambda task: (task.side, task.key) in known,
            at_once=self._bench.concurrency,
            stop=self._bench.stop,
        )

    def _is_quick(self, task: Task) -> bool:
        """Whether no agent is asked: the trial is known, or there is nobody to ask."""
        return task.suite.key in self._sides[task.side].absent or self.knows(task)

    def _serve(self, task: Task, order: Abreast | None) -> None:
        try:
            self._desks[task.side].serve(task)
        finally:
            if order is not None:
                order.done(task)

    def _served(self) -> int:
        return sum(len(desk.graded) + len(desk.fresh) for desk in self._desks)

    def _close(self) -> None:
        self._bench.call_off()
        for side in self._sides:
            for agent in side.agents.values():
                agent.close()
