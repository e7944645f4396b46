"""A commit checked out beside the user's working tree, in a private folder that goes when the block ends."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evalgate.baseline import leftovers, private_folder, submodules
from evalgate.baseline.git import GitFailed
from evalgate.baseline.repository import Repository
from evalgate.errors import UnavailableError


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A commit on disk.

    `tree`: its top; `root`: the folder in it that corresponds to evalgate's root; `notes`: what is not there or not
    as in the user's checkout (submodules, LFS files, links that lead out), one sentence each.
    """

    tree: Path
    root: Path
    notes: tuple[str, ...] = ()


class NoSuchFolder(UnavailableError):  # noqa: N818 - it says what is the matter
    """The commit does not have the folder that is treated as the repository."""


@contextlib.contextmanager
def checked_out(repo: Repository, sha: str) -> Iterator[Checkout]:
    """The tree of `sha`, for as long as the block lasts. Raises GitFailed, NoSuchFolder.

    Files that git does not track (`.env`, `node_modules`) are not there.
    """
    tree = Path(tempfile.mkdtemp(prefix="tree-", dir=repo.folder))
    try:
        notes = [*_place(repo, sha, tree), *leftovers.find_links_that_lead_out(tree)]
        root = tree / repo.prefix
        if not root.is_dir():
            raise NoSuchFolder(
                f"the base commit {sha[:12]} has no folder {repo.prefix}",
                hint="The base cannot run; only thresholds apply.",
            )
        yield Checkout(tree=tree, root=root, notes=tuple(notes))
    finally:
        private_folder.remove(tree)
        with contextlib.suppress(GitFailed):
            repo.run("worktree", "prune")


def _place(repo: Repository, sha: str, tree: Path) -> list[str]:
    """Fill the empty folder `tree`; notes on what is missing."""
    arguments = ("worktree", "add", "--quiet", "--detach", "--force", str(tree), sha)
    if repo.remote.partial:
        repo.run_with_remote(*arguments)  # a partial clone fetches contents when they are asked for
    else:
        repo.run(*arguments)
    return [*submodules.place(repo, sha, tree=tree, place=_place), *leftovers.fill_lfs_files(repo, tree)]
