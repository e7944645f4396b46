"""The file under a journal: one writer at a time, whole lines told from damaged ones, and what its errors ask for."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from evalgate.errors import UnavailableError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line that ends, its first offset and the one behind it; `value` None: it is damaged.

    `mark`: see `mark_of`.
    """

    where: int
    behind: int
    mark: bytes
    value: dict[str, Any] | None


def open_alone(path: Path) -> FileIO:
    """The file, made where there is none, for the only process that writes it. Raises UnavailableError.

    The lock ends with the process, however it ends.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # unbuffered: after a failed write nothing waits in memory for a second failure
        # made where it is missing, and never emptied: another process may have it since a moment ago
        file = FileIO(path, "r+", opener=lambda name, flags: os.open(name, flags | os.O_CREAT, 0o666))
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            _lock(file, path)
    except UnavailableError:
        file.close()
        raise
    return file


def read_lines(path: Path) -> Iterator[Line]:
    """Every line that ends: what a kill cut off stands behind the last. Raises OSError.

    What stands before a NUL byte is no part of a line: whoever empties the file under its writer leaves a hole of them.
    """
    offset = 0
    with path.open("rb") as file:
        for data in file:
            if not data.endswith(b"\n"):
                return
            offset += len(data)
            line = data[data.rfind(b"\0") + 1 :]
            yield Line(where=offset - len(line), behind=offset, mark=mark_of(line[:-1]), value=_value(line))


def mark_of(line: bytes) -> bytes:
    """What tells a line (without its end) from every other."""
    return hashlib.blake2b(line, digest_size=8).digest()


def write_all(file: FileIO, data: bytes) -> None:
    """Write `data` whole. Raises OSError; a part of it may stand there then."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def unwritable(path: Path, error: OSError) -> UnavailableError:
    """What the user can do about a journal that cannot be written."""
    kept = "Completed runs are saved in the journal."
    if error.errno in FULL:
        hint = f"{kept} Free some disk space, then continue with --resume."
    elif error.errno == errno.EIO:
        hint = f"{kept} The disk failed: see the system log, then continue with --resume."
    else:
        hint = f"Make the folder {path.parent} writable, or set `output` to another folder."
    return UnavailableError(f"cannot write the journal {path}: {error.strerror or error}", hint=hint)


def unreadable(path: Path, error: OSError) -> UnavailableError:
    """What the user can do about a journal that cannot be read."""
    return UnavailableError(
        f"cannot read the journal {path}: {error.strerror or error}",
        hint="Make it readable, or start over without --resume.",
    )


def changed(path: Path) -> UnavailableError:
    """What the user can do about a journal that somebody else wrote to."""
    return UnavailableError(
        f"the journal {path} was changed during the run, by the agent or by another program",
        hint=f"Keep other programs out of {path.parent}, or set `output` to another folder. --resume recovers intact "
        f"entries.",
    )


def _lock(file: FileIO, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UnavailableError(
            f"another evalgate is running in the folder {path.parent}",
            hint="Wait until it ends, or use a separate folder for this run: `--output FOLDER` (the action's input "
            "`output`).",
        ) from None


def _value(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
