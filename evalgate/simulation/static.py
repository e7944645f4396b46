"""A user who says what was written down, turn by turn, whatever the agent answers."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate.model import Case, Invocation, SimulatorUse
from evalgate.plugins import Message, SimulatorServices, SimulatorSpec, Stop, UserSimulator
from evalgate.plugins.simulation import Said


class StaticUser:
    """See plugins.UserSimulator."""

    def __init__(self, turns: Sequence[Invocation]) -> None:
        self._turns = turns

    def next_message(self, history: Sequence[Invocation]) -> Said:
        """The user's words of the next turn; after the last one the conversation is over."""
        if len(history) >= len(self._turns):
            return Stop()
        return Message(content=self._turns[len(history)].user_content)


def begin(case: Case, use: SimulatorUse, services: SimulatorServices) -> UserSimulator:  # noqa: ARG001 - a row's shape
    """The user of a case with a conversation."""
    return StaticUser(case.conversation or ())


SPEC = SimulatorSpec(name="static", summary="sends the user's turns as written", begin=begin)
