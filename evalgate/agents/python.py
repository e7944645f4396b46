"""Any Python function (or class, generator, coroutine) as an agent, run in a Python of its own."""

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


class PythonOptions(BaseModel):
    """What to call, and what it runs in; see docs/agents/python.md and docs/agents/environments.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    call: str = Field(pattern=r"^[\w.]+:[\w.]+$", description="module:function, or module:Class for one object a case.")
    path: str = Field(default=".", description="Import folder, in addition to the checkout's root.")
    python: str = Field(default="auto", description="The agent's Python: a path, a command, or auto.")
    requirements: tuple[str, ...] = Field(default=(), description="Requirement files and specifiers to install.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonDriver:
    """See plugins.AgentDriver."""

    name: str = "python"
    options: type[BaseModel] = PythonOptions
    tools: ToolHandling = ToolHandling.ASKS
    runs_metrics: bool = True

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """A pool of workers that import the callable; its Python is found or made on first use."""
        given = cast("PythonOptions", options)
        agent = PythonAgent(
            script=str(WORKER),
            kind="python",
            folder=_folder(given, setting.root),
            hello={"call": given.call, "path": given.path},
            python=given.python,
            requirements=given.requirements,
        )
        return WorkerPool(lambda: interpreters.launch(agent, setting), setting=setting)


def _folder(options: PythonOptions, root: str) -> str:
    """Where the module is, as far as that can be told without importing it."""
    package = Path(options.path, *options.call.partition(":")[0].split("."))
    return str(package if (Path(root) / package).is_dir() else package.parent)


DRIVER = PythonDriver()
