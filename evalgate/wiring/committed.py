"""What the commit brings along where results and replies are kept: whoever wrote the commit could have written them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from evalgate.errors import EvalgateError, UnavailableError
from evalgate.system import git
from evalgate.system.git import Repository


def holds(place: Path, repo: Repository) -> bool:
    """Whether the commit that is checked out has files in `place`, as it always has at the top of the checkout, or a
    submodule or a file of its own above it."""
    top = repo.source.working_tree.resolve()
    found = place.resolve()
    if not repo.head or not found.is_relative_to(top):
        return False
    if found == top:
        return True
    parts = found.relative_to(top).parts
    paths = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    listed = repo.run_bytes("--literal-pathspecs", "ls-tree", "--full-tree", "-z", repo.head, "--", *paths)
    for entry in listed.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        about, _, path = entry.partition("\t")
        if path == paths[-1] or about.split(" ")[1] != "tree":
            return True
    return False


def found_in(place: Path, root: Path, environ: Mapping[str, str]) -> bool:
    """The same of the repository that `root` lies in; where git cannot tell, the commit may have them."""
    try:
        top = git.find_source(root).working_tree.resolve()
    except UnavailableError:  # not in a repository: nothing is committed
        return False
    if not place.resolve().is_relative_to(top):
        return False
    try:
        with (
            tempfile.TemporaryDirectory() as scratch,
            git.open_repository(root, environ=environ, token=None, under=Path(scratch)) as repo,
        ):
            return holds(place, repo)
    except (EvalgateError, OSError):
        return True
