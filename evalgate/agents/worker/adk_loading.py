"""Finding an ADK agent as `adk eval` and `adk web` do: app, root_agent, get_agent_async or root_agent.yaml."""

from __future__ import annotations

import inspect
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from . import faults, importing


@dataclass(frozen=True)
class LoadedAgent:
    """An agent as found: `app` None where the package has only a root agent; `closing` holds what it opened."""

    root_agent: Any
    app: Any
    home: importing.Home
    closing: AsyncExitStack | None


async def load(path: str, *, wanted: str | None, root: str) -> LoadedAgent:
    """The agent at `path` below the checkout `root`; `wanted` names another attribute, or an agent within the tree.

    Raises faults.CannotLoad.
    """
    try:
        home = importing.locate(path, root)
    except FileNotFoundError as error:
        raise faults.CannotLoad(str(error)) from error
    read_dotenv(home.own_folder, root)
    _require_framework()
    closing = AsyncExitStack()
    what = f"the agent {path!r}"
    try:
        app, root_agent = await _find(home, wanted, closing)
    except faults.CannotLoad:
        raise
    except BaseException as error:
        raise faults.CannotLoad.because(error, what) from error
    if root_agent is None:
        raise faults.CannotLoad(_nothing_found(home, path, wanted))
    if not hasattr(root_agent, "name") or isinstance(root_agent, (type, ModuleType)):
        raise faults.CannotLoad(f"{what}: the root agent is not an agent but {type(root_agent).__name__}")
    return LoadedAgent(root_agent=root_agent, app=app, home=home, closing=closing)


def read_dotenv(folder: str, root: str) -> None:
    """Set what the nearest `.env`, from the agent's folder up to the checkout's root, says and nothing else has set."""
    if os.environ.get("ADK_DISABLE_LOAD_DOTENV", "").lower() in ("1", "true"):
        return
    while True:
        file = os.path.join(folder, ".env")
        if os.path.isfile(file):
            break
        parent = os.path.dirname(folder)
        if folder in (root, parent):
            return
        folder = parent
    try:
        from dotenv import load_dotenv
    except ImportError:
        sys.stderr.write(f"{file} is not read: python-dotenv is not installed\n")
        return
    load_dotenv(file, override=False)


def _require_framework() -> None:
    try:
        import google.adk  # noqa: F401 - whether it is there
    except ImportError as error:
        raise faults.CannotLoad.because(error, "google-adk") from error


async def _find(home: importing.Home, wanted: str | None, closing: AsyncExitStack) -> tuple[Any, Any]:
    for module in _modules(home):
        named = getattr(module, wanted, None) if wanted else None
        if named is not None and not isinstance(named, ModuleType):
            return _app_or_agent(named)
        app, agent = await _in_module(module, closing)
        if agent is not None:
            return app, _within(agent, wanted)
    agent = _from_yaml(home)
    return None, _within(agent, wanted) if agent is not None else None


def _modules(home: importing.Home) -> Any:
    """The modules to look in, imported as late as possible: `agent` of the package first, as ADK has it."""
    package = importing.import_home(home)
    submodule = getattr(package, "agent", None)
    if not isinstance(submodule, ModuleType) and not _offers(package):
        submodule = importing.import_submodule(home, "agent")
    if isinstance(submodule, ModuleType):
        yield submodule
    yield package


def _offers(module: ModuleType) -> bool:
    return any(hasattr(module, name) for name in ("root_agent", "get_agent_async")) or _is_app(
        getattr(module, "app", None)
    )


async def _in_module(module: ModuleType, closing: AsyncExitStack) -> tuple[Any, Any]:
    app: Any = getattr(module, "app", None)
    if _is_app(app):
        return app, app.root_agent
    if hasattr(module, "root_agent"):
        return _app_or_agent(module.root_agent)
    if hasattr(module, "get_agent_async"):
        made = module.get_agent_async()
        made = await made if inspect.isawaitable(made) else made
        agent, stack = made if isinstance(made, tuple) else (made, None)
        if hasattr(stack, "aclose"):
            closing.push_async_callback(stack.aclose)
        return None, agent
    return None, None


def _app_or_agent(value: Any) -> tuple[Any, Any]:
    return (value, value.root_agent) if _is_app(value) else (None, value)


def _is_app(value: Any) -> bool:
    """By its module and name: importing google.adk.apps costs time, and old versions have none."""
    return any(base.__name__ == "App" and base.__module__.startswith("google.adk.") for base in type(value).__mro__)


def _within(agent: Any, wanted: str | None) -> Any:
    if not wanted or getattr(agent, "name", None) == wanted:
        return agent
    found = agent.find_agent(wanted) if hasattr(agent, "find_agent") else None
    if found is None:
        names = ", ".join(repr(name) for name in _names(agent))
        raise faults.CannotLoad(f"no agent {wanted!r}: the agent tree has {names}")
    return found


def _names(agent: Any) -> list[str]:
    names = [str(getattr(agent, "name", ""))]
    for child in getattr(agent, "sub_agents", None) or ():
        names += _names(child)
    return names


def _from_yaml(home: importing.Home) -> Any:
    for name in ("root_agent.yaml", "root_agent.yml"):
        file = os.path.join(home.own_folder, name)
        if os.path.isfile(file):
            from google.adk.agents import config_agent_utils

            return config_agent_utils.from_config(file)
    return None


def _nothing_found(home: importing.Home, path: str, wanted: str | None) -> str:
    looked = "neither app, root_agent nor get_agent_async" + (f", nor {wanted!r}," if wanted else "")
    files = ", ".join(
        sorted(name for name in os.listdir(home.own_folder) if name.endswith((".py", ".yaml"))) or ["no Python file"]
    )
    return f"the agent {path!r} cannot be loaded: {looked} in its package, and no root_agent.yaml (it has {files})"
