"""Run one trial, from its first turn to its outcome; and choose the next trial if sides are
measured together."""

from __future__ import annotations

import math
import random
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TypeAlias, TypeVar

from evalgate.agents.base import Agent, AgentFailed, Stopwatch
from evalgate.judges.rate_limit import Pace
from evalgate.model import (
    INFRASTRUCTURE,
    UNANSWERED,
    AgentFailure,
    Case,
    CaseKey,
    Content,
    Event,
    FailureKind,
    Invocation,
    Outcome,
    Part,
    Purpose,
    Suite,
    ToolCall,
    ToolResponse,
    Transcript,
    Trial,
    TrialKey,
)
from evalgate.simulation.user import Simulate, UserSimulator
from evalgate.text import words
from evalgate.values import Json, frozen_dataclass

Item = TypeVar("Item")

BACKOFF_S = 2.0
"""The first pause after an infrastructure failure; it doubles with each further one."""
BACKOFF_CEILING_S = 60.0
"""The longest pause, without its jitter."""
LONGEST_RETRY_AFTER_S = 3600.0
"""A provider that asks for a longer pause than this (a daily quota) is not asked again in this
run."""
WAIT_S = 0.5
"""Between two looks at ended threads, so that a Ctrl-C is handled soon."""


@frozen_dataclass
class Task:
    """One trial to run."""

    key: TrialKey
    suite: Suite
    case: Case
    side: int = 0
    """The position of its side among those that are measured together."""


HEADS_CHANCE = 0.5
"""Of head to run before the base; only equal chances make the bets fair."""
Round: TypeAlias = tuple[Purpose, int]
"""One run of each case: its purpose and its number."""


def first_rounds(repeats: int) -> list[Round]:
    """The first rounds of every case."""
    return [(Purpose.FIRST, number) for number in range(repeats)]


def tasks(
    sides: Sequence[Sequence[Suite]],
    rounds: Iterable[Round],
    *,
    only: Container[CaseKey] | None = None,
    coin: Callable[[], float] = random.random,
) -> Iterator[Task]:
    """The trials of these rounds: of every case, or of the cases in `only`.

    The order is fair: all cases once, then all a second time, and each case on one side right after
    the other. So a drifting provider or a budget that runs out affects all cases and both sides
    equally. The `coin` decides which side of a pair comes first; only this makes the bets of the
    purse fair. Sides have the same suites, in the same order, with the same cases."""
    for purpose, number in rounds:
        for suites in zip(*sides, strict=True):
            for cases in zip(*(suite.cases for suite in suites), strict=True):
                order = list(enumerate(zip(suites, cases, strict=True)))
                for side, (suite, case) in order if coin() < HEADS_CHANCE else reversed(order):
                    key = TrialKey(
                        suite=suite.key, case_id=case.case_id, purpose=purpose, number=number
                    )
                    if only is None or key.case in only:
                        yield Task(key=key, suite=suite, case=case, side=side)


def run_bounded(
    function: Callable[[Item], None],
    items: Iterable[Item],
    *,
    threads: int,
    stop: threading.Event,
    abort: Callable[[], None],
) -> None:
    """Call `function` with each of `items` on `threads` threads.

    Each thread takes its next item when it has finished its last, so at most `threads` are running.
    When `stop` is set, no further item begins. If an exception is raised here (by `function`, by
    Ctrl-C), `stop` is set and `abort` is called, which soon ends running items. All threads have
    ended when the exception leaves."""
    source = iter(items)
    lock = threading.Lock()

    def work() -> None:
        """The loop of one thread, until no item is left or `stop` is set."""
        try:
            while not stop.is_set():
                with lock:
                    item = next(source, None)
                if item is None:
                    break
                function(item)
        except BaseException:
            # set it here, so that no other thread begins an item that would be lost
            stop.set()
            raise

    with ThreadPoolExecutor(threads, thread_name_prefix="trial") as pool:
        try:
            running = {pool.submit(work) for _ in range(threads)}
            while running:
                # another thread may receive the signal of a Ctrl-C, and Python handles it in this
                # thread only after its wait ends, so waits are short
                ended, running = wait(running, timeout=WAIT_S, return_when=FIRST_EXCEPTION)
                for worker in ended:
                    worker.result()
        except BaseException:
            stop.set()
            abort()
            raise


