"""What a watch sees of real processes: other languages, libraries in C, children of children, other
users."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalgate.system import isolation
from evalgate.system.watching import Watch

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="needs the system: inotify"),
]
ROOT = Path(__file__).parents[2]
SQLITE = "import sqlite3; sqlite3.connect('file:data/rows.db?mode=ro', uri=True).execute('select * from sqlite_master')"
FOPEN = "import ctypes; libc = ctypes.CDLL(None); libc.fopen.restype = ctypes.c_void_p; assert libc.fopen(b'a.txt', b'r')"
FORKED = "import os, subprocess; os.fork() or subprocess.run(['sh', '-c', '(cat a.txt & wait)']); os._exit(0)"
RELATIVE = "import os; at = os.open('data', os.O_PATH); os.open('b.txt', os.O_RDONLY, dir_fd=at)"
MAPPED = "import mmap; file = open('a.txt'); mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)[:]"
IMPORTED = "import sys; sys.path.insert(0, '.'); import module"


@pytest.fixture
def top() -> Iterator[Path]:
    """Outside of pytest's own folder, which is closed to other users."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root = Path(folder) / "top"
        (root / "data").mkdir(parents=True)
        for name in ("a.txt", "data/b.txt", "data/rows.db", "module.py"):
            (root / name).write_text("")
        (root / "a.txt").write_text("text")
        (root / "run").write_text("#!/bin/sh\n")
        shutil.copy("/bin/true", root / "program")
        for path in (Path(folder), root, root / "data", root / "run"):
            path.chmod(0o755)
        yield root


