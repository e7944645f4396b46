"""A commit checked out beside the user's working tree, in a private folder that goes when the block ends."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evalgate.errors import UnavailableError
from evalgate.system import git
from evalgate.system.git import GitFailed, Repository
from evalgate.text import words

LONGEST_POINTER = 1024  # bytes, by the specification of Git LFS
_POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:[0-9a-f]{64}\nsize \d+\n")
_GITLINK = "160000 "


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A commit on disk.

    `tree`: its top; `root`: the folder in it that corresponds to evalgate's root; `notes`: what is not there or not
    as in the user's checkout (submodules, LFS files, links that lead out), one sentence each; `problem`: why an agent
    that runs here cannot be compared with one in the user's checkout, "" where it can.
    """

    tree: Path
    root: Path
    notes: tuple[str, ...] = ()
    problem: str = ""


class NoSuchFolder(UnavailableError):  # noqa: N818 - it says what is the matter
    """The commit does not have the folder that is treated as the repository."""


@contextlib.contextmanager
def checked_out(repo: Repository, sha: str) -> Iterator[Checkout]:
    """The tree of `sha`, for as long as the block lasts. Raises GitFailed, NoSuchFolder.

    Files that git does not track (`.env`, `node_modules`) are not there; neither are submodules and LFS files.
    """
    tree = Path(tempfile.mkdtemp(prefix="tree-", dir=repo.folder))
    try:
        # a partial clone fetches contents when they are asked for
        run = repo.run_with_remote if repo.remote.partial else repo.run
        run("worktree", "add", "--quiet", "--detach", "--force", str(tree), sha)
        root = tree / repo.prefix
        if not root.is_dir():
            raise NoSuchFolder(
                f"the base commit {sha[:12]} has no folder {repo.prefix}",
                hint="The base cannot run; only thresholds apply.",
            )
        # the folders of submodules that git left empty; those outside a sparse checkout have none
        links = [entry.partition("\t")[2] for entry in _listed(repo, tree, "--stage") if entry.startswith(_GITLINK)]
        submodules = [name for name in links if (tree / name).is_dir()]
        # the files of which Git LFS has the content and the checkout a pointer; no filter of theirs runs
        files = [name for name in _listed(repo, tree, "--", ":(attr:filter=lfs)") if _holds_pointer(tree / name)]
        lacking = [name for name in (*submodules, *files) if _is_filled(repo.source.working_tree / name)]
        notes = [*_missing("submodule", submodules), *_missing("Git LFS file", files)]
        if out := sorted(_links_out(tree)):
            many, lead = words.counted(len(out), "symbolic link"), "leads" if len(out) == 1 else "lead"
            notes.append(
                f"{many} (such as {out[0]}) {lead} out of the repository, so both sides use the same files there."
            )
        problem = (
            f"this checkout has submodules or Git LFS files that the base's checkout lacks "
            f"({words.listed(lacking, limit=3)}), so the two agents cannot be compared. Compare with stored results "
            "(`baseline: store` or `file`), or check out without them (`submodules`, `lfs` of actions/checkout)."
        )
        yield Checkout(tree=tree, root=root, notes=tuple(notes), problem=problem if lacking else "")
    finally:
        git.remove_folder(tree)
        with contextlib.suppress(GitFailed):
            repo.run("worktree", "prune")


def edited_workflow(root: Path, head: Path) -> str:
    """A workflow of the base that runs evalgate, and that head has otherwise or not at all; "" where there is none.

    `root`, `head`: the same folder of both checkouts. Inputs come from there: what they name, the change may have
    chosen.
    """
    within = next((above for above in (root, *root.parents) if (above / ".git").exists()), root)
    top = head.joinpath(*[".."] * len(root.relative_to(within).parts))
    for path in sorted((within / ".github" / "workflows").glob("*.y*ml")):
        name = path.relative_to(within)
        text, here = path.read_bytes(), top / name
        if b"evalgate" in text and not (here.is_file() and here.read_bytes() == text):
            return name.as_posix()
    return ""


def is_pointer(data: bytes) -> bool:
    """Whether a file's beginning is that of a Git LFS pointer, which stands for the file itself."""
    return len(data) <= LONGEST_POINTER and _POINTER.match(data) is not None


def _listed(repo: Repository, tree: Path, *arguments: str) -> list[str]:
    listed = repo.git.run("ls-files", "-z", *arguments, cwd=str(tree))
    return [entry for entry in listed.decode("utf-8", "surrogateescape").split("\0") if entry]


def _holds_pointer(path: Path) -> bool:
    try:
        return not path.is_symlink() and path.stat().st_size <= LONGEST_POINTER and is_pointer(path.read_bytes())
    except OSError:
        return False


def _is_filled(path: Path) -> bool:
    """Whether the user's checkout has what the base's lacks at this place."""
    try:
        return any(path.iterdir()) if path.is_dir() else path.is_file() and not _holds_pointer(path)
    except OSError:
        return False


def _missing(what: str, names: list[str]) -> Iterator[str]:
    if names:
        many, are = words.counted(len(names), what), "is" if len(names) == 1 else "are"
        yield f"{many} ({words.listed(names, limit=3)}) {are} missing in the base's checkout."


def _links_out(tree: Path) -> Iterator[str]:
    """The symbolic links that point out of `tree`, since they do not lead to the base's files."""
    top = os.path.realpath(tree)
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink():
                target = os.path.normpath(os.path.join(folder, os.readlink(path)))  # noqa: PTH115, PTH118 - not resolved
                if target != top and not target.startswith(top + os.sep):
                    yield path.relative_to(top).as_posix()
