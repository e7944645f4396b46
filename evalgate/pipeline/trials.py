"""Running the trials: one bounded thread map, fair order, retries of infrastructure errors only."""

from __future__ import annotations

import dataclasses
import queue
import random
import threading
import traceback
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from evalgate.agents.base import Agent, AgentFailed
from evalgate.model import (
    INFRASTRUCTURE,
    AgentFailure,
    AgentUse,
    Case,
    FailureKind,
    Invocation,
    Outcome,
    Suite,
    Trial,
    TrialKey,
)
from evalgate.pipeline import fingerprints, pacing, talking
from evalgate.pipeline.pacing import Pace
from evalgate.pipeline.talking import Simulate
from evalgate.pipeline.timing import Stopwatch, TimedConversation
from evalgate.plugins import UserSimulator
from evalgate.text import words

Item = TypeVar("Item")
Result = TypeVar("Result")

BACKOFF_S = 2.0
BACKOFF_CEILING_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One trial to run; `side`: the position of its side among those that are measured together."""

    key: TrialKey
    suite: Suite
    case: Case
    side: int = 0


def tasks(
    sides: Sequence[Sequence[Suite]], repeats: Iterable[int], *, only: Container[tuple[str, str]] | None = None
) -> Iterator[Task]:
    """The trials with the numbers `repeats` of every case, or of those in `only` (suite key, case id).

    The order is fair: all cases once, then all a second time, and each case on one side right after the other, so that
    a drifting provider or a budget that runs out hits all cases and both sides alike. Sides have the same suites, in
    the same order, with the same cases.
    """
    for repeat in repeats:
        for suites in zip(*sides, strict=True):
            for cases in zip(*(suite.eval_set.cases for suite in suites), strict=True):
                for side, (suite, case) in enumerate(zip(suites, cases, strict=True)):
                    if only is None or (suite.key, case.case_id) in only:
                        key = TrialKey(suite=suite.key, case_id=case.case_id, repeat=repeat)
                        yield Task(key=key, suite=suite, case=case, side=side)


@dataclass(frozen=True, slots=True)
class _Raised:
    """What a thread ended with instead of a result."""

    error: BaseException


_NO_MORE: Final = object()
_LEFT: Final = object()


def map_bounded(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    threads: int,
    stop: threading.Event,
    abort: Callable[[], None],
) -> Generator[Result, None, None]:
    """Apply `function` to `items` on `threads` threads, yielding results as they come, but for None.

    A thread takes its next item when it is done with the last, so no more than `threads` are under way. When `stop`
    is set no further item is begun. When anything is raised here (by `function`, by Ctrl-C, by closing this
    generator), `stop` is set and `abort` is called, which makes what is running end soon; all threads have ended
    when the exception leaves.
    """
    source, taking = iter(items), threading.Lock()
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def work() -> None:
        try:
            while not stop.is_set():
                with taking:
                    item = next(source, _NO_MORE)
                if item is _NO_MORE:
                    break
                result = function(cast("Item", item))
                if result is not None:  # every one of them wakes the thread that asked
                    results.put(result)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked
            results.put(_Raised(error))
        finally:
            results.put(_LEFT)

    workers: list[threading.Thread] = []
    try:  # from here on: Ctrl-C may come while threads are still being started
        for number in range(threads):
            worker = threading.Thread(target=work, name=f"trial-{number}")
            workers.append(worker)
            worker.start()
        yield from _until_all_left(results, threads)
    except BaseException:
        stop.set()
        abort()
        raise
    finally:
        for worker in workers:
            if worker.ident is not None:
                worker.join()


def _until_all_left(results: queue.SimpleQueue[Any], threads: int) -> Generator[Any, None, None]:
    left = 0
    while left < threads:
        result = results.get()
        if result is _LEFT:
            left += 1
        elif isinstance(result, _Raised):
            raise result.error
        else:
            yield result


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRunner:
    """Runs one trial with the agent that its suite names.

    `retries`: further tries after an infrastructure failure, with growing, jittered pauses. `stop`: set when the
    run is to end, which also cuts pauses short. `simulate` makes the user of a trial. `pace` decides when a try starts.
    """

    agents: Mapping[str, Agent]
    retries: int
    stop: threading.Event
    say: Callable[[str], None]
    simulate: Simulate = talking.written
    pace: Pace = pacing.unpaced
    pause_s: float = BACKOFF_S

    def run(self, task: Task) -> Trial:
        """The trial, however it ended, with the agent's own time; never raises for what an agent does."""
        watch = Stopwatch()
        outcome: Outcome = self._try(task, watch)
        attempts = 1
        while isinstance(outcome, AgentFailure) and outcome.kind in INFRASTRUCTURE and attempts <= self.retries:
            pause_s = _pause_s(outcome, self.pause_s * 2 ** (attempts - 1))
            self.say(f"{task.key}: {outcome.message}; retrying in {words.seconds(pause_s)}")
            if self.stop.wait(pause_s):
                break
            attempts += 1
            outcome = self._try(task, watch)
        return Trial(key=task.key, outcome=outcome, seconds=watch.seconds, attempts=attempts)

    def _try(self, task: Task, watch: Stopwatch) -> Outcome:
        return self.pace(agent_key(task.suite.agent), lambda: self._attempt(task, watch))

    def _attempt(self, task: Task, watch: Stopwatch) -> Outcome:
        try:
            user = self.simulate(task.suite, task.case, task.key)
            return converse(self.agents[agent_key(task.suite.agent)], task, user, watch)
        except AgentFailed as failed:
            return failed.failure
        except Exception as error:  # noqa: BLE001 - the wall of one trial: a fault of a driver must not end the run
            return AgentFailure(
                kind=FailureKind.RAISED,
                message=f"the driver {task.suite.agent.driver!r} failed: {type(error).__name__}: {error}",
                detail=traceback.format_exc(limit=-8),
            )


