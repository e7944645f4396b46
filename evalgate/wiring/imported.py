"""Which files of a checkout Python modules are made of, read from their source: nothing of it is ever imported here."""

from __future__ import annotations

import ast
import posixpath
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

MOST_FILES = 1000
"""As many are followed, the nearest first."""

_MOST_BYTES = 1024 * 1024
_MOST_LOOKED_AT = 100_000
_LONGEST_NAME = 500
_ITSELF = "agent"
_BY_NAME = frozenset({"import_module", "__import__"})


def files(root: Path, modules: Iterable[str], *, places: Sequence[str], home: str | None = None) -> frozenset[str]:
    """The files of `modules` (dotted names) and of what they import, directly or through others, relative to `root`.

    `places`: the folders from which modules may be imported; whatever lies in any of them counts, since which is
    first is decided when the agent runs. `home`: the agent's folder, also by the name `agent`; what its own package
    imports does not count. Imports within functions count, and those by a written-out name; what is no Python, or is
    imported by a name that is computed, is not seen.
    """
    unfollowed = None if home is None else posixpath.normpath(f"{home}/__init__.py")
    seen: set[str] = set()
    found: set[str] = set()
    waiting = deque(each for module in modules for each in _candidates(module, places, home))
    while waiting and len(found) < MOST_FILES and len(seen) < _MOST_LOOKED_AT:
        name = waiting.popleft()
        if name in seen:
            continue
        seen.add(name)
        if not _is_file(root, name):
            continue
        found.add(name)
        if name != unfollowed:
            waiting.extend(_imports(root / name, name, places=places, home=home))
    return frozenset(found)


def _is_file(root: Path, name: str) -> bool:
    try:
        return not name.startswith(("/", "../")) and (root / name).is_file()
    except OSError:  # a name that is too long
        return False


def _candidates(module: str, places: Iterable[str], home: str | None) -> Iterator[str]:
    """Where a module and the packages around it may lie."""
    if len(module) > _LONGEST_NAME:
        return
    parts = module.split(".")
    for place in places:
        yield from _within(place, parts)
    if home is not None:
        yield from _within(home, parts[1:] if parts[0] == _ITSELF else parts)
    if home is not None and parts[0] == _ITSELF:
        yield home if home.endswith(".py") else posixpath.normpath(f"{home}/__init__.py")


def _within(place: str, parts: Sequence[str]) -> Iterator[str]:
    for count in range(1, len(parts) + 1):
        here = posixpath.normpath(posixpath.join(place, *parts[:count]))
        yield f"{here}.py"
        yield f"{here}/__init__.py"


def _imports(path: Path, name: str, *, places: Sequence[str], home: str | None) -> Iterator[str]:
    for module in _imported(_parsed(path)):
        stem = module.lstrip(".")
        level = len(module) - len(stem)
        if not level:
            yield from _candidates(stem, places, home)
        elif level < _LONGEST_NAME:
            package = posixpath.normpath(posixpath.join(posixpath.dirname(name), *[".."] * (level - 1)))
            yield posixpath.normpath(posixpath.join(package, "__init__.py"))
            yield from _candidates(stem, [package], None) if stem else ()


def _parsed(path: Path) -> ast.AST:
    """The source; an empty one where there is none that this Python can parse."""
    try:
        if path.stat().st_size <= _MOST_BYTES:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the parser, for escapes that are none
                return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    return ast.Module(body=[], type_ignores=[])


def _imported(source: ast.AST) -> Iterator[str]:
    """Dotted names, relative ones with their leading dots. A name that is imported from a module may be a module."""
    for node in ast.walk(source):
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=module, names=aliases, level=level):
                stem = "." * level + (module or "")
                yield stem
                yield from (f"{stem}.{alias.name}" if module else f"{stem}{alias.name}" for alias in aliases)
            case ast.Call(
                func=ast.Name(id=called) | ast.Attribute(attr=called), args=[ast.Constant(value=str(module)), *_]
            ) if called in _BY_NAME:
                yield module
            case _:
                pass
