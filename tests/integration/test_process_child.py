"""Real child processes: their groups, pipes, memory and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import leftovers

from evalgate.system import process
from evalgate.system.process import Child, ChildClosed, ChildStartError, Ended

pytestmark = pytest.mark.integration

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def start(*command: str, memory_bytes: int | None = None) -> tuple[Child, bytearray]:
    heard = bytearray()
    started = Child(command, cwd="/", environment=ENVIRONMENT, memory_bytes=memory_bytes)
    started.listen(heard.extend)
    return started, heard


def run(*command: str, timeout_s: float = 20.0) -> process.Finished:
    return process.run_to_end(command, cwd="/", environment=ENVIRONMENT, timeout_s=timeout_s)


def eventually(happened: object, within_s: float = 5.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if happened():  # type: ignore[operator]  # any callable
            return True
        time.sleep(0.01)
    return False


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    with leftovers.none_expected():
        yield


def test_a_child_gets_exactly_its_environment() -> None:
    assert run("env").stdout.text() == f"PATH={ENVIRONMENT['PATH']}\n"


@pytest.mark.parametrize("refusal", [PermissionError, OSError])
def test_a_sandbox_that_refuses_calls_about_ends_ends_no_child(
    monkeypatch: pytest.MonkeyPatch, refusal: type[OSError]
) -> None:
    """Such as a seccomp filter: EPERM, or ENOSYS."""

    def refuse(*_: object) -> None:
        raise refusal

    monkeypatch.setattr(os, "waitid", refuse)
    monkeypatch.setattr(os, "pidfd_open", refuse)
    finished = run("sh", "-c", "sleep 0.4; echo out; exit 7")
    assert (finished.returncode, finished.stdout.text()) == (7, "out\n")


@pytest.mark.parametrize(
    ("script", "returncode", "stdout", "stderr"),
    [
        ("echo out; echo err >&2", 0, "out\n", "err\n"),
        ("exit 7", 7, "", ""),
        ("kill -9 $$", -9, "", ""),
        ("cat", 0, "", ""),  # there is no input, so nobody waits for it
    ],
)
def test_how_a_child_ends(script: str, returncode: int, stdout: str, stderr: str) -> None:
    finished = run("sh", "-c", script)
    assert (finished.returncode, finished.stdout.text(), finished.stderr.text()) == (
        returncode,
        stdout,
        stderr,
    )
    assert not finished.timed_out


def test_what_was_said_on_standard_error_first_is_heard_first() -> None:
    explained: list[str] = []
    started = Child(
        ("sh", "-c", "echo a; echo why >&2; echo b; cat"), cwd="/", environment=ENVIRONMENT
    )

    def hear(chunk: bytes) -> None:
        if b"a" in chunk:
            time.sleep(0.2)  # by now all of it has been said
        if b"b" in chunk:
            explained.append(started.stderr.text())

    started.listen(hear)
    assert eventually(lambda: explained)
    started.close()
    assert explained == ["why\n"]


@pytest.mark.parametrize(
    ("command", "cwd", "words"),
    [
        (["no-such-program-here"], "/", "no-such-program-here: command not found"),
        (["ls"], "/no/such/folder", "the folder /no/such/folder does not exist"),
        (["/etc/passwd"], "/", "/etc/passwd: Permission denied"),
        ([], "/", "(empty command)"),
        (["a\0b"], "/", "embedded null byte"),
        (["ls", "a\0b"], "/", "embedded null byte"),
        (["x" * 300], "/", "File name too long"),
    ],
)
def test_a_command_that_cannot_start_says_why(command: list[str], cwd: str, words: str) -> None:
    with pytest.raises(ChildStartError) as error:
        process.run_to_end(command, cwd=cwd, environment=ENVIRONMENT, timeout_s=1)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"#!/bin/sh\r\necho\r\n", "in its first line does not: /bin/sh (the line ends in CR LF"),
        (b"#! /no/such/node --flag\necho\n", "in its first line does not: /no/such/node --flag"),
        (b"#!/no/such/\xff", "in its first line does not: /no/such/\ufffd"),
    ],
)
def test_a_script_without_its_interpreter_is_not_called_missing(
    tmp_path: Path, text: bytes, words: str
) -> None:
    script = tmp_path / "agent.sh"
    script.write_bytes(text)
    script.chmod(0o755)
    on_path = {**ENVIRONMENT, "PATH": f"/no/such:{tmp_path}"}
    for command, environment in (
        ("./agent.sh", ENVIRONMENT),
        (str(script), ENVIRONMENT),
        ("agent.sh", on_path),
    ):
        with pytest.raises(ChildStartError) as error:
            process.run_to_end([command], cwd=str(tmp_path), environment=environment, timeout_s=1)
        assert str(error.value).startswith(
            f"{command}: the file exists, but the interpreter {words}"
        )


@pytest.mark.parametrize(
    ("command", "first_line"),
    [
        ("agent", "#!/no/such/interpreter"),  # and the next folder of PATH has another one
        ("./relative/agent", "#!bin/sh"),  # from the folder in which it is started
        ("./split/agent", "#!/usr/bin/env -S sh\r"),
    ],
)
def test_what_the_system_can_start_is_started(
    tmp_path: Path, command: str, first_line: str
) -> None:
    (tmp_path / "bin").symlink_to("/bin")
    for name, line in ((command, first_line), ("next/agent", "#!/bin/sh")):
        script = tmp_path / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"{line}\necho started", newline="")
        script.chmod(0o755)
    environment = {**ENVIRONMENT, "PATH": f".:./next:{ENVIRONMENT['PATH']}"}
    finished = process.run_to_end(
        [command], cwd=str(tmp_path), environment=environment, timeout_s=5
    )
    assert finished.stdout.text().split() == ["started"], finished.stderr.text()


@pytest.mark.parametrize(
    ("prefix", "is_late", "expected"),
    [
        ((), False, "./agent: Permission denied"),
        ((), True, "./agent: Permission denied"),
        (("/usr/bin/env",), False, "./agent: Permission denied"),
        (("/usr/bin/env",), True, "126"),  # the system's own word on what cannot be run
    ],
)
def test_a_pipe_in_place_of_a_program_keeps_nobody_waiting(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prefix: tuple[str, ...],
    is_late: bool,
    expected: str,
) -> None:
    """Nobody writes to it: opening it, to read by what it is run, would never return. `is_late`: it
    takes the program's place after we have looked."""
    os.mkfifo(tmp_path / "agent", 0o755)
    if is_late:
        monkeypatch.setattr(Path, "is_file", lambda _: True)
    told: list[str] = []

    def start() -> None:
        try:
            done = process.run_to_end(
                ["./agent"], cwd=str(tmp_path), environment=ENVIRONMENT, timeout_s=5, prefix=prefix
            )
            told.append(str(done.returncode))
        except ChildStartError as error:
            told.append(str(error))

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    thread.join(20)
    assert told == [expected]


