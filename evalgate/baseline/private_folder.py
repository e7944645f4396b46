"""A folder that belongs to one running process, and goes with it: at its end, or at the next start after a kill."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from evalgate.errors import UnavailableError

PREFIX = "evalgate-base-"
LOCK = "lock"
HALF_MADE_S = 3600.0  # a folder without a lock is being made or removed, or was when somebody was killed


@contextlib.contextmanager
def made(under: Path) -> Iterator[Path]:
    """A fresh folder in `under`, removed at the end; folders that a killed run left there go first.

    Whoever runs holds a lock in his folder, which the system takes back however he ends. Raises UnavailableError.
    """
    try:
        under.mkdir(parents=True, exist_ok=True)
        remove_stale(under)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=under)).resolve()
        lock = _locked(folder)
    except OSError as error:
        raise UnavailableError(f"cannot make a folder for the base in {under}: {error.strerror or error}") from error
    try:
        yield folder
    finally:
        remove(folder)
        os.close(lock)


def remove_stale(under: Path) -> list[Path]:
    """Remove the folders in `under` whose process is gone; those removed."""
    return [folder for folder in sorted(under.glob(f"{PREFIX}*")) if _is_stale(folder) and remove(folder)]


def remove(folder: Path) -> bool:
    """Remove a folder whatever modes an agent gave to what is in it; whether it is gone."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        folder.chmod(stat.S_IRWXU)
        for path, names, _ in os.walk(folder):
            for place in (Path(path, name) for name in names):
                if not place.is_symlink():
                    with contextlib.suppress(OSError):
                        place.chmod(stat.S_IRWXU)
        shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def _locked(folder: Path) -> int:
    # A second process may see the folder between mkdtemp and here: without a lock file it leaves it alone.
    lock = os.open(folder / f".{LOCK}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (folder / f".{LOCK}").rename(folder / LOCK)
    return lock


def _is_stale(folder: Path) -> bool:
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return _age_s(folder) > HALF_MADE_S
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(lock)


def _age_s(folder: Path) -> float:
    try:
        return time.time() - folder.lstat().st_mtime
    except OSError:
        return 0.0
