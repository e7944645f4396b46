"""Stores of base results: what holds for each of them, and the data branch with real git in a race."""

from __future__ import annotations

import functools
import gzip
import json
import multiprocessing
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import pytest
from builders import repositories as made
from builders.repositories import ENVIRON, photograph
from builders.repositories import git as git_

from evalgate.config.settings import Settings
from evalgate.errors import UnavailableError
from evalgate.results import stores
from evalgate.results.stores import DataBranch, Folder, Store
from evalgate.system import git
from evalgate.system.git import Complaint, GitFailed, Repository

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
A, B, C, D = (letter * 40 for letter in "abcd")
SAVES = 8  # by each of two writers


class Make(Protocol):
    """Opens the store under test once more, as another run would."""

    def __call__(self, *, keep: int = 50, warnings: list[str] | None = None) -> Store: ...


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = made.made(tmp_path / "origin")
    made.commit(folder, {"agent.py": "x\n"})
    return folder


@pytest.fixture
def workspace(origin: Path, tmp_path: Path) -> Path:
    return made.cloned(origin, tmp_path / "workspace", "--depth=1")


@pytest.fixture
def repo(workspace: Path, tmp_path: Path) -> Iterator[Repository]:
    with git.open_repository(workspace, environ=ENVIRON, token=None, under=tmp_path / "private") as found:
        yield found


