"""The commit that head is compared with, and its checkout.

It is fetched if the repository lacks it, and checked out in a private folder, outside the user's
working tree, until the block ends."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from evalgate.config import places
from evalgate.errors import UnavailableError
from evalgate.model import BaseOrigin, BaseSource
from evalgate.system import git
from evalgate.system.git import Complaint, GitFailed, Repository
from evalgate.values import Environ, Sentence, Wording, frozen_dataclass

DEEPENING = (50, 500, 5000)
"""Numbers of commits that are fetched, step by step, until base and head have a common ancestor."""

_TEST_MERGE = re.compile(r"Merge ([0-9a-f]{40,64}) into ([0-9a-f]{40,64})")


def pick_base(
    repo: Repository, *, base: str, event_base: str, environ: Environ | None = None
) -> BaseOrigin:
    """The base of the checked out commit, fetched if the repository lacks it. It is found by
    `merge-base` of the base branch and head, `base` (the tip of the base branch, if there is no
    merge base; a note has the reason), or `given` (a commit or tag that the user named).

    `base`: a SHA or tag, used directly, or a branch, whose merge base with it is used. Otherwise,
    if it is GitHub's test merge, its first parent. Otherwise the merge base with `event_base`, a
    SHA of the event, or locally with the remote's default branch. The text of a commit never
    decides, because its author could choose the base. Raises GitFailed, UnavailableError."""
    head_sha = repo.resolve(repo.head) if repo.head else None
    if head_sha is None:
        raise UnavailableError("the repository has no commit yet", hint="Make a first commit.")
    if base:
        return _base_commit(repo, base, head=head_sha)
    # zeros: the push created the branch
    event_base = event_base if git.is_full_sha(event_base) else ""
    # the real parents, even if a shallow clone lacks them
    parents, subject = parse_commit(repo.run_bytes("cat-file", "commit", head_sha))
    variables = environ or {}  # the runner reports if head is GitHub's test merge
    is_merge_ref = re.fullmatch(r"refs/pull/\d+/merge", variables.get("GITHUB_REF", "")) is not None
    is_tested = is_merge_ref and variables.get("GITHUB_SHA") == head_sha and len(parents) == 2
    if is_tested or (is_test_merge(parents, subject) and parents[0] == event_base):
        _ensure(repo, parents[0])
        return _origin(parents[0], "merge-base")
    if event_base:
        _ensure_of_event(repo, event_base)
        return _merge_base(repo, event_base, head=head_sha)
    name = _default_branch(repo)
    tip = _local_branch(repo, name, head=head_sha) or _fetched(repo, f"refs/heads/{name}")
    if tip is None:
        raise GitFailed(
            command="git fetch",
            words=f"the remote has no branch {name!r}",
            complaint=Complaint.MISSING,
        )
    return _merge_base(repo, tip, head=head_sha)


def parse_commit(content: bytes) -> tuple[tuple[str, ...], str]:
    """The parents and the subject in a commit object."""
    head, _, message = content.decode("utf-8", "replace").partition("\n\n")
    parents = tuple(
        line.removeprefix("parent ") for line in head.splitlines() if line.startswith("parent ")
    )
    return parents, message.lstrip("\n").split("\n", 1)[0]


def is_test_merge(parents: tuple[str, ...], subject: str) -> bool:
    """True if the subject names the parents, as in GitHub's test merge of a pull request
    (`refs/pull/N/merge`). Any author can write this."""
    match = _TEST_MERGE.fullmatch(subject)
    return match is not None and parents == (match[2], match[1])


def _base_commit(repo: Repository, base: str, *, head: str) -> BaseOrigin:
    branch = _local_branch(repo, base, head=head)
    if branch:
        return _merge_base(repo, branch, head=head)
    sha = repo.resolve(base)
    if sha:
        return _origin(sha, "given")
    if git.is_full_sha(base):
        _ensure(repo, base)
        return _origin(base, "given")
    if tip := _fetched(repo, f"refs/heads/{base}"):
        return _merge_base(repo, tip, head=head)
    if tip := _fetched(repo, f"refs/tags/{base}"):
        return _origin(tip, "given")
    raise GitFailed(
        command="git fetch",
        words=f"neither the checkout nor the remote has a branch, tag or commit {base!r}",
        complaint=Complaint.MISSING,
        hint="Set `base` to a branch, a tag or a full commit SHA.",
    )


def _local_branch(repo: Repository, name: str, *, head: str) -> str | None:
    """The tip of a branch that this repository knows: the remote's, except if the local one shares
    more with `head`, as with commits that were not pushed."""
    remote = repo.remote.name or "origin"
    branch = name.removeprefix(f"{remote}/")
    if branch != name:
        return repo.resolve(f"refs/remotes/{remote}/{branch}")
    tips = [repo.resolve(f"refs/{place}/{name}") for place in (f"remotes/{remote}", "heads")]
    if tips[0] and tips[1] and tips[0] != tips[1]:
        remote_commit, local_commit = (_find_merge_base(repo, tip, head) for tip in tips if tip)
        if (
            remote_commit
            and local_commit
            and remote_commit != local_commit
            and _find_merge_base(repo, remote_commit, local_commit) == remote_commit
        ):
            return tips[1]
    return tips[0] or tips[1]


def _default_branch(repo: Repository) -> str:
    """The remote's default branch: by the refs of the clone, else from the remote, else the usual
    name."""
    remote = repo.remote.name
    if not remote:
        branch = next(
            (name for name in ("main", "master") if repo.resolve(f"refs/heads/{name}")), ""
        )
        if branch:
            return branch
        raise UnavailableError(
            "nothing to compare with: no base commit is set, and the repository has no remote",
            hint="Set `base`: a branch, a tag or a commit.",
        )
    pointer = repo.source.common_dir / "refs" / "remotes" / remote / "HEAD"
    if pointer.is_file():
        text = pointer.read_text(encoding="utf-8", errors="replace").strip()
        prefix = f"ref: refs/remotes/{remote}/"
        if text.startswith(prefix):
            return text.removeprefix(prefix)
    output = repo.run_with_remote("ls-remote", "--symref", "origin", "HEAD").decode(
        "utf-8", "replace"
    )
    match = re.search(r"^ref: refs/heads/(\S+)\tHEAD$", output, re.MULTILINE)
    return match[1] if match else "main"


def _merge_base(repo: Repository, tip: str, *, head: str) -> BaseOrigin:
    """The merge base of `head` and `tip`, which the repository has, with history fetched as needed;
    `tip` with a note if none is found."""
    merge_base = _find_merge_base(repo, tip, head)
    fetched_depth = 0
    error_text = ""
    for depth in DEEPENING:
        if merge_base or not repo.is_shallow:
            break
        try:
            _fetch_history(repo, tip, head, depth)
        except GitFailed as error:
            error_text = error.words.splitlines()[-1]
            break
        merge_base = _find_merge_base(repo, tip, head)
        fetched_depth = depth
    if merge_base:
        return _origin(merge_base, "merge-base")
    return _origin(tip, "base", Sentence("base_tip", fetched_depth, error_text))


def _origin(commit: str, found_by: str, *notes: Wording) -> BaseOrigin:
    """The base at a commit; it is in the repository, and can be checked out."""
    return BaseOrigin(source=BaseSource.RERUN, commit=commit, found_by=found_by, notes=notes)


def _find_merge_base(repo: Repository, tip: str, head: str) -> str | None:
    try:
        return repo.run("merge-base", tip, head) or None
    except GitFailed as error:
        if error.complaint in {Complaint.TIMEOUT, Complaint.NO_GIT}:
            raise
        return None


def _fetch_history(repo: Repository, tip: str, head: str, depth: int) -> None:
    try:
        repo.fetch(tip, head, depth=depth)
    except GitFailed as error:
        if error.complaint is not Complaint.MISSING:
            raise
        repo.fetch(tip, deepen=depth)  # head was never pushed


def _ensure(repo: Repository, sha: str) -> None:
    """Fetch the commit if the repository lacks it. Raises GitFailed."""
    if not git.is_full_sha(sha) or repo.resolve(sha) != sha:
        repo.fetch(sha, depth=1 if repo.is_shallow else None)


def _ensure_of_event(repo: Repository, sha: str) -> None:
    """Fetch the commit of an event, which a force push may have removed. Raises GitFailed."""
    try:
        _ensure(repo, sha)
    except GitFailed as error:
        if error.complaint is not Complaint.MISSING or not repo.remote.url:
            raise
        raise GitFailed(
            command="git fetch",
            words=f"the remote no longer has {sha[:12]}, the base commit of the event: history was rewritten",
            complaint=Complaint.MISSING,
            hint="Set `base` to a branch; the next push or pull request has a base again.",
        ) from error


def _fetched(repo: Repository, name: str) -> str | None:
    """Fetch the commit of a ref of the remote; None if the remote has no such ref. Raises
    GitFailed."""
    try:
        repo.fetch(name, depth=1 if repo.is_shallow else None)
    except GitFailed as error:
        if error.complaint is Complaint.MISSING and "couldn't find remote ref" in error.words:
            return None
        raise
    return repo.resolve(f"refs/evalgate/fetched/{name.removeprefix('refs/')}")


# --- its checkout --------------------------------------------------------------------------------


LONGEST_POINTER = 1024  # bytes, by the specification of Git LFS
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*?oid sha256:[0-9a-f]{64}\nsize \d+\n"
)
_GITLINK = "160000 "


@frozen_dataclass
class BaseCheckout:
    """A commit on disk.

    `tree`: its top. `root`: the folder in it that corresponds to evalgate's root. `notes`: missing
    parts and differences from the user's checkout (submodules, LFS files, links that lead outside),
    one sentence each. `problem`: why an agent here cannot be compared with one in the user's
    checkout; "" if it can."""

    tree: Path
    root: Path
    notes: tuple[Wording, ...] = ()
    problem: Wording = ""


class NoSuchFolder(UnavailableError):  # noqa: N818 - named after the problem
    """The commit does not have the folder that is evalgate's root."""


