"""Replies as a file of JSON lines that `replay` answers from, kept in an order that makes small diffs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from evalgate.judging import entries
from evalgate.judging.entries import Entry


def read_recordings(path: Path, *, warn: Callable[[str], None] = lambda _: None) -> Mapping[str, Entry]:
    """All entries of a file, or of every `*.jsonl` of a folder, by address; a line that is none is told and left out.

    Raises OSError where the path cannot be read.
    """
    found: dict[str, Entry] = {}
    for file in sorted(path.glob("**/*.jsonl")) if path.is_dir() else [path]:
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if not line.strip():
                continue
            try:
                entry = entries.parse(line)
            except ValueError as error:
                warn(f"{file.name}:{number}: no recorded reply: {error}")
                continue
            found[entry.address] = entry
    return found


class Recorder:
    """Adds replies to a file as they come, so that a killed run keeps them; safe to use from many threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._kept = set(read_recordings(path)) if path.exists() else set()
        path.parent.mkdir(parents=True, exist_ok=True)

    def record(self, entry: Entry) -> None:
        """Add a reply, unless its question is in the file. Raises OSError."""
        with self._lock:
            if entry.address in self._kept:
                return
            with self._path.open("a", encoding="utf-8") as file:
                file.write(entries.render(entry) + "\n")
            self._kept.add(entry.address)

    def close(self) -> None:
        """Put the file in order: by criterion, model, sample and address. Raises OSError."""
        with self._lock:
            if not self._path.exists():
                return
            kept = sorted(read_recordings(self._path).values(), key=_order)
            ordered = self._path.with_suffix(".ordered")
            ordered.write_text("".join(entries.render(entry) + "\n" for entry in kept), encoding="utf-8")
            ordered.replace(self._path)


def _order(entry: Entry) -> tuple[str, str, int, str]:
    return entry.criterion, entry.model, entry.sample, entry.address
