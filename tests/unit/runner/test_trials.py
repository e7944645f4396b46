"""The thread map and the runner of one trial."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from evalgate.agents.base import AgentFailed, Stopwatch
from evalgate.config.settings import Settings
from evalgate.judges.rate_limit import Pace
from evalgate.model import (
    AgentFailure,
    Case,
    FailureKind,
    Transcript,
    TrialKey,
    trial as model_trial,
)
from evalgate.runner import trials
from evalgate.runner.trials import Task, TrialRunner
from evalgate.simulation import user
from tests.unit.runner import fakes

WRITTEN = partial(user.simulate, panel=None, settings=Settings())  # says what is written down
AT_ONCE: Pace = lambda _, attempt: attempt()  # noqa: E731 - one of a family of callables


def test_the_order_is_fair() -> None:
    suites = [fakes.suite("a", fakes.case("1"), fakes.case("2")), fakes.suite("b", fakes.case("1"))]
    order = [str(task.key) for task in trials.tasks([suites], trials.first_rounds(2))]
    assert order == ["a:1#0", "a:2#0", "b:1#0", "a:1#1", "a:2#1", "b:1#1"]


def test_no_more_is_under_way_than_there_are_threads() -> None:
    lock = threading.Lock()
    taken = finished = highest = 0
    numbers: list[int] = []

    def source():
        nonlocal taken, highest
        for number in range(1000):
            with lock:
                taken += 1
                highest = max(highest, taken - finished)
            yield number

    def work(number: int) -> None:
        nonlocal finished
        with lock:
            finished += 1
            numbers.append(number)

    trials.run_bounded(work, source(), threads=3, stop=threading.Event(), abort=lambda: None)
    assert sorted(numbers) == list(range(1000))
    assert highest <= 3


def test_a_ctrl_c_that_another_thread_took_ends_the_wait() -> None:
    """The system may give a signal to any thread; while the main one waits, nothing else wakes
    it."""
    stop, ended_early = threading.Event(), []

    def work(_: int) -> None:
        time.sleep(0.3)  # the main thread is in its wait by then
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        ended_early.append(stop.wait(30))

    with pytest.raises(KeyboardInterrupt):
        trials.run_bounded(work, [1], threads=1, stop=stop, abort=lambda: None)
    assert ended_early == [True]


def test_an_exception_aborts_and_nothing_runs_on() -> None:
    stop, aborted = threading.Event(), []

    def work(number: int) -> None:
        if number == 5:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        trials.run_bounded(
            work, range(10**9), threads=4, stop=stop, abort=lambda: aborted.append(True)
        )
    assert stop.is_set()
    assert aborted == [True]


class Patience(threading.Event):
    """Lets no time pass, and notes what was to be waited."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0.0)
        return False


@pytest.mark.parametrize(
    ("asked_s", "waits"),
    [
        (None, [0.0]),
        (17.0, [17.0]),
        (3600.0, [trials.BACKOFF_CEILING_S]),
        (3 * 86400.0, []),  # a quota of days: it is not asked again
    ],
)
def test_a_retry_waits_as_long_as_the_provider_asks(
    asked_s: float | None, waits: list[float]
) -> None:
    def refuse(*_: object) -> None:
        raise AgentFailed(
            AgentFailure(kind=FailureKind.RATE_LIMITED, message="429", retry_after_s=asked_s)
        )

    suite, patience = fakes.suite("s", fakes.case("c")), Patience()
    agents = {suite.agent.key: fakes.FakeAgent(refuse)}
    runner = TrialRunner(retries=1, stop=patience, simulate=WRITTEN, pace=AT_ONCE)
    trial = runner.run(
        Task(key=TrialKey(suite="s", case_id="c"), suite=suite, case=suite.eval_set.cases[0]),
        agents,
    )
    assert isinstance(trial.outcome, AgentFailure)
    assert trial.outcome.retry_after_s == asked_s  # known to the end
    assert trial.attempts == 1 + len(waits)
    assert len(patience.waited) == len(waits)
    for waited_s, least_s in zip(patience.waited, waits, strict=True):
        assert least_s <= waited_s <= trials.BACKOFF_CEILING_S * 1.5


class Lingering(fakes.FakeAgent):
    """Answers every turn, and cannot end its sessions."""

    @contextmanager
    def converse(self, case: Case, key: TrialKey) -> Iterator[fakes.FakeConversation]:
        with super().converse(case, key) as conversation:
            answered = tuple(
                conversation.send(turn.user_content) for turn in case.conversation or ()
            )
            raise AgentFailed(
                AgentFailure(kind=FailureKind.TIMEOUT, message="still ending", partial=answered)
            )
            yield conversation


def test_a_session_that_cannot_be_ended_failed_in_no_turn() -> None:
    trial, _ = run(Lingering(), "one", "two")
    assert isinstance(trial.outcome, AgentFailure)
    assert trial.outcome.turn is None


