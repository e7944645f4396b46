"""The CES files below a root, and the results of runs that were started here. A file is read again
only if it has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from evalgate.config import load
from evalgate.discovery.walk import Tree
from evalgate.errors import Problem
from evalgate.formats.base import SearchedTree
from evalgate.results import kept
from evalgate.text import plain
from evalgate.wings.ces import format as ces_format, read
from evalgate.wings.ces.read import COLLECTION_OF, Kind, Library, Reading

RUNS = f"{kept.FOLDER}/ces"
"""The folder of the results of runs that were started here."""
_TICK_NS = 100_000_000
_COARSE_TICK_NS = 2_000_000_000
"""Longer than a file system's clock stands still; of one that counts whole seconds."""
_Stamp: TypeAlias = tuple[int, ...]


class StoredFiles:
    """The current CES files below a root. Many threads may use them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._contents: dict[tuple[str, str], tuple[list[str], list[_Stamp], Any]] = {}

    def library(self) -> Library:
        """All files, with their problems except those between files."""
        library: Library = self._cached(("library", ""), self._read_library)
        return library

    def _read_library(self) -> tuple[Library, list[str]]:
        settings = load.load_settings({"root": str(self._root)})
        exclude = settings.gate_file.exclude
        tree = Tree(self._root, exclude=exclude)
        files = ces_format.FORMAT.find(tree, exclude=exclude, kind_at=self._kind_at)
        readings = {file: self._read(tree, file, self._kind_at(tree, file)) for file in files}
        for kind in (Kind.RESULT, Kind.RUN):
            readings |= {file: self._read(tree, file, kind) for file in self._of_runs(kind)}
        problems = (problem for reading in readings.values() for problem in reading.problems)
        library = Library(readings=readings, problems=tuple(problems))
        folders = (RUNS, *(f"{RUNS}/{COLLECTION_OF[kind]}" for kind in (Kind.RESULT, Kind.RUN)))
        others = (*folders, *tree.other_json, *tree.other_yaml)
        return library, [*tree.origins, *others, *readings]

    def _of_runs(self, kind: Kind) -> Iterator[str]:
        folder = f"{RUNS}/{COLLECTION_OF[kind]}"
        if (self._root / folder).is_dir():
            names = sorted(os.listdir(self._root / folder))  # noqa: PTH208 - names, not paths
            yield from (f"{folder}/{name}" for name in names if name.endswith(".json"))

    def _kind_at(self, tree: SearchedTree, path: str) -> Kind | None:
        kind: Kind | None = self._cached(
            ("kind", path), lambda: (ces_format.kind_at(tree, path), [path])
        )
        return kind

    def _read(self, tree: Tree, file: str, kind: Kind | None) -> Reading:
        def parse() -> Reading:
            text = plain.decode(tree.read(file, largest=ces_format.LARGEST_BYTES), file=file)
            if isinstance(text, Problem):
                return Reading(kind=kind or Kind.EVALUATION, problems=(text,))
            return read.parse(text, file=file, kind=kind)

        reading: Reading = self._cached(("content", file), lambda: (parse(), [file]))
        return reading

    def _cached(self, key: tuple[str, str], make: Callable[[], tuple[Any, list[str]]]) -> Any:
        """What `make` returns with the paths that it read; the earlier result if none of them has
        changed."""
        started = time.time_ns()
        paths, stamps, content = self._contents.get(key, ([], [], None))
        if not paths or stamps != list(map(self._stamp, paths)):
            content, paths = make()
            stamps = list(map(self._stamp, paths))
            if _is_settled(stamps, before=started):
                self._contents[key] = (paths, stamps, content)
        return content

    def _stamp(self, path: str) -> _Stamp:
        """Values that change with the content of a file or a folder; () if it does not exist."""
        try:
            entry = os.stat(f"{self._root}/{path}")  # noqa: PTH116 - pathlib is slower
        except (OSError, ValueError):
            return ()
        return (entry.st_mtime_ns, entry.st_ctime_ns, entry.st_size, entry.st_ino)


def _is_settled(stamps: Iterable[_Stamp], *, before: int) -> bool:
    """True unless a change was so recent that a later change may look the same."""
    newest = max((max(stamp[:2]) for stamp in stamps if stamp), default=0)
    tick = _TICK_NS if newest % 1_000_000_000 else _COARSE_TICK_NS
    return newest < before - tick
