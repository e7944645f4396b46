"""Which commit is the base, with real git and the checkouts that runners make."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import repositories as made
from builders.repositories import ENVIRON, git as git_, photograph

from evalgate.baseline import base as baseline_base
from evalgate.errors import UnavailableError
from evalgate.model import BaseOrigin
from evalgate.system import git
from evalgate.system.git import Complaint, GitFailed, Repository

pytestmark = pytest.mark.integration


@pytest.fixture
def under(tmp_path: Path) -> Path:
    return tmp_path / "private"


@pytest.fixture
def origin(tmp_path: Path, github: Path) -> Path:
    return Path(shutil.copytree(github, tmp_path / "origin"))


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project on GitHub: `fork` is where the pull request left main, `tip` where main is now.

    `refs/pull/7/head` is the pull request, `refs/pull/7/merge` what GitHub made of it and of main.
    """
    folder = made.made(tmp_path_factory.mktemp("github") / "project")
    made.commit(folder, {"agent.py": "first\n"})
    made.commit(folder, {"agent.py": "fork\n"})
    git_(folder, "tag", "fork")
    git_(folder, "checkout", "--quiet", "-b", "topic")
    for number in range(60):
        made.commit(folder, {"pr.txt": f"{number}\n"})
    git_(folder, "tag", "head")
    git_(folder, "checkout", "--quiet", "main")
    for number in range(60):
        made.commit(folder, {"main.txt": f"{number}\n"})
    git_(folder, "tag", "tip")
    head, tip = git_(folder, "rev-parse", "head", "tip").split()
    git_(folder, "merge", "--quiet", "--no-ff", "-m", f"Merge {head} into {tip}", "head")
    git_(folder, "update-ref", "refs/pull/7/merge", "HEAD")
    git_(folder, "update-ref", "refs/pull/7/head", head)
    git_(folder, "reset", "--quiet", "--hard", "tip")
    git_(folder, "branch", "--quiet", "-D", "topic")
    return folder


def sha_of(folder: Path, name: str) -> str:
    return git_(folder, "rev-parse", f"{name}^{{commit}}")


def checked_out(origin: Path, to: Path, ref: str) -> Path:
    """What actions/checkout makes of a ref with fetch-depth 1."""
    made.made(to)
    git_(to, "remote", "add", "origin", f"file://{origin}")
    git_(
        to,
        "fetch",
        "--quiet",
        "--no-tags",
        "--depth=1",
        "origin",
        f"+{sha_of(origin, ref)}:refs/remotes/{ref}",
    )
    git_(to, "checkout", "--quiet", "--detach", f"refs/remotes/{ref}")
    return to


def pick(
    root: Path, under: Path, *, wanted: str = "", event_base: str = "", **said: str
) -> BaseOrigin:
    """`said`: what the runner says beside."""
    with git.open_repository(root, environ=ENVIRON, token=None, under=under) as repo:
        picked = baseline_base.pick_base(repo, base=wanted, event_base=event_base, environ=said)
        with baseline_base.checked_out(repo, picked.commit) as there:
            assert (there.root / "agent.py").exists(), "a base can be checked out"
        return picked


def test_a_merge_that_github_tests_needs_one_commit_more(
    origin: Path, tmp_path: Path, under: Path
) -> None:
    """Its first parent is main as it was merged, even where the event names an older tip."""
    workspace = checked_out(origin, tmp_path / "workspace", "pull/7/merge")
    before = photograph(workspace)
    runner = {"GITHUB_REF": "refs/pull/7/merge", "GITHUB_SHA": sha_of(workspace, "HEAD")}
    picked = pick(workspace, under, event_base=sha_of(origin, "tip~5"), **runner)
    assert (picked.commit, picked.found_by, picked.notes) == (
        sha_of(origin, "tip"),
        "merge-base",
        (),
    )
    assert picked == pick(workspace, under, event_base=sha_of(origin, "tip")), (
        "the event's own base is harmless"
    )
    assert photograph(workspace) == before
    assert git_(workspace, "rev-list", "--count", "HEAD") == "1", (
        "the user's checkout is as shallow as before"
    )


