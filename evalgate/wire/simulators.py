"""How results.json tells who played the users of a suite."""

from __future__ import annotations

import dataclasses
from typing import Any

from pydantic import ConfigDict, Field

from evalgate.model import SimulatorUse
from evalgate.wire.shapes import Wire


class SimulatorResult(Wire):
    """Who led the scenarios of a suite: ADK's user_simulator_config as it was used."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())

    model: str
    config: dict[str, Any] | None = Field(default=None, description="ADK's `model_configuration`.")
    max_turns: int | None = Field(default=None, description="`max_allowed_invocations`; null: no limit.")
    custom_instructions: str | None = None
    include_function_calls: bool = False
    stop_signal: str = ""


def json_of(use: SimulatorUse) -> dict[str, Any]:
    """As it is written."""
    told = {field.name: getattr(use, field.name) for field in dataclasses.fields(use) if field.name != "place"}
    return {name: value for name, value in told.items() if value is not None}


def parse(read: SimulatorResult | None) -> SimulatorUse:
    """Who played the users; a model without a name where the file does not tell."""
    return SimulatorUse(model="") if read is None else SimulatorUse(**read.model_dump())