def _pause_s(failure: AgentFailure, backoff_s: float) -> float:
    """With jitter; no shorter than the provider asks for, within the ceiling."""
    asked_s = min(failure.retry_after_s or 0.0, BACKOFF_CEILING_S)
    return max(asked_s, min(backoff_s, BACKOFF_CEILING_S) * random.uniform(0.5, 1.5))  # noqa: S311 - jitter


def agent_key(use: AgentUse) -> str:
    """Equal uses are one agent."""
    known = _KEYS.get(id(use))
    if known is None or known[0] is not use:
        known = use, fingerprints.digest([use.driver, dict(use.options)])
        if len(_KEYS) < KEYS_KEPT:
            _KEYS[id(use)] = known
    return known[1]


KEYS_KEPT = 1024
_KEYS: Final[dict[int, tuple[AgentUse, str]]] = {}
"""By the uses' ids, since options cannot be hashed: every trial asks, and a run has a few uses."""


def converse(agent: Agent, task: Task, user: UserSimulator, watch: Stopwatch) -> Outcome:
    """Let the case's user talk to a fresh session of the agent, which `watch` times. Raises AgentFailed."""
    done: list[Invocation] = []
    try:
        with agent.converse(task.case, task.key) as conversation:
            return talking.talk(TimedConversation(conversation, watch), user, done)
    except AgentFailed as failed:
        failure = failed.failure
        turn = failure.turn if failure.turn is not None else _turn_of(failure, done)
        raise AgentFailed(dataclasses.replace(failure, turn=turn, partial=tuple(done))) from failed


def _turn_of(failure: AgentFailure, done: list[Invocation]) -> int | None:
    before_any_turn = failure.kind in {FailureKind.INSTALL, FailureKind.START}
    # a driver that tells what was answered and names no turn: all were, and ending the session went wrong
    return None if before_any_turn or failure.partial else len(done) + 1