def test_a_child_is_ended_at_its_time_however_rarely_it_is_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "WATCH_S", 1.5)
    started_at = time.monotonic()
    assert run("sleep", "600", timeout_s=1.6).timed_out
    assert time.monotonic() - started_at < 2.8  # not after the second look


def test_a_child_that_takes_too_long_is_ended_with_its_group() -> None:
    started_at = time.monotonic()
    finished = run("sh", "-c", "trap '' TERM; echo $$; sleep 600 & wait", timeout_s=0.3)
    assert finished.timed_out
    assert finished.returncode == -signal.SIGKILL  # it ignored SIGTERM
    assert time.monotonic() - started_at < 10
    assert not leftovers.runs(int(finished.stdout.text()))


def test_what_a_child_leaves_behind_in_its_group_is_killed() -> None:
    started_at = time.monotonic()
    finished = run("sh", "-c", "sleep 600 & echo $!")
    assert finished.returncode == 0
    assert time.monotonic() - started_at < 5  # although the grandchild holds the pipes open
    assert eventually(lambda: not leftovers.runs(int(finished.stdout.text())))


def test_a_flood_costs_no_memory() -> None:
    before = leftovers.resident_mib()
    finished = run(
        "sh", "-c", "head -c 200000000 /dev/zero; head -c 200000000 /dev/zero >&2", timeout_s=60
    )
    assert finished.returncode == 0
    assert len(finished.stdout.text()) == len(finished.stderr.text()) == process.TAIL_BYTES
    assert leftovers.resident_mib() - before < 20


def test_conversing_with_a_child() -> None:
    started, heard = start("cat")
    started.write(b"one\n", timeout_s=1)
    started.write(b"two\n", timeout_s=1)
    assert eventually(lambda: bytes(heard) == b"one\ntwo\n")
    assert started.close(patience_s=5) == Ended(returncode=0)  # the end of its input ended it
    with pytest.raises(ChildClosed):
        started.write(b"three\n", timeout_s=1)


def test_a_child_that_does_not_read_cannot_block_its_writer() -> None:
    started, _ = start("sleep", "600")
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        started.write(b"x" * 10**7, timeout_s=0.3)
    assert time.monotonic() - began < 3
    started.close()


def test_closing_frees_a_writer_that_is_stuck() -> None:
    started, _ = start("sleep", "600")
    caught: list[BaseException] = []

    def write() -> None:
        try:
            started.write(b"x" * 10**7, timeout_s=60)
        except ChildClosed as error:
            caught.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(0.1)
    started.close(grace_s=0.5)
    writer.join(5)
    assert not writer.is_alive()
    assert len(caught) == 1


def test_private_memory_is_capped() -> None:
    take = "import sys; sys.stdin.readline(); print(len(bytearray(400_000_000)))"
    started, heard = start(sys.executable, "-c", take, memory_bytes=200 * 2**20)
    if not started.memory_capped:
        started.close()
        pytest.skip("needs the system: this one takes no memory limit for another process")
    started.write(b"go\n", timeout_s=1)
    ended = started.wait(20)
    assert ended == Ended(returncode=1)
    assert b"MemoryError" in started.stderr.last_bytes()
    assert not heard


@pytest.mark.parametrize("stubborn", [False, True])
def test_children_do_not_outlive_us_when_we_are_killed(stubborn: bool) -> None:
    script = f"""
import sys, time
from evalgate.system.process import Child
trap = "trap '' TERM HUP INT; " if {stubborn} else ""
started = Child(["sh", "-c", trap + "sleep 600 & echo $$ $!; wait"], cwd="/", environment={{}})
started.listen(lambda chunk: print(chunk.decode(), flush=True) if chunk else None)
time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(leftovers.runs(pid) for pid in pids)
        parent.kill()
    assert eventually(lambda: not any(leftovers.runs(pid) for pid in pids))


def test_many_children_from_many_threads() -> None:
    results: list[int] = []

    def work(number: int) -> None:
        results.append(int(run("sh", "-c", f"echo {number}").stdout.text()))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(results) == list(range(40))
