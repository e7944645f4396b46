"""The agent drivers: one row for each way to run an agent."""

from __future__ import annotations

from collections.abc import Mapping

from evalgate.agents import adk, command, http, python, replay
from evalgate.agents.base import AgentDriver

DRIVERS: Mapping[str, AgentDriver] = {
    "adk": adk.DRIVER,
    "python": python.DRIVER,
    "command": command.DRIVER,
    "http": http.DRIVER,
    "replay": replay.DRIVER,
}
