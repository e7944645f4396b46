"""Remote toolsets (MCP servers): which tools they have is asked about like a call, so that a replay needs no server."""

from __future__ import annotations

from typing import Any

from .tool_desk import CURRENT

Message = dict[str, Any]

REMOTE = frozenset({"McpToolset", "MCPToolset", "ToolboxToolset", "ApplicationIntegrationToolset", "APIHubToolset"})
"""Classes (or their bases) that ask a server which tools there are."""

LIST_TOOLS = "list_tools"


def install(root_agent: Any) -> None:
    """Put `get_tools` of every remote toolset in the tree of agents behind a question."""
    names: dict[str, int] = {}
    for toolset in find(root_agent):
        kind = type(toolset).__name__
        names[kind] = names.get(kind, 0) + 1
        _guard(toolset, kind if names[kind] == 1 else f"{kind} {names[kind]}")


def find(agent: Any, seen: set[int] | None = None) -> list[Any]:
    """The remote toolsets of an agent, of those below it and of those that it has as tools, each once."""
    seen = set() if seen is None else seen
    if id(agent) in seen:
        return []
    seen.add(id(agent))
    found = []
    for tool in getattr(agent, "tools", None) or ():
        inner = getattr(tool, "agent", None)
        if inner is not None:
            found += find(inner, seen)
        elif id(tool) not in seen and any(base.__name__ in REMOTE for base in type(tool).__mro__):
            seen.add(id(tool))
            found.append(tool)
    for child in getattr(agent, "sub_agents", None) or ():
        found += find(child, seen)
    return found


def _guard(toolset: Any, name: str) -> None:
    real = toolset.get_tools

    async def get_tools(readonly_context: Any = None) -> list[Any]:
        desk = CURRENT.get()
        if desk is None:
            return list(await real(readonly_context))
        known = desk.listings.get(name)
        if known is None:
            known = desk.listings[name] = await _listed(desk, name, lambda: real(readonly_context))
        return list(known)

    object.__setattr__(toolset, "get_tools", get_tools)


async def _listed(desk: Any, name: str, real: Any) -> list[Any]:
    tools: list[Any] = []

    async def run() -> list[Message]:
        tools.extend(await real())
        return [_described(tool) for tool in tools]

    described = await desk.ask(LIST_TOOLS, {"toolset": name}, "listing").settle(run)
    return tools or [_recorded_tool(each) for each in described or ()]


def _described(tool: Any) -> Message:
    declaration = tool._get_declaration()  # noqa: SLF001 - the one way to know what a model is told
    dumped = declaration.model_dump(mode="json", exclude_none=True) if declaration is not None else None
    described = {"name": tool.name, "description": tool.description or "", "declaration": dumped}
    return {**described, "is_long_running": True} if tool.is_long_running else described


def _recorded_tool(described: Message) -> Any:
    """A tool with a recorded declaration that never runs: evalgate answers its calls."""
    from google.adk.tools.base_tool import BaseTool
    from google.genai import types

    class RecordedTool(BaseTool):  # type: ignore[misc]  # google-adk is not installed where types are checked
        def _get_declaration(self) -> Any:
            told = described.get("declaration")
            return types.FunctionDeclaration.model_validate(told) if told else None

        async def run_async(self, *, args: Any, tool_context: Any) -> Any:  # noqa: ARG002 - google-adk's signature
            raise RuntimeError(f"the tool {self.name!r} is known from a cassette and cannot run")

    return RecordedTool(
        name=described["name"],
        description=described.get("description") or "",
        is_long_running=bool(described.get("is_long_running")),
    )
