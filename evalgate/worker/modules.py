"""Imports the agent's package under every name that its code may use, as one module.

`agents/weather` may call itself `weather` (adk web), `agents.weather` (from the repository's root)
or `agent` (adk eval): all three are the same module objects here, so its code runs once."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Home:
    """An agent's code and its location."""

    name: str
    """The module name for the import."""
    file: str | None
    """The file to run; None: a folder without `__init__.py`."""
    folder: str | None
    """The folder of its submodules; None for a single file."""
    roots: tuple[str, ...]
    """Folders where imports start."""
    aliases: tuple[str, ...]
    """Other names of the same module."""

    @property
    def own_folder(self) -> str:
        """The agent's folder."""
        return self.folder or os.path.dirname(self.file or "")


def locate(path: str, root: str) -> Home:
    """The home of the agent at `path`: a folder or a file, relative to the checkout `root`.

    Raises FileNotFoundError.
    """
    root = os.path.abspath(root)
    place = os.path.abspath(os.path.join(root, path))
    stem, _ = os.path.splitext(place)
    if os.path.isfile(place) and os.path.basename(stem) in ("__init__", "agent", "root_agent"):
        place = os.path.dirname(place)
    is_folder = os.path.isdir(place)
    if not is_folder and not os.path.isfile(place):
        raise FileNotFoundError(f"there is neither a folder nor a file {path!r} in the checkout")
    stem = place if is_folder else stem
    file = os.path.join(place, "__init__.py") if is_folder else place
    import_root, name = _module_name(stem, root)
    return Home(
        name=name,
        file=file if os.path.isfile(file) else None,
        folder=place if is_folder else None,
        roots=tuple(dict.fromkeys((root, import_root))),
        aliases=_other_names(stem, root, name),
    )


def _module_name(place: str, root: str) -> tuple[str, str]:
    """The import folder and the dotted name. As in pytest, the search goes upward while folders are
    packages."""
    name_parts = [os.path.basename(place)]
    parent = os.path.dirname(place)
    while (
        parent != root
        and parent.startswith(root + os.sep)
        and os.path.basename(parent).isidentifier()
        and os.path.isfile(os.path.join(parent, "__init__.py"))
    ):
        name_parts.insert(0, os.path.basename(parent))
        parent = os.path.dirname(parent)
    name = ".".join(name_parts)
    if (
        _is_name_taken(name_parts[0], os.path.join(parent, name_parts[0]))
        or not name.replace(".", "_").isidentifier()
    ):
        return os.path.dirname(place), "agent"
    return parent, name


def _other_names(place: str, root: str, name: str) -> tuple[str, ...]:
    """Names that an agent's code may use for its module at `place`, besides `name`."""
    relative = os.path.relpath(place, root)
    names = [os.path.basename(place)]
    if relative != "." and not relative.startswith(".."):
        names.append(relative.replace(os.sep, "."))
    names.append("agent")
    return tuple(
        alias
        for alias in dict.fromkeys(names)
        if alias != name
        and alias.replace(".", "_").isidentifier()
        and not _is_name_taken(alias.partition(".")[0], place)
    )


def _is_name_taken(name: str, place: str) -> bool:
    """True if a top name belongs to the standard library, or to an installed package that is no
    copy of the folder at `place`: the agent's framework may need it."""
    if name in sys.stdlib_module_names:
        return True
    spec = _installed(name)
    if spec is None or spec.origin is None or not os.path.isdir(place):
        return False
    package_folder = os.path.dirname(spec.origin)
    files = [file for file in os.listdir(place) if file.endswith((".py", ".yaml"))]
    return not all(os.path.isfile(os.path.join(package_folder, file)) for file in files)


def _installed(name: str) -> ModuleSpec | None:
    """The spec of an installed module, whatever the repository has under its name."""
    folders = [entry for entry in sys.path if "-packages" in entry]
    return PathFinder.find_spec(name, folders)