@pytest.mark.parametrize(
    ("command", "opened"),
    [
        (["cat", "a.txt"], {"a.txt"}),
        (["sh", "-c", ": < data/b.txt"], {"data/b.txt"}),
        (["sh", "-c", "ls data | cat"], {"data"}),
        # below the interpreter: no hook of Python sees these
        ([sys.executable, "-c", SQLITE], {"data/rows.db"}),
        ([sys.executable, "-c", FOPEN], {"a.txt"}),
        ([sys.executable, "-c", MAPPED], {"a.txt"}),
        ([sys.executable, "-c", RELATIVE], {"data/b.txt"}),
        # children of children, and of a fork
        ([sys.executable, "-c", FORKED], {"a.txt"}),
        # programs that are started
        (["./program"], {"program"}),
        (["./run"], {"run"}),
        # a module; `python` lists the folder
        ([sys.executable, "-B", "-c", IMPORTED], {"module.py", "."}),
        # nothing of it is an open
        (["stat", "a.txt"], set()),
    ],
)
def test_what_a_process_opens(top: Path, command: list[str], opened: set[str]) -> None:
    with Watch(top) as watch:
        subprocess.run(command, cwd=top, check=True, capture_output=True, timeout=30)
        assert (watch.accessed_paths() - {"."}, watch.why_lost) == (opened - {"."}, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the system: root")
def test_another_user(top: Path) -> None:
    with Watch(top) as watch:
        subprocess.run(
            ["cat", "a.txt"], cwd=top, check=True, user=isolation.TRIAL_UID, capture_output=True
        )
        assert watch.accessed_paths() == {"a.txt"}


@pytest.mark.skipif(
    os.geteuid() != 0 or bool(isolation.refusal_reason()),
    reason="needs the system: root and setpriv",
)
def test_a_private_copy_is_watched_from_its_beginning(top: Path) -> None:
    """Closed to us and to others by its mode; what an agent does is seen, what the copying reads is
    not."""
    watches: dict[Path, Watch] = {}

    def begin(original: Path, copy: Path) -> None:
        assert copy.is_dir()
        watches[original] = Watch(copy).__enter__()

    (top / ".git").mkdir()
    with isolation.open_sandboxes([top], cache=top.parent / "cache", environ={}) as sandboxes:
        head = sandboxes.head
        head.ready.append(begin)
        place = head.placed(str(top / "data"))
        assert head.placed(str(top)) == str(Path(place).parent)
        subprocess.run(
            [*head.agent.prefix, "cat", f"{place}/b.txt"], check=True, capture_output=True
        )
        watches[top].close()
        assert (watches[top].accessed_paths(), watches[top].why_lost) == ({"data/b.txt"}, "")
    assert watches.keys() == {top}


def test_nothing_is_missed_right_after_a_process_has_ended(top: Path) -> None:
    missing = []
    with Watch(top) as watch:
        for number in range(200):
            subprocess.run(["/bin/sh", "-c", f": > new-{number}"], cwd=top, check=True)
            missing += {f"new-{number}"} - watch.accessed_paths()
        assert (missing, watch.why_lost) == ([], "")


def test_a_burst(top: Path) -> None:
    """100,000 opens, as fast as one process can: all are known, or the loss is. A busy machine may
    lose a few times."""
    for number in range(1000):
        (top / f"data/{number}").touch()
    code = "import os\nfor turn in range(100):\n for n in range(1000):\n  os.close(os.open(f'data/{n}', os.O_RDONLY))"
    for _ in range(10):
        with Watch(top) as watch:
            subprocess.run([sys.executable, "-c", code], cwd=top, check=True)
            opened = watch.accessed_paths()
        if not watch.why_lost:
            assert opened == {f"data/{number}" for number in range(1000)}
            return
        assert "max_queued_events" in watch.why_lost
    pytest.fail("each of 10 bursts was lost")


def test_20_000_folders(tmp_path: Path) -> None:
    for outer in range(200):
        (tmp_path / f"{outer}").mkdir()
        for inner in range(99):
            (tmp_path / f"{outer}/{inner}").mkdir()
    (tmp_path / "199/98/file").touch()
    before = time.process_time()
    with Watch(tmp_path) as watch:
        seconds = time.process_time() - before
        subprocess.run(["cat", tmp_path / "199/98/file"], check=True, capture_output=True)
        if "max_user_watches" in watch.why_lost:
            pytest.skip("needs the system: 20,000 watches")
        assert watch.accessed_paths() == {"199/98/file"}
    assert seconds < 10


WATCHED = """
import json, sys
from pathlib import Path
from evalgate.system.watching import Watch
with Watch(Path(sys.argv[1])) as watch:
    (Path(sys.argv[1]) / "new").mkdir()
    watch.accessed_paths()
    print(json.dumps(watch.why_lost))
"""


@pytest.mark.parametrize(
    ("setting", "limit", "why"),
    [
        # the folders of the entry do not fit
        ("max_inotify_watches", 2, "too few inotify watches"),
        # top, data and the private one fit, the folder that appears does not
        ("max_inotify_watches", 3, "too few inotify watches"),
        ("max_inotify_watches", 4, ""),
        ("max_inotify_instances", 0, "too many inotify instances"),
    ],
)
def test_a_limit_of_the_system(top: Path, setting: str, limit: int, why: str) -> None:
    """In a user namespace of its own, whose limits are nobody else's."""
    script = f'echo {limit} > /proc/sys/user/{setting} && exec "$@"'
    namespace = ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"]
    if subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs the system: user namespaces")
    done = subprocess.run(
        [*namespace, sys.executable, "-c", WATCHED, top], cwd=ROOT, capture_output=True, check=True
    )
    reason = json.loads(done.stdout)
    assert reason.startswith("there are ") == bool(why)
    assert why in reason


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the system: root")
def test_a_folder_that_we_may_not_read(top: Path) -> None:
    (top / "data").chmod(0o700)
    top.chmod(0o777)
    drop = [
        "setpriv",
        f"--reuid={isolation.TRIAL_UID}",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ]
    where = {**os.environ, "PYTHONPATH": str(ROOT)}
    if subprocess.run(
        [*drop, sys.executable, "-c", "import evalgate"], env=where, check=False
    ).returncode:
        pytest.skip("needs the system: an interpreter that every user reaches")
    done = subprocess.run(
        [*drop, sys.executable, "-c", WATCHED, top], env=where, capture_output=True, check=False
    )
    assert b"/data' cannot be read" in done.stdout
