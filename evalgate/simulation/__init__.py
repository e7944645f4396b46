"""The simulated users: one file each, all in the table below."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from evalgate.model import Case, SimulatorUse
from evalgate.plugins import SimulatorServices, SimulatorSpec, UserSimulator
from evalgate.simulation import llm_backed, static

SIMULATORS: Final[Mapping[str, SimulatorSpec]] = MappingProxyType(
    {spec.name: spec for spec in (llm_backed.SPEC, static.SPEC)}
)
"""By the name that ADK gives them."""


def begin(case: Case, use: SimulatorUse, services: SimulatorServices) -> UserSimulator:
    """The user of one conversation: one who says what was written down, or one who follows a scenario."""
    name = static.SPEC.name if case.scenario is None else llm_backed.SPEC.name
    return SIMULATORS[name].begin(case, use, services)
