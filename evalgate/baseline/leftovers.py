"""What a plain checkout leaves to others: Git LFS files, filled from the user's copies, and links that lead out."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from evalgate.baseline.git import GitFailed
from evalgate.baseline.repository import Repository
from evalgate.text.words import counted

LONGEST_POINTER = 1024  # bytes, by the specification of Git LFS
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:([0-9a-f]{64})\nsize (\d+)\n"
)


def parse_pointer(data: bytes) -> tuple[str, int] | None:
    """Object name and size of the file that an LFS pointer stands for; None for anything else."""
    found = _POINTER.match(data) if len(data) <= LONGEST_POINTER else None
    return (found[1].decode(), int(found[2])) if found else None


def fill_lfs_files(repo: Repository, tree: Path) -> list[str]:
    """Put the user's local LFS objects in place of their pointers; a note where some are not there.

    Nothing is fetched, and no filter runs.
    """
    missing = [name for name in _lfs_files(repo, tree) if not _filled(repo, tree / name)]
    if not missing:
        return []
    files, are = counted(len(missing), "Git LFS file"), "is" if len(missing) == 1 else "are"
    return [f"{files} of the base (such as {missing[0]}) {are} not in the checkout: the pointer stands instead."]


def find_links_that_lead_out(tree: Path) -> list[str]:
    """A note where symbolic links point out of `tree`, since they do not lead to the base's files."""
    found = sorted(_links_out(tree))
    if not found:
        return []
    links, lead = counted(len(found), "symbolic link"), "leads" if len(found) == 1 else "lead"
    return [f"{links} (such as {found[0]}) {lead} out of the repository: what is there is not the base's."]


def _lfs_files(repo: Repository, tree: Path) -> list[str]:
    try:
        listed = repo.git.run("ls-files", "-z", "--", ":(attr:filter=lfs)", cwd=str(tree))
    except GitFailed:
        return []
    return [name for name in listed.decode("utf-8", "surrogateescape").split("\0") if name]


def _filled(repo: Repository, path: Path) -> bool:
    """Whether the file is there, or could be put there; a file that is no pointer is."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > LONGEST_POINTER:
        return True
    pointer = parse_pointer(path.read_bytes())
    if pointer is None:
        return True
    name, size = pointer
    stored = repo.source.common_dir / "lfs" / "objects" / name[:2] / name[2:4] / name
    if not stored.is_file() or stored.stat().st_size != size:
        return False
    shutil.copyfile(stored, path)
    return True


def _links_out(tree: Path) -> Iterator[str]:
    top = os.path.realpath(tree)
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink():
                target = os.path.normpath(os.path.join(folder, os.readlink(path)))  # noqa: PTH115, PTH118 - not resolved
                if target != top and not target.startswith(top + os.sep):
                    yield path.relative_to(top).as_posix()
