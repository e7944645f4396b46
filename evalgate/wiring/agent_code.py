"""The fingerprint of what an agent is made of: another agent must not inherit this one's trials."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from evalgate import agents
from evalgate.config.settings import Settings
from evalgate.model import AgentUse
from evalgate.pipeline import trials
from evalgate.project.agent_places import SeenCheckout

WHOLE_BYTES = 4 * 1024 * 1024
"""Larger files (model weights, data) count by their size only."""


def apart_of(settings: Settings) -> tuple[str, ...]:
    """What of a checkout is no part of any agent: what runs write, and what answers in the stead of tools and judges.
    Relative to a side's root, or absolute."""
    rules = settings.gate_file
    named = (
        *(settings.output, settings.baseline_folder, settings.cache, settings.config, settings.criteria),
        *(rules.tools.cassettes, rules.tools.mocks, rules.judge.record, rules.judge.replay, rules.judge.calibration),
    )
    return tuple(each for each in named if each)


class AgentCode:
    """One side's checkout, read at most once.

    `apart`: see `apart_of`.
    """

    def __init__(self, root: Path, *, apart: Iterable[str] = ()) -> None:
        self._root = root
        paths = (Path(os.path.normpath(root / each)) for each in apart)
        self._apart = frozenset(path.relative_to(root).as_posix() for path in paths if path.is_relative_to(root))
        self._contents: dict[str, bytes] = {}
        self._known: dict[str, str] = {}

    def fingerprint(self, use: AgentUse) -> str:
        """16 hex digits; "" where the agent's code is elsewhere, and nothing can be told of it.

        An agent may import and read what it likes, so all of the checkout counts that `source_files.walk` sees; of
        recordings only the recordings.
        """
        key = trials.agent_key(use)
        if key not in self._known:
            self._known[key] = self._read(use)
        return self._known[key]

    def _read(self, use: AgentUse) -> str:
        driver = agents.DRIVERS.get(use.driver)
        if driver is None or driver.is_remote:
            return ""
        files = driver.files(use.options, SeenCheckout(self._root, apart=self._apart))
        seen = hashlib.sha256()
        for path in sorted(files):
            seen.update(os.fsencode(path) + b"\0" + self._content(path) + b"\0")
        return seen.hexdigest()[:16]

    def _content(self, path: str) -> bytes:
        if path not in self._contents:
            self._contents[path] = hashlib.sha256(_content(self._root / path)).digest()
        return self._contents[path]


def _content(path: Path) -> bytes:
    try:
        if not path.is_file():  # a link to a folder, or to nothing
            return b"link " + os.fsencode(path.readlink()) if path.is_symlink() else b"no file"
        size = path.stat().st_size
        return path.read_bytes() if size <= WHOLE_BYTES else str(size).encode()
    except OSError:
        return b"unreadable"
