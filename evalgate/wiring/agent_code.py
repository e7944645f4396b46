"""The fingerprint of an agent's own files: another agent must not inherit this one's trials."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from evalgate.model import AgentUse

SKIPPED_FOLDERS = {"__pycache__", "venv", "node_modules"}
WHOLE_BYTES = 4 * 1024 * 1024
"""Larger files (model weights, data) count by their size only."""


def fingerprint(root: Path, use: AgentUse, *, apart: Path) -> str:
    """16 hex digits over the files below the agent's `path`, "" where it has none.

    Hidden folders, virtual environments and what lies in `apart` (the run's own output) do not count. Files that an
    agent reads from elsewhere are not seen: a run is resumed in an unchanged checkout.
    """
    named = use.options.get("path")
    if not isinstance(named, str):
        return ""
    place = root / named
    seen = hashlib.sha256()
    for path in _files(place, apart=apart) if place.is_dir() else [place]:
        seen.update(os.fsencode(path.relative_to(root)) + b"\0" + _content(path) + b"\0")
    return seen.hexdigest()[:16]


def _content(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        return path.read_bytes() if size <= WHOLE_BYTES else str(size).encode()
    except OSError:
        return b"unreadable"


def _files(place: Path, *, apart: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(place):
        here = Path(where)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in SKIPPED_FOLDERS and here / name != apart
        )
        yield from (here / name for name in sorted(files) if (here / name).is_file())
