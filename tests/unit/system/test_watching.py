"""What a watch knows of opens in this process, what it loses, and whose opens they are."""

from __future__ import annotations

import errno
import os
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, strategies

from evalgate.system import watching
from evalgate.system.watching import Watch, attribute_opens

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs the system: inotify")
COMPILED = "__pycache__/pkg.cpython-311.pyc"
FILES = (
    *("agent.py", "data/rows.csv", "data/inner/deep.txt", COMPILED),
    *(".git/config", "env/pyvenv.cfg", "env/lib/six.py"),
)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / "top" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    return tmp_path / "top"


def read(path: Path) -> None:
    path.read_bytes()


@pytest.mark.parametrize(
    ("act", "opened"),
    [
        # nothing of ours is an open: neither listing the folders nor the test of the file system
        (lambda top: None, set()),
        (lambda top: read(top / "agent.py"), {"agent.py"}),
        (lambda top: (top / "data/rows.csv").write_text("more"), {"data/rows.csv"}),
        # a folder that is listed
        (lambda top: list(top.iterdir()), {"."}),
        (lambda top: list((top / "data").iterdir()), {"data"}),
        # not watched
        (lambda top: (read(top / ".git/config"), read(top / "env/lib/six.py"), list((top / "env").iterdir())), set()),
        # seen by no open: what is there, how large it is, where a link leads
        (lambda top: ((top / "agent.py").stat(), (top / "nothing").exists()), set()),
        # through a link: what it leads to
        (lambda top: ((top / "link").symlink_to("data"), read(top / "link/rows.csv")), {"data/rows.csv"}),
        # renamed: the first name, and what was opened under the next one
        (lambda top: read((top / "agent.py").rename(top / "b.py")), {"agent.py", "b.py"}),
        (lambda top: read((top / "data").rename(top / "d") / "inner/deep.txt"), {"data", "data/inner/deep.txt"}),
        # a hard link: the name that was used
        (lambda top: ((top / "twin").hardlink_to(top / "agent.py"), read(top / "twin")), {"twin"}),
        # a file whose name is gone, by its descriptor
        (lambda top: unlinked_and_read(top / "agent.py"), {"agent.py"}),
        # what is compiled counts as its source
        (lambda top: read(top / COMPILED), {COMPILED, "pkg.py"}),
    ],
)  # fmt: skip
def test_what_counts_as_opened(top: Path, act, opened: set[str]) -> None:
    with Watch(top, apart=[".git", "env"]) as watch:
        act(top)
        assert (watch.accessed_paths(), watch.why_lost) == (opened, "")


def unlinked_and_read(path: Path) -> None:
    descriptor = os.open(path, os.O_PATH)
    path.unlink()
    read(Path(f"/proc/self/fd/{descriptor}"))
    os.close(descriptor)


@pytest.mark.parametrize(
    ("path", "sources"),
    [
        ("__pycache__/a.cpython-311.pyc", {"a.py"}),
        ("pkg/__pycache__/a.cpython-311.opt-2.pyc", {"pkg/a.py", "pkg/a.cpython-311.py"}),
        # a tag with dots, as pytest writes it
        (
            "__pycache__/a.cpython-311-pytest-9.1.pyc",
            {"a.py", "a.cpython-311-pytest-9.py"},
        ),
        # no compiled module
        ("pkg/a.pyc", set()),
        ("__pycache__/notes.txt", set()),
        ("not__pycache__/a.cpython-311.pyc", set()),
    ],
)
def test_sources_of_a_compiled_module(path: str, sources: set[str]) -> None:
    assert set(watching._sources(path)) == sources


@pytest.mark.parametrize(
    "name",
    ["with\nnewline", "\x1b[31m", "a b", "日本", os.fsdecode(b"\xff\xfe"), "x" * 255, "-", "\\"],
)
def test_hostile_names(top: Path, name: str) -> None:
    (top / name).mkdir()
    (top / name / name).touch()
    with Watch(top) as watch:
        read(top / name / name)
        assert watch.accessed_paths() == {f"{name}/{name}"}


