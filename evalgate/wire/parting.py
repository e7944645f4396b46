"""How results.json tells where two conversations part."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from evalgate.model import Parting
from evalgate.wire.shapes import Wire


class PartingResult(Wire):
    """Where the two sides' conversations with a simulated user part, by turns from 1, in the first repeat of both."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    answers: int | None = Field(default=None, description="From here on the user hears different things of the agents.")
    users: int | None = Field(
        default=None, description="From here on the user says different things, or one has ended."
    )


def of(parting: Parting | None) -> PartingResult | None:
    """As it is written."""
    return None if parting is None else PartingResult(answers=parting.answers, users=parting.users)
