"""Submodules of a checkout, from what the user's checkout has of them; nothing is fetched for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from evalgate.baseline import repository, source
from evalgate.baseline.git import GitFailed
from evalgate.baseline.repository import Repository
from evalgate.baseline.source import Source

Place = Callable[[Repository, str, Path], list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Submodule:
    """One entry of .gitmodules; `path` and `name` are relative and stay inside."""

    name: str
    path: str


def place(repo: Repository, sha: str, *, tree: Path, place: Place) -> list[str]:
    """Check out the submodules of `sha` in `tree` by `place`; a note for each that is not there."""
    notes = []
    for number, module in enumerate(_listed(repo, sha)):
        commit = _commit(repo, sha, module.path)
        if commit is None:
            continue  # named in .gitmodules, but not in the tree
        target = tree / module.path
        if target.resolve() != tree.resolve() / module.path:
            notes.append(f"The submodule {module.path} lies behind a symbolic link and was left out.")
            continue
        notes += _fill(repo, module, commit, target=target, folder=repo.folder / f"{tree.name}-{number}", place=place)
    return notes


def parse_modules(data: bytes) -> list[Submodule]:
    """The submodules in a NUL-separated listing of .gitmodules; those that would lead outside are left out."""
    paths = {}
    for entry in data.decode("utf-8", "surrogateescape").split("\0"):
        key, _, value = entry.partition("\n")
        if key.startswith("submodule.") and key.endswith(".path"):
            paths[key.removeprefix("submodule.").removesuffix(".path")] = value
    return [
        Submodule(name=name, path=path) for name, path in paths.items() if _stays_inside(name) and _stays_inside(path)
    ]


def _stays_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and parts[0] != "/" and not {"..", ".git"} & {part.lower() for part in parts}


def _listed(repo: Repository, sha: str) -> list[Submodule]:
    try:
        return parse_modules(repo.run_bytes("config", f"--blob={sha}:.gitmodules", "--null", "--list"))
    except GitFailed:
        return []  # there is no such file, or it is unreadable


def _commit(repo: Repository, sha: str, path: str) -> str | None:
    listed = repo.run("ls-tree", "--full-tree", sha, "--", path).split()
    return listed[2] if listed[:2] == ["160000", "commit"] else None


def _fill(
    repo: Repository, module: Submodule, commit: str, *, target: Path, folder: Path, place: Place
) -> Iterator[str]:
    for found in _candidates(repo, module):
        borrowed = repository.borrowed_submodule(found, parent=repo, folder=folder)
        if borrowed.has_commit(commit):
            target.mkdir(parents=True, exist_ok=True)
            yield from place(borrowed, commit, target)
            return
        folder = folder.with_name(f"{folder.name}-")
    yield (
        f"The submodule {module.path} at {commit[:12]} is not in the checkout, so its folder is empty on the base side "
        "(`submodules: recursive` of actions/checkout fetches the submodules of head)."
    )


def _candidates(repo: Repository, module: Submodule) -> Iterator[Source]:
    """Where the user's checkout may have the submodule's objects."""
    working_tree = repo.source.working_tree / module.path
    own = source.of_working_tree(working_tree)
    places = [own, repo.source.git_dir / "modules" / module.name, repo.source.common_dir / "modules" / module.name]
    for git_dir in dict.fromkeys(place for place in places if place is not None):
        if (git_dir / "HEAD").is_file():
            yield Source(working_tree=working_tree, git_dir=git_dir, common_dir=source.common_dir(git_dir))
