"""Replies on disk by address: one small file each, so that a workflow can cache the folder and a branch can hold it.

Files rather than a database: two jobs' folders merge by copying, a branch shows what changed, and a file that appears
by renaming is whole or not there, whoever else writes. A failure is never kept.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from evalgate.judging import entries
from evalgate.judging.entries import Entry
from evalgate.plugins import JudgeReply


class VerdictCache:
    """The folder; safe to use from many threads and processes. What goes wrong in it is told and never stops a run."""

    def __init__(self, folder: Path, *, warn: Callable[[str], None] = lambda _: None) -> None:
        self._folder = folder
        self._warn = warn

    def read(self, address: str) -> JudgeReply | None:
        """The reply kept at `address`, marked as cached; None where there is none that can be read."""
        path = self._path(address)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            self._warn(f"judge cache: {path.name} cannot be read and is asked for anew: {type(error).__name__}")
            return None
        try:
            entry = entries.parse(text)
        except ValueError as error:
            self._warn(f"judge cache: {path.name} is damaged and is asked for anew: {error}")
            return None
        if entry.address != address:
            self._warn(f"judge cache: {path.name} holds another question's reply and is asked for anew")
            return None
        return entry.reply

    def write(self, entry: Entry) -> None:
        """Keep a reply; the last writer wins."""
        path = self._path(entry.address)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(entries.render(entry) + "\n")
                Path(name).chmod(0o644)
                Path(name).replace(path)
            except OSError:
                with contextlib.suppress(OSError):
                    Path(name).unlink()
                raise
        except OSError as error:
            self._warn(f"judge cache: {path.name} could not be kept: {error.strerror or type(error).__name__}")

    def _path(self, address: str) -> Path:
        return self._folder / address[:2] / f"{address}.json"
