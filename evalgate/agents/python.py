"""Python objects as agents, in their own Python environment."""

from __future__ import annotations

import os

from pydantic import BaseModel, Field

from evalgate.values import Json, JsonObject
from .base import (
    Agent,
    AgentDriver,
    AgentSetting,
    DriverTools,
)
from .pool import PythonOptions, open_pool


class CallOptions(PythonOptions):
    """The callable, and its environment; see docs/agents/python.md and
    docs/agents/environments.md."""

    call: str = Field(
        pattern=r"^[\w.-]+:[\w.]+$",
        description="module:function, or module:Class or module:Class.method for one object per case.",
    )
    path: str = Field(default=".", description="Import folder, in addition to the repository root.")


class PythonDriver(AgentDriver):
    """A pool of workers that import the callable. `framework`: the module that a Python on PATH
    must have. `host`: see `pool.prepare_launch`."""

    name = "python"
    framework = ""
    host = "python"
    options = CallOptions
    argument = "call"
    tools = DriverTools.ASKS
    runs_metrics = True

    def open(self, options: BaseModel, setting: AgentSetting) -> Agent:
        """Open the agent; its Python is found or created on first use."""
        assert isinstance(options, CallOptions)
        return open_pool(self.host, options, setting, framework=self.framework)

    def short_form(self, options: Json) -> str:
        """See AgentDriver: `module:function`, below its import folder."""
        return os.path.normpath(f"{options.get('path', '.')}/{options.get(self.argument, '')}")

    def of_short_form(self, text: str) -> JsonObject:
        """See AgentDriver."""
        folder, slash, call = text.rpartition("/")
        return {self.argument: call, **({"path": folder or slash} if slash else {})}
