"""A command that is forked is the command: told by its exit code, what it says and where it
works."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import forked_command, gated_repository, leftovers, zygotes
from builders.forked_command import Forked
from builders.gated_repository import Repository
from builders.nightly import NIGHTLY

pytestmark = pytest.mark.integration

TESTS = Path(__file__).parents[1]
MORE = [
    (["--version"], {}),
    (["run", "--help"], {"COLUMNS": "60"}),
    (["list"], {}),
    (["no-such-command"], {}),  # a code that click gives
    (["calibrate"], {"HOME": "/nowhere"}),
]
MORE = MORE if NIGHTLY else []


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return gated_repository.of_one_case(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        # words in every script, and its own folder
        (["validate", "--config", "Grüße-\udcff.yml"], {}),
        # its environment too
        (["run", "--base", "nowhere"], {"TZ": "Asia/Kolkata", "PATH": os.defpath}),
        *MORE,
    ],
)
def test_it_says_and_returns_what_the_console_script_does(
    repo: Repository, arguments, changed
) -> None:
    environment = {**os.environ, **changed}
    real = forked_command.console_script(arguments, cwd=repo.root, env=environment)
    said = real.communicate(timeout=60)
    done = forked_command.run(arguments, cwd=repo.root, env=environment, timeout=60)
    assert done.returncode == real.returncode
    assert [untimed(done.stdout), untimed(done.stderr)] == [untimed(text) for text in said]
    assert done.stdout + done.stderr


def test_an_environment_for_another_interpreter_starts_another(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONVERBOSE": "1"}
    assert "import evalgate" in forked_command.run(
        ["--version"], cwd=tmp_path, env=environment
    ).stderr.replace("'", "")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        # as a process of its own takes it, though what it was forked from does not
        (signal.SIGINT, 130),
        (signal.SIGTERM, 130),
        (signal.SIGKILL, -signal.SIGKILL),
        (signal.SIGUSR1, -signal.SIGUSR1),
    ],
)
def test_signals_end_it_and_nothing_else(
    repo: Repository, number: signal.Signals, code: int
) -> None:
    command = asked_and_waiting(repo)
    assert command.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        command.communicate(timeout=0.01)
    assert os.getpgid(command.pid) == os.getpgrp(), "Ctrl-C would not end it"
    command.send_signal(number)
    assert repo.end(command)[0] == command.wait() == code
    assert repo.call("--version")[0] == repo.call("--version")[0] == 0


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="needs the system: only Linux has /proc"
)
def test_it_holds_nothing_of_what_it_was_forked_from(repo: Repository) -> None:
    command = asked_and_waiting(repo)
    held = [str(each.readlink()) for each in Path(f"/proc/{command.pid}/fd").iterdir()]
    command.kill()
    repo.end(command)
    assert [each for each in held if each.startswith("socket:")] == []


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="needs the system: only Linux has /proc"
)
def test_importing_the_command_says_nothing_and_leaves_no_threads(tmp_path: Path) -> None:
    zygote = zygotes.Zygote(sys.executable, "command_zygote.py")
    with Path(os.devnull).open("r+") as nothing:
        streams = [nothing.fileno()] * 3
        command = ["evalgate", "--version"]
        born = zygote.become(command, *streams, cwd=tmp_path, environment=os.environ)
        assert born.wait(60) == 0
    assert len(list(Path(f"/proc/{zygote.pid}/task").iterdir())) == 1
    assert zygote.close() == ""


SCRIPT = """
import os, sys, time
print(sys.argv[1:], os.getcwd(), os.environ["WORD"], sys.stdin.read(), flush=True)
print("aside", file=sys.stderr)
exec(sys.argv[1])
"""


@pytest.mark.parametrize(
    ("line", "code"),
    [("sys.exit(3)", 3), ("pass", 0), ("os.kill(os.getpid(), 9)", -9), ("1 / 0", 1)],
)
def test_a_python_that_stands_in_is_what_it_runs(tmp_path: Path, line: str, code: int) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "WORD": "Grüße = 1"}
    done = [
        subprocess.run(
            [python, "script.py", line, "", "\udcff"],
            cwd=tmp_path,
            env=environment,
            input="asked",
            capture_output=True,
            text=True,
            check=False,
        )
        for python in (forked_command.zygote().python, sys.executable)
    ]
    assert [each.returncode for each in done] == [code, code]
    assert done[0].stdout == done[1].stdout
    assert done[0].stderr.startswith("aside")
    assert done[0].stderr.splitlines()[-1] == done[1].stderr.splitlines()[-1]


def test_a_python_that_stands_in_does_the_rest_itself(tmp_path: Path) -> None:
    said = [
        subprocess.check_output([python, *arguments], cwd=tmp_path, input=b"", text=False)
        for arguments in (["-I", "-c", "import sys; print(sys.executable, sys.flags)"], ["-V"], [])
        for python in (forked_command.zygote().python, sys.executable)
    ]
    assert said[::2] == said[1::2]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_python_that_stands_in_and_its_fork_end_together(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "script.py").write_text(
        "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n"
    )
    command = [forked_command.zygote().python, "script.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        fork = process.stdout.readline().strip()
        process.send_signal(number)
        assert process.wait(30) == -number
    wait_for(lambda: not leftovers.runs(fork))


def test_what_it_is_forked_from_ends_with_whoever_started_it() -> None:
    code = "import sys, time; from builders.zygotes import Zygote; "
    code += "zygote = Zygote(sys.executable, 'worker_zygote.py'); "
    code += "print(zygote.pid, zygote.python, flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=TESTS, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid, python = parent.stdout.readline().split()
        try:
            assert leftovers.runs(pid)
            assert Path(python).exists()
        finally:
            parent.kill()
    wait_for(lambda: not leftovers.runs(pid))
    assert not Path(python).exists()


def untimed(text: str) -> str:
    return re.sub(r"\d+\.\d s\b", "T s", text)


def asked_and_waiting(repo: Repository) -> Forked:
    """A run whose agent was asked and takes its time to answer."""
    repo.write(
        "agent.py",
        (repo.root / "agent.py")
        .read_text()
        .replace("asked = open", "import time; time.sleep(60); asked = open"),
    )
    command = repo.start("run")
    assert isinstance(command, Forked)
    wait_for(lambda: repo.asked("head") == 1)
    return command


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)