# of the event's commit; of what its branch is by now
@pytest.mark.parametrize("checkout", ["head", "branch"])
@pytest.mark.parametrize("event", ["tip", ""])  # a pull request; at a desk
def test_a_commit_does_not_choose_what_it_is_compared_with(
    origin: Path, tmp_path: Path, under: Path, checkout: str, event: str
) -> None:
    """A pull request whose commit is made to look like GitHub's merge: its first parent is the
    change itself."""
    git_(origin, "checkout", "--quiet", "-b", "forged", "head")
    change = made.commit(origin, {"agent.py": "broken\n"})
    other = git_(origin, "commit-tree", f"{change}^{{tree}}", "-p", change, "-m", "other").strip()
    subject = f"Merge {other} into {change}"
    forged = git_(
        origin, "commit-tree", f"{change}^{{tree}}", "-p", change, "-p", other, "-m", subject
    ).strip()
    git_(origin, "update-ref", "refs/heads/forged", forged)
    git_(origin, "checkout", "--quiet", "--detach", "main")
    workspace = made.cloned(origin, tmp_path / "workspace", "--branch=forged")
    tested = other if checkout == "branch" else forged
    runner = {
        "GITHUB_REF": "refs/pull/7/merge",
        "GITHUB_SHA": tested if checkout == "branch" else "1" * 40,
    }
    picked = pick(workspace, under, event_base=sha_of(origin, event) if event else "", **runner)
    assert picked.commit == sha_of(origin, "fork")


def test_a_shallow_head_is_deepened_to_the_merge_base(
    origin: Path, tmp_path: Path, under: Path
) -> None:
    workspace = checked_out(origin, tmp_path / "workspace", "pull/7/head")
    before = photograph(workspace)
    picked = pick(workspace, under, event_base=sha_of(origin, "tip"))
    assert (picked.commit, picked.found_by, picked.notes) == (
        sha_of(origin, "fork"),
        "merge-base",
        (),
    )
    assert photograph(workspace) == before


def test_a_head_that_was_never_pushed(origin: Path, tmp_path: Path, under: Path) -> None:
    workspace = checked_out(origin, tmp_path / "workspace", "pull/7/head")
    made.commit(workspace, {"local.txt": "only here"})
    picked = pick(workspace, under, event_base=sha_of(origin, "tip"))
    assert (picked.commit, picked.found_by) == (sha_of(origin, "fork"), "merge-base")


def test_no_history_to_be_had_falls_back_to_the_base_and_says_so(
    origin: Path, tmp_path: Path, under: Path
) -> None:
    workspace = checked_out(origin, tmp_path / "workspace", "pull/7/head")
    git_(workspace, "fetch", "--quiet", "--depth=1", "origin", sha_of(origin, "tip"))
    git_(workspace, "remote", "set-url", "origin", f"file://{tmp_path}/gone")
    picked = pick(workspace, under, event_base=sha_of(origin, "tip"))
    assert (picked.commit, picked.found_by) == (sha_of(origin, "tip"), "base")
    assert "history could not be fetched" in picked.notes[0]
    assert "fetch-depth: 0" in picked.notes[0]


def test_a_push_that_rewrote_what_it_is_compared_with(
    origin: Path, tmp_path: Path, under: Path
) -> None:
    workspace = checked_out(origin, tmp_path / "workspace", "pull/7/head")
    with pytest.raises(
        GitFailed, match="dddddddddddd, the base commit of the event: history was rewritten"
    ) as caught:
        pick(workspace, under, event_base="d" * 40)
    assert "`base` to a branch" in caught.value.hint


def test_histories_that_never_meet(origin: Path, tmp_path: Path, under: Path) -> None:
    git_(origin, "checkout", "--quiet", "--orphan", "island")
    island = made.commit(origin, {"agent.py": "island\n"})
    workspace = made.cloned(origin, tmp_path / "workspace", "--branch=island")
    picked = pick(workspace, under, event_base=sha_of(origin, "tip"))
    assert (picked.commit, picked.found_by) == (sha_of(origin, "tip"), "base")
    assert "no common ancestor" in picked.notes[0]
    assert picked.commit != island


@pytest.mark.parametrize(
    ("wanted", "expected", "how", "shallow"),
    [
        ("main", "fork", "merge-base", False),  # a branch: where head left it
        ("main", "fork", "merge-base", True),
        ("origin/main", "fork", "merge-base", False),
        ("v1", "tip~2", "given", False),  # a tag: itself
        ("v1", "tip~2", "given", True),
        ("head~3", "head~3", "given", False),  # anything that git understands
    ],
)
def test_a_base_that_the_user_names(
    origin: Path, tmp_path: Path, under: Path, wanted: str, expected: str, how: str, shallow: bool
) -> None:
    git_(origin, "tag", "--annotate", "-m", "one", "v1", "tip~2")
    if shallow:
        workspace = checked_out(origin, tmp_path / "workspace", "pull/7/head")
    else:
        workspace = made.cloned(origin, tmp_path / "workspace")
        git_(workspace, "checkout", "--quiet", "head")
    picked = pick(workspace, under, wanted=wanted)
    assert (picked.commit, picked.found_by) == (sha_of(origin, expected), how)


