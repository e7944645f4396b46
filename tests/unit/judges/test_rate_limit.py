"""Retries, waits, slots, deadlines and outages, with a clock that only the test moves."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from builders.judging import HeldClock, failure

from evalgate.judges.base import RETRIABLE, JudgeFailed, JudgeFailure, JudgeFailureKind
from evalgate.judges.rate_limit import Clock, RateLimiter, RateLimits
from evalgate.model import Usage


def says(*outcomes: str | JudgeFailure) -> Callable[[], str]:
    """A call that gives one outcome after the other; a failure is raised."""
    left = list(outcomes)

    def call() -> str:
        outcome = left.pop(0)
        if isinstance(outcome, JudgeFailure):
            raise JudgeFailed(outcome)
        return outcome

    return call


def caught(limiter: RateLimiter, call: Callable[[], object]) -> JudgeFailure:
    with pytest.raises(JudgeFailed) as raised:
        limiter.run(call)
    return raised.value.failure


def caught_for(model: str, limiter: RateLimiter, call: Callable[[], object]) -> JudgeFailure:
    with pytest.raises(JudgeFailed) as raised:
        limiter.run(call, model=model)
    return raised.value.failure


# --- retries --------------------------------------------------------------------------------------


def test_a_storm_of_rate_limits_then_recovery() -> None:
    clock, told = HeldClock(chance=0.5), []
    limiter = RateLimiter(RateLimits(), clock)
    call = says(*[failure("rate_limited", retry_after_s=2.0)] * 3, "ok")
    assert limiter.run(call, retried=told.append) == "ok"
    assert [each.kind.value for each in told] == ["rate_limited"] * 3
    assert all(wait >= 2.0 for wait in clock.slept)


@pytest.mark.parametrize("chance", [0.0, 0.25, 0.999])
def test_backoff_is_spread_below_a_doubling_ceiling(chance: float) -> None:
    clock = HeldClock(chance)
    pace = RateLimits(attempts=8, first_backoff_s=1.0, longest_backoff_s=10.0)
    limiter = RateLimiter(pace, clock)
    caught(limiter, says(*[failure("connection")] * 8))
    assert clock.slept == pytest.approx([ceiling * chance for ceiling in (1, 2, 4, 8, 10, 10, 10)])


@pytest.mark.parametrize("kind", [kind.value for kind in JudgeFailureKind if kind not in RETRIABLE])
def test_what_a_repeat_cannot_cure_is_asked_once(kind: str) -> None:
    clock = HeldClock()
    found = caught(RateLimiter(RateLimits(), clock), says(failure(kind)))
    assert (found.kind, clock.slept) == (kind, [])
    assert found.message == f"{kind} happened"


def test_the_last_failure_says_what_was_tried() -> None:
    found = caught(
        RateLimiter(RateLimits(attempts=3), HeldClock()), says(*[failure("server_error")] * 3)
    )
    assert found.message == "server_error happened (tried 3 times in 1.5 s)"


def test_a_wait_beyond_the_deadline_is_not_waited() -> None:
    clock = HeldClock()
    found = caught(
        RateLimiter(RateLimits(call_deadline_s=60), clock),
        says(failure("rate_limited", retry_after_s=3600.0)),
    )
    assert clock.slept == []
    assert "it asks for a pause of 1 h 00 min" in found.message


def test_the_deadline_counts_what_a_models_calls_take_and_no_time_between() -> None:
    clock = HeldClock()
    limiter = RateLimiter(RateLimits(deadline_s=100), clock, provider="google")
    for _ in range(2):
        limiter.run(lambda: clock.pass_by(45), model="slow")
        clock.pass_by(1000)  # agents talk
    assert limiter.run(says("ok"), model="slow") == "ok"
    limiter.run(lambda: clock.pass_by(11), model="slow")
    found = caught_for("slow", limiter, says("never asked"))
    assert found.kind is JudgeFailureKind.TIMEOUT
    assert (
        "the deadline for calls to `slow` has passed; raise it (`judge: {deadline: ...}`)"
        in found.message
    )
    assert limiter.run(says("ok"), model="quick") == "ok"


def test_a_call_is_not_charged_for_the_wait_for_a_slot() -> None:
    """One slot, held longer than a call may take: whoever waited for it is asked all the same, and
    may fail once."""
    clock = HeldClock()
    limiter = RateLimiter(RateLimits(calls_at_once=1, call_deadline_s=100), clock)
    inside, waiting = threading.Event(), threading.Event()

    def hold() -> str:
        inside.set()
        assert waiting.wait(10)
        clock.pass_by(500)
        return "held"

    def wait() -> str:
        inside.wait(10)
        return limiter.run(says(failure("server_error"), "ok"))

    with ThreadPoolExecutor() as pool:
        held, waited = pool.submit(limiter.run, hold), pool.submit(wait)
        while not limiter._changed._waiters:  # type: ignore[attr-defined]  # it is in line now
            time.sleep(0.001)
        waiting.set()
        assert (held.result(10), waited.result(10)) == ("held", "ok")


@pytest.mark.parametrize(
    ("limits", "setting"),
    [
        (RateLimits(call_deadline_s=100, deadline_s=1000), "call_deadline"),
        (RateLimits(call_deadline_s=1000, deadline_s=100), "deadline"),
    ],
)
def test_the_advice_names_the_setting_whose_time_is_up(limits: RateLimits, setting: str) -> None:
    clock = HeldClock()
    limiter = RateLimiter(limits, clock)

    def slow() -> None:
        clock.pass_by(60)
        raise JudgeFailed(failure("timeout"))

    given_up = caught_for("m", limiter, slow)
    assert (
        f"(tried 2 times in 2 min 00 s; to try longer, raise `judge: {{{setting}: ...}}`)"
        in given_up.message
    )
    paused = caught_for(
        "n", RateLimiter(limits, clock), says(failure("rate_limited", retry_after_s=500.0))
    )
    assert f"raise `judge: {{{setting}: ...}}`" in paused.message


def test_other_exceptions_pass_through_and_free_the_slot() -> None:
    limiter = RateLimiter(RateLimits(calls_at_once=1), HeldClock())

    def broken() -> str:
        raise ZeroDivisionError

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            limiter.run(broken)
    assert limiter.run(says("ok")) == "ok"


def test_a_program_that_stops_waits_for_no_backoff() -> None:
    clock = HeldClock()
    clock.call_off()
    assert (
        caught(RateLimiter(RateLimits(), clock), says(failure("server_error"), "never")).kind
        == "server_error"
    )
    limiter = RateLimiter(RateLimits(), clock)
    limiter.pushed_back(failure("rate_limited", retry_after_s=5.0), since=clock.now())
    assert caught(limiter, says("never")).kind == "rate_limited"


def test_the_machines_clock_can_be_called_off() -> None:
    clock = Clock()
    assert clock.sleep(0) is True
    assert 0 <= clock.random() < 1
    before = clock.now()
    clock.call_off()
    assert clock.sleep(3600) is False
    assert clock.now() - before < 60


# --- slots ----------------------------------------------------------------------------------------


def test_pressure_halves_the_calls_at_once_and_successes_bring_them_back() -> None:
    clock = HeldClock()
    limiter = RateLimiter(RateLimits(calls_at_once=8), clock)
    for expected in (4, 2, 1, 1):
        clock.pass_by(1)
        limiter.pushed_back(failure("rate_limited"), since=clock.now())
        assert limiter.calls_at_once == expected
    for _ in range(3):  # one more a round: 1, then 2 calls
        limiter.run(says("ok"))
    assert limiter.calls_at_once == 2
    for _ in range(100):
        limiter.run(says("ok"))
    assert limiter.calls_at_once == 8


def test_calls_that_were_under_way_together_push_once() -> None:
    clock = HeldClock()
    limiter = RateLimiter(RateLimits(calls_at_once=8), clock)
    began = clock.now()
    clock.pass_by(1)
    for _ in range(5):
        limiter.pushed_back(failure("overloaded"), since=began)
    assert limiter.calls_at_once == 4


@pytest.mark.parametrize(
    "kind",
    ["unauthorized", "blocked", "malformed", "empty", "connection", "server_error", "timeout"],
)
def test_other_failures_are_no_pressure(kind: str) -> None:
    clock = HeldClock()
    limiter = RateLimiter(RateLimits(calls_at_once=8), clock)
    limiter.pushed_back(failure(kind), since=clock.now())
    assert limiter.calls_at_once == 8


def test_a_pause_that_one_call_was_asked_for_holds_all_others() -> None:
    clock = HeldClock()
    limiter = RateLimiter(RateLimits(), clock)
    limiter.pushed_back(failure("rate_limited", retry_after_s=7.0), since=clock.now())
    asked_at: list[float] = []
    limiter.run(lambda: asked_at.append(clock.now()))
    assert asked_at == [1007.0]


def test_never_more_calls_at_once_than_allowed() -> None:
    limiter = RateLimiter(RateLimits(calls_at_once=3), HeldClock())
    lock, together, most = threading.Lock(), 0, 0
    full = threading.Barrier(3)

    def call() -> None:
        nonlocal together, most
        with lock:
            together += 1
            most = max(most, together)
        full.wait(timeout=10)  # three are in at once: the bound is reached
        with lock:
            together -= 1

    threads = [threading.Thread(target=limiter.run, args=(call,)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert most == 3


# --- one model among others -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["server_error", "timeout", "connection", "malformed", "empty"])
@pytest.mark.parametrize("deadline_s", [20.0, math.inf])
def test_a_model_that_is_down_harms_no_other_of_its_provider(kind: str, deadline_s: float) -> None:
    """Case after case it is asked and fails, between questions to a model that answers, which never
    waits."""
    clock = HeldClock()
    limiter = RateLimiter(RateLimits(deadline_s=deadline_s), clock, provider="google")
    for _ in range(8):
        found = caught_for("down", limiter, says(*[failure(kind)] * 6))
        # what was not asked gave no empty reply
        refused_as = "server_error" if kind == "empty" else kind
        assert found.kind in (kind, refused_as, "timeout")  # the last where its time is up
        before = clock.now()
        assert limiter.run(says("fine"), model="up") == "fine"
        assert clock.now() == before
    assert (limiter.calls_at_once, limiter.pause_s) == (32, 0)
    # nobody went on waiting for it either: 15.5 s a call, three calls at the most
    assert clock.now() - 1000 < 50


def test_429_and_503_are_heard_by_all_models() -> None:
    for kind in ("rate_limited", "overloaded"):
        clock = HeldClock()
        limiter = RateLimiter(RateLimits(calls_at_once=8), clock)
        limiter.run(says(failure(kind, retry_after_s=9.0), "ok"), model="one")
        clock.pass_by(1)
        limiter.pushed_back(failure(kind, retry_after_s=9.0), since=clock.now())
        began = clock.now()
        limiter.run(says("ok"), model="another")
        assert clock.now() - began == pytest.approx(9.0)
        assert limiter.calls_at_once < 8


def test_a_model_that_hangs_leaves_slots_for_the_others() -> None:
    limiter = RateLimiter(RateLimits(calls_at_once=16), HeldClock())
    for model in ("well", "idle"):
        limiter.run(says("ok"), model=model)
    held, go = threading.Semaphore(0), threading.Event()

    def hang() -> None:
        held.release()
        go.wait(timeout=10)

    threads = [
        threading.Thread(target=limiter.run, args=(hang,), kwargs={"model": "hangs"})
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for _ in range(14):
        assert held.acquire(timeout=10)
    found: list[str] = []
    threads.append(
        threading.Thread(target=lambda: found.append(limiter.run(says("ok"), model="well")))
    )
    threads[-1].start()
    threads[-1].join(timeout=5)
    assert found == ["ok"]
    assert not held.acquire(blocking=False)
    go.set()
    for thread in threads:
        thread.join(timeout=10)


# --- outages --------------------------------------------------------------------------------------


def test_to_a_model_that_is_down_each_question_goes_once_and_waits_for_nothing() -> None:
    clock = HeldClock(chance=1.0)
    limiter = RateLimiter(RateLimits(attempts=2, outage_after=3), clock)
    for _ in range(3):
        caught(limiter, says(*[failure("server_error")] * 2))
    before = clock.now()
    for _ in range(4):
        spoilt = failure("server_error", usage=Usage(prompt_tokens=9))
        assert caught(limiter, says(spoilt, "asked again")).usage == spoilt.usage
    assert clock.now() == before
    # which questions are answered does not hang on which of them failed first
    assert limiter.run(says("an answer")) == "an answer"
    assert limiter.run(says(failure("server_error"), "it is back")) == "it is back"


def test_a_success_between_is_no_outage() -> None:
    limiter = RateLimiter(RateLimits(attempts=1, outage_after=2), HeldClock())
    for _ in range(5):
        caught(limiter, says(failure("timeout")))
        assert limiter.run(says("ok")) == "ok"