@frozen_dataclass
class TrialRunner:
    """Runs one trial at a time with the agent that its suite names."""

    retries: int
    """Further attempts after an infrastructure failure, with growing, jittered pauses."""
    stop: threading.Event
    """Set when the run is to end; it also ends pauses."""
    simulate: Simulate
    """Makes the user of a trial."""
    pace: Pace
    """Decides when an attempt starts."""
    pause_s: float = BACKOFF_S
    """The first pause."""
    say_once: Callable[[str], object] = lambda _: None
    """Logs a text the first time only."""

    def run(self, task: Task, agents: Mapping[str, Agent]) -> Trial:
        """The trial, however it ended, with the agent's own time in seconds. Never raises for an
        agent's behavior. `agents`: by `AgentUse.key`."""
        watch = Stopwatch()
        attempts = 0
        key = task.suite.agent.key
        while True:
            attempts += 1
            outcome = self.pace(key, lambda: self._attempt(task, agents[key], watch))
            if (
                not isinstance(outcome, AgentFailure)
                or outcome.kind not in INFRASTRUCTURE
                or attempts > self.retries
                or (outcome.retry_after_s or 0.0) > LONGEST_RETRY_AFTER_S
            ):
                break
            # at least as long as the provider asks, up to the ceiling
            backoff_s = min(self.pause_s * 2 ** (attempts - 1), BACKOFF_CEILING_S)
            retry_after_s = min(outcome.retry_after_s or 0.0, BACKOFF_CEILING_S)
            pause_s = max(retry_after_s, backoff_s * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
            self.say_once(
                f"{outcome.message}; retrying, at most {words.counted(self.retries, 'time')} a run"
            )
            if self.stop.wait(pause_s):
                break
        return Trial(key=task.key, outcome=outcome, seconds=watch.seconds, attempts=attempts)

    def _attempt(self, task: Task, agent: Agent, watch: Stopwatch) -> Outcome:
        """The outcome of one attempt; an error of the driver is a failure, too."""
        try:
            with watch:
                transcript = agent.play(task.case, task.key)
            if transcript is not None:
                return transcript
            user = self.simulate(task.suite, task.case, task.key)
            return converse(agent, task, user, watch, say=self.say_once)
        except AgentFailed as failed:
            return failed.failure
        except Exception as error:  # noqa: BLE001 - the wall of one trial: a fault of a driver must not end the run
            return FailureKind.RAISED.failure(
                f"the driver {task.suite.agent.driver!r} failed: {type(error).__name__}: {error}",
                detail=traceback.format_exc(limit=-8),
            )


FAILURES_OF_DOWN = 3
"""One after another; a service that answers some calls is not down."""


class Outage:
    """Whether the services of an agent are down: they have never answered, and `FAILURES_OF_DOWN`
    trials failed one after another. Trials that run at the same time count as one. Thread-safe.

    `failure`: the last one if they are down. An answer ends it for good."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        """Failures one after another."""
        self._latest_end = -math.inf
        """Monotonic: a trial that began before it does not count. Infinite after the first
        answer."""
        self.failure: AgentFailure | None = None

    def note(self, outcome: Outcome, *, started_at: float) -> None:
        """Count a trial that has ended. `started_at`: in `time.monotonic` seconds."""
        with self._lock:
            if (
                not isinstance(outcome, AgentFailure)
                or outcome.partial
                or outcome.kind not in UNANSWERED
            ):
                self._latest_end = math.inf
                self.failure = None
            elif started_at > self._latest_end:
                self._latest_end = time.monotonic()
                self._count += 1
                self.failure = outcome if self._count >= FAILURES_OF_DOWN else None


NAIVE_MESSAGE = "This agent cannot receive earlier turns (docs/agent-protocol.md): goldens run in one session (NAIVE)"
"""Shown once, for isolated cases."""


def converse(
    agent: Agent,
    task: Task,
    user: UserSimulator,
    watch: Stopwatch,
    *,
    say: Callable[[str], object] = lambda _: None,
) -> Outcome:
    """Run the conversation of the case's user with a fresh session of the agent, until the user
    stops. Raises AgentFailed with the turns until then; its kind is SIMULATOR, which never blames
    the agent, if the user has no message.

    `watch` times the agent's part: not the wait for a free worker or for a provider, not the start
    of a worker, and not a simulated user's thinking.

    An `isolated` case has a session for each turn if the agent can receive earlier turns; else it
    has one session."""
    turns: list[Invocation] = []
    try:
        if task.case.isolated:
            if (transcript := _turn_by_turn(agent, task, turns, watch)) is not None:
                return transcript
            say(NAIVE_MESSAGE)
        with agent.converse(task.case, task.key) as conversation:
            while isinstance(message := user(turns), Content):
                with watch:
                    turns.append(conversation.send(message))
            with watch:
                state = conversation.finish()
            return Transcript(invocations=tuple(turns), final_state=state, ended_by=message)
    except AgentFailed as failed:
        failure = failed.failure
        # if a driver reports answers and no turn, all turns were answered, and ending the session
        # failed
        is_of_turn = (
            failure.turn is None
            and failure.kind not in {FailureKind.INSTALL, FailureKind.START}
            and not failure.partial
        )
        turn = len(turns) + 1 if is_of_turn or task.case.isolated else failure.turn
        raise AgentFailed(replace(failure, turn=turn, partial=tuple(turns))) from failed


def _turn_by_turn(
    agent: Agent, task: Task, turns: list[Invocation], watch: Stopwatch
) -> Transcript | None:
    """Run each turn in its own session, after the expected turns before it. None if the agent
    accepts no earlier turns. Raises AgentFailed."""
    state: Json | None = None
    expected_turns = task.case.turns
    for number, turn in enumerate(expected_turns):
        history = tuple(
            _answered(earlier_turn, number=place)
            for place, earlier_turn in enumerate(expected_turns[:number])
        )
        case = replace(task.case, setups=(task.case.setup_of(number),), history=history)
        with agent.converse(case, task.key) as conversation:
            if not conversation.takes_history:
                return None
            with watch:
                invocation = conversation.send(turn.user_content)
                state = conversation.finish()
        turns.append(
            replace(invocation, state=state if invocation.state is None else invocation.state)
        )
    return Transcript(invocations=tuple(turns), final_state=state, isolated=True)


def _answered(turn: Invocation, *, number: int) -> Invocation:
    """An expected turn with a response to each call, and an id for both: models reject a call
    without a response."""
    remaining_responses = list(turn.tool_responses)
    events = []
    for place, event in enumerate(turn.steps):
        content = event.content or Content()
        if any(isinstance(part, ToolResponse) for part in content.parts):
            continue  # added after its call instead
        parts: list[Part] = []
        answers = []
        for index, part in enumerate(content.parts):
            if not isinstance(part, ToolCall):
                parts.append(part)
                continue
            call_id = part.id or f"before-{number}-{place}-{index}"
            parts.append(ToolCall(name=part.name, args=part.args, id=call_id))
            response = next(
                (
                    response
                    for response in remaining_responses
                    if response.name == part.name and response.id in (call_id, None)
                ),
                None,
            )
            if response is not None:
                remaining_responses.remove(response)
            result = {} if response is None else response.response
            answer = ToolResponse(name=part.name, response=result, id=call_id)
            answers.append(
                Event(author=event.author, content=Content(parts=(answer,), role="user"))
            )
        events.append(replace(event, content=Content(parts=tuple(parts), role=content.role)))
        events += answers
    return replace(turn, events=tuple(events))


LEAD = 2
"""How many times `at_once` trials a side may be ahead of another. A slower side must not starve,
and a drifting provider or a spent budget must affect both sides equally."""


class FairTasks(Iterator[Task]):
    """Gives the tasks of sides that are measured together to many threads. A thread returns each
    task with `done`.

    An agent with eight conversations answers each more slowly than one with two, if both are
    limited by their processor. So no side runs more than its share of `at_once` while another side
    runs, is about to run, or is behind; with one queue for all, the slower side would collect ever
    more running trials. Stored trials (`is_known`) are given out at once and do not count. A thread
    waits while all shares are taken; `stop` ends the wait once a task is returned.

    `tasks`: of all sides, in a fair order. `sides`: their number."""

    def __init__(
        self,
        tasks: Iterable[Task],
        *,
        sides: int,
        is_known: Callable[[Task], bool],
        at_once: int,
        stop: threading.Event,
    ) -> None:
        self._waiting: list[deque[tuple[int, Task]]] = [deque() for _ in range(sides)]
        """By side: its queue, each task with its position among those of all sides."""
        self._begun = [0] * sides
        """By side: its trials that began, without stored ones."""
        self._under_way = [0] * sides
        """By side: those of them that have not ended."""
        for position, task in enumerate(tasks):
            self._waiting[task.side].append((position, task))
        self._known = is_known
        self._share = math.ceil(at_once / sides)
        """The most trials of a side while it waits for another one."""
        self._lead = LEAD * at_once
        """Positions that a side may be ahead of another."""
        self._stop = stop
        self._changed = threading.Condition()
        """Notified when a task is returned."""

    def __next__(self) -> Task:
        """The next task; waits until one may begin. Raises StopIteration when no task is left, or
        at `stop`."""
        with self._changed:
            while not self._stop.is_set():
                queues = [queue for queue in self._waiting if queue]
                if not queues:
                    break
                queues.sort(key=lambda queue: queue[0][0])
                first_position = queues[0][0][0]
                for queue in queues:
                    position, task = queue[0]
                    side = task.side
                    if position - first_position > self._lead:
                        continue
                    if not self._known(task):
                        others = (other for other in range(len(self._waiting)) if other != side)
                        if self._under_way[side] >= self._share and any(
                            self._waits_for(side, other, first_position) for other in others
                        ):
                            continue
                        self._begun[side] += 1
                        self._under_way[side] += 1
                    queue.popleft()
                    return task
                self._changed.wait()
        raise StopIteration

    def done(self, task: Task) -> None:
        """Return a task that a thread has finished."""
        with self._changed:
            if not self._known(task):
                self._under_way[task.side] -= 1
            self._changed.notify_all()

    def _waits_for(self, side: int, other: int, first_position: int) -> bool:
        """True if the side waits for the other one, which runs, is about to run, is ahead, or is
        finished."""
        if self._under_way[other] or self._begun[side] < self._begun[other]:
            return True
        if not self._waiting[other]:
            return False
        position, task = self._waiting[other][0]
        return position - first_position <= self._lead and not self._known(task)