@contextmanager
def checked_out(repo: Repository, sha: str) -> Iterator[BaseCheckout]:
    """The tree of `sha`. A context manager. Raises GitFailed, NoSuchFolder.

    Untracked files (`.env`, `node_modules`), submodules and LFS files are missing."""
    tree = Path(tempfile.mkdtemp(prefix="tree-", dir=repo.folder))
    try:
        # a partial clone fetches contents on demand
        run = repo.run_with_remote if repo.remote.partial else repo.run
        run("worktree", "add", "--quiet", "--detach", "--force", str(tree), sha)
        root = tree / repo.prefix
        if not root.is_dir():
            raise NoSuchFolder(
                f"the base commit {sha[:12]} has no folder {repo.prefix}",
                hint="The base cannot run; only thresholds apply.",
            )
        # the empty folders of submodules; submodules outside a sparse checkout have none
        links = [
            entry.partition("\t")[2]
            for entry in _listed(repo, tree, "--stage")
            if entry.startswith(_GITLINK)
        ]
        submodules = [name for name in links if (tree / name).is_dir()]
        # the files that are Git LFS pointers in the checkout; no LFS filter runs
        files = [
            name
            for name in _listed(repo, tree, "--", ":(attr:filter=lfs)")
            if _holds_pointer(tree / name)
        ]
        missing_files = [
            name for name in (*submodules, *files) if _is_filled(repo.source.working_tree / name)
        ]
        notes = (
            Sentence("base_lacks_files", "submodule", submodules),
            Sentence("base_lacks_files", "Git LFS file", files),
            Sentence("base_links_out", sorted(_links_out(tree))),
        )
        yield BaseCheckout(
            tree=tree,
            root=root,
            notes=tuple(filter(None, notes)),
            problem=Sentence("base_checkout_differs", missing_files),
        )
    finally:
        git.remove_folder(tree)
        with suppress(GitFailed):
            repo.run("worktree", "prune")