def add_folders(roots: Iterable[str]) -> None:
    """Make `roots` importable: before installed packages, after the standard library, because a
    folder of agents may have one named `email` or `calendar`."""
    new_folders = [root for root in dict.fromkeys(roots) if root not in sys.path]
    index = next((i for i, entry in enumerate(sys.path) if "-packages" in entry), len(sys.path))
    sys.path[index:index] = new_folders


def add_packages() -> None:
    """Make installed packages importable in a Python that started without them (`-S`), without
    running their code: the folders in their `.pth` files are added last, and their import lines are
    skipped."""
    import site

    linked_folders: list[str] = []

    def read_pth_file(folder: str, name: str, known_paths: set[str] | None) -> set[str] | None:
        """In place of `site.addpackage`: collect the folders of a file, and run no line of it."""
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                lines = [
                    line.strip()
                    for line in file
                    if not line.startswith(("#", "import ", "import\t"))
                ]
        except OSError:
            lines = []
        linked_folders.extend(os.path.join(folder, line) for line in lines if line)
        return known_paths

    site.addpackage = read_pth_file  # type: ignore[assignment]
    site.execsitecustomize = lambda: None
    site.main()
    sys.path.extend(
        folder
        for folder in dict.fromkeys(linked_folders)
        if os.path.isdir(folder) and folder not in sys.path
    )


def import_home(home: Home) -> ModuleType:
    """Import the agent's package (or file) and let every alias mean it. Raises the errors of its
    code."""
    add_folders(home.roots)
    sys.meta_path.insert(0, Finder(find_home, home))
    folder_name = os.path.basename(home.own_folder)
    if _is_name_taken(folder_name, home.own_folder):
        # the installed package with the same name as the agent's folder
        sys.meta_path.insert(
            0, Finder(lambda name: _installed(name) if name == folder_name else None)
        )
    sys.meta_path.append(Finder(find_agent, home))
    return importlib.import_module(home.name)


class Finder:
    """Finds modules by a function that gets these arguments and the full name, and returns None for
    others."""

    def __init__(self, find: Callable[..., ModuleSpec | None], *arguments: Any) -> None:
        """`arguments`: of `find`, before the full name."""
        self._find = partial(find, *arguments)

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        return self._find(fullname)


def find_home(home: Home, fullname: str) -> ModuleSpec | None:
    """The agent's package at its place, even if another module has its name, and its aliases as the
    same modules."""
    if fullname == home.name and home.file is None:
        spec = ModuleSpec(home.name, None, is_package=True)
        spec.submodule_search_locations = [home.own_folder]
        return spec
    if fullname == home.name:
        folders = [home.folder] if home.folder else None
        return importlib.util.spec_from_file_location(
            home.name, home.file, submodule_search_locations=folders
        )
    for alias in home.aliases:
        if alias != "agent" and f"{fullname}.".startswith(f"{alias}."):
            return _alias_spec(fullname, home.name + fullname[len(alias) :])
    return None


def find_agent(home: Home, fullname: str) -> ModuleSpec | None:
    """The package as `agent`, its name in `adk eval`, if nothing else has this name."""
    if "agent" in home.aliases and f"{fullname}.".startswith("agent."):
        return _alias_spec(fullname, home.name + fullname[len("agent") :])
    return None


def _alias_spec(alias: str, name: str) -> ModuleSpec | None:
    """A spec for `alias` with the module of `name`; None if that does not exist."""
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        return None
    return ModuleSpec(alias, RenamedModule(name))  # type: ignore[arg-type]  # without the base that is slow to import


class RenamedModule:
    """Gives an existing module another name."""

    def __init__(self, name: str) -> None:
        """`name`: the module's first name, by which it is imported."""
        self.name = name
        self.spec: ModuleSpec | None = None
        """The module's own, known once it is imported."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002 - the interface's signature
        """The module itself, imported if it is not loaded yet."""
        module = importlib.import_module(self.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the spec that the import system just replaced. The module has already run."""
        module.__spec__ = self.spec
