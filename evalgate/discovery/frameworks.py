"""Agents of other frameworks than ADK, as far as source shows them: objects that a module makes at its own level."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from evalgate.discovery.agent_source import ReadText
from evalgate.model import AgentUse

MADE_BY = {
    "langgraph": ("langgraph", "langchain"),
    "pydantic-ai": ("pydantic_ai",),
    "openai-agents": ("agents",),
    "smolagents": ("smolagents",),
}
"""The modules whose functions and classes make an agent, by driver."""

MAKERS = {
    "langgraph": frozenset({"compile", "create_react_agent", "create_agent", "create_supervisor"}),
    "pydantic-ai": frozenset({"Agent"}),
    "openai-agents": frozenset({"Agent"}),
    "smolagents": frozenset({"CodeAgent", "ToolCallingAgent", "MultiStepAgent"}),
}
_TESTS = ("test_", "conftest")


def find(files: Iterable[str], read: ReadText) -> Iterator[AgentUse]:
    """The agents that modules of these files make, tests left out, by their driver and the options that name them."""
    for file in files:
        name = PurePosixPath(file).name
        if not file.endswith(".py") or name.startswith(_TESTS) or "tests/" in file:
            continue
        text = read(file) or ""
        if not any(module in text for modules in MADE_BY.values() for module in modules):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        yield from _made_in(module, file)


def _made_in(module: ast.Module, file: str) -> Iterator[AgentUse]:
    imported = {
        name.partition(".")[0]
        for node in module.body
        if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names])
    }
    for driver, modules in MADE_BY.items():
        if imported.isdisjoint(modules):
            continue
        for statement in module.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                func, target = statement.value.func, statement.targets[0]
                maker = str(getattr(func, "attr", getattr(func, "id", "")))
                if maker in MAKERS[driver] and isinstance(target, ast.Name):
                    path, dotted = _importable(file)
                    options = {"call": f"{dotted}:{target.id}", **({} if path == "." else {"path": path})}
                    yield AgentUse(driver=driver, options=options)


def _importable(file: str) -> tuple[str, str]:
    """The folder to import a module from, and its name there: the root or `src`, unless a folder is no identifier."""
    parts = file.removesuffix(".py").removesuffix("/__init__").split("/")
    folder, parts = ("src", parts[1:]) if parts[0] == "src" and len(parts) > 1 else (".", parts)
    if all(part.isidentifier() for part in parts):
        return folder, ".".join(parts)
    return str(PurePosixPath(file).parent), PurePosixPath(file).stem
