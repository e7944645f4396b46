"""Python objects as agents, in their own Python environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePosixPath

from pydantic import BaseModel, Field

from evalgate.text import words
from evalgate.values import Json, JsonObject
from . import python_process
from .base import (
    Agent,
    AgentDriver,
    AgentSetting,
    Checkout,
    DriverTools,
    Missing,
    exists,
)
from .pool import WorkerPool
from .python_process import PythonOptions
from .worker_process import Launch


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
    must have. `host`: see `python_process.prepare_launch`."""

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
        hello = options.model_dump(exclude={"python", "requirements"})

        def launch(kind: str) -> Launch:
            return python_process.prepare_launch(
                kind, options, setting, hello=hello, framework=self.framework
            )

        return WorkerPool(
            lambda: launch(self.host),
            setting=setting,
            metrics=lambda: launch(python_process.METRICS_WORKER),
        )

    def short_form(self, options: Json) -> str:
        """See AgentDriver: `module:function`, below its import folder."""
        return os.path.normpath(f"{options.get('path', '.')}/{options.get(self.argument, '')}")

    def of_short_form(self, text: str) -> JsonObject:
        """See AgentDriver."""
        folder, slash, call = text.rpartition("/")
        return {self.argument: call, **({"path": folder or slash} if slash else {})}

    def missing(self, options: Mapping[str, str], checkout: Checkout) -> Missing | None:
        """The module, if it is not in the checkout; it may be installed."""
        module, colon, _ = options.get("call", "").partition(":")
        names = module.split(".")
        if not colon or not all(name.isidentifier() for name in names):
            return None  # the validation of options reports it
        for start in (checkout.root / options.get("path", "."), checkout.root):
            place = start.joinpath(*names)
            if exists(place) or exists(place.with_name(f"{place.name}.py")):
                return None
        files = [
            PurePosixPath(path)
            for path in checkout.code()
            if path.endswith(python_process.LOADABLE)
        ]
        if any(names[0] in (*path.parts[:-1], path.name.partition(".")[0]) for path in files):
            return None  # a layout such as src/, which the environment resolves
        modules = {".".join((*path.parts[:-1], path.stem)) for path in files}
        unclear = "Ignore this if it is installed in the agent's environment."
        hint = words.did_you_mean(module, modules, fallback=unclear)
        message = f"there is no module `{module}` in the checkout"
        return Missing(option="call", message=message, hint=hint, certain=False)