class Clock:
    """A clock that stands still until somebody takes their time."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class SlowAgent(fakes.FakeAgent):
    """A free worker comes after 100 s, a turn takes 3 s (and is refused the first time), the
    farewell 20 s."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.refused = 0
        super().__init__(self.take_time)

    def take_time(self, _key: TrialKey, _turn: int) -> None:
        self.clock.now += 3.0
        if not self.refused:
            self.refused += 1
            raise fakes.failed(FailureKind.RATE_LIMITED)

    @contextmanager
    def converse(self, case: Case, key: TrialKey) -> Iterator[fakes.FakeConversation]:
        self.clock.now += 100.0
        with super().converse(case, key) as conversation:
            yield conversation
        self.clock.now += 20.0


def test_waiting_for_a_worker_is_no_time_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(trials, "Stopwatch", lambda: Stopwatch(clock=clock.monotonic))
    trial, _ = run(SlowAgent(clock), "one", "two")
    assert isinstance(trial.outcome, Transcript)
    assert trial.attempts == 2
    # the try that was refused, and the two turns of the other
    assert trial.seconds == 3.0 + 2 * 3.0


def run(
    agent: fakes.FakeAgent, *turns: str, retries: int = 2
) -> tuple[model_trial.Trial, list[str]]:
    suite = fakes.suite("s", fakes.case("c", *turns))
    said: list[str] = []
    runner = TrialRunner(
        retries=retries,
        stop=threading.Event(),
        say_once=said.append,
        simulate=WRITTEN,
        pace=AT_ONCE,
        pause_s=0.0,
    )
    task = Task(key=TrialKey(suite="s", case_id="c"), suite=suite, case=suite.eval_set.cases[0])
    return runner.run(task, {suite.agent.key: agent}), said


class Platform(fakes.FakeAgent):
    """Leads the conversation itself."""

    def play(self, case: Case, key: TrialKey) -> Transcript:  # type: ignore[override]
        if len(self.asked) < 1:  # out of reach at first
            self.asked.append(key)
            raise fakes.failed(FailureKind.UNREACHABLE)
        return Transcript(invocations=(), platform={"outcome": "PASS"})


def test_a_platform_that_leads_the_conversation_gives_it_whole() -> None:
    trial, _ = run(Platform(), "one", "two")
    assert trial.outcome == Transcript(invocations=(), platform={"outcome": "PASS"})
    assert trial.attempts == 2


def test_all_turns_are_played_and_the_state_is_read() -> None:
    trial, _ = run(fakes.FakeAgent(), "one", "two")
    assert isinstance(trial.outcome, Transcript)
    assert len(trial.outcome.invocations) == 2
    assert trial.outcome.final_state == {"turns": 2}


@pytest.mark.parametrize(
    ("kind", "tries"),
    [
        (FailureKind.RATE_LIMITED, 3),  # may pass
        (FailureKind.UNREACHABLE, 3),
        (FailureKind.RAISED, 1),  # the agent's own fault: a second try would hide it
        (FailureKind.TIMEOUT, 1),
        (FailureKind.MODEL_ERROR, 1),
        (FailureKind.START, 1),
    ],
)
def test_only_infrastructure_is_retried(kind: FailureKind, tries: int) -> None:
    def misbehave(key: TrialKey, turn: int) -> None:
        raise fakes.failed(kind)

    agent = fakes.FakeAgent(misbehave)
    trial, said = run(agent)
    assert isinstance(trial.outcome, AgentFailure)
    assert trial.outcome.kind is kind
    assert len(agent.asked) == trial.attempts == tries
    assert len(said) == tries - 1


def test_a_retry_that_works_gives_a_transcript() -> None:
    left = [fakes.failed(FailureKind.RATE_LIMITED)]

    def misbehave(key: TrialKey, turn: int) -> None:
        if left:
            raise left.pop()

    trial, _ = run(fakes.FakeAgent(misbehave))
    assert isinstance(trial.outcome, Transcript)
    assert trial.attempts == 2


def test_a_failure_keeps_the_turns_before_it() -> None:
    def misbehave(key: TrialKey, turn: int) -> None:
        if turn == 2:
            raise fakes.failed(FailureKind.EXITED, "exited with 3")

    trial, _ = run(fakes.FakeAgent(misbehave), "one", "two", "three")
    assert isinstance(trial.outcome, AgentFailure)
    assert trial.outcome.turn == 2
    assert len(trial.outcome.partial) == 1


def test_a_bug_in_a_driver_is_a_failure_of_its_trial_only() -> None:
    def misbehave(key: TrialKey, turn: int) -> None:
        raise RuntimeError("oops")

    trial, _ = run(fakes.FakeAgent(misbehave))
    assert isinstance(trial.outcome, AgentFailure)
    assert "RuntimeError: oops" in trial.outcome.message
    assert "misbehave" in trial.outcome.detail
