"""Which trial is next where sides are measured together: so that each side runs under the conditions of the other."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from evalgate.pipeline.trials import Task

LEAD = 2
"""How many times the trials at once a side may be ahead of another: a side that is slower is not to be starved, and
a drifting provider, or a budget that runs out, is to hit both alike."""


@dataclass(slots=True)
class _Lane:
    """A side. `left`: trials of it that are still to be run, known ones not counted; `begun`: those that were begun."""

    left: int
    waiting: deque[tuple[int, Task]] = field(default_factory=deque)
    begun: int = 0
    under_way: int = 0


class Abreast(Iterator[Task]):
    """Hands out the tasks of sides that are measured together, to many threads; each is given back by `done`.

    An agent that holds eight conversations answers each later than one that holds two, where both are bound by their
    processor. So no side has more than its share of `at_once` under way while another runs or is about to, nor while it
    catches up with one that is through; in one queue for all, the side that happens to be slower gathers ever more.
    Trials that are `known` are handed out as they come and count as nothing. A thread that finds all shares taken
    waits; `stop` ends that once a task is given back.

    `tasks`: of all sides, in a fair order. `left`: how many of them each side has to run.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        *,
        left: Sequence[int],
        known: Callable[[Task], bool],
        at_once: int,
        stop: threading.Event,
    ) -> None:
        self._source = enumerate(tasks)
        self._lanes = [_Lane(left=number) for number in left]
        self._known = known
        self._share = math.ceil(at_once / len(left))
        self._lead = LEAD * at_once
        self._stop = stop
        self._changed = threading.Condition()
        self._running: set[int] = set()

    def __next__(self) -> Task:
        """The next task; waits for one that may begin. Raises StopIteration when there is none left, or at `stop`."""
        with self._changed:
            while not self._stop.is_set():
                waiting = [lane for lane in self._lanes if self._fill(lane)]
                if not waiting:
                    break
                waiting.sort(key=lambda lane: lane.waiting[0][0])
                foremost = waiting[0].waiting[0][0]
                for lane in waiting:
                    order, task = lane.waiting[0]
                    if order - foremost <= self._lead and self._begin(lane, task, foremost=foremost):
                        lane.waiting.popleft()
                        return task
                self._changed.wait()
        raise StopIteration

    def done(self, task: Task) -> None:
        """Give back a task that was handed out."""
        with self._changed:
            if id(task) in self._running:
                self._running.remove(id(task))
                self._lanes[task.side].under_way -= 1
            self._changed.notify_all()

    def _fill(self, lane: _Lane) -> bool:
        """Whether there is a next task of the side, found in what is still to come of all."""
        while not lane.waiting:
            order, task = next(self._source, (-1, None))
            if task is None:
                return False
            self._lanes[task.side].waiting.append((order, task))
        return True

    def _begin(self, lane: _Lane, task: Task, *, foremost: int) -> bool:
        """Whether the task may begin now; if so, it is counted."""
        if self._known(task):
            return True
        others = [other for other in self._lanes if other is not lane]
        if lane.under_way >= self._share and any(self._abreast(lane, other, foremost) for other in others):
            return False
        lane.left -= 1
        lane.begun += 1
        lane.under_way += 1
        self._running.add(id(task))
        return True

    def _abreast(self, lane: _Lane, other: _Lane, foremost: int) -> bool:
        """Whether the other side runs, is about to, or was faster and waits, or is through before this one."""
        if other.under_way or lane.begun < other.begun:
            return True
        if not other.waiting:
            return False
        order, task = other.waiting[0]
        return order - foremost <= self._lead and not self._known(task)
