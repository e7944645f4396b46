"""Agents and judges of one provider slow each other down, by a clock that the test holds."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from builders.judging import HeldClock, ScriptedJudge, failure, request

from evalgate.config.gate_file import BudgetRule, JudgeRule
from evalgate.judges import rate_limit
from evalgate.judges.clients import Clients
from evalgate.judges.panel import JudgeBudget, UsageLedger, VotingPanel
from evalgate.judges.rate_limit import LONGEST_PAUSE_S, RateLimiters, RateLimits, TrialLimiter
from evalgate.model import (
    AgentFailure,
    Content,
    Event,
    FailureKind,
    Invocation,
    Outcome,
    Text,
    Transcript,
)


def turn(*models: str) -> Invocation:
    return Invocation(
        user_content=Content(parts=(Text(text="hi"),)),
        events=tuple(Event(author="agent", model_version=model) for model in models),
    )


def answered(*models: str) -> Transcript:
    return Transcript(invocations=(turn(*models),))


def refused(*models: str, wait_s: float | None = None) -> AgentFailure:
    partial = (turn(*models),) if models else ()
    return AgentFailure(
        kind=FailureKind.RATE_LIMITED, message="429", partial=partial, retry_after_s=wait_s
    )


class Scene:
    """RateLimiters of 8 calls at once, and a pace of 8 trials at once."""

    def __init__(self, trials_at_once: int = 8) -> None:
        self.clock = HeldClock()
        self.limiters = RateLimiters(RateLimits(calls_at_once=8), self.clock)
        self.stop = threading.Event()
        self.pace = TrialLimiter(self.limiters, trials_at_once=trials_at_once, stop=self.stop)

    def trial(self, agent: str, outcome: Outcome) -> float:
        """Seconds that it was held back."""
        before = self.clock.now()
        began: list[float] = []

        def attempt() -> Outcome:
            began.append(self.clock.now())
            return outcome

        assert self.pace(agent, attempt) is outcome
        return began[0] - before


def test_an_agents_429_slows_the_judges_of_its_provider() -> None:
    scene = Scene()
    scene.trial("a", answered("gemini-2.5-flash"))
    scene.trial("a", refused(wait_s=20))
    google, openai = scene.limiters.of("google"), scene.limiters.of("openai")
    assert (google.calls_at_once, google.pause_s) == (4, 20)
    assert (openai.calls_at_once, openai.pause_s) == (8, 0)
    before = scene.clock.now()
    google.run(lambda: "valid")
    assert scene.clock.now() - before == 20


def test_an_agent_that_asks_for_days_stops_no_judge() -> None:
    scene = Scene()
    scene.trial("a", answered("gemini-2.5-flash"))
    scene.trial("a", refused(wait_s=3 * 86400))
    assert scene.limiters.of("google").pause_s <= LONGEST_PAUSE_S


def test_a_judges_429_holds_the_trials_of_that_provider_back() -> None:
    scene = Scene()
    scene.trial("gemini agent", answered("gemini-2.5-flash"))
    scene.trial("gpt agent", answered("gpt-4.1-2025-04-14"))
    scene.limiters.of("google").pushed_back(
        failure("rate_limited", retry_after_s=7), since=scene.clock.now()
    )
    assert scene.trial("gpt agent", answered("gpt-4.1")) == 0
    assert scene.trial("unknown agent", answered()) == 0
    assert scene.trial("gemini agent", answered("gemini-2.5-flash")) == pytest.approx(7)


def test_judges_that_are_refused_push_back_the_same_limiter() -> None:
    """Through a whole panel: a real roster asks, its provider says 429 once, and the agent's next
    trial waits."""
    scene = Scene()
    scene.trial("a", answered("gemini-2.5-flash"))
    told: list[str] = []

    def say(_: object) -> str:
        told.append("asked")
        return "<rate_limited>" if len(told) == 1 else "valid"

    roster = Clients(
        {"gemini": ScriptedJudge(say)},
        defaults=JudgeRule(),
        environment={"GOOGLE_API_KEY": "k"},
        limiters=scene.limiters,
    )
    panel = VotingPanel(roster, budget=JudgeBudget(BudgetRule()), ledger=UsageLedger())
    panel.ask(request())
    panel.close()
    assert scene.limiters.of("google").share < 1


def test_the_provider_is_learned_from_a_failure_too() -> None:
    scene = Scene()
    scene.trial("a", refused("gemini-2.5-flash", wait_s=3))
    assert scene.limiters.of("google").pause_s == 3


def test_an_agent_of_an_unknown_provider_minds_its_own_pace() -> None:
    scene = Scene()
    scene.trial("a", refused(wait_s=9))
    assert scene.trial("b", answered()) == 0
    assert scene.trial("a", answered("a-model-of-my-own")) == pytest.approx(9)
    assert scene.limiters.of("google").share == 1


def test_two_agents_of_one_provider_share() -> None:
    scene = Scene()
    for agent in ("a", "b"):
        scene.trial(agent, answered("gpt-4.1"))
    scene.trial("a", refused(wait_s=4))
    assert scene.trial("b", answered()) == pytest.approx(4)


@pytest.mark.parametrize(
    "kind", [kind for kind in FailureKind if kind is not FailureKind.RATE_LIMITED]
)
def test_other_failures_slow_nobody(kind: FailureKind) -> None:
    scene = Scene()
    scene.trial("a", answered("gemini-2.5-flash"))
    scene.trial("a", AgentFailure(kind=kind, message="no"))
    assert (scene.limiters.of("google").share, scene.limiters.of("google").pause_s) == (1, 0)


def test_a_long_pause_is_not_waited_for() -> None:
    scene = Scene()
    scene.trial("a", refused(wait_s=3600))
    assert scene.trial("a", answered()) == pytest.approx(rate_limit.LONGEST_PAUSE_S)


def test_a_stopped_run_waits_for_nothing() -> None:
    scene = Scene()
    scene.trial("a", refused(wait_s=30))
    scene.stop.set()
    assert scene.trial("a", answered()) == 0


def most_at_once(scene: Scene, threads: int, *, room: int) -> int:
    """How many trials are under way together when `threads` want to start one, and none ends before
    `room` are."""
    lock, gate = threading.Lock(), threading.Event()
    under_way = highest = entered = 0

    def attempt() -> Outcome:
        nonlocal under_way, highest, entered
        with lock:
            under_way += 1
            entered += 1
            highest = max(highest, under_way)
        gate.wait(timeout=10)
        with lock:
            under_way -= 1
        return AgentFailure(kind=FailureKind.RAISED, message="ends without a word on the provider")

    workers = [threading.Thread(target=scene.pace, args=("a", attempt)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    wait_until(lambda: entered >= room)
    gate.set()
    for worker in workers:
        worker.join(timeout=10)
    assert entered == threads
    return highest


def wait_until(true: Callable[[], bool]) -> None:
    patience = threading.Event()
    for _ in range(1000):
        if true():
            return
        patience.wait(0.005)


def test_fewer_trials_go_at_once_while_the_provider_pushes_back() -> None:
    scene = Scene()
    assert most_at_once(scene, 8, room=8) == 8  # nobody pushed back: as many as the user wants
    scene.trial("a", answered("gemini-2.5-flash"))
    google = scene.limiters.of("google")
    for _ in range(2):
        google.pushed_back(failure("rate_limited"), since=scene.clock.now())
        scene.clock.pass_by(1)
    assert google.share == 0.25
    assert most_at_once(scene, 8, room=2) == 2
    for _ in range(20):
        google.pushed_back(failure("rate_limited"), since=scene.clock.now())
    assert most_at_once(scene, 3, room=1) == 1  # never none


@pytest.mark.parametrize("trials_at_once", [1, 8, 64])
def test_the_pace_recovers_with_the_trials_that_succeed(trials_at_once: int) -> None:
    scene = Scene(trials_at_once)
    scene.trial("a", answered("gemini-2.5-flash"))
    google = scene.limiters.of("google")
    google.pushed_back(failure("rate_limited"), since=scene.clock.now())
    assert google.share == 0.5
    rounds = 0
    while google.share < 1 and rounds < 100:
        rounds += 1
        for _ in range(trials_at_once):
            scene.trial("a", answered("gemini-2.5-flash"))
    assert rounds <= max(1, trials_at_once)


def test_a_broken_attempt_gives_its_place_back() -> None:
    scene = Scene(trials_at_once=1)

    def broken() -> Outcome:
        raise RuntimeError("a bug of ours")

    with pytest.raises(RuntimeError):
        scene.pace("a", broken)
    assert scene.trial("a", answered()) == 0
