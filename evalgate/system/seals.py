"""The content of an environment at its installation, and a check that it is unchanged.

A seal is in a folder beside the environments that neither agents nor installers of a sandbox can
write. It lists every entry below the environment, and has a digest of the list and, if there is a
key, a signature of it. A gate with a key trusts only its own signature. See
docs/decisions/028-sealed-environments.md."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import os
import stat
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from pathlib import Path

from evalgate.values import JsonObject, frozen_dataclass
from . import isolation
from .files import new_file

BYTECODE = "__pycache__"
"""Python adds these folders to an environment in use."""
THREADS = min(4, os.cpu_count() or 1)
"""Of the pool that hashes files."""
BATCH = 100
"""The files that a thread processes at a time."""

BLOCK_BYTES = 1024 * 1024
"""Of a file that is hashed, at a time."""
NO_SEAL = "has no valid seal (its installation was interrupted, or evalgate did not make it)"
"""The end of a sentence about an environment."""


@frozen_dataclass
class Seals:
    """The key of all seals, and what is known to be as sealed."""

    key: bytes = field(default=b"", repr=False)
    """Of signatures, which no agent sees; empty for none."""
    verified: dict[Path, str] = field(default_factory=dict)
    """The environments that this run compared with their seals, or made, with the notes of their
    installation."""


def write(folder: Path, *, key: bytes, note: str) -> None:
    """Seal the environment in `folder`, in one step. Raises OSError."""
    body = json.dumps({"folder": str(folder), "note": note, "entries": _entries(folder)}).encode()
    place = _place(folder)
    if place.parent.is_symlink():
        place.parent.unlink()  # do not write to the link's target
    place.parent.mkdir(exist_ok=True)
    with new_file(place) as draft:
        draft.write_bytes(b"\n".join((_digest(body), _signature(body, key), body)))
        draft.chmod(0o644)  # another user saves the cache of a container


def remove(folder: Path) -> None:
    """Remove the seal, before the environment. Raises OSError."""
    _place(folder).unlink(missing_ok=True)


def compare(folder: Path, *, key: bytes) -> tuple[str, str]:
    """The problem with the environment in `folder`, and the note on its installation. The problem
    is the end of a sentence, "" if everything is as sealed. Removes bytecode that Python added."""
    seal = _read(folder, key)
    if seal is None:
        return NO_SEAL, ""
    sealed_entries = seal["entries"]
    entries = _entries(folder)
    # a folder's content before the folder
    for path in sorted(entries.keys() - sealed_entries.keys(), reverse=True):
        if _is_bytecode(path, entries) and _remove(
            folder / path, is_folder=entries[path] == "folder"
        ):
            del entries[path]
    differences = [
        path
        for path in entries.keys() | sealed_entries.keys()
        if entries.get(path) != sealed_entries.get(path)
    ]
    if not differences:
        return "", seal["note"]
    first_path = min(differences)
    verb = "changed" if first_path in entries else "removed"
    if first_path not in sealed_entries:
        verb = "added"
    return f"differs from what was installed ({first_path} was {verb})", ""


def _place(folder: Path) -> Path:
    """The file of an environment's seal."""
    return folder.parent / isolation.SEALS / f"{folder.name}.json"


def _digest(body: bytes) -> bytes:
    """Hex digits of a seal's content."""
    return hashlib.sha256(body).hexdigest().encode()


def _signature(body: bytes, key: bytes) -> bytes:
    """A signature of the list by a key; b"" without a key."""
    return hmac.new(key, body, "sha256").hexdigest().encode() if key else b""


def _read(folder: Path, key: bytes) -> JsonObject | None:
    """The seal of an environment at this place; None if there is no valid one."""
    place = _place(folder)
    try:
        if not place.is_file():  # opening a pipe would block
            return None
        digest, signature, body = place.read_bytes().split(b"\n", 2)
        is_valid = hmac.compare_digest(digest, _digest(body))
        if not is_valid or (key and not hmac.compare_digest(signature, _signature(body, key))):
            return None
        seal: JsonObject = json.loads(body)
        is_complete = isinstance(seal["note"], str) and isinstance(seal["entries"], dict)
        return seal if is_complete and seal["folder"] == str(folder) else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _is_bytecode(path: str, entries: Mapping[str, str]) -> bool:
    """True if a path is a folder for bytecode of Python, or is inside one."""
    names = path.split("/")
    if BYTECODE not in names:
        return False
    return entries.get("/".join(names[: names.index(BYTECODE) + 1])) == "folder"


def _remove(path: Path, *, is_folder: bool) -> bool:
    """Remove a file or an empty folder; True if it is gone."""
    try:
        path.rmdir() if is_folder else path.unlink(missing_ok=True)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


# --- the entries
# ------------------------------------------------------------------------------------


def _entries(folder: Path) -> dict[str, str]:
    """All entries below `folder` by relative path, with their kinds; files with size, digest and
    executable bit; links with their target."""
    top = str(folder)
    if not folder.is_dir() or folder.is_symlink():
        return {}
    with ThreadPoolExecutor(THREADS) as pool:
        paths = _scan(top)
        batches = iter(lambda: list(itertools.islice(paths, BATCH)), [])
        jobs = [
            (batch, pool.submit(list, itertools.starmap(_describe, batch))) for batch in batches
        ]
        return {
            path[len(top) + 1 :]: entry
            for batch, job in jobs
            for (path, _), entry in zip(batch, job.result(), strict=True)
        }


def _scan(top: str) -> Iterator[tuple[str, os.stat_result]]:
    """Absolute paths below a folder, with their status; vanished ones are left out."""
    folders = [top]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    yield entry.path, status
                    if stat.S_ISDIR(status.st_mode):
                        folders.append(entry.path)
        except OSError:
            continue


def _describe(path: str, status: os.stat_result) -> str:
    """One line on the entry at `path`; links are not followed, and pipes not opened."""
    try:
        if stat.S_ISLNK(status.st_mode):
            return f"link {os.readlink(path)}"  # noqa: PTH115 - Path takes as long as everything else
        # foreign code could change it, by its mode or its owner; it matters only for root, whose
        # programs that unpack caches keep both
        is_open = bool(status.st_mode & 0o022) or isolation.is_account(status.st_uid)
        owner = " of others" if is_open and os.geteuid() == 0 else ""
        if stat.S_ISDIR(status.st_mode):
            return f"folder{owner}"
        if not stat.S_ISREG(status.st_mode):
            return "other"
        program = " program" if status.st_mode & 0o100 else ""
        return f"file{program}{owner} {status.st_size} {_content(path, status.st_size)}"
    except OSError as error:
        return f"unreadable {error.errno}"


def _content(path: str, size: int) -> str:
    """A digest of a file of `size` bytes. BLAKE2 is the fastest in the standard library on
    processors without instructions for SHA-256."""
    digest = hashlib.blake2b(digest_size=32)
    with isolation.open_descriptor(path, os.O_RDONLY | os.O_NONBLOCK) as descriptor:
        while size > 0 and (block := os.read(descriptor, BLOCK_BYTES)):
            digest.update(block)
            size -= len(block)
    return digest.hexdigest()
