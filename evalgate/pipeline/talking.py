"""One conversation between a user and an agent, to its end."""

from __future__ import annotations

from typing import assert_never

from evalgate.model import AgentFailure, FailureKind, Invocation, Transcript
from evalgate.plugins import AgentFailed, Conversation, Message, SimulatorFailure, Stop, UserSimulator


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
