"""A user and an agent talk until the user stops; whoever fails is named."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest
from builders.build import case, suite, turn

from evalgate.agents.base import AgentFailed, Stopwatch
from evalgate.model import (
    AgentFailure,
    Content,
    Ending,
    FailureKind,
    Invocation,
    Text,
    Transcript,
    TrialKey,
)
from evalgate.runner import trials


class Echo:
    def __init__(self, *, fails_at: int = 0) -> None:
        self.sent: list[Content] = []
        self.finished = 0
        self._fails_at = fails_at

    def send(self, user_content: Content) -> Invocation:
        self.sent.append(user_content)
        if len(self.sent) == self._fails_at:
            raise AgentFailed(AgentFailure(kind=FailureKind.RAISED, message="no"))
        return Invocation(user_content=user_content, final_response=user_content)

    def finish(self) -> dict[str, object]:
        self.finished += 1
        return {"turns": len(self.sent)}


class Says:
    def __init__(self, *said: object) -> None:
        self._said = said
        self.seen: list[int] = []

    def __call__(self, history: Sequence[Invocation]) -> object:
        self.seen.append(len(history))
        return self._said[len(history)]


def message(text: str) -> Content:
    return Content(parts=(Text(text=text),), role="user")


class Driver:
    """An agent whose one session is `session`."""

    takes_history = False

    def __init__(self, session: Echo) -> None:
        self._session = session

    @contextlib.contextmanager
    def converse(self, *_):
        yield self._session


def converse(session: Echo, user: object) -> Transcript:
    written = case("c", turn("a", answer="1"))
    key = TrialKey(suite="s", case_id="c")
    task = trials.Task(key=key, suite=suite(written), case=written)
    return trials.converse(Driver(session), task, user, Stopwatch())


@pytest.mark.parametrize("ended_by", [Ending.STOP_SIGNAL, Ending.TURN_LIMIT, None])
def test_until_the_user_stops(ended_by):
    agent, user = Echo(), Says(message("a"), message("b"), ended_by)
    transcript = converse(agent, user)
    assert [turn.user_content for turn in transcript.invocations] == agent.sent
    assert (transcript.final_state, transcript.ended_by, agent.finished) == (
        {"turns": 2},
        ended_by,
        1,
    )
    assert user.seen == [0, 1, 2]  # every turn is sent once


def test_an_agents_failure_stays_its_own_and_what_was_done_is_kept():
    with pytest.raises(AgentFailed) as caught:
        converse(Echo(fails_at=2), Says(message("a"), message("b")))
    assert caught.value.failure.kind is FailureKind.RAISED
    assert len(caught.value.failure.partial) == 1


def test_a_user_without_a_word_is_no_failure_of_the_agent():
    def silent(history: Sequence[Invocation]) -> object:
        if history:
            raise AgentFailed(AgentFailure(kind=FailureKind.SIMULATOR, message="down"))
        return message("a")

    with pytest.raises(AgentFailed) as caught:
        converse(Echo(), silent)
    failure = caught.value.failure
    assert (failure.kind, failure.turn, failure.message) == (FailureKind.SIMULATOR, 2, "down")
    assert len(failure.partial) == 1
