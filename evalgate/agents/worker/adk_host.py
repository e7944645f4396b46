"""ADK agents: loads one, opens its sessions, runs its custom metrics."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

from . import adk_loading, adk_thrift, importing
from .adk_loading import LoadedAgent
from .tool_desk import ToolDesk

Message = dict[str, Any]


class Host:
    """See serving.Host."""

    sessions = 16
    asks = True

    def __init__(self) -> None:
        self._loaded: LoadedAgent | None = None
        self._plugins: tuple[Any, Any] | None = None
        self._default_app = ""
        self._asking = False

    async def load(self, options: Message) -> dict[str, str]:
        """Import the agent; raises faults.CannotLoad."""
        root = os.getcwd()
        path = options.get("path") or "."
        adk_thrift.begin()
        importing.add_roots(tuple(options.get("import_roots") or ()))
        loaded = await adk_loading.load(path, wanted=options.get("agent"), root=root)
        from . import adk_warming, adk_watching

        self._loaded = loaded
        self._plugins = (adk_watching.Closing(), adk_watching.Opening(adk_watching.retry_options()))
        self._default_app = options.get("app_name") or loaded.home.name.rpartition(".")[2]
        await adk_warming.run(self._plugins)
        adk_thrift.settle()
        return _about(loaded)

    async def open(self, start: Message, desk: ToolDesk | None) -> Any:
        """A fresh session."""
        from . import adk_sessions

        assert self._loaded is not None
        assert self._plugins is not None
        if desk is not None and not self._asking:
            from . import adk_tools, adk_toolsets

            adk_tools.install()
            adk_toolsets.install(self._loaded.root_agent)
            self._asking = True
        return await adk_sessions.AdkSession(self._loaded, self._plugins, start, self._default_app).open()

    async def metric(self, message: Message) -> Message:
        """Run a custom metric."""
        from . import adk_metrics

        assert self._loaded is not None
        return await adk_metrics.run(message, self._loaded.home.name)

    async def close(self) -> None:
        """Close what `get_agent_async` opened and the agents' toolsets, once."""
        if self._loaded is None:
            return
        if self._loaded.closing is not None:
            await self._loaded.closing.aclose()
        for toolset in _toolsets(self._loaded.root_agent):
            await toolset.close()


def _toolsets(agent: Any) -> list[Any]:
    found = [tool for tool in getattr(agent, "tools", None) or () if _is_toolset(tool)]
    for child in getattr(agent, "sub_agents", None) or ():
        found += _toolsets(child)
    return found


def _is_toolset(tool: Any) -> bool:
    return any(base.__name__ == "BaseToolset" for base in type(tool).__mro__)


def _about(loaded: LoadedAgent) -> dict[str, str]:
    from google.adk.version import __version__

    return {
        "framework": "google-adk",
        "framework_version": str(__version__),
        "python": platform.python_version(),
        "interpreter": sys.executable,
        "agent": str(loaded.root_agent.name),
    }
