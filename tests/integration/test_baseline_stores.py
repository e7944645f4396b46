"""The folder of base results, and a data branch of an earlier version that is one."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Protocol

import pytest
from builders import repositories as made
from builders.repositories import ENVIRON, git as git_

from evalgate.config.settings import Settings
from evalgate.errors import UnavailableError
from evalgate.results import history, output
from evalgate.results.history import BaselineFolder
from evalgate.system import git

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
A, B, C, D = (letter * 40 for letter in "abcd")
SAVES = 8  # by each of two writers


class Make(Protocol):
    """Opens the store under test once more, as another run would."""

    def __call__(self, *, keep: int = 50, warnings: list[str] | None = None) -> BaselineFolder: ...


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = made.made(tmp_path / "origin")
    made.commit(folder, {"agent.py": "x\n"})
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Make:
    def make(*, keep: int = 50, warnings: list[str] | None = None) -> BaselineFolder:
        warn = (warnings if warnings is not None else []).append
        return BaselineFolder(tmp_path / "stored", keep=keep, warn=warn)

    return make


@pytest.fixture
def put(tmp_path: Path) -> Callable[[str, bytes], None]:
    """Put a file into the store behind its back."""
    return lambda name, data: (tmp_path / "stored" / name).write_bytes(data) and None


def results(tmp_path: Path, text: str) -> Path:
    path = tmp_path / f"{text}.json"
    path.write_text(json.dumps({"text": text}))
    return path


def text_of(content: bytes) -> str:
    held: str = json.loads(content)["text"]
    return held


def test_an_empty_store_has_nothing(store: Make) -> None:
    assert next(store().find([A, B]), None) is None
    assert store().read("history.json") is None


def test_the_nearest_commit_wins(store: Make, tmp_path: Path) -> None:
    store().save(C, results(tmp_path, "far"), current_moment=NOW)
    store().save(B, results(tmp_path, "near"), current_moment=NOW + timedelta(seconds=5))
    found = next(store().find([A, B, C]), None)
    assert found is not None
    distance, run, content = found
    assert (run.commit, distance, run.saved_at) == (B, 1, "2026-01-02T03:04:10Z")
    assert text_of(content) == "near"
    assert next(store().find([A, D]), None) is None


def test_the_newest_run_of_a_commit_wins(store: Make, tmp_path: Path) -> None:
    store().save(A, results(tmp_path, "first"), current_moment=NOW)
    store().save(A, results(tmp_path, "again"), current_moment=NOW + timedelta(days=1))
    found = next(store().find([A]), None)
    assert found is not None
    assert text_of(found[2]) == "again"


def test_the_oldest_runs_go(store: Make, tmp_path: Path) -> None:
    for number, commit in enumerate([A, B, C]):
        store().save(
            commit, results(tmp_path, commit), current_moment=NOW + timedelta(hours=number)
        )
    store(keep=2).save(D, results(tmp_path, D), current_moment=NOW + timedelta(hours=9))
    assert [next(store().find([commit]), None) is not None for commit in (A, B, C, D)] == [
        False,
        False,
        True,
        True,
    ]


def count_up(ledger: bytes | None) -> bytes:
    count = json.loads(ledger)["count"] + 1 if ledger else 1
    return json.dumps({"count": count}).encode()


def test_the_ledger_is_revised_with_each_run(store: Make, tmp_path: Path) -> None:
    for number, commit in enumerate([A, B]):
        store().save(
            commit,
            results(tmp_path, commit),
            current_moment=NOW + timedelta(hours=number),
            revise=count_up,
        )
    store().save(C, results(tmp_path, C), current_moment=NOW + timedelta(hours=2))
    assert store().read("history.json") == b'{"count": 2}'


MOST = 2**26
"""What is read at most in these tests."""


def bomb() -> bytes:
    """What begins like results and is larger than is ever read; made of one piece, for each import
    makes it."""
    packer = zlib.compressobj(1, wbits=31)
    start = packer.compress(b"{") + packer.flush(zlib.Z_FULL_FLUSH)
    # which knows nothing of what is before it
    piece = packer.compress(b" " * 2**24) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + piece * (MOST // 2**24)


@pytest.mark.parametrize(
    ("held", "complaint"),
    [
        (b"", "is truncated"),
        (b"plain text", "is not in the expected compression format"),
        (gzip.compress(b"<html>"), "holds no results"),
        (gzip.compress(b""), "is empty"),
        (gzip.compress(Random(1).randbytes(1000) * 3)[:-50], "holds no results"),
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
    monkeypatch.setattr(output, "MOST_BYTES", MOST)
    store().save(B, results(tmp_path, "good"), current_moment=NOW)
    name = f"20260105T000000Z-{A}.json.gz"
    put(f"runs/{name}", held)
    put("runs/20269999T000000Z-" + A + ".json.gz", gzip.compress(b"{}"))
    put("runs/notes.txt", b"mine")
    warnings: list[str] = []
    found = next(store(warnings=warnings).find([A, B]), None)
    assert found is not None
    assert (found[1].commit, text_of(found[2])) == (B, "good")
    assert len(warnings) == 1
    assert name in warnings[0]
    assert complaint in warnings[0]


def test_what_others_keep_there_stays(
    store: Make, tmp_path: Path, put: Callable[[str, bytes], None]
) -> None:
    store().save(A, results(tmp_path, "one"), current_moment=NOW)
    put("CNAME", b"example.com")
    put("runs/notes.txt", b"mine")
    put("README.md", b"ours")
    store(keep=1).save(B, results(tmp_path, "two"), current_moment=NOW + timedelta(hours=1))
    assert store().read("CNAME") == b"example.com"
    assert store().read("README.md") == b"ours"


# --- the folder -----------------------------------------------------------------------------------


def test_a_folder_never_reads_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "stored/runs").mkdir(parents=True)
    (tmp_path / "secret.gz").write_bytes(gzip.compress(b'{"text": "secret"}'))
    (tmp_path / f"stored/runs/20260105T000000Z-{A}.json.gz").symlink_to(tmp_path / "secret.gz")
    (tmp_path / "stored/history.json").symlink_to(tmp_path / "secret.gz")
    warnings: list[str] = []
    folder = BaselineFolder(tmp_path / "stored", warn=warnings.append)
    assert next(folder.find([A]), None) is None
    assert "is a symbolic link" in warnings[0]
    with pytest.raises(UnavailableError, match="symbolic link"):
        folder.read("history.json")


def test_later_steps_can_read_a_folder(tmp_path: Path) -> None:
    BaselineFolder(tmp_path / "stored").save(
        A, results(tmp_path, "x"), current_moment=NOW, revise=count_up
    )
    umask = os.umask(0)
    os.umask(umask)
    for path in (tmp_path / "stored").rglob("*"):
        wanted = (0o777 if path.is_dir() else 0o666) & ~umask
        assert path.stat().st_mode & 0o777 == wanted, path


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = BaselineFolder(tmp_path / "file" / "stored")
    with pytest.raises(UnavailableError, match="cannot use the folder"):
        folder.save(A, results(tmp_path, "x"), current_moment=NOW)


@pytest.mark.parametrize(
    ("folder", "used"), [("kept", False), ("fresh", True), ("link", False), ("../kept", True)]
)
def test_a_folder_that_the_commit_brings_along_is_not_used(
    origin: Path, tmp_path: Path, folder: str, *, used: bool
) -> None:
    """A pull request could write there what it is compared with."""
    (origin / "link").symlink_to("kept")
    made.commit(origin, {"kept/history.json": "{}"})
    workspace = made.cloned(origin, tmp_path / "workspace", "--depth=1")
    said: list[str] = []
    with git.open_repository(
        workspace, environ=ENVIRON, token=None, under=tmp_path / "private"
    ) as repo:
        found = history.open_store(
            Settings(root=workspace, baseline_folder=folder), repo, say=said.append
        )
    assert (found is not None) is used
    assert [f"the folder {folder} contains committed files" in line for line in said] == [True] * (
        not used
    )


def write_to_folder(folder: str, scratch: str, letter: str) -> None:
    store = BaselineFolder(Path(folder), keep=100)
    for number in range(SAVES):
        commit = f"{letter}{number:039d}"
        store.save(
            commit,
            results(Path(scratch), commit),
            current_moment=NOW + timedelta(seconds=number),
            revise=count_up,
        )


def test_writers_of_a_folder_take_turns(tmp_path: Path) -> None:
    arguments = []
    for letter in "ab":
        (tmp_path / letter).mkdir()
        arguments.append((str(tmp_path / "stored"), str(tmp_path / letter), letter))
    in_processes(write_to_folder, arguments)
    store = BaselineFolder(tmp_path / "stored")
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


# --- a data branch of an earlier version ----------------------------------------------------------


def test_a_data_branch_is_read_once_checked_out(origin: Path, tmp_path: Path) -> None:
    """Its files lie as those of a folder: one `git worktree add` moves what it holds."""
    branch = made.made(tmp_path / "branch")
    BaselineFolder(branch).save(A, results(tmp_path, "old"), current_moment=NOW, revise=count_up)
    made.commit(branch, {})
    git_(branch, "push", "--quiet", str(origin), "HEAD:refs/heads/evalgate-data")
    workspace = made.cloned(origin, tmp_path / "workspace")
    git_(workspace, "worktree", "add", "--quiet", ".evalgate-base", "origin/evalgate-data")
    said: list[str] = []
    with git.open_repository(
        workspace, environ=ENVIRON, token=None, under=tmp_path / "private"
    ) as repo:
        store = history.open_store(
            Settings(root=workspace, baseline_folder=".evalgate-base"), repo, say=said.append
        )
        assert store is not None
        _, _, content = next(store.find([A]))
        assert text_of(content) == "old"
    assert store.read("history.json") == b'{"count": 1}'
    assert said == []