@pytest.mark.parametrize(
    ("local_main", "expected"),
    [
        ("head~2", "head~2"),  # commits of the local branch that nobody pushed are not the change
        ("fork~1", "fork"),  # it is behind the remote's
        ("tip", "fork"),
    ],
)
def test_a_branch_that_is_here_and_at_the_remote(
    origin: Path, tmp_path: Path, under: Path, local_main: str, expected: str
) -> None:
    workspace = made.cloned(origin, tmp_path / "workspace")
    git_(workspace, "checkout", "--quiet", "head")
    git_(workspace, "branch", "--quiet", "--force", "main", local_main)
    assert pick(workspace, under, wanted="main").commit == sha_of(origin, expected)


def test_a_sha_that_the_checkout_does_not_have_is_fetched(
    origin: Path, tmp_path: Path, under: Path
) -> None:
    workspace = checked_out(origin, tmp_path / "workspace", "pull/7/head")
    wanted = sha_of(origin, "tip~7")
    picked = pick(workspace, under, wanted=wanted)
    assert (picked.commit, picked.found_by) == (wanted, "given")


def test_at_a_desk_it_is_where_the_default_branch_was_left(
    origin: Path, tmp_path: Path, under: Path
) -> None:
    workspace = made.cloned(origin, tmp_path / "workspace")
    git_(workspace, "checkout", "--quiet", "-b", "mine", "head")
    picked = pick(workspace, under)
    assert (picked.commit, picked.found_by) == (sha_of(origin, "fork"), "merge-base")


def test_a_push_that_made_the_branch_has_no_commit_before(
    origin: Path, tmp_path: Path, under: Path
) -> None:
    workspace = made.cloned(origin, tmp_path / "workspace")
    git_(workspace, "checkout", "--quiet", "head")
    assert pick(workspace, under, event_base="0" * 40).commit == sha_of(origin, "fork")


# --- what cannot be -------------------------------------------------------------------------------


def test_an_unknown_base_is_said(origin: Path, tmp_path: Path, under: Path) -> None:
    workspace = checked_out(origin, tmp_path / "workspace", "pull/7/head")
    for names in ({"event_base": "1" * 40}, {"wanted": "1" * 40}, {"wanted": "nowhere"}):
        with pytest.raises(GitFailed) as failure:
            pick(workspace, under, **names)
        assert failure.value.complaint is Complaint.MISSING
        assert failure.value.hint


def test_no_remote_and_no_base_is_said(tmp_path: Path, under: Path) -> None:
    alone = made.made(tmp_path / "alone")
    git_(alone, "checkout", "--quiet", "-b", "odd")
    made.commit(alone, {"agent.py": "x"})
    with pytest.raises(UnavailableError, match="nothing to compare with") as failure:
        pick(alone, under)
    assert "Set `base`" in failure.value.hint
    with pytest.raises(GitFailed, match="has no remote"):
        pick(alone, under, event_base="1" * 40)


def test_no_commit_at_all_is_said(tmp_path: Path, under: Path) -> None:
    empty = made.made(tmp_path / "empty")
    with pytest.raises(UnavailableError, match="no commit yet"):
        pick(empty, under)


def test_a_remote_that_refuses_is_said_with_what_to_do(
    origin: Path, tmp_path: Path, under: Path
) -> None:
    workspace = checked_out(origin, tmp_path / "workspace", "pull/7/merge")
    git_(workspace, "remote", "set-url", "origin", f"file://{tmp_path}/gone")
    with pytest.raises(GitFailed, match="does not appear to be a git repository") as failure:
        pick(workspace, under)
    assert "fetch-depth: 0" in failure.value.hint


# --- ancestors ------------------------------------------------------------------------------------


@pytest.fixture
def repo(origin: Path, tmp_path: Path, under: Path) -> Iterator[Repository]:
    workspace = made.cloned(origin, tmp_path / "full")
    with git.open_repository(workspace, environ=ENVIRON, token=None, under=under) as found:
        yield found


def test_ancestors_come_nearest_first_and_bounded(repo: Repository, origin: Path) -> None:
    tip = sha_of(origin, "tip")
    assert git.ancestors(repo, tip, limit=3) == (
        tip,
        sha_of(origin, "tip~1"),
        sha_of(origin, "tip~2"),
    )


def test_ancestors_of_a_shallow_commit_are_fetched(
    origin: Path, tmp_path: Path, under: Path
) -> None:
    workspace = checked_out(origin, tmp_path / "workspace", "pull/7/merge")
    with git.open_repository(workspace, environ=ENVIRON, token=None, under=under) as repo:
        picked = baseline_base.pick_base(repo, base="", event_base="", environ={})
        assert len(git.ancestors(repo, picked.commit)) == 62
