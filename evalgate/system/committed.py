"""What the commit that is checked out brings along: a change may have written it."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from evalgate.errors import EvalgateError, UnavailableError
from evalgate.system import git
from evalgate.system.git import Repository


def holds(place: Path, repo: Repository) -> bool:
    """Whether the commit has files in `place`, or a submodule, a link or a file of its own on the way to it."""
    top = repo.source.working_tree.resolve()
    return bool(repo.head) and any(_has(found, top, repo) for found in _ways(place) if found.is_relative_to(top))


def _ways(place: Path) -> set[Path]:
    """As it is written, and where its links lead."""
    return {Path(os.path.normpath(place.absolute())), place.resolve()}


def _has(found: Path, top: Path, repo: Repository) -> bool:
    if found == top:
        return True
    paths = list(itertools.accumulate(found.relative_to(top).parts, "{}/{}".format))
    listed = repo.run_bytes("--literal-pathspecs", "ls-tree", "--full-tree", "-z", repo.head, "--", *paths)
    for entry in listed.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        about, _, path = entry.partition("\t")
        # git lists what is beside a path that is not there as well
        if path == paths[-1] or (path in paths and about.split(" ")[1] != "tree"):
            return True
    return False


def first_found(places: Iterable[Path], root: Path, environ: Mapping[str, str]) -> Path | None:
    """The first of the places for which that is so in the repository that `root` lies in; where git cannot tell, the
    commit may have them."""
    try:
        top = git.find_source(root).working_tree.resolve()
    except UnavailableError:  # not in a repository: nothing is committed
        return None
    inside = [place for place in places if any(found.is_relative_to(top) for found in _ways(place))]
    if not inside:
        return None
    try:
        with (
            tempfile.TemporaryDirectory() as scratch,
            git.open_repository(root, environ=environ, token=None, under=Path(scratch)) as repo,
        ):
            return next((place for place in inside if holds(place, repo)), None)
    except (EvalgateError, OSError):
        return inside[0]
