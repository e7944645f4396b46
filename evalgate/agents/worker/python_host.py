"""Any Python callable as an agent: finds it, opens its sessions, runs custom metrics beside it."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from typing import Any

from . import faults, importing, python_calls
from .python_calls import Signature
from .tool_desk import ToolDesk

Message = dict[str, Any]


class Host:
    """See serving.Host."""

    sessions = 16

    def __init__(self) -> None:
        self._callee: Any = None
        self._signature: Signature | None = None
        self._package = ""

    @property
    def asks(self) -> bool:
        """Whether the callable takes `tools`: nothing else can be asked about."""
        return self._signature is not None and "tools" in self._signature.keywords

    async def load(self, options: Message) -> dict[str, str]:
        """Import the callable; raises faults.CannotLoad."""
        call = str(options.get("call") or "")
        root = os.getcwd()
        roots = [os.path.abspath(options.get("path") or "."), root, *(options.get("import_roots") or ())]
        importing.add_roots(tuple(dict.fromkeys(roots)))
        try:
            self._callee = find(call)
            self._signature = python_calls.signature_of(self._callee)
        except BaseException as error:
            raise faults.CannotLoad.because(error, f"the agent {call!r}") from error
        self._package = call.partition(":")[0].partition(".")[0]
        return {
            "framework": "python",
            "python": platform.python_version(),
            "interpreter": sys.executable,
            "agent": call,
        }

    async def open(self, start: Message, desk: ToolDesk | None) -> Any:
        """A fresh session."""
        assert self._signature is not None
        return python_calls.CallSession(self._callee, self._signature, start, desk)

    async def metric(self, message: Message) -> Message:
        """Run a custom metric; its types are google-adk's, which must be installed here for it."""
        from . import adk_metrics

        return await adk_metrics.run(message, self._package)

    async def close(self) -> None:
        """Nothing is held open."""


def find(call: str) -> Any:
    """The object at `module:attribute`. Raises ValueError, TypeError and whatever the module raises."""
    module_name, _, path = call.partition(":")
    if not module_name or not path:
        raise ValueError(f"{call!r} is not of the form module:function")
    found: Any = importlib.import_module(module_name)
    for name in path.split("."):
        if not hasattr(found, name):
            raise AttributeError(f"{module_name} has no {path!r}")
        found = getattr(found, name)
    if not callable(found):
        raise TypeError(f"{call} is a {type(found).__name__} and cannot be called")
    return found