@contextmanager
def with_files(tree: Path, root: Path, head: Path, names: Iterable[str]) -> Iterator[Path]:
    """A copy of the checkout at `tree`, with the files `names` of `head`, which corresponds to
    `root` in it. Yields the copy of `root`. A context manager. Raises OSError.

    A file behind a link of the change is not copied."""
    copy = Path(tempfile.mkdtemp(prefix="tree-", dir=tree.parent))
    try:
        shutil.copytree(tree, copy, symlinks=True, dirs_exist_ok=True)
        copied_root = copy / root.relative_to(tree)
        for name in names:
            target = copied_root / name
            is_outside = not target.parent.resolve().is_relative_to(copy.resolve())
            if (
                is_outside
                or places.refusal_reason(head, name, trusted=True)
                or not (head / name).is_file()
            ):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            shutil.copyfile(head / name, target)
        yield copied_root
    finally:
        git.remove_folder(copy)


def edited_workflow(root: Path, head: Path) -> str:
    """A workflow of the base that runs evalgate and that head edits or removes; "" if there is
    none.

    `root`, `head`: the same folder of both checkouts. Workflows set inputs, so the change may have
    chosen their values."""
    base_top = next(
        (parent for parent in (root, *root.parents) if (parent / ".git").exists()), root
    )
    top = head.joinpath(*[".."] * len(root.relative_to(base_top).parts))
    for path in sorted((base_top / ".github" / "workflows").glob("*.y*ml")):
        name = path.relative_to(base_top)
        content = path.read_bytes()
        head_file = top / name
        if b"evalgate" in content and not (
            head_file.is_file() and head_file.read_bytes() == content
        ):
            return name.as_posix()
    return ""


def is_pointer(content: bytes) -> bool:
    """True if `content` is a Git LFS pointer, which replaces the file itself."""
    return len(content) <= LONGEST_POINTER and _POINTER.match(content) is not None


def _listed(repo: Repository, tree: Path, *arguments: str) -> list[str]:
    output = repo.git.run("ls-files", "-z", *arguments, cwd=str(tree))
    return [entry for entry in output.decode("utf-8", "surrogateescape").split("\0") if entry]


def _holds_pointer(path: Path) -> bool:
    try:
        return (
            not path.is_symlink()
            and path.stat().st_size <= LONGEST_POINTER
            and is_pointer(path.read_bytes())
        )
    except OSError:
        return False


def _is_filled(path: Path) -> bool:
    """True if the user's checkout has the content at `path` that the base's lacks."""
    try:
        return any(path.iterdir()) if path.is_dir() else path.is_file() and not _holds_pointer(path)
    except OSError:
        return False


def _links_out(tree: Path) -> Iterator[str]:
    """The symbolic links that point out of `tree`, and so not to the base's files."""
    top = os.path.realpath(tree)
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink():
                target = os.path.normpath(os.path.join(folder, os.readlink(path)))  # noqa: PTH115, PTH118 - not resolved
                if target != top and not target.startswith(top + os.sep):
                    yield path.relative_to(top).as_posix()
