"""One conversation between a user and an agent, to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, assert_never

from evalgate import simulation
from evalgate.agents.base import AgentFailed, Conversation
from evalgate.model import AgentFailure, Case, FailureKind, Invocation, Suite, Transcript, TrialKey
from evalgate.plugins import Message, SimulatorFailure, SimulatorServices, Stop, UserSimulator

Simulate: TypeAlias = Callable[[Suite, Case, TrialKey], UserSimulator]
"""Makes the user of one trial."""


def written(suite: Suite, case: Case, key: TrialKey) -> UserSimulator:  # noqa: ARG001 - the shape of Simulate
    """The user where no model may be asked: says what is written down, and cannot follow a scenario."""
    return simulation.begin(case, suite.simulator, SimulatorServices())


def talk(conversation: Conversation, user: UserSimulator, done: list[Invocation]) -> Transcript:
    """Let them talk until the user stops. Every turn is put into `done` as it ends, so that a failure loses none.

    Raises AgentFailed; where the user could say nothing, with the kind SIMULATOR, which is never the agent's.
    """
    while True:
        said = user.next_message(done)
        match said:
            case Message():
                done.append(conversation.send(said.content))
            case Stop():
                return Transcript(invocations=tuple(done), final_state=conversation.finish(), ended_by=said.ended_by)
            case SimulatorFailure():
                failure = AgentFailure(kind=FailureKind.SIMULATOR, message=said.message, turn=len(done) + 1)
                raise AgentFailed(failure)
            case _:
                assert_never(said)
