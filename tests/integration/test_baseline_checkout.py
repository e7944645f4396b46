"""Checkouts of the base, with real git: beside the user's repository, never in it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import repositories as made
from builders.repositories import ENVIRON, git, photograph

from evalgate.baseline import base as baseline_base
from evalgate.errors import UnavailableError
from evalgate.system import git as system_git
from evalgate.system.git import GitFailed, Repository

pytestmark = pytest.mark.integration


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = made.made(tmp_path / "project")
    made.commit(folder, {"agent.py": "old\n", "shop/agent.py": "old shop\n"})
    git(folder, "tag", "base")
    made.commit(folder, {"agent.py": "new\n", "new.py": "new\n"})
    return folder


@pytest.fixture
def under(tmp_path: Path) -> Path:
    return tmp_path / "private"


def opened(root: Path, under: Path):
    return system_git.open_repository(root, environ=ENVIRON, token=None, under=under)


@pytest.fixture
def repo(project: Path, under: Path) -> Iterator[Repository]:
    with opened(project, under) as found:
        yield found


def sha_of(folder: Path, name: str) -> str:
    return git(folder, "rev-parse", name)


def test_the_base_stands_beside_head_and_goes(project: Path, under: Path) -> None:
    with (
        opened(project, under) as repo,
        baseline_base.checked_out(repo, sha_of(project, "base")) as there,
    ):
        assert (there.root / "agent.py").read_text() == "old\n"
        assert not (there.root / "new.py").exists()
        assert (project / "agent.py").read_text() == "new\n"
        assert there.notes == ()
        assert not there.root.is_relative_to(project)
    assert list(under.iterdir()) == []


def test_nothing_of_the_users_repository_changes(project: Path, under: Path) -> None:
    (project / "agent.py").write_text("stashed\n")
    git(project, "stash")
    (project / "agent.py").write_text("staged\n")
    git(project, "add", "agent.py")
    (project / "agent.py").write_text("dirty\n")
    (project / "untracked.txt").write_text("mine\n")
    (project / "new.py").unlink()
    git(project, "branch", "side")
    before = photograph(project)
    status = git(
        project, "--no-optional-locks", "status", "--porcelain=v2", "--branch", "--show-stash"
    )

    with (
        opened(project, under) as repo,
        baseline_base.checked_out(repo, sha_of(project, "base")) as there,
    ):
        during = photograph(project)
        assert (there.root / "agent.py").read_text() == "old\n"

    assert photograph(project) == during == before
    assert (
        git(project, "--no-optional-locks", "status", "--porcelain=v2", "--branch", "--show-stash")
        == status
    )


def test_a_root_below_the_top_stays_below_the_top(project: Path, under: Path) -> None:
    with (
        opened(project / "shop", under) as repo,
        baseline_base.checked_out(repo, sha_of(project, "base")) as there,
    ):
        assert there.root == there.tree / "shop"
        assert (there.root / "agent.py").read_text() == "old shop\n"


def test_a_root_that_the_base_lacks_is_said(project: Path, under: Path) -> None:
    (project / "later").mkdir()
    with (
        opened(project / "later", under) as repo,
        pytest.raises(UnavailableError, match="has no folder later"),
        baseline_base.checked_out(repo, sha_of(project, "base")),
    ):
        pytest.fail("there is nothing to run")


def test_two_checkouts_at_once(project: Path, under: Path) -> None:
    base, head = sha_of(project, "base"), sha_of(project, "HEAD")
    with (
        opened(project, under) as one,
        opened(project, under) as other,
        baseline_base.checked_out(one, base) as first,
        baseline_base.checked_out(one, base) as second,
        baseline_base.checked_out(other, head) as third,
    ):
        texts = [(each.root / "agent.py").read_text() for each in (first, second, third)]
    assert texts == ["old\n", "old\n", "new\n"]


def test_git_works_in_the_checkout(repo: Repository, project: Path) -> None:
    """As build backends that ask git for a version need it."""
    with baseline_base.checked_out(repo, sha_of(project, "base")) as there:
        assert git(there.root, "describe", "--tags") == "base"
        assert git(there.root, "status", "--porcelain") == ""


def test_a_linked_working_tree_of_the_user(project: Path, under: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"), "base")
    with opened(tmp_path / "linked", under) as repo:
        assert repo.head == sha_of(project, "base")
        with baseline_base.checked_out(repo, sha_of(project, "main")) as there:
            assert (there.root / "agent.py").read_text() == "new\n"
    assert "private" not in git(project, "worktree", "list")


def test_an_unknown_commit_is_said(repo: Repository) -> None:
    with (
        pytest.raises(GitFailed, match="git worktree failed"),
        baseline_base.checked_out(repo, "1" * 40),
    ):
        pytest.fail("there is no such commit")


def test_a_folder_without_git_is_said(tmp_path: Path, under: Path) -> None:
    with pytest.raises(UnavailableError, match="not in a git repository"), opened(tmp_path, under):
        pytest.fail("there is no repository")


def test_an_odd_path_of_the_repository(tmp_path: Path, under: Path) -> None:
    folder = made.made(tmp_path / 'odd "quoted"\\ ünï #:;path')
    sha = made.commit(folder, {"a": "a"})
    with opened(folder, under) as repo, baseline_base.checked_out(repo, sha) as there:
        assert (there.root / "a").read_text() == "a"


# --- submodules, links, LFS -----------------------------------------------------------------------


@pytest.fixture
def with_submodule(tmp_path: Path, project: Path) -> Path:
    inner = made.made(tmp_path / "inner")
    made.commit(inner, {"deep.txt": "deep\n"})
    library = made.made(tmp_path / "library")
    made.commit(library, {"tool.py": "one\n"})
    git(library, "submodule", "--quiet", "add", f"file://{inner}", "deep")
    made.commit(library, {})
    git(project, "submodule", "--quiet", "add", f"file://{library}", "vendor/library")
    git(project, "submodule", "--quiet", "update", "--init", "--recursive")
    made.commit(project, {})
    git(project, "tag", "with-library")
    made.commit(library, {"tool.py": "two\n"})
    git(project / "vendor/library", "pull", "--quiet", "origin", "main")
    made.commit(project, {})
    return project


def test_submodules_are_left_out_which_is_a_problem_where_the_user_has_them(
    with_submodule: Path, under: Path
) -> None:
    before = photograph(with_submodule)
    with (
        opened(with_submodule, under) as repo,
        baseline_base.checked_out(repo, sha_of(with_submodule, "with-library")) as there,
    ):
        assert list((there.root / "vendor/library").iterdir()) == []
        assert there.notes == ("1 submodule (vendor/library) is missing in the base's checkout.",)
        assert "(vendor/library), so the two agents cannot be compared" in there.problem
    assert photograph(with_submodule) == before
    assert list(under.iterdir()) == []


def test_submodules_that_neither_side_has_are_a_note(
    with_submodule: Path, under: Path, tmp_path: Path
) -> None:
    clone = made.cloned(with_submodule, tmp_path / "clone")
    with (
        opened(clone, under) as repo,
        baseline_base.checked_out(repo, sha_of(clone, "HEAD")) as there,
    ):
        assert there.notes == ("1 submodule (vendor/library) is missing in the base's checkout.",)
        assert there.problem == ""
        assert (there.root / "agent.py").exists()


def test_links_are_kept_and_those_that_lead_out_are_said(
    project: Path, under: Path, tmp_path: Path
) -> None:
    (project / "inside").symlink_to("shop/agent.py")
    (project / "outside").symlink_to(tmp_path / "elsewhere")
    (project / "shop" / "up").symlink_to("../../elsewhere")
    sha = made.commit(project, {})
    with opened(project, under) as repo, baseline_base.checked_out(repo, sha) as there:
        assert (there.root / "inside").readlink() == Path("shop/agent.py")
        assert there.notes == (
            "2 symbolic links (such as outside) lead out of the repository, so both sides use the same files there.",
        )


def test_lfs_files_are_pointers_which_is_a_problem_where_the_user_has_the_files(
    project: Path, under: Path
) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 5\n".format("a" * 64)
    attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
    sha = made.commit(
        project, {".gitattributes": attributes, "model.bin": pointer, "other.bin": "no pointer"}
    )
    with opened(project, under) as repo, baseline_base.checked_out(repo, sha) as there:
        assert (there.root / "model.bin").read_text() == pointer
        assert there.notes == ("1 Git LFS file (model.bin) is missing in the base's checkout.",)
        assert there.problem == ""
    (project / "model.bin").write_text("the model")
    with opened(project, under) as repo, baseline_base.checked_out(repo, sha) as there:
        assert "(model.bin), so the two agents cannot be compared" in there.problem


def test_a_sparse_checkout_stays_sparse(project: Path, under: Path, tmp_path: Path) -> None:
    clone = made.cloned(project, tmp_path / "clone", "--no-checkout")
    git(clone, "sparse-checkout", "set", "shop")
    git(clone, "checkout", "--quiet", "main")
    with (
        opened(clone, under) as repo,
        baseline_base.checked_out(repo, sha_of(project, "base")) as there,
    ):
        assert sorted(path.name for path in there.root.iterdir()) == [".git", "agent.py", "shop"]


def test_a_partial_clone_fetches_contents_when_they_are_needed(
    project: Path, under: Path, tmp_path: Path
) -> None:
    git(project, "config", "uploadpack.allowFilter", "true")
    git(project, "config", "uploadpack.allowAnySHA1InWant", "true")
    clone = made.cloned(project, tmp_path / "clone", "--filter=blob:none")
    with (
        opened(clone, under) as repo,
        baseline_base.checked_out(repo, sha_of(project, "base")) as there,
    ):
        assert (there.root / "agent.py").read_text() == "old\n"


# --- killed ---------------------------------------------------------------------------------------

CHILD = """
import sys, time
from pathlib import Path
from builders.repositories import ENVIRON
from evalgate.baseline import base as baseline_base
from evalgate.system import git as system_git
root, under, sha = sys.argv[1:]
with system_git.open_repository(Path(root), environ=ENVIRON, token=None, under=Path(under)) as repo:
    with baseline_base.checked_out(repo, sha) as there:
        print(there.root, flush=True)
        time.sleep(600)
"""


def test_what_a_killed_run_left_is_removed_by_the_next(project: Path, under: Path) -> None:
    before = photograph(project)
    tests = Path(__file__).resolve().parents[1]
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(CHILD),
            str(project),
            str(under),
            sha_of(project, "base"),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{tests}:{tests.parent}"},
    )
    assert child.stdout is not None
    left = Path(child.stdout.readline().strip())
    assert (left / "agent.py").is_file()
    with opened(project, under):
        assert (left / "agent.py").is_file(), "who still runs keeps his folder"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()

    with opened(project, under) as repo:
        assert not left.exists()
        assert [path.name for path in under.iterdir() if path.is_dir()] == [repo.folder.name]
    assert photograph(project) == before


def test_folders_that_an_agent_made_unwritable_go_as_well(tmp_path: Path) -> None:
    with system_git.private_folder(tmp_path) as folder:
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "b" / "file").write_text("x")
        (folder / "a" / "b").chmod(0o500)
        (folder / "a").chmod(0o000)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_process_goes(tmp_path: Path) -> None:
    (tmp_path / "evalgate-base-old").mkdir()
    with system_git.private_folder(tmp_path) as folder:
        assert [path for path in tmp_path.iterdir() if path.is_dir()] == [folder]
