"""The files of a run: written completely or not at all. A file that cannot be written is a warning
and never changes the verdict."""

from __future__ import annotations

import gzip
import os
import secrets
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from evalgate import errors
from evalgate.errors import Place, Problem, UnavailableError
from evalgate.system import isolation
from evalgate.system.files import new_file
from evalgate.text.words import size

RESULTS = "results.json"
"""The file of head's results."""
BASE_RESULTS = "base.json"
"""The file of the base's results, beside head's."""


def write_all(
    texts: Iterable[tuple[str, str, Iterable[str]]], folder: Path
) -> tuple[dict[str, str], tuple[Problem, ...]]:
    """Write texts (name, file name, pieces) into `folder`. Return the paths by name, and a warning
    for each failure."""
    files = {}
    problems = []
    with suppress(OSError):  # reported per file
        make_folder(folder)
    for name, file_name, text in texts:
        problem = write_file(folder / file_name, text)
        if problem is None:
            files[name] = str(folder / file_name)
        else:
            problems.append(problem)
    return files, tuple(problems)


def make_folder(folder: Path) -> None:
    """Make the folder that a run writes to. A new folder gets a .gitignore, so that no commit
    includes it."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")


def not_written(path: Path, error: OSError) -> Problem:
    """The warning about a file that was not written."""
    message = f"cannot be written: {error.strerror or error}"
    return errors.warning("not-written", message, Place(str(path)))


def write_file(path: Path, pieces: Iterable[str]) -> Problem | None:
    """Write a file completely or not at all: to a temporary path first, then moved. Readable by
    all. Return a warning if it failed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(path) as draft:
            with draft.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
                file.writelines(pieces)
            draft.chmod(0o644)
    except OSError as error:
        return not_written(path, error)
    return None


def save(path: Path, pieces: Iterable[str], *, shown_as: str) -> None:
    """`write_file`. Raises UnavailableError if it failed."""
    problem = write_file(path, pieces)
    if problem is not None:
        raise UnavailableError(f"{shown_as} {problem.message}")


def render_outputs(outputs: Mapping[str, str]) -> str:
    """Step outputs for a runner, each under a delimiter that its value cannot contain by
    guessing."""
    pieces = []
    for name, text in outputs.items():
        delimiter = f"evalgate_{secrets.token_hex(16)}"
        pieces.append(f"{name}<<{delimiter}\n{text}\n{delimiter}")
    return "\n".join(pieces)


def append(path: Path, text: str) -> Problem | None:
    """Append to a file of a runner, whose last line ends. Return a warning if it failed."""
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text if text.endswith("\n") else f"{text}\n")
    except OSError as error:
        return not_written(path, error)
    return None


def hand_over(workspace: Path) -> None:
    """Give files that a container's root and the accounts of agents wrote to the owner of the
    workspace: later steps must read them, the next checkout must remove them. That includes agents'
    leftovers (caches)."""
    owner = workspace.stat()
    if os.geteuid() != 0 or owner.st_uid == 0:
        return
    paths = (
        Path(parent) / name
        for parent, folders, files in os.walk(workspace)
        for name in (*folders, *files)
    )
    for path in (workspace, *paths):
        with suppress(OSError):  # it vanished, or the file system has no owners
            status = path.lstat()
            if status.st_uid == 0 or isolation.is_account(status.st_uid):
                os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
                if not path.is_symlink():
                    path.chmod(status.st_mode | (0o755 if path.is_dir() else 0o644))


# --- packed files, of which a reader knows only that a run may have written them ------------------

MOST_PACKED_BYTES = 95 * 1024**2
"""GitHub refuses files of 100 MiB."""
MOST_BYTES = 1024**3
"""Of an unpacked file."""
COMPRESSION = 6
"""The best takes three times as long for a fiftieth of the size."""
_CHUNK = 1024**2
"""Bytes that are unpacked at a time."""


class Unreadable(Exception):  # noqa: N818 - the name says it
    """A stored file is not one that a run wrote; the message is part of a sentence."""

    def __init__(self, message: str, *, newer: bool = False) -> None:
        """`message`: a predicate whose subject is the file."""
        super().__init__(message)
        self.newer = newer
        """True: a later version of evalgate wrote it, so it must not be overwritten."""


def pack(results: Path, to: Path, *, prefix: bytes = b"") -> None:
    """Compress a file after `prefix`, always to the same bytes. Raises UnavailableError if it is
    unreadable or too large."""
    with errors.unavailable(f"cannot compress {results}"):
        with (
            results.open("rb") as source,
            to.open("wb") as packed_file,
            gzip.GzipFile("", "wb", COMPRESSION, mtime=0, fileobj=packed_file) as target,
        ):
            target.write(prefix)
            shutil.copyfileobj(source, target)
        packed_bytes = to.stat().st_size
    if packed_bytes > MOST_PACKED_BYTES:
        raise UnavailableError(
            f"the results are too large to store: {size(packed_bytes)} compressed, the limit is {size(MOST_PACKED_BYTES)}",
            hint="Split the gate into several jobs.",
        )


def unpack(packed: bytes) -> Iterator[bytes]:
    """The pieces of a packed file (see `pack`). Raises Unreadable.

    Only a JSON object passes, judged by its first character (the reader checks the others), of at
    most MOST_BYTES."""
    if len(packed) > MOST_PACKED_BYTES:
        raise Unreadable(f"is larger than {size(MOST_PACKED_BYTES)}")
    unpacker = zlib.decompressobj(wbits=31)
    unpacked_bytes = 0
    while packed and not unpacker.eof:
        try:
            chunk = unpacker.decompress(packed, _CHUNK)
        except zlib.error:
            raise Unreadable("is not in the expected compression format") from None
        packed = unpacker.unconsumed_tail
        if not unpacked_bytes and chunk and not chunk.lstrip().startswith(b"{"):
            raise Unreadable("holds no results")
        unpacked_bytes += len(chunk)
        if unpacked_bytes > MOST_BYTES:
            raise Unreadable(f"is larger than {size(MOST_BYTES)}")
        yield chunk
    if not unpacker.eof:
        raise Unreadable("is truncated")
    if not unpacked_bytes:
        raise Unreadable("is empty")


def read(path: Path, most_bytes: int) -> bytes | None:
    """The bytes of a regular file, never through a link; None if it is missing. Raises Unreadable,
    OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError:
        if path.is_symlink():
            raise Unreadable("is a symbolic link") from None
        raise
    with open(descriptor, "rb") as file:  # noqa: PTH123 - it is a descriptor
        if not path.is_file():
            raise Unreadable("is not a file")
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise Unreadable(f"is larger than {most_bytes:,} bytes")
    return content
