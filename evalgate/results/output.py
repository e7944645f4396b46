"""The files of a run: written completely or not at all. A file that cannot be written is a warning
and never changes the verdict."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from evalgate import errors
from evalgate.errors import Place, Problem
from evalgate.system import isolation

RESULTS = "results.json"
BASE_RESULTS = "base.json"


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


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A path to write to, with the usual permissions; what is there replaces `path` at the end of
    the block. Raises OSError."""
    draft = path.with_name(f".new-{secrets.token_hex(8)}")
    try:
        yield draft
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


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


def append_summary(text: str, *, path: Path) -> Problem | None:
    """Append to the job's summary (GITHUB_STEP_SUMMARY)."""
    return _append(path, text if text.endswith("\n") else f"{text}\n")


def append_outputs(outputs: Mapping[str, str], *, path: Path) -> Problem | None:
    """Append step outputs (GITHUB_OUTPUT), each under a delimiter that its value cannot contain by
    guessing."""
    pieces = []
    for name, text in outputs.items():
        delimiter = f"evalgate_{secrets.token_hex(16)}"
        pieces.append(f"{name}<<{delimiter}\n{text}\n{delimiter}\n")
    return _append(path, "".join(pieces))


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


def _append(path: Path, text: str) -> Problem | None:
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
    except OSError as error:
        return not_written(path, error)
    return None