def test_a_folder_that_appears_is_watched(top: Path) -> None:
    with Watch(top) as watch:
        (top / "new/inner").mkdir(parents=True)
        watch.accessed_paths()  # by now it is watched
        (top / "new/inner/file").touch()
        assert "new/inner/file" in watch.accessed_paths()
        (top / "new/inner/file").unlink()
        (top / "new/inner").rmdir()
        (top / "new/inner").mkdir()
        watch.accessed_paths()
        (top / "new/inner/again").touch()
        assert "new/inner/again" in watch.accessed_paths()


def test_after_its_end_a_watch_keeps_what_it_knows(top: Path) -> None:
    with Watch(top) as watch:
        read(top / "agent.py")
    read(top / "data/rows.csv")
    assert (watch.accessed_paths(), watch.why_lost) == ({"agent.py"}, "")
    watch.close()
    assert all("_read" not in thread.name for thread in threading.enumerate())


def test_an_end_leaves_nothing(top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    with Watch(top):
        assert list((tmp_path / "tmp").iterdir())
    assert list((tmp_path / "tmp").iterdir()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_several_may_ask_at_once(top: Path) -> None:
    missing: list[str] = []

    def ask(name: str) -> None:
        for number in range(10):
            (top / f"{name}-{number}").touch()
            missing.extend({f"{name}-{number}"} - watch.accessed_paths())

    with Watch(top) as watch:
        threads = [threading.Thread(target=ask, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert missing == []


# --- what is lost -----------------------------------------------------------------------------


class Inotify(watching.INotify):
    """One that fails when it is to add the watch with this number."""

    number, error = 0, 0
    count = 0

    def add_watch(self, path: str, mask: int) -> int:
        type(self).count += 1
        if self.count > self.number:
            raise OSError(self.error, os.strerror(self.error))
        return super().add_watch(path, mask)


@pytest.mark.parametrize(
    ("number", "error", "why"),
    [
        (0, errno.ENOSPC, "too few inotify watches (/proc/sys/fs/inotify/max_user_watches)"),
        (2, errno.ENOSPC, "too few inotify watches (/proc/sys/fs/inotify/max_user_watches)"),
        (2, errno.ENAMETOOLONG, "the watch failed: File name too long"),
    ],
)
def test_a_watch_that_the_system_refuses(
    top: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: int, why: str
) -> None:
    monkeypatch.setattr(
        watching, "INotify", type("Few", (Inotify,), {"number": number, "error": error})
    )
    with Watch(top) as watch:
        assert why in watch.why_lost
        assert watch.accessed_paths() == set()
    assert why in watch.why_lost


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (errno.EMFILE, "max_user_instances"),
        (errno.ENOSYS, "this system has no inotify"),
    ],
)
def test_a_system_without_an_instance(
    top: Path, monkeypatch: pytest.MonkeyPatch, error: int, why: str
) -> None:
    def refuse() -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(watching, "INotify", refuse)
    with Watch(top) as watch:
        assert why in watch.why_lost


def test_another_system(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with Watch(top) as watch:
        assert watch.why_lost == "this system has no inotify"
        assert watch.accessed_paths() == set()


def test_a_checkout_that_is_not_there(tmp_path: Path) -> None:
    with Watch(tmp_path / "nothing") as watch:
        assert watch.why_lost == "the watch failed: the checkout is not there"


def test_a_file_system_that_reports_nothing(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a folder that has another inode at each look: its watch is on one that nobody
    opens."""
    other = top.parent / "other"
    other.mkdir()

    class Elsewhere(watching.INotify):
        def add_watch(self, path: str, mask: int) -> int:
            return super().add_watch(other if path.startswith(str(top)) else path, mask)

    monkeypatch.setattr(watching, "INotify", Elsewhere)
    with Watch(top) as watch:
        assert watch.why_lost.endswith("does not report what is opened")


def test_more_opens_than_the_queue_holds(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "BUFFER_BYTES", 4096)
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with Watch(top) as watch:
        with watch._changed:  # the thread waits with what it has read
            for number in range(limit + 4096 // watching.HEADER.size):
                os.close(os.open(top / ("agent.py", "data/rows.csv")[number % 2], os.O_RDONLY))
        watch.accessed_paths()
        assert "max_queued_events" in watch.why_lost
        read(top / "agent.py")
        assert watch.accessed_paths() <= {"agent.py", "data/rows.csv"}
        assert "max_queued_events" in watch.why_lost


def test_names_without_end(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST_PATHS", 100)
    with Watch(top) as watch:
        for number in range(101):
            (top / f"{number}").touch()
        watch.accessed_paths()
        assert watch.why_lost == "too many files were opened"


def test_what_is_recognized_may_be_forgotten(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST_RECORDS", 10)
    with Watch(top) as watch:
        for number in range(100):
            (top / f"{number}").touch()
        assert (len(watch.accessed_paths()), watch.why_lost) == (100, "")


def test_a_thread_that_fails(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(events: bytes) -> None:
        raise ValueError("no event")

    with Watch(top) as watch:
        monkeypatch.setattr(watching, "parse_events", fail)
        read(top / "agent.py")
        watch.accessed_paths()
        assert watch.why_lost == "the watch failed: ValueError('no event')"


def test_a_private_folder_that_is_removed(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Watch(top) as watch:
        (folder,) = tmp_path.glob("evalgate-watch-*")
        (folder / "mark").unlink()
        folder.rmdir()
        watch.accessed_paths()
        assert watch.why_lost


# --- who opened -------------------------------------------------------------------------------

OPENED = frozenset({"a.py", "b.py", "shared.py", "native.db"})


@pytest.mark.parametrize(
    ("claims", "opaque", "expected"),
    [
        # nobody claims: all counts for all
        ({}, {"b"}, {"b": OPENED}),
        ({"a": set()}, set(), {"a": OPENED}),
        # two that are traced: what none claims counts for both
        (
            {"a": {"a.py", "shared.py"}, "b": {"b.py", "shared.py"}},
            set(),
            {"a": {"a.py", "shared.py", "native.db"}, "b": {"b.py", "shared.py", "native.db"}},
        ),
        # beside one that is not traced: for it all counts, what others claim as well
        ({"a": {"a.py"}}, {"c"}, {"a": OPENED, "c": OPENED}),
        (
            {"a": {"a.py"}, "b": {"b.py"}},
            {"c"},
            {"a": OPENED - {"b.py"}, "b": OPENED - {"a.py"}, "c": OPENED},
        ),
        # traced in part
        ({"a": {"a.py"}}, {"a"}, {"a": OPENED}),
        # a claim that no open confirms only adds
        (
            {"a": {"x.py"}, "b": set()},
            {"c"},
            {"a": OPENED | {"x.py"}, "b": OPENED, "c": OPENED | {"x.py"}},
        ),
    ],
)
def test_whose_opens_they_are(claims, opaque, expected) -> None:
    frozen = {agent: frozenset(paths) for agent, paths in claims.items()}
    assert attribute_opens(OPENED, frozen, opaque) == expected


PATHS = strategies.frozensets(strategies.sampled_from("abcdef"))
AGENTS = strategies.sampled_from(["one", "two", "three"])


@given(
    opened=PATHS,
    claims=strategies.dictionaries(AGENTS, PATHS),
    opaque=strategies.frozensets(AGENTS, min_size=1),
)
def test_every_open_counts_for_somebody_and_a_claim_takes_nothing_from_its_agent(
    opened, claims, opaque
) -> None:
    paths = attribute_opens(opened, claims, opaque)
    assert paths.keys() == claims.keys() | opaque
    assert opened <= frozenset().union(*paths.values())
    assert all(claims[agent] <= paths[agent] for agent in claims)
    assert all(opened <= paths[agent] for agent in opaque)