@pytest.fixture(params=["branch", "branch of a remote that knows filters", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path, repo: Repository, origin: Path) -> Make:
    if "filters" in request.param:
        git_(origin, "config", "uploadpack.allowFilter", "true")
        git_(origin, "config", "uploadpack.allowAnySHA1InWant", "true")

    def make(*, keep: int = 50, warnings: list[str] | None = None) -> Store:
        warn = (warnings if warnings is not None else []).append
        if request.param == "folder":
            return Folder(tmp_path / "stored", scratch=tmp_path / "scratch", keep=keep, warn=warn)
        return DataBranch(repo, branch="evalgate-data", keep=keep, warn=warn)

    return make


@pytest.fixture
def put(tmp_path: Path, origin: Path) -> Callable[[str, bytes], None]:
    """Put a file into the store behind its back, in whichever form there is."""

    def write(name: str, data: bytes) -> None:
        stored = tmp_path / "stored"
        if stored.is_dir():
            (stored / name).write_bytes(data)
            return
        aside = tmp_path / "aside"
        if not aside.exists():
            git_(tmp_path, "clone", "--quiet", "--branch=evalgate-data", str(origin), str(aside))
        git_(aside, "pull", "--quiet")
        (aside / name).parent.mkdir(exist_ok=True)
        (aside / name).write_bytes(data)
        made.commit(aside, {})
        git_(aside, "push", "--quiet")

    return write


def results(tmp_path: Path, text: str) -> Path:
    path = tmp_path / f"{text}.json"
    path.write_text(json.dumps({"text": text}))
    return path


def text_of(path: Path) -> str:
    held: str = json.loads(path.read_text())["text"]
    return held


def test_an_empty_store_has_nothing(store: Make) -> None:
    assert next(store().find([A, B]), None) is None
    assert store().read("history.json") is None


def test_the_nearest_commit_wins(store: Make, tmp_path: Path) -> None:
    store().save(C, results(tmp_path, "far"), now=NOW)
    store().save(B, results(tmp_path, "near"), now=NOW + timedelta(seconds=5))
    found = next(store().find([A, B, C]), None)
    assert found is not None
    assert (found.commit, found.distance, found.saved_at) == (B, 1, "2026-01-02T03:04:10Z")
    assert text_of(found.path) == "near"
    assert next(store().find([A, D]), None) is None


def test_the_newest_run_of_a_commit_wins(store: Make, tmp_path: Path) -> None:
    store().save(A, results(tmp_path, "first"), now=NOW)
    store().save(A, results(tmp_path, "again"), now=NOW + timedelta(days=1))
    found = next(store().find([A]), None)
    assert found is not None
    assert text_of(found.path) == "again"


def test_the_oldest_runs_go(store: Make, tmp_path: Path) -> None:
    for number, commit in enumerate([A, B, C]):
        store().save(commit, results(tmp_path, commit), now=NOW + timedelta(hours=number))
    store(keep=2).save(D, results(tmp_path, D), now=NOW + timedelta(hours=9))
    assert [next(store().find([commit]), None) is not None for commit in (A, B, C, D)] == [False, False, True, True]


def count_up(ledger: bytes | None) -> Mapping[str, bytes]:
    count = json.loads(ledger)["count"] + 1 if ledger else 1
    return {"history.json": json.dumps({"count": count}).encode(), "badge.json": b"{}"}


def test_the_ledger_is_revised_with_each_run(store: Make, tmp_path: Path) -> None:
    for number, commit in enumerate([A, B]):
        store().save(commit, results(tmp_path, commit), now=NOW + timedelta(hours=number), revise=count_up)
    store().save(C, results(tmp_path, C), now=NOW + timedelta(hours=2))
    assert store().read("history.json") == b'{"count": 2}'
    assert store().read("badge.json") == b"{}"
    assert b"evalgate" in (store().read("README.md") or b"")


MOST = 2**26
"""What is read at most in these tests."""


def bomb() -> bytes:
    """What begins like results and is larger than is ever read; made of one piece, for each import makes it."""
    packer = zlib.compressobj(1, wbits=31)
    start = packer.compress(b"{") + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(b" " * 2**24) + packer.flush(zlib.Z_FULL_FLUSH)  # which knows nothing of what is before it
    return start + piece * (MOST // 2**24)


@pytest.mark.parametrize(
    ("held", "complaint"),
    [
        (b"", "is truncated"),
        (b"plain text", "is not in the expected compression format"),
        (gzip.compress(b"<html>"), "holds no results"),
        (gzip.compress(b""), "is empty"),
        (gzip.compress(os.urandom(1000) * 3)[:-50], "holds no results"),
        (gzip.compress(b'{"a": 1}' * 1000)[:-9], "is truncated"),
        (bomb(), "is larger than 64 MiB"),
    ],
    ids=["nothing", "text", "html", "empty", "noise", "truncated", "bomb"],
)
def test_what_no_run_wrote_is_left_aside(
    store: Make,
    tmp_path: Path,
    put: Callable[[str, bytes], None],
    monkeypatch: pytest.MonkeyPatch,
    held: bytes,
    complaint: str,
) -> None:
    monkeypatch.setattr(stores, "unpack", functools.partial(stores.unpack, most_bytes=MOST))
    store().save(B, results(tmp_path, "good"), now=NOW)
    name = f"20260105T000000Z-{A}.json.gz"
    put(f"runs/{name}", held)
    put("runs/20269999T000000Z-" + A + ".json.gz", gzip.compress(b"{}"))
    put("runs/notes.txt", b"mine")
    warnings: list[str] = []
    found = next(store(warnings=warnings).find([A, B]), None)
    assert found is not None
    assert (found.commit, text_of(found.path)) == (B, "good")
    assert len(warnings) == 1
    assert name in warnings[0]
    assert complaint in warnings[0]


def test_what_others_keep_there_stays(store: Make, tmp_path: Path, put: Callable[[str, bytes], None]) -> None:
    store().save(A, results(tmp_path, "one"), now=NOW)
    put("CNAME", b"example.com")
    put("runs/notes.txt", b"mine")
    put("README.md", b"ours")
    store(keep=1).save(B, results(tmp_path, "two"), now=NOW + timedelta(hours=1))
    assert store().read("CNAME") == b"example.com"
    assert store().read("README.md") == b"ours"


def test_a_ledger_on_the_branch_that_is_no_file_is_not_the_same_as_none(
    repo: Repository, origin: Path, tmp_path: Path
) -> None:
    DataBranch(repo, branch="evalgate-data").save(A, results(tmp_path, "one"), now=NOW)
    aside = tmp_path / "aside"
    git_(tmp_path, "clone", "--quiet", "--branch=evalgate-data", str(origin), str(aside))
    (aside / "history.json").symlink_to("README.md")
    made.commit(aside, {})
    git_(aside, "push", "--quiet")
    with pytest.raises(UnavailableError, match="is not a plain file"):
        DataBranch(repo, branch="evalgate-data").read("history.json")


# --- the folder ----------------------------------------------------------------------------------------


def test_a_folder_never_reads_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "stored/runs").mkdir(parents=True)
    (tmp_path / "secret.gz").write_bytes(gzip.compress(b'{"text": "secret"}'))
    (tmp_path / f"stored/runs/20260105T000000Z-{A}.json.gz").symlink_to(tmp_path / "secret.gz")
    (tmp_path / "stored/history.json").symlink_to(tmp_path / "secret.gz")
    warnings: list[str] = []
    folder = Folder(tmp_path / "stored", scratch=tmp_path / "scratch", warn=warnings.append)
    assert next(folder.find([A]), None) is None
    assert "is a symbolic link" in warnings[0]
    with pytest.raises(UnavailableError, match="symbolic link"):
        folder.read("history.json")


def test_later_steps_can_read_a_folder(tmp_path: Path) -> None:
    Folder(tmp_path / "stored", scratch=tmp_path).save(A, results(tmp_path, "x"), now=NOW, revise=count_up)
    umask = os.umask(0)
    os.umask(umask)
    for path in (tmp_path / "stored").rglob("*"):
        wanted = (0o777 if path.is_dir() else 0o666) & ~umask
        assert path.stat().st_mode & 0o777 == wanted, path


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = Folder(tmp_path / "file" / "stored", scratch=tmp_path)
    with pytest.raises(UnavailableError, match="cannot use the folder"):
        folder.save(A, results(tmp_path, "x"), now=NOW)


@pytest.mark.parametrize(("folder", "used"), [("kept", False), ("fresh", True), ("link", False), ("../kept", True)])
def test_a_folder_that_the_commit_brings_along_is_not_used(
    origin: Path, tmp_path: Path, folder: str, *, used: bool
) -> None:
    """A pull request could write there what it is compared with."""
    (origin / "link").symlink_to("kept")
    made.commit(origin, {"kept/history.json": "{}"})
    workspace = made.cloned(origin, tmp_path / "workspace", "--depth=1")
    said: list[str] = []
    with git.open_repository(workspace, environ=ENVIRON, token=None, under=tmp_path / "private") as repo:
        found = stores.opened(Settings(baseline_folder=folder), repo, root=workspace, say=said.append)
    assert len(found) == used
    assert [f"the folder {folder} contains committed files" in line for line in said] == [True] * (not used)


def write_to_folder(folder: str, scratch: str, letter: str) -> None:
    store = Folder(Path(folder), scratch=Path(scratch), keep=100)
    for number in range(SAVES):
        commit = f"{letter}{number:039d}"
        store.save(commit, results(Path(scratch), commit), now=NOW + timedelta(seconds=number), revise=count_up)


def test_writers_of_a_folder_take_turns(tmp_path: Path) -> None:
    arguments = []
    for letter in "ab":
        (tmp_path / letter).mkdir()
        arguments.append((str(tmp_path / "stored"), str(tmp_path / letter), letter))
    in_processes(write_to_folder, arguments)
    store = Folder(tmp_path / "stored", scratch=tmp_path / "scratch")
    assert json.loads(store.read("history.json") or b"")["count"] == 2 * SAVES
    for letter in "ab":
        assert all(next(store.find([f"{letter}{number:039d}"]), None) for number in range(SAVES))
    assert not list((tmp_path / "stored").rglob(".new-*"))


def in_processes(function: Callable[..., None], arguments: Sequence[tuple[str, ...]]) -> None:
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=function, args=each) for each in arguments]
    for child in children:
        child.start()
    for child in children:
        child.join(300)
    assert [child.exitcode for child in children] == [0] * len(children)


