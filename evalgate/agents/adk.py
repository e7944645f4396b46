"""Agents of Google's ADK, loaded as `adk eval` does and run in a Python of their own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pydantic import BaseModel, ConfigDict, Field

from evalgate.plugins import Agent, AgentSetting, ToolHandling
from evalgate.sessions import interpreters
from evalgate.sessions.interpreters import PythonAgent
from evalgate.sessions.pool import WorkerPool

WORKER = Path(__file__).parent / "worker" / "start.py"


class AdkOptions(BaseModel):
    """Where the agent is, and what it runs in; see docs/agents/adk.md and docs/agents/environments.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(default=".", description="Folder, file or dotted module of the agent, from the checkout's root.")
    agent: str | None = Field(default=None, description="Another attribute of its module, or an agent in its tree.")
    app_name: str | None = Field(default=None, description="Name of the app where a case gives none.")
    python: str = Field(default="auto", description="The agent's Python: a path, a command, or auto.")
    requirements: tuple[str, ...] = Field(default=(), description="Requirement files and specifiers to install.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdkDriver:
    """See plugins.AgentDriver."""

    name: str = "adk"
    options: type[BaseModel] = AdkOptions
    tools: ToolHandling = ToolHandling.ASKS
    runs_metrics: bool = True

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """A pool of workers that load the agent; its Python is found or made on first use."""
        given = cast("AdkOptions", options)
        folder = given.path if (Path(setting.root) / given.path).exists() else given.path.replace(".", "/")
        agent = PythonAgent(
            script=str(WORKER),
            kind="adk",
            folder=folder,
            hello={"path": given.path, "agent": given.agent, "app_name": given.app_name},
            python=given.python,
            requirements=given.requirements,
            framework="google.adk",
        )
        return WorkerPool(lambda: interpreters.launch(agent, setting), setting=setting, vouches_for_tools=True)


DRIVER = AdkDriver()
