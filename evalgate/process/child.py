"""One child process in its own process group: started, fed, listened to, ended and reaped, whatever it does."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evalgate.process import guardian, starting
from evalgate.process.output import Tail
from evalgate.process.starting import ChildStartError

__all__ = ["Child", "ChildClosed", "ChildStartError", "Ended", "Finished", "run_to_end"]

TAIL_BYTES = 64 * 1024
CHUNK_BYTES = 64 * 1024
TICK_S = 0.25  # how often a silent child is looked after where the system cannot tell of its end
KILL_GRACE_S = 2.0
DRAIN_S = 0.5  # how long the output of an ended child may still come


class ChildClosed(Exception):  # noqa: N818 - it says what happened
    """The child no longer reads its standard input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a child ended: its exit code, or minus the signal."""

    returncode: int

    @property
    def signal(self) -> int | None:
        """The number of the signal that ended it."""
        return -self.returncode if self.returncode < 0 else None

    def __str__(self) -> str:
        if self.signal is None:
            return f"exited with code {self.returncode}"
        try:
            name = signal.Signals(self.signal).name
        except ValueError:
            name = "unknown"
        return f"was killed by signal {self.signal} ({name})"


class Child:
    """A running child process and the one thread that listens to it, from `listen` on.

    Standard error is drained into `stderr`, a tail. `memory_bytes` bounds private memory (RLIMIT_DATA, which
    unlike RLIMIT_AS leaves alone what Node and JVMs merely reserve); `memory_capped` says whether the system took it.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str,
        environment: Mapping[str, str],
        memory_bytes: int | None = None,
        reads_input: bool = True,
    ) -> None:
        """Start the command. Raises ChildStartError."""
        self._process = starting.start(command, cwd=cwd, environment=environment, reads_input=reads_input)
        self.pid = self._process.pid
        guardian.guard(self.pid)
        self.memory_capped = memory_bytes is not None and starting.cap_memory(self.pid, memory_bytes)
        self.stderr = Tail(limit=TAIL_BYTES)
        self._signals: list[tuple[float, signal.Signals]] = []
        self._ended: Ended | None = None
        self._writing = threading.Lock()
        self._leaving = threading.Event()
        self._waking = threading.Lock()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        self._thread = threading.Thread(target=self._listen, name=f"child-{self.pid}", daemon=True)

    # --- what others may call, from any thread ---

    def listen(self, on_output: Callable[[bytes], None], on_end: Callable[[Ended], None] = lambda _: None) -> None:
        """Give each chunk of standard output to `on_output`, and the end to `on_end`; neither may block.

        An empty chunk says that standard output was closed.
        Both are called in the child's own thread.
        """
        self._on_output = on_output
        self._on_end = on_end
        self._thread.start()

    def write(self, data: bytes, *, timeout_s: float) -> None:
        """Give `data` to its standard input. Raises ChildClosed, or TimeoutError where it does not read in time.

        After a TimeoutError a part may have been written: the child is of no use any more.
        """
        deadline = time.monotonic() + timeout_s
        if not self._writing.acquire(timeout=max(timeout_s, 0.0)):
            raise TimeoutError
        try:
            self._write(memoryview(data), deadline)
        finally:
            self._writing.release()

    def end(self, *, patience_s: float = 0.0, grace_s: float = KILL_GRACE_S) -> None:
        """Close its input, ask its group to end (SIGTERM) after `patience_s`, kill it `grace_s` later. Returns at once.

        Only ever hastens an end that is already on its way.
        """
        now = time.monotonic()
        self._leaving.set()
        self._signals.append((now + patience_s, signal.SIGTERM))
        self._signals.append((now + patience_s + grace_s, signal.SIGKILL))
        with self._waking:
            if self._ended is None:
                with contextlib.suppress(BlockingIOError):  # a full pipe wakes as well
                    os.write(self._wake_write, b"!")

    def wait(self, timeout_s: float | None = None) -> Ended | None:
        """Wait until it has ended, is reaped and its pipes are closed; None when that takes longer."""
        self._thread.join(timeout_s)
        return None if self._thread.is_alive() else self._ended

    def close(self, *, patience_s: float = 0.0, grace_s: float = KILL_GRACE_S) -> Ended | None:
        """`end`, then `wait`."""
        self.end(patience_s=patience_s, grace_s=grace_s)
        return self.wait(patience_s + grace_s + 10.0)

    # --- the listening thread ---

    def _write(self, rest: memoryview, deadline: float) -> None:
        pipe = self._process.stdin
        while rest:
            if self._leaving.is_set() or pipe is None or pipe.closed:
                raise ChildClosed
            try:
                rest = rest[os.write(pipe.fileno(), rest) :]
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise TimeoutError from None
                poll = select.poll()
                poll.register(pipe, select.POLLOUT)
                poll.poll(1000 * min(TICK_S, max(deadline - time.monotonic(), 0.0)))
            except OSError:
                raise ChildClosed from None

    def _listen(self) -> None:
        try:
            self._listen_to_the_end()
        finally:
            self._reap()

    def _listen_to_the_end(self) -> None:
        poll = select.poll()
        streams = [pipe.fileno() for pipe in (self._process.stdout, self._process.stderr) if pipe is not None]
        feeds = dict(zip(streams, (self._on_output, self.stderr.feed), strict=True))
        exit_fd = starting.exit_fd(self.pid)
        for fd in (*streams, self._wake_read, *exit_fd):
            poll.register(fd, select.POLLIN)
        drain_until: float | None = None
        while drain_until is None or (feeds and time.monotonic() < drain_until):
            for fd, _ in poll.poll(1000 * self._pause()):
                if fd == self._wake_read:
                    os.read(fd, 1024)
                elif fd in exit_fd:
                    poll.unregister(fd)
                elif not self._drain(fd, feeds):
                    poll.unregister(fd)
                    del feeds[fd]
            self._send_due_signals()
            if drain_until is None and self._has_exited():
                drain_until = time.monotonic() + DRAIN_S
                self._signal_group(signal.SIGKILL)  # who is left may hold the pipes open
        for fd in exit_fd:
            os.close(fd)

    def _pause(self) -> float:
        due = min((at for at, _ in self._signals), default=None)
        return TICK_S if due is None else min(max(due - time.monotonic(), 0.0), TICK_S)

    def _drain(self, fd: int, feeds: Mapping[int, Callable[[bytes], None]]) -> bool:
        """Hand on what is there; False at its end. Before a word on standard output comes all that was said on
        standard error before it: it may explain the word."""
        chunk = _read(fd)
        errors = self._process.stderr.fileno() if self._process.stderr is not None else fd
        if chunk is not None and fd != errors and errors in feeds:
            self.stderr.feed(_read(errors) or b"")
        if chunk is not None:
            feeds[fd](chunk)
        return chunk != b""

    def _send_due_signals(self) -> None:
        if self._leaving.is_set() and self._process.stdin is not None and not self._process.stdin.closed:
            with self._writing, contextlib.suppress(OSError):  # a writer leaves within a tick: it sees `_leaving`
                self._process.stdin.close()
        now = time.monotonic()
        for item in [item for item in self._signals if item[0] <= now]:
            self._signals.remove(item)
            self._signal_group(item[1])

    def _signal_group(self, number: signal.Signals) -> None:
        # Only called before `_reap`: until then the dead leader keeps the group's number from being given away.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _has_exited(self) -> bool:
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return self._process.poll() is not None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            return True

    def _reap(self) -> None:
        self._leaving.set()
        self._signal_group(signal.SIGKILL)  # whatever it left behind in its group
        guardian.release(self.pid)
        ended = Ended(returncode=self._process.wait())
        with self._writing:
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        with self._waking:
            self._ended = ended
            os.close(self._wake_read)
            os.close(self._wake_write)
        self._on_end(ended)