# --- the data branch -----------------------------------------------------------------------------------


def write_to_branch(workspace: str, private: str, letter: str, keep: str) -> None:
    with git.open_repository(Path(workspace), environ=ENVIRON, token=None, under=Path(private)) as repo:
        store = DataBranch(repo, branch="evalgate-data", keep=int(keep))
        for number in range(SAVES):
            commit = f"{letter}{number:039d}"
            moment = NOW + timedelta(seconds=number)
            store.save(commit, results(repo.folder, commit), now=moment, revise=count_up)


@pytest.mark.parametrize("keep", [100, 5])
def test_two_runs_race_for_the_branch(
    origin: Path, workspace: Path, tmp_path: Path, repo: Repository, keep: int
) -> None:
    """Several saves each: none is lost, the ledger counts all of them, history is a line."""
    before = photograph(workspace)
    private = str(tmp_path / "race")
    in_processes(write_to_branch, [(str(workspace), private, letter, str(keep)) for letter in "ab"])

    assert photograph(workspace) == before
    store = DataBranch(repo, branch="evalgate-data")
    assert json.loads(store.read("history.json") or b"")["count"] == 2 * SAVES
    there = [
        f"{letter}{n:039d}" for n in range(SAVES) for letter in "ab" if next(store.find([f"{letter}{n:039d}"]), None)
    ]
    if keep == 100:
        assert len(there) == 2 * SAVES
        assert int(git_(origin, "rev-list", "--count", "evalgate-data")) == 2 * SAVES
    else:
        assert len(there) == keep
        assert int(git_(origin, "rev-list", "--count", "evalgate-data")) <= 2 * keep, (
            "old runs are not carried for ever"
        )
    assert git_(origin, "rev-list", "--count", "--min-parents=2", "evalgate-data") == "0"


def test_a_remote_that_forbids_a_new_start_keeps_its_history(origin: Path, repo: Repository, tmp_path: Path) -> None:
    git_(origin, "config", "receive.denyNonFastForwards", "true")
    for number, commit in enumerate([A, B, C, D]):
        store = DataBranch(repo, branch="evalgate-data", keep=1)
        store.save(commit, results(tmp_path, commit), now=NOW + timedelta(hours=number))
    assert git_(origin, "rev-list", "--count", "evalgate-data") == "4"
    assert len(git_(origin, "ls-tree", "--name-only", "evalgate-data:runs").split()) == 1


