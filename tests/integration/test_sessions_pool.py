"""Pools of workers: how many there are, who gets a place, and that conversations never mix."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from builders import leftovers

from evalgate.agents.base import AgentFailed, AgentLimits, AgentSetting
from evalgate.agents.pool import WorkerPool
from evalgate.agents.worker_process import Launch
from evalgate.model import (
    Case,
    Content,
    CriterionUse,
    FailureKind,
    Invocation,
    NotEvaluated,
    Reason,
    Score,
    SessionInput,
    Text,
    TrialKey,
    TrialView,
)
from evalgate.system.python_env import InstallSetup

pytestmark = pytest.mark.integration

ROGUE = Path(__file__).parents[1] / "agents/rogue.py"


@contextlib.contextmanager
def pool(
    can_hold: int = 8, *, pause: float = 0.0, grades_metrics: bool = True, **bounds: int
) -> Iterator[WorkerPool]:
    """A pool of workers that say that they can hold `can_hold` conversations."""
    environment = {"PATH": os.environ["PATH"], "PAUSE": str(pause)}
    launch = Launch(
        command=(sys.executable, str(ROGUE), str(can_hold)),
        cwd="/",
        environment=environment,
        hello={"greeting": "hi"},
    )
    limits = AgentLimits(turn_timeout_s=30, start_timeout_s=30, **bounds)  # type: ignore[arg-type]  # counts and flags
    setting = AgentSetting(
        root="/", world=InstallSetup(environment=environment, cache="/nowhere"), limits=limits
    )
    opened = WorkerPool(
        lambda: launch, setting=setting, metrics=(lambda: launch) if grades_metrics else None
    )
    try:
        yield opened
    finally:
        opened.close()


def user(text: str) -> Content:
    return Content(parts=(Text(text=text),), role="user")


def text_of(invocation: Invocation) -> str:
    assert invocation.final_response is not None
    return "".join(part.text for part in invocation.final_response.parts if isinstance(part, Text))


def case(name: str = "case", **state: object) -> Case:
    return Case(case_id=name, session=SessionInput(app_name="app", user_id="user", state=state))


def key(name: str = "case") -> TrialKey:
    return TrialKey(suite="suite", case_id=name)


def pid(agent: WorkerPool) -> str:
    with agent.converse(case(), key()) as talk:
        return text_of(talk.send(user("pid")))


@contextlib.contextmanager
def held(agent: WorkerPool, count: int) -> Iterator[list[str]]:
    """`count` conversations held open at once; the process id that each is in."""
    with contextlib.ExitStack() as stack:
        talks = [stack.enter_context(agent.converse(case(), key())) for _ in range(count)]
        yield [text_of(talk.send(user("pid"))) for talk in talks]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    with leftovers.none_expected():
        yield


def test_conversations_never_mix() -> None:
    """Fifty trials of several turns over two workers of four: each finds its own state, and only
    that."""

    def trial(number: int) -> tuple[dict[str, str], object, str]:
        with agent.converse(
            case(f"case {number}", start=f"s{number}"), key(f"case {number}")
        ) as talk:
            for turn in range(5):
                answer = talk.send(user(f"remember k{turn}=v{number}.{turn}"))
                assert text_of(answer) == f"k{turn} is v{number}.{turn}"
            seen = json.loads(text_of(talk.send(user("state"))))
            process = text_of(talk.send(user("pid")))
            return seen, talk.finish(), process

    with pool(pause=0.01, workers=2, sessions=4) as agent, ThreadPoolExecutor(12) as threads:
        done = list(threads.map(trial, range(50)))
    for number, (seen, final, _) in enumerate(done):
        own = {"start": f"s{number}"} | {f"k{turn}": f"v{number}.{turn}" for turn in range(5)}
        assert seen == final == own
    assert len({process for _, _, process in done}) == 2


@pytest.mark.parametrize(
    ("can_hold", "sessions", "workers", "wanted", "processes"),
    [
        (8, 4, 2, 4, 1),  # the first holds them all
        (8, 4, 2, 5, 2),  # no room: a second one
        (1, 4, 3, 3, 3),  # the worker's own word counts
        (8, 1, 3, 3, 3),  # and so does ours
        (8, 8, 4, 1, 1),
    ],
)
def test_a_worker_starts_only_when_the_others_are_full(
    can_hold: int, sessions: int, workers: int, wanted: int, processes: int
) -> None:
    with pool(can_hold, sessions=sessions, workers=workers) as agent, held(agent, wanted) as pids:
        assert len(set(pids)) == processes


def test_those_who_wait_for_a_start_get_a_place_in_it() -> None:
    """Many at once, before the first worker is ready: no more processes than they need."""
    together = threading.Barrier(4)

    def trial(_: int) -> str:
        together.wait()
        with agent.converse(case(), key()) as talk:
            answer = text_of(talk.send(user("pid")))
            together.wait()
            return answer

    with pool(8, sessions=4, workers=4) as agent, ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(trial, range(4)))) == 1


def test_who_comes_when_all_is_full_waits() -> None:
    with pool(2, sessions=2, workers=1) as agent, ThreadPoolExecutor(1) as threads:
        with held(agent, 2) as pids:
            waiting = threads.submit(pid, agent)
            time.sleep(0.2)
            assert not waiting.done()
        assert waiting.result(timeout=10) == pids[0]


def test_isolated_cases_have_a_process_each() -> None:
    with (
        pool(8, isolate_cases=True, workers=2, sessions=4) as agent,
        ThreadPoolExecutor(6) as threads,
    ):
        pids = list(threads.map(lambda _: pid(agent), range(8)))
        assert len(set(pids)) == 8
        assert not any(leftovers.runs(each) for each in pids)


def test_all_conversations_of_a_worker_that_dies_fail_and_say_that_they_shared_it() -> None:
    together = threading.Barrier(3)

    def trial(text: str) -> str:
        with agent.converse(case(), key()) as talk:
            together.wait()
            with pytest.raises(AgentFailed) as failed:
                talk.send(user(text))
        return failed.value.failure.message

    with pool(8, sessions=4) as agent, ThreadPoolExecutor(3) as threads:
        messages = list(threads.map(trial, ["hang", "hang", "exit 4"]))
    assert len(set(messages)) == 1
    assert "exited with code 4; 2 other conversations ran in the same process" in messages[0]


@pytest.mark.parametrize("at_start", [False, True])
def test_who_was_lost_beside_others_is_run_again_without_them(*, at_start: bool) -> None:
    """Three cases run at once and again at once; one of them always ends its process, as its
    session starts or in its turn."""
    names = ["c1", "c2", "c3"]

    def send(name: str, text: str, pause: float) -> str:
        ends = name == "c3"
        with agent.converse(case(name, exit=ends and at_start), key(name)) as talk:
            time.sleep(pause)
            return text_of(talk.send(user("exit 4" if ends else text)))

    def first(name: str) -> FailureKind:
        if name == "c3":
            time.sleep(0.3)  # the others are in their turns
        with pytest.raises(AgentFailed) as failed:
            send(name, "hang", 0)
        return failed.value.failure.kind

    def again(name: str) -> str:
        try:
            return send(name, f"hello {name}", 0.1)  # nobody else comes in
        except AgentFailed as failed:
            return str(failed.failure.message)

    with pool(8, sessions=4, workers=2) as agent, ThreadPoolExecutor(6) as threads:
        assert set(threads.map(first, names)) == {FailureKind.EXITED}
        answers = list(threads.map(again, names * 3))
        assert answers == ["hello c1", "hello c2", answers[2]] * 3
        assert "other conversation" not in answers[2]
        # a case that was not there shares a process still
        with held(agent, 2) as pids:
            assert len(set(pids)) == 1


def test_closing_ends_what_is_under_way_and_what_waits() -> None:
    def trial(text: str) -> FailureKind:
        with pytest.raises(AgentFailed) as failed, agent.converse(case(), key()) as talk:
            talk.send(user(text))
        return failed.value.failure.kind

    with pool(1, sessions=1, workers=1) as agent, ThreadPoolExecutor(4) as threads:
        running = [threads.submit(trial, "hang") for _ in range(4)]
        time.sleep(0.5)
        began = time.monotonic()
        agent.close()
        assert [each.result(timeout=10) for each in running] == [FailureKind.EXITED] * 4
        assert time.monotonic() - began < 5
        with pytest.raises(AgentFailed):
            pid(agent)


def test_faults_all_over_leave_every_other_trial_right() -> None:
    """A mixed crowd: whoever fails, nobody gets an answer that is not their own, and all come to an
    end."""
    rng = random.Random(7)
    texts = [
        rng.choice(["hello {}", "state", "fail raised no", "slow 0.05", "exit 1", "raw junk\\n"])
        for _ in range(60)
    ]

    def trial(number: int) -> str | FailureKind:
        try:
            with agent.converse(case(f"c{number}", own=number), key()) as talk:
                return text_of(talk.send(user(texts[number].format(number))))
        except AgentFailed as failed:
            return failed.failure.kind

    with pool(8, sessions=4, workers=2) as agent, ThreadPoolExecutor(8) as threads:
        results = list(threads.map(trial, range(60)))
    expected: dict[str, Callable[[int], object]] = {
        "hello {}": lambda number: f"hello {number}",
        "state": lambda number: json.dumps({"own": number}),
        "fail raised no": lambda _: FailureKind.RAISED,
        "slow 0.05": lambda _: "slow but sure",
        "exit 1": lambda _: FailureKind.EXITED,
        "raw junk\\n": lambda _: FailureKind.PROTOCOL,
    }
    # by what another conversation did to the shared worker
    lost = {FailureKind.EXITED, FailureKind.PROTOCOL}
    for number, result in enumerate(results):
        assert result == expected[texts[number]](number) or result in lost


def test_the_seed_is_the_trials_own_and_always_the_same() -> None:
    from evalgate.agents.worker_process import seed_of

    assert seed_of(key("a"), seed=1) == seed_of(key("a"), seed=1)
    assert len({seed_of(key(name), seed=seed) for name in "abc" for seed in range(3)}) == 9


def test_a_pool_tells_what_answered() -> None:
    with pool() as agent:
        assert agent.about() == {}
        pid(agent)
        assert json.loads(agent.about()["options"]) == {"greeting": "hi"}


# --- metrics --------------------------------------------------------------------------------------

TURN = Invocation(user_content=user("hi"))
EVIDENCE = TrialView(case=case(), actual=(TURN, TURN), expected=(TURN,))
USE = CriterionUse(name="mine", threshold=0.5, code="m.any")


def test_a_custom_metric_is_graded_by_a_worker() -> None:
    with pool() as agent:
        grade = agent.run_metric("m.count", USE, EVIDENCE)
    assert isinstance(grade, Score)
    assert (grade.value, grade.turns) == (2.0, (2.0,))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("m.raise", "ZeroDivisionError"),
        ("m.exit", "exited with code 9"),
    ],
)
def test_a_metric_that_fails_is_no_score(code: str, words: str) -> None:
    with pool() as agent:
        grade = agent.run_metric(code, USE, EVIDENCE)
        assert isinstance(grade, NotEvaluated)
        assert grade.reason is Reason.CRITERION_FAILED
        assert words in grade.message
        assert isinstance(agent.run_metric("m.count", USE, EVIDENCE), Score)


def test_a_driver_without_python_grades_no_metric() -> None:
    with pool(grades_metrics=False) as agent:
        grade = agent.run_metric("m.count", USE, EVIDENCE)
    assert isinstance(grade, NotEvaluated)
    assert grade.reason is Reason.NOT_APPLICABLE
