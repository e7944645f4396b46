"""How runs are laid out in a store: names, compression with limits, and which of them are kept."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from evalgate.errors import UnavailableError
from evalgate.text.words import size

RUNS = "runs"
README = "README.md"
KEPT_RUNS = 50
MOST_PACKED_BYTES = 95 * 1024**2  # GitHub refuses files of 100 MiB
MOST_BYTES = 1024**3
MOST_HISTORY_BYTES = 32 * 1024**2
_CHUNK = 1024**2
_NAME = re.compile(r"(\d{8}T\d{6}Z)-([0-9a-f]{40}|[0-9a-f]{64})\.json\.gz")
_STAMP = "%Y%m%dT%H%M%SZ"

README_TEXT = """\
# Results of evalgate

Written by evalgate after runs on the base branch; pull requests are compared with these results. Do not edit
the files. They can be deleted; the next run on the base branch starts over.

| File | Contents |
| --- | --- |
| `runs/TIME-COMMIT.json.gz` | results.json of the run of a commit, compressed; the newest ones are kept |
| `history.json` | how reliable each case was in recent runs |
| `badge.json` | a badge for shields.io's endpoint |
"""


class Unreadable(Exception):  # noqa: N818 - it says what is the matter
    """What is stored is not what a run wrote; the message is part of a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Entry:
    """One stored run by its name; the order is that of time. `stamp`: `20260102T030405Z`."""

    stamp: str
    commit: str

    @property
    def name(self) -> str:
        """Its file name in `runs`."""
        return f"{self.stamp}-{self.commit}.json.gz"

    @property
    def saved_at(self) -> str:
        """ISO 8601, UTC."""
        stamp = self.stamp
        return f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}T{stamp[9:11]}:{stamp[11:13]}:{stamp[13:15]}Z"


def made_now(commit: str, now: datetime) -> Entry:
    """The entry of a run that is saved now."""
    return Entry(stamp=now.astimezone(UTC).strftime(_STAMP), commit=commit)


def parse_names(names: Iterable[str]) -> list[Entry]:
    """The runs among file names of `runs`, oldest first; other files and impossible times are passed over."""
    entries = []
    for name in names:
        found = _NAME.fullmatch(name)
        if found and _is_time(found[1]):
            entries.append(Entry(stamp=found[1], commit=found[2]))
    return sorted(entries)


def pick(entries: Iterable[Entry], candidates: Sequence[str]) -> list[tuple[int, Entry]]:
    """The runs of `candidates` with their distances: nearest commit first, newest run of a commit first."""
    by_commit: dict[str, list[Entry]] = {}
    for entry in entries:
        by_commit.setdefault(entry.commit, []).append(entry)
    return [
        (distance, entry)
        for distance, commit in enumerate(candidates)
        for entry in sorted(by_commit.get(commit, ()), reverse=True)
    ]


def pick_dropped(entries: Iterable[Entry], *, keep: int, new: Entry) -> list[Entry]:
    """What goes when `new` comes: earlier runs of its commit, and the oldest beyond `keep`; never `new` itself."""
    others = sorted(entry for entry in entries if entry != new)
    repeated = [entry for entry in others if entry.commit == new.commit and entry < new]
    left = [entry for entry in others if entry not in set(repeated)]
    surplus = max(len(left) + 1 - max(keep, 1), 0)
    return [*repeated, *left[:surplus]]


def pack(results: Path, to: Path) -> None:
    """Compress results.json, always to the same bytes. Raises UnavailableError where it is unreadable or too large."""
    packer = zlib.compressobj(9, wbits=31)
    try:
        with results.open("rb") as source, to.open("wb") as target:
            while chunk := source.read(_CHUNK):
                target.write(packer.compress(chunk))
            target.write(packer.flush())
        packed = to.stat().st_size
    except OSError as error:
        raise UnavailableError(f"cannot compress {results}: {error.strerror or error}") from error
    if packed > MOST_PACKED_BYTES:
        raise UnavailableError(
            f"the results are too large to store: {size(packed)} compressed, the limit is {size(MOST_PACKED_BYTES)}",
            hint="Store them as an artifact or in a folder, or split the gate into several jobs.",
        )


def unpack(data: bytes, to: Path, *, most_bytes: int = MOST_BYTES) -> None:
    """Write what `data` holds, compressed as `pack` does, to a new file. Raises Unreadable, OSError.

    Only one JSON object passes, by its first character (who reads it checks the rest), and at most `most_bytes`.
    """
    if len(data) > MOST_PACKED_BYTES:
        raise Unreadable(f"is larger than {size(MOST_PACKED_BYTES)}")
    unpacker = zlib.decompressobj(wbits=31)
    written = 0
    with to.open("xb") as target:
        while data and not unpacker.eof:
            try:
                piece = unpacker.decompress(data, _CHUNK)
            except zlib.error:
                raise Unreadable("is not in the expected compression format") from None
            data = unpacker.unconsumed_tail
            if not written and piece and not piece.lstrip().startswith(b"{"):
                raise Unreadable("holds no results")
            written += len(piece)
            if written > most_bytes:
                raise Unreadable(f"is larger than {size(most_bytes)}")
            target.write(piece)
    if not unpacker.eof:
        raise Unreadable("is truncated")
    if not written:
        raise Unreadable("is empty")


def _is_time(stamp: str) -> bool:
    try:
        datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return False
    return True
