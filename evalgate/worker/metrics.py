"""Custom metrics, run in a process of their own: modules of the agent's package can be imported, the agent is not run.

An agent's package could otherwise replace the metric that grades it, as its `__init__` runs before any module in it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from types import ModuleType
from typing import Any

from . import errors, modules

Message = dict[str, Any]


class Host:
    """See server.Host; it has no sessions."""

    sessions = 16
    asks = False

    def __init__(self) -> None:
        self._package = ""
        self._finder = MetricFinder()

    async def load(self, options: Message) -> dict[str, str]:
        """Say where modules are. Raises errors.LoadFailed."""
        root, path = os.getcwd(), str(options.get("path") or ".")
        try:
            home = _home_of_callable(options, root) if options.get("call") else modules.locate(path, root)
        except FileNotFoundError as error:
            raise errors.LoadFailed(str(error)) from error
        if not options.get("call"):
            from .adk import load_environment

            load_environment(home.own_folder, root)
        self._package = home.name
        roots = dict.fromkeys((*home.roots, *(options.get("import_roots") or ())))
        self._finder.roots = tuple(roots)
        self._finder.packages = _packages_of(home)
        aliases = modules.HomeFinder(home)
        sys.meta_path[:0] = [self._finder, aliases]
        sys.meta_path.append(modules.AgentFinder(aliases))
        sys.path.extend(roots)  # behind what is installed: a file of the repository cannot take the name of a package
        return {"framework": "metrics"}

    async def open(self, start: Message, asked: Any) -> Any:  # noqa: ARG002 - the shape of Host
        """There is no agent here."""
        raise RuntimeError("this worker has no agent, only metrics")

    async def metric(self, message: Message) -> Message:
        """Run a custom metric; its types are google-adk's, which must be installed here for it."""
        from . import adk_metrics

        self._finder.own.add(str(message.get("code", "")).partition(".")[0])
        answer = await adk_metrics.run(message, self._package)
        said = str(answer.get("error") or "")
        for name, folder in self._finder.packages.items():
            if "cannot import name" in said and f"from '{name}'" in said:
                file = os.path.relpath(os.path.join(folder, "__init__.py"))
                why = f"{file} is not run for a metric, since it loads the agent; import the name from its own module"
                answer["error"] = f"{why}. {said}"
        return answer

    async def close(self) -> None:
        """Nothing is held open."""


def _home_of_callable(options: Message, root: str) -> modules.Home:
    """The package of `module:function`, found as the agent's worker finds it."""
    name = str(options.get("call")).partition(":")[0].partition(".")[0]
    start = os.path.abspath(str(options.get("path") or "."))
    roots = tuple(dict.fromkeys((start, root)))
    places = (os.path.join(each, name) for each in (*roots, *(options.get("import_roots") or ())))
    folder = next((each for each in places if os.path.isdir(each)), None)
    return modules.Home(name=name, file=None, folder=folder, roots=roots, aliases=("agent",) if name != "agent" else ())


def _packages_of(home: modules.Home) -> dict[str, str]:
    """The agent's package and those that it lies in, by name: their folders."""
    place = home.folder or os.path.dirname(home.file or "")
    parts = home.name.split(".") if home.folder else home.name.split(".")[:-1]
    found = {}
    while parts:
        found[".".join(parts)] = place
        place = os.path.dirname(place)
        parts.pop()
    return found if place else {}


class MetricFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the agent's packages as folders whose `__init__` does not run, and a metric's own module in the repository
    first."""

    def __init__(self) -> None:
        self.roots: tuple[str, ...] = ()
        self.packages: dict[str, str] = {}
        self.own: set[str] = set()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:  # noqa: ARG002 - the interface's signature
        """See importlib.abc.MetaPathFinder."""
        folder = self.packages.get(fullname)
        if folder is not None:
            spec = importlib.machinery.ModuleSpec(fullname, self, is_package=True)
            spec.submodule_search_locations = [folder]
            return spec
        if fullname in self.own and fullname not in sys.stdlib_module_names:
            return importlib.machinery.PathFinder.find_spec(fullname, list(self.roots))
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:  # noqa: ARG002 - as above
        """An empty module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs."""
