"""Agents of Google's ADK, loaded as `adk eval` loads them, in their own Python environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from .base import (
    Agent,
    AgentDriver,
    AgentSetting,
    DriverTools,
    exists,
)
from .pool import PythonOptions, open_pool

LOADABLE = (".py", ".pyc", ".so", ".pyd")
"""Endings of files that Python can load as modules."""


class AdkOptions(PythonOptions):
    """Location and environment of the agent; see docs/agents/adk.md and
    docs/agents/environments.md."""

    path: str = Field(
        default=".",
        description="Folder or file of the agent, relative to the repository root.",
    )
    agent: str | None = Field(
        default=None, description="Another attribute of its module, or one of its sub-agents."
    )
    app_name: str | None = Field(
        default=None, description="App name for cases that do not set one."
    )
    approve: Literal["always", "never"] | None = Field(
        default=None,
        description="Answer to confirmations and yes-or-no inputs that ADK asks the user for.",
    )


class AdkDriver(AgentDriver):
    """A pool of workers that load the agent."""

    name = "adk"
    package = "google-adk"
    options = AdkOptions
    default = "."
    tools = DriverTools.ASKS
    runs_metrics = True

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """Open the agent; its Python is found or created on first use."""
        assert isinstance(options, AdkOptions)
        has_threads = setting.limits.sessions > 1 and not setting.limits.isolate_cases
        return open_pool(
            self.name,
            options,
            setting,
            framework="google.adk",
            hello={"threads": has_threads, "trace": setting.trace},
            vouches_for_tools=True,
        )

    def missing(self, options: Mapping[str, str], root: Path) -> tuple[str, str] | None:
        """The path, if it is neither a folder nor a file, or a folder without anything that Python
        loads."""
        text = options.get("path", ".")
        agent_path = Path(os.path.normpath(root / text))  # as its worker resolves it
        if not exists(agent_path):
            message = f"no agent at `{text}`: neither a folder nor a file of the checkout"
        elif agent_path.is_dir() and not _holds_code(agent_path):
            message = (
                f"no agent at `{text}`: the folder has neither a Python file nor a root_agent.yaml"
            )
        else:
            return None
        return "path", message


def _holds_code(folder: Path) -> bool:
    """True if a folder may hold an agent, also if it cannot be read."""
    try:
        return any(
            path.name.endswith(LOADABLE) or path.name in ("root_agent.yaml", "agent")
            for path in folder.iterdir()
        )
    except OSError:
        return True  # the run reports the error
