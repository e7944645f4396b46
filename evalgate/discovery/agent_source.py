"""Python source, parsed and never run: the names that it binds, and the imports among the modules
of a checkout."""

from __future__ import annotations

import ast
import functools
import itertools
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import TypeAlias, TypeGuard

MOST_FILES = 1000
MOST_PARSED = 100

Imports: TypeAlias = tuple[tuple[int, str], ...]
"""Level and dotted name of each import."""

ReadText = Callable[[str], str | None]
"""Reads a file by its POSIX path below the root; None if it is missing."""


class ImportGraph:
    """The imports among the files of a checkout. Each file is read at most once."""

    def __init__(self, read: ReadText) -> None:
        self.read = functools.cache(read)  # a module has many importers
        # trees are large
        self.parsed = functools.lru_cache(MOST_PARSED)(self._parse)
        self.imports = functools.cache(self._find_imports)
        self.modules = functools.cache(self._find_modules)

    def reached(self, files: Iterable[str]) -> list[str]:
        """These files, and all modules of the checkout that they import, at most MOST_FILES."""
        reached: dict[str, None] = {}
        queue = deque(files)
        while queue and len(reached) < MOST_FILES:
            file = queue.popleft()
            if file not in reached and self.read(file) is not None:
                reached[file] = None
                folder = str(PurePosixPath(file).parent)
                for level, name in self.imports(file):
                    queue += self.modules(folder, level, name)
        return list(reached)

    def packages(self, file: str) -> set[str]:
        """The top packages of a file's absolute imports."""
        return {name.partition(".")[0] for level, name in self.imports(file) if not level}

    def _parse(self, file: str) -> ast.Module | None:
        return parse(self.read(file) or "") if file.endswith(".py") else None

    def _find_imports(self, file: str) -> Imports:
        module = self.parsed(file)
        return () if module is None else imports_of(module)

    def _find_modules(self, folder: str, level: int, name: str) -> list[str]:
        """The files of the checkout that an import in a module of the folder may load."""
        names = name.split(".") if name else []
        folders = [folder, *map(str, PurePosixPath(folder).parents)]
        if level:
            return self.below(folders[level - 1], names) if level <= len(folders) else []
        for base in folders:
            for start in (base, _join(base, "src")):
                if files := self.below(start, names):
                    return files
        return []

    def below(self, base: str, names: Iterable[str]) -> list[str]:
        """The modules named by `names` below a folder, including the packages on the way. The last
        part may be a name in a module."""
        files = []
        path = base
        for name in names:
            path = _join(path, name)
            places = (f"{path}.py", f"{path}/__init__.py")
            files += [file for file in places if self.read(file) is not None]
        return files


def _join(folder: str, name: str) -> str:
    return name if folder in ("", ".") else f"{folder}/{name}"


# --- one module -----------------------------------------------------------------------------------


def parse(text: str) -> ast.Module | None:
    """The syntax tree of a module; None if evalgate's Python cannot parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def imports_of(module: ast.Module) -> Imports:
    """Level and dotted name of each import of a module, and of each name that it imports."""
    imports: dict[tuple[int, str], None] = {}
    for node in walk_blocks(module):
        imports |= {(level, name): None for _, level, name in imported_names(node)}
        if isinstance(node, ast.ImportFrom):
            imports[node.level, node.module or ""] = None
    return tuple(imports)


def imported_names(node: ast.AST) -> Iterator[tuple[ast.alias, int, str]]:
    """The names that an import statement binds, each with its level and dotted name."""
    level, module = (node.level, node.module or "") if isinstance(node, ast.ImportFrom) else (0, "")
    for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
        yield alias, level, f"{module}.{alias.name}".strip(".*")


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def walk_blocks(module: ast.Module, *, at_import: bool = False) -> Iterator[ast.AST]:
    """All statements of a module; `at_import`: without those in functions and classes. Expressions,
    most of the nodes, contain none."""
    pending: deque[ast.AST] = deque([module])
    while pending:
        node = pending.popleft()
        yield node
        if not (at_import and isinstance(node, (*FUNCTIONS, ast.ClassDef))):
            for name in ("body", "handlers", "cases", "orelse", "finalbody"):
                pending += getattr(node, name, ())


def constants_of(module: ast.Module) -> dict[str, str]:
    """The names that a module's top level sets to texts, with their texts."""
    texts = ((name, text_of(value)) for name, value in pairs_at_top(module))
    return {name: text for name, text in texts if name and text is not None}


def text_of(node: ast.AST | None, constants: Mapping[str, str] = {}) -> str | None:
    """The text of an expression, which may be the name of a constant; None if it is no text."""
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def pairs_at_top(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The names that a module's top level sets, with their values."""
    return itertools.chain.from_iterable(map(pairs, module.body))


def pairs(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names with their values: in assignments, dictionaries and keyword arguments."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((getattr(target, "id", ""), value) for target in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield getattr(target, "id", ""), value
        case ast.Dict(keys=keys, values=values):
            yield from (
                (text_of(key) or "", value) for key, value in zip(keys, values, strict=True)
            )
        case ast.keyword(arg=str(name), value=value):
            yield name, value


def children(node: ast.AST) -> Iterable[ast.AST]:
    """The nodes right below a node, without code that runs only in a script."""
    return node.orelse if is_guard(node) else ast.iter_child_nodes(node)


def is_guard(node: ast.AST) -> TypeGuard[ast.If]:
    """True for `if __name__ == "__main__"`."""
    return isinstance(node, ast.If) and "__name__" in map(name_of, leaves(node.test))


def leaves(value: ast.expr) -> Iterator[ast.Name | ast.Constant]:
    """The names and constants of an expression, without those in calls within it."""
    pending: list[ast.AST] = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name | ast.Constant):
            yield node
        elif not isinstance(node, ast.Call | ast.Lambda):
            pending += ast.iter_child_nodes(node)


def name_of(node: ast.AST | None) -> str:
    """The last part of a dotted name; "" for any other node."""
    return str(getattr(node, "id", getattr(node, "attr", "")))


EXAMPLE_FOLDERS = frozenset({
    "benchmark", "benchmarks", "demo", "demos", "eval", "evals", "evaluation", "evaluations", "example", "examples",
    "sample", "samples", "test", "tests",
})  # fmt: skip
"""Folders whose agents are rarely the main agent of a repository."""
