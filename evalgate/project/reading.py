"""Files of the repository as bytes: bounded, regular, and never from outside the repository."""

from __future__ import annotations

import stat
from pathlib import Path

from evalgate.errors import Place, Problem, Severity

LARGEST_BYTES = 256 * 1024 * 1024
LARGEST_SOURCE_BYTES = 4 * 1024 * 1024


def read_bytes(root: Path, path: str, *, largest: int = LARGEST_BYTES) -> bytes | Problem:
    """The content of the file at `path` (posix, relative to `root`), or why it is not read."""
    try:
        resolved = (root / path).resolve(strict=True)
        if not resolved.is_relative_to(root.resolve()):
            return _problem("outside-root", "the file is outside the repository and is not read", path)
        return _bounded(resolved, path, largest)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symbolic links before Python 3.13
        return _unreadable(path, error)


def read_named(path: Path, *, shown: str) -> bytes | Problem:
    """The content of a file that the user named on the command line, wherever it lies; `shown` names it in problems."""
    try:
        return _bounded(path, shown, LARGEST_BYTES)
    except OSError as error:
        return _unreadable(shown, error)


def read_source(root: Path, path: str) -> str:
    """The text of a source file, with what is not UTF-8 replaced; empty where it cannot be read."""
    data = read_bytes(root, path, largest=LARGEST_SOURCE_BYTES)
    return "" if isinstance(data, Problem) else data.decode("utf-8", errors="replace")


def _bounded(path: Path, shown: str, largest: int) -> bytes | Problem:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        return _problem("unreadable-file", "this is not a regular file", shown)
    if status.st_size > largest:
        size = f"{status.st_size / 1e6:,.0f} MB"
        return _problem("file-too-large", f"the file has {size}, at most {largest / 1e6:,.0f} MB are allowed", shown)
    return path.read_bytes()


def _unreadable(path: str, error: OSError | RuntimeError) -> Problem:
    reason = getattr(error, "strerror", None) or str(error)
    return _problem("unreadable-file", f"the file cannot be read: {reason}", path)


def _problem(code: str, message: str, file: str) -> Problem:
    return Problem(severity=Severity.ERROR, code=code, message=message, place=Place(file=file))
