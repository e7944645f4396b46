"""What a store of base results can do, whatever it is kept in: a data branch or a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

HISTORY = "history.json"
BADGE = "badge.json"

Revise = Callable[[bytes | None], Mapping[str, bytes]]
"""From the history that is stored (None: none) to the files to store beside the run: `history.json`, `badge.json`.

Called again with a newer history where another run was faster: it must have no effects of its own.
"""

Warn = Callable[[str], None]
"""Told of what was found in a store and left aside, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Results of an earlier run.

    `commit`: what was run; `saved_at`: ISO 8601, UTC; `distance`: steps back from the commit that was looked for;
    `path`: results.json, plain, ours to read and not to be trusted.
    """

    commit: str
    saved_at: str
    distance: int
    path: Path


class Store(Protocol):
    """Keeps results of runs on the base branch. Every method raises UnavailableError where it cannot be reached."""

    @property
    def name(self) -> str:
        """How people call it: `data branch evalgate-data`."""
        ...

    def find(self, candidates: Sequence[str]) -> Stored | None:
        """Results of the first of `candidates` (commit SHAs, nearest first) that has readable ones."""
        ...

    def read(self, name: str) -> bytes | None:
        """A file beside the runs (`history.json`), None where there is none."""
        ...

    def save(self, commit: str, results: Path, *, now: datetime, revise: Revise | None = None) -> None:
        """Keep the results of `commit`, and the files that `revise` makes of the history; drop the oldest runs."""
        ...
