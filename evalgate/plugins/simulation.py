"""The shapes of a simulated user and of what it says next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from evalgate.judges.base import JudgePanel
from evalgate.model import Case, Content, Ending, Invocation, SimulatorUse


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The user says something."""

    content: Content


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The conversation is over; `ended_by` None where its turns were written down."""

    ended_by: Ending | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorFailure:
    """The simulated user could not say anything; the agent has no part in it."""

    message: str


Said: TypeAlias = Message | Stop | SimulatorFailure


class UserSimulator(Protocol):
    """One simulated user in one conversation."""

    def next_message(self, history: Sequence[Invocation]) -> Said:
        """What the user says after `history`, which is the same conversation at every call, grown by a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorServices:
    """What the world offers a simulated user.

    `panel` None: nobody may be asked. `draw`: which of the replies to one question is meant, a number for the run's
    seed and the repeat, so that repeats have users of their own and both sides of a comparison the same ones.
    """

    panel: JudgePanel | None = None
    draw: int = 0
    adk_compat: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorSpec:
    """One row of `evalgate.simulation.SIMULATORS`: `begin` makes the user of one conversation."""

    name: str
    summary: str
    begin: Callable[[Case, SimulatorUse, SimulatorServices], UserSimulator]