def _read(fd: int) -> bytes | None:
    """What is there, b"" at the end, None where there is nothing yet."""
    try:
        return os.read(fd, CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""


# --- children that run to their end ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a one-shot child ended; tails of its output as text. `timed_out`: we ended it."""

    returncode: int
    stdout_tail: str
    stderr_tail: str
    seconds: float
    timed_out: bool = False


def run_to_end(
    command: Sequence[str],
    *,
    cwd: str,
    environment: Mapping[str, str],
    timeout_s: float,
    memory_bytes: int | None = None,
) -> Finished:
    """Run a command without input, at most `timeout_s` long, and keep the tails of what it says.

    Raises ChildStartError.
    """
    began = time.monotonic()
    stdout = Tail(limit=TAIL_BYTES)
    child = Child(
        command,
        cwd=cwd,
        environment=environment,
        memory_bytes=memory_bytes,
        reads_input=False,
    )
    child.listen(stdout.feed)
    timed_out = False
    try:
        ended = child.wait(timeout_s)
        if ended is None:
            timed_out = True
            ended = child.close()
    except BaseException:  # Ctrl-C while waiting: leave nothing behind
        child.close(grace_s=0.2)
        raise
    return Finished(
        returncode=ended.returncode if ended else -signal.SIGKILL,
        stdout_tail=stdout.text(),
        stderr_tail=child.stderr.text(),
        seconds=time.monotonic() - began,
        timed_out=timed_out,
    )
