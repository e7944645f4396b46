"""The user's repository, only ever read: where it is, and the few of its settings that we take over."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evalgate.baseline.git import Git
from evalgate.errors import UnavailableError

REF = re.compile(r"[0-9a-f]{40,64} refs/[^\s\x00-\x1f\x7f]+")
_OBJECT_NAME = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def is_full_sha(text: str) -> bool:
    """Whether `text` is a whole object name, SHA-1 or SHA-256, and not the zero that stands for none."""
    return bool(_OBJECT_NAME.fullmatch(text)) and bool(text.strip("0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A user's repository.

    `git_dir` is that of this working tree, `common_dir` that which holds objects and branches (they differ in a
    linked working tree).
    """

    working_tree: Path
    git_dir: Path
    common_dir: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """Where more commits come from. `headers`: credentials that actions/checkout left, as settings of git."""

    name: str = ""
    url: str = field(default="", repr=False)  # may hold a password
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    partial: tuple[tuple[str, str], ...] = ()


def find(root: Path) -> Source:
    """The repository that `root` lies in. Raises UnavailableError.

    Found by us and then named to git, so that git need not trust its owner (`safe.directory`).
    """
    start = root.resolve()
    for folder in (start, *start.parents):
        git_dir = of_working_tree(folder)
        if git_dir is not None:
            return Source(working_tree=folder, git_dir=git_dir, common_dir=common_dir(git_dir))
    raise UnavailableError(
        f"{root} is not in a git repository, so there is no base to compare with",
        hint="Check out with actions/checkout (it needs `git` in the job), or use `baseline: file:PATH`.",
    )


def of_working_tree(folder: Path) -> Path | None:
    """The git directory of a working tree, through a `.git` file where it is one; None where there is none."""
    git_dir = folder / ".git"
    if git_dir.is_file():
        with git_dir.open(encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(4096)
        if not text.startswith("gitdir: "):
            return None
        git_dir = (folder / text.removeprefix("gitdir: ").strip()).resolve()
    return git_dir if (git_dir / "HEAD").is_file() or (git_dir / "HEAD").is_symlink() else None


def common_dir(git_dir: Path) -> Path:
    """Where the objects and branches of a git directory are: itself, but for a linked working tree."""
    pointer = git_dir / "commondir"
    if not pointer.is_file():
        return git_dir
    return (git_dir / pointer.read_text(encoding="utf-8", errors="surrogateescape").strip()).resolve()


def read_settings(git: Git, git_dir: Path, *, cwd: Path) -> Iterator[tuple[str, str]]:
    """The repository's own settings, what it includes too; reading them runs nothing. Raises GitFailed."""
    files = [["--local"]]
    if (git_dir / "config.worktree").is_file():
        files.append(["--file", str(git_dir / "config.worktree")])
    for file in files:
        arguments = (f"--git-dir={git_dir}", "config", *file, "--includes", "--null", "--list")
        listed = git.run(*arguments, cwd=str(cwd)).decode("utf-8", "surrogateescape")
        for entry in listed.split("\0"):
            key, separator, value = entry.partition("\n")
            if separator:
                yield key, value


def parse_remote(settings: Iterable[tuple[str, str]], *, working_tree: Path) -> Remote:
    """The remote `origin`, else the only one; of its settings what we take over, and nothing that could run."""
    last: dict[str, str] = {}
    headers = []
    for key, value in settings:
        last[key] = value
        if key == "http.extraheader" or (key.startswith("http.") and key.endswith(".extraheader")):
            headers.append((key, value))
    names = [key.removeprefix("remote.").removesuffix(".url") for key in last if re.fullmatch(r"remote\..*\.url", key)]
    name = "origin" if "origin" in names else names[0] if len(names) == 1 else ""
    if not name:
        return Remote()
    partial = [(f"remote.origin.{key}", last.get(f"remote.{name}.{key}", "")) for key in _PARTIAL]
    if not partial[0][1]:
        partial = []
    return Remote(
        name=name,
        url=_absolute(last[f"remote.{name}.url"], working_tree),
        headers=tuple(headers),
        partial=tuple(partial),
    )


_PARTIAL = ("promisor", "partialclonefilter")


def _absolute(url: str, working_tree: Path) -> str:
    """A path relative to the working tree made absolute; a URL, or ssh's `host:path`, as it is."""
    before_slash = url.split("/", 1)[0]
    return url if ":" in before_slash or url.startswith("/") else str((working_tree / url).resolve())


def parse_sparse(settings: Mapping[str, str]) -> list[tuple[str, str]]:
    """The settings of a sparse checkout, which a checkout of the base shares; none where everything is there."""
    if settings.get("core.sparsecheckout", "").lower() != "true":
        return []
    cone = "true" if settings.get("core.sparsecheckoutcone", "").lower() == "true" else "false"
    return [("core.sparseCheckout", "true"), ("core.sparseCheckoutCone", cone)]


def object_format(settings: Mapping[str, str]) -> str:
    """`sha1` or `sha256`."""
    return "sha256" if settings.get("extensions.objectformat", "").lower() == "sha256" else "sha1"


def read_refs(git: Git, git_dir: Path, *, cwd: Path) -> str:
    """All branches and tags as the lines of a packed-refs file. Raises GitFailed."""
    arguments = (f"--git-dir={git_dir}", "for-each-ref", "--format=%(objectname) %(refname)")
    listed = git.run(*arguments, cwd=str(cwd)).decode("utf-8", "surrogateescape")
    return "".join(f"{line}\n" for line in listed.split("\n") if REF.fullmatch(line))


def read_head(git: Git, git_dir: Path, *, cwd: Path) -> str:
    """The commit that is checked out; "" on a branch without any. Raises GitFailed."""
    # `--symbolic-full-name` and peeling are left out: they would look at objects, in the user's repository
    arguments = (f"--git-dir={git_dir}", "rev-parse", "HEAD")
    name = git.run(*arguments, cwd=str(cwd)).decode("ascii", "replace").strip()
    return name if is_full_sha(name) else ""