def test_no_run_is_kept_on_a_branch_of_code(origin: Path, repo: Repository, tmp_path: Path) -> None:
    """Whatever its last message says of a history."""
    before = git_(origin, "rev-parse", "main")
    with pytest.raises(UnavailableError, match="branch main contains other files and no results"):
        DataBranch(repo, branch="main", keep=1).save(A, results(tmp_path, A), now=NOW)
    assert git_(origin, "rev-parse", "main") == before


def test_a_branch_where_others_keep_something_never_starts_anew(origin: Path, repo: Repository, tmp_path: Path) -> None:
    for number, commit in enumerate([A, B, C]):
        DataBranch(repo, branch="evalgate-data", keep=1).save(
            commit, results(tmp_path, commit), now=NOW + timedelta(hours=number)
        )
        if number == 0:
            aside = tmp_path / "aside"
            git_(tmp_path, "clone", "--quiet", "--branch=evalgate-data", str(origin), str(aside))
            made.commit(aside, {"agent.py": "mine\n"})
            git_(aside, "push", "--quiet")
    assert git_(origin, "rev-list", "--count", "evalgate-data") == "4"


def test_only_the_run_that_is_asked_for_is_fetched(origin: Path, repo: Repository, tmp_path: Path) -> None:
    git_(origin, "config", "uploadpack.allowFilter", "true")
    git_(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    for number, commit in enumerate([A, B, C]):
        DataBranch(repo, branch="evalgate-data").save(
            commit, results(tmp_path, commit), now=NOW + timedelta(hours=number)
        )
    store = DataBranch(repo, branch="evalgate-data")
    assert next(store.find([B]), None) is not None
    (folder,) = [path.parent for path in repo.folder.rglob(f"{B}-*.json")]
    objects = git_(folder / "repository.git", "cat-file", "--batch-check", "--batch-all-objects")
    assert objects.count(" blob ") == 1


def test_a_branch_that_may_not_be_written_is_said(origin: Path, repo: Repository, tmp_path: Path) -> None:
    hook = origin / ".git/hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho 'GH013: Repository rule violations found'\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(GitFailed) as failure:
        DataBranch(repo, branch="evalgate-data").save(A, results(tmp_path, "x"), now=NOW)
    assert failure.value.complaint is Complaint.CREDENTIALS
    assert "`write` for a data branch" in failure.value.hint


def test_losing_for_ever_ends(origin: Path, repo: Repository, tmp_path: Path) -> None:
    hook = origin / ".git/hooks/update"
    hook.write_text("#!/bin/sh\necho 'cannot lock ref'\nexit 1\n")
    hook.chmod(0o755)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(0.05)

    store = DataBranch(repo, branch="evalgate-data", pause=pause, patience_s=1.5)
    with pytest.raises(GitFailed) as failure:
        store.save(A, results(tmp_path, "x"), now=NOW)
    assert failure.value.complaint is Complaint.LOST_RACE
    assert len(pauses) > 1


def test_a_remote_out_of_reach_is_said(origin: Path, workspace: Path, tmp_path: Path) -> None:
    git_(workspace, "remote", "set-url", "origin", f"file://{tmp_path}/gone")
    with git.open_repository(workspace, environ=ENVIRON, token=None, under=tmp_path / "private") as repo:
        store = DataBranch(repo, branch="evalgate-data")
        with pytest.raises(GitFailed):
            next(store.find([A]), None)
        with pytest.raises(GitFailed):
            store.save(A, results(tmp_path, "x"), now=NOW)


def test_a_workspace_without_a_remote_is_said(tmp_path: Path) -> None:
    alone = made.made(tmp_path / "alone")
    made.commit(alone, {"x": "x"})
    with (
        git.open_repository(alone, environ=ENVIRON, token=None, under=tmp_path / "private") as repo,
        pytest.raises(GitFailed, match="has no remote"),
    ):
        next(DataBranch(repo, branch="evalgate-data").find([A]), None)


@pytest.mark.parametrize("name", ["", "-x", "a..b", "a b", "a.lock", "/a", "a/", "a~1", "x:y", "a//b", "a/.b", "@{u}"])
def test_names_that_no_branch_can_have(repo: Repository, name: str) -> None:
    with pytest.raises(UnavailableError, match="is not a valid branch name"):
        DataBranch(repo, branch=name)


def test_a_full_clone_is_not_made_shallow(origin: Path, tmp_path: Path) -> None:
    """Reading the branch at depth 1 must not hide history from the search for the merge base."""
    full = made.cloned(origin, tmp_path / "full")
    with git.open_repository(full, environ=ENVIRON, token=None, under=tmp_path / "private") as repo:
        next(DataBranch(repo, branch="main").find([A]), None)
        assert not repo.is_shallow
