"""The command `evalgate` in a process of its own that need not import it again: a fork of one that
has.

To import it takes a second, which most of its tests are not about. A test of what is installed, of
a start or of a killed process takes `console_script`; a start whose environment would make another
interpreter of it (PYTHON*, the locale) is a real one in any case."""

from __future__ import annotations

import functools
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from builders.zygotes import Birth, Zygote

EVALGATE = Path(sys.executable).parent / "evalgate"
# what Python, its libraries and google.auth read as they are loaded, when a fork is too late to
# change it; the two of ANY change nothing that a test looks at
READ_ONCE = re.compile(
    "PYTHON|LC_|LANG$|LD_|MALLOC_|OPENSSL_|PYDANTIC_|NUMPY_|OPENBLAS_|OMP_"
    "|CLOUDSDK_CONTEXT_|GOOGLE_API_CERTIFICATE_CONFIG|GOOGLE_API_USE_CLIENT_CERTIFICATE"
)
ANY = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
UTF_8 = {"LANG": "C.UTF-8", "LC_CTYPE": "C.UTF-8"}
"""What Python takes where no locale is set: as none."""
CHUNK_BYTES = 1 << 16


def run(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    zygote: Zygote | None = None,
) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` of the command, its outputs captured as text; `zygote`: of another copy of
    evalgate."""
    command = (
        start(arguments, cwd=cwd, env=env)
        if zygote is None
        else Forked(
            zygote,
            [str(EVALGATE), *arguments],
            cwd=cwd,
            environment=dict(os.environ if env is None else env),
            merged=False,
        )
    )
    try:
        stdout, stderr = command.communicate(timeout=timeout)
    except BaseException:
        command.kill()
        command.communicate()
        raise
    return subprocess.CompletedProcess([str(EVALGATE), *arguments], command.wait(), stdout, stderr)


def start(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    merged: bool = False,
) -> Command:
    """`subprocess.Popen` of the command, its outputs piped as text; `merged`: standard error into
    standard output."""
    environment = dict(os.environ if env is None else env)
    if not can_fork(environment):
        return console_script(arguments, cwd=cwd, env=environment, merged=merged)
    return forked([str(EVALGATE), *arguments], cwd=cwd, env=environment, merged=merged)


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether an interpreter that starts with this environment would be as the one that is
    forked."""
    return hasattr(os, "fork") and _read_once(environment) == _read_once(os.environ)


def forked(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], merged: bool = False
) -> Forked:
    """The command, or a script of Python that imports evalgate, in a fork; begins with its path."""
    return Forked(zygote(), command, cwd=cwd, environment=env, merged=merged)


def born(arguments: Sequence[str], *streams: int, cwd: Path, env: Mapping[str, str]) -> Birth:
    """The command with these standard streams, which are the caller's to close."""
    return zygote().become([str(EVALGATE), *arguments], *streams, cwd=cwd, environment=env)


def console_script(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    merged: bool = False,
) -> subprocess.Popen[str]:
    """The same by the console script that is installed: an interpreter that starts and imports all
    that it needs."""
    return subprocess.Popen(
        [str(EVALGATE), *arguments],
        cwd=cwd,
        env=None if env is None else dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        text=True,
    )


def _read_once(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        # an empty one is as none to Python
        if value and READ_ONCE.match(name) and name not in ANY and UTF_8.get(name) != value
    }


@functools.cache
def zygote() -> Zygote:
    """What the commands of this process are forked from."""
    return Zygote(sys.executable, "command_zygote.py")


class Forked:
    """A command that a zygote has become, as far as a Popen with piped outputs is needed."""

    def __init__(
        self,
        zygote: Zygote,
        command: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        merged: bool,
    ) -> None:
        self.args = command
        ends = [os.pipe() for _ in range(1 if merged else 2)]
        theirs = [writing for _, writing in ends]
        try:
            self._born = zygote.become(
                command, 0, theirs[0], theirs[-1], cwd=cwd, environment=environment
            )
        finally:
            for writing in theirs:
                os.close(writing)
        self._outputs = [reading for reading, _ in ends]
        self._said = {reading: bytearray() for reading in self._outputs}
        self._open = set(self._outputs)

    @property
    def pid(self) -> int:
        return self._born.pid

    @property
    def returncode(self) -> int | None:
        return self._born.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str | None]:
        """Both outputs, once they and the command have ended. Raises subprocess.TimeoutExpired; may
        be called again."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for each in self._open:
                selector.register(each, selectors.EVENT_READ)
            while self._open:
                ready = selector.select(_left(deadline))
                if not ready:
                    raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
                for key, _ in ready:
                    self._take(key.fd, selector)
        self.wait(_left(deadline))
        texts = [self._said[each].decode().replace("\r\n", "\n") for each in self._outputs]
        return texts[0], texts[1] if len(texts) > 1 else None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, or minus the signal that ended it. Raises subprocess.TimeoutExpired."""
        code = self._born.wait(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._born.wait(0)

    def send_signal(self, number: signal.Signals) -> None:
        """To the command alone, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """As `kill -9` does."""
        self.send_signal(signal.SIGKILL)

    def _take(self, output: int, selector: selectors.BaseSelector) -> None:
        chunk = os.read(output, CHUNK_BYTES)
        self._said[output] += chunk
        if not chunk:
            selector.unregister(output)
            self._open.remove(output)
            os.close(output)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


Command = Forked | subprocess.Popen[str]
