"""Base results in a folder: on a shared disk, or one that a cache step saves and restores."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from evalgate.baseline import layout
from evalgate.baseline.layout import Entry, Unreadable
from evalgate.baseline.store import HISTORY, Revise, Stored, Warn
from evalgate.errors import UnavailableError

LOCK = ".lock"
LEFTOVER_S = 86400.0


class Folder:
    """See `store.Store`. Writers take turns; readers need not wait, since every file appears whole."""

    def __init__(
        self, folder: Path, *, scratch: Path, keep: int = layout.KEPT_RUNS, warn: Warn = lambda _: None
    ) -> None:
        """`folder` need not exist; unpacked results go to `scratch`, which the caller removes."""
        self._folder = folder
        self._scratch = scratch
        self._keep = keep
        self._warn = warn

    @property
    def name(self) -> str:
        """How people call it."""
        return f"folder {self._folder}"

    def find(self, candidates: Sequence[str]) -> Stored | None:
        """See `store.Store`."""
        for distance, entry in layout.pick(self._entries(), candidates):
            path = self._scratch / f"{entry.commit}-{secrets.token_hex(4)}.json"
            try:
                data = _read(self._folder / layout.RUNS / entry.name, layout.MOST_PACKED_BYTES)
                if data is None:
                    continue  # another run has just dropped it
                self._scratch.mkdir(parents=True, exist_ok=True)
                layout.unpack(data, path)
            except Unreadable as error:
                path.unlink(missing_ok=True)
                self._warn(f"{entry.name} in the {self.name} was ignored: it {error}")
            except OSError as error:
                raise _out_of_reach(self._folder, error) from error
            else:
                return Stored(commit=entry.commit, saved_at=entry.saved_at, distance=distance, path=path)
        return None

    def read(self, name: str) -> bytes | None:
        """See `store.Store`."""
        try:
            return _read(self._folder / name, layout.MOST_HISTORY_BYTES)
        except Unreadable as error:
            raise UnavailableError(f"{name} in the {self.name} {error}") from error
        except OSError as error:
            raise _out_of_reach(self._folder, error) from error

    def save(self, commit: str, results: Path, *, now: datetime, revise: Revise | None = None) -> None:
        """See `store.Store`."""
        entry = layout.made_now(commit, now)
        runs = self._folder / layout.RUNS
        try:
            runs.mkdir(parents=True, exist_ok=True)
            packed = _fresh(runs)
            try:
                layout.pack(results, packed)
                with self._turn():
                    packed.replace(runs / entry.name)
                    self._write_beside(revise)
                    for dropped in layout.pick_dropped(self._entries(), keep=self._keep, new=entry):
                        (runs / dropped.name).unlink(missing_ok=True)
                    _remove_leftovers(runs, now)
            finally:
                packed.unlink(missing_ok=True)
        except OSError as error:
            raise _out_of_reach(self._folder, error) from error

    def _write_beside(self, revise: Revise | None) -> None:
        files = {} if (self._folder / layout.README).exists() else {layout.README: layout.README_TEXT.encode()}
        if revise:
            files |= revise(self.read(HISTORY))
        for name, data in files.items():
            fresh = _fresh(self._folder)
            fresh.write_bytes(data)
            fresh.replace(self._folder / name)

    def _entries(self) -> list[Entry]:
        try:
            return layout.parse_names(path.name for path in (self._folder / layout.RUNS).iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _out_of_reach(self._folder, error) from error

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        lock = os.open(self._folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _fresh(folder: Path) -> Path:
    """A name in `folder` for a file that is not yet whole; it gets the usual rights, so that later steps can read."""
    return folder / f".new-{secrets.token_hex(8)}"


def _remove_leftovers(folder: Path, now: datetime) -> None:
    """Remove what killed writers left a day ago and longer."""
    for path in folder.glob(".new-*"):
        with contextlib.suppress(FileNotFoundError):
            if now.timestamp() - path.lstat().st_mtime > LEFTOVER_S:
                path.unlink()


def _read(path: Path, most_bytes: int) -> bytes | None:
    """A plain file, never through a link; None where there is none. Raises Unreadable, OSError."""
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
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise Unreadable(f"is larger than {most_bytes:,} bytes")
    return data


def _out_of_reach(folder: Path, error: OSError) -> UnavailableError:
    return UnavailableError(f"cannot use the folder of base results {folder}: {error.strerror or error}")
