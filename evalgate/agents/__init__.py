"""The agent drivers: one row for each way to run an agent."""

from __future__ import annotations

from collections.abc import Mapping

from evalgate.agents import command
from evalgate.plugins import AgentDriver

DRIVERS: Mapping[str, AgentDriver] = {
    "command": command.DRIVER,
}
