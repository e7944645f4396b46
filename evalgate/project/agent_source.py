"""Whether Python source offers an ADK agent, told from its text: nothing of the repository is ever imported here."""

from __future__ import annotations

import ast
from collections.abc import Iterator

ENTRY_NAMES = frozenset({"root_agent", "get_agent_async"})
"""What ADK looks for in an agent's module; also `app`, which other frameworks use as well."""


def offers_agent(source: str) -> bool:
    """Whether the module defines, assigns or imports `root_agent`, `get_agent_async`, or an `app` of ADK.

    Source that this Python cannot parse is judged by its words.
    """
    if not any(name in source for name in (*ENTRY_NAMES, "google.adk", "import app")):
        return False
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "root_agent" in source
    names = set(_bound_names(module.body))
    if names & ENTRY_NAMES:
        return True
    return "app" in names and ("google.adk" in source or _imports_app_from_sibling(module.body))


def _bound_names(body: list[ast.stmt]) -> Iterator[str]:
    """Names that the module's own level binds, within `if`, `try` and `with` too."""
    for statement in body:
        match statement:
            case ast.Assign(targets=targets):
                yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name for alias in aliases)
            case ast.If(body=inner, orelse=other):
                yield from _bound_names([*inner, *other])
            case ast.Try(body=inner, handlers=handlers, orelse=other, finalbody=final):
                yield from _bound_names([*inner, *other, *final])
                for handler in handlers:
                    yield from _bound_names(handler.body)
            case ast.With(body=inner):
                yield from _bound_names(inner)
            case _:
                pass


def _imports_app_from_sibling(body: list[ast.stmt]) -> bool:
    """`from .agent import app`: what ADK's own templates write in `__init__.py`."""
    return any(
        isinstance(statement, ast.ImportFrom)
        and (statement.module or "").split(".")[-1] == "agent"
        and any((alias.asname or alias.name) == "app" for alias in statement.names)
        for statement in body
    )
