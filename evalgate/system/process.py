"""A child process with limits: its group, its output, its memory, its end; leftovers of build
hooks; and settings and streams of this process."""

from __future__ import annotations

import atexit
import ctypes
import errno
import gc
import io
import os
import re
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from evalgate.values import Environ, frozen_dataclass, without
from . import isolation

# --- output within limits ----------------------------------------------------------------------


class LineTooLong(Exception):  # noqa: N818 - the name of a failure
    """A line grew beyond the limit without an end."""


class Tail:
    """The last `limit` bytes of a stream, and the number of all bytes."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()
        """Up to twice the limit, since it is cut rarely."""
        self.total = 0
        """Also of bytes that were forgotten."""

    def feed(self, chunk: bytes) -> None:
        """Append a chunk; older bytes are forgotten."""
        self.total += len(chunk)
        self._bytes += chunk[-self._limit :]
        if len(self._bytes) > 2 * self._limit:  # cut rarely, so that many small chunks stay cheap
            del self._bytes[: -self._limit]

    def last_bytes(self) -> bytes:
        """The last bytes, unchanged."""
        return bytes(self._bytes[-self._limit :])

    def text(self, *, limit: int | None = None) -> str:
        """The tail as text of at most `limit` bytes; only complete lines if its beginning was cut
        off."""
        tail = self.last_bytes()
        is_cut = self.total > len(tail)
        if limit is not None and len(tail) > limit:
            tail = tail[-limit:]
            is_cut = True
        if is_cut and b"\n" in tail[:-1]:
            tail = tail[tail.index(b"\n") + 1 :]
        return tail.decode("utf-8", "replace")


class LineSplitter:
    """Splits chunks into lines; it never holds more than `limit` bytes of an unfinished line."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()
        """The line without an end."""
        self._scanned = 0
        """Its bytes that were searched for a line end."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        r"""The lines that `chunk` completes, without `\n`. Raises LineTooLong."""
        self._pending += chunk
        while (end := self._pending.find(b"\n", self._scanned)) >= 0:
            if end > self._limit:
                raise LineTooLong
            line = bytes(self._pending[:end])
            del self._pending[: end + 1]
            self._scanned = 0
            yield line
        self._scanned = len(self._pending)
        if self._scanned > self._limit:
            self._pending.clear()
            self._scanned = 0
            raise LineTooLong

    def remainder(self) -> bytes:
        """The bytes after the last line end."""
        return bytes(self._pending)


# --- groups that end with this process ---------------------------------------------------------


_SHELL = "/bin/sh"
"""A distroless image has none."""
_SCRIPT = """
trap '' INT TERM HUP
groups=' '
while read -r what group; do
  case $what in
    +) groups="$groups$group " ;;
    -) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""
"""Reads `+ GROUP` and `- GROUP`, and kills the remaining groups at the end of its input."""


class _Guard:
    """Ends the process groups of our children if this process is killed and cannot do it.

    A shell of a few hundred kilobytes waits at the end of a pipe that only this process holds. It
    gets each group of a running child; if the pipe closes without a release, it kills the remaining
    groups. (PR_SET_PDEATHSIG does not help: it fires when the *thread* that started the child ends,
    and it reaches neither grandchildren nor other systems.)"""

    def __init__(self) -> None:
        """Starts the shell with the first group."""
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        """Those of running children."""
        self._shell: subprocess.Popen[bytes] | None = None
        """None if it is not needed, or cannot be started."""
        self._holders = 0
        """Blocks that want the shell to stay."""

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the shell for the block, in which one child starts after another."""
        with self._lock:
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                self._tell("")

    def guard(self, group: int) -> None:
        """Have `group` killed if this process dies. Without a shell (a distroless image) there is
        no guard."""
        with self._lock:
            self._groups.add(group)
            groups = {group} if self._shell else self._groups
            if self._shell is None:
                with suppress(OSError):
                    self._shell = subprocess.Popen(
                        (_SHELL, "-c", _SCRIPT),
                        stdin=subprocess.PIPE,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        env={"PATH": os.defpath},
                        cwd="/",
                        start_new_session=True,
                    )
            self._tell("".join(f"+ {group_id}\n" for group_id in groups))

    def release(self, group: int) -> None:
        """Forget a group that is gone: its number may soon belong to another one."""
        with self._lock:
            self._groups.discard(group)
            self._tell(f"- {group}\n")

    def _tell(self, lines: str) -> None:
        """Send lines to the shell. Without groups and holders it is no longer needed, and ends."""
        shell = self._shell
        if shell is None or shell.stdin is None:
            return
        # the shell was killed; the next group starts a new one with all groups
        with suppress(OSError):
            shell.stdin.write(lines.encode())
            shell.stdin.flush()
            if self._groups or self._holders:
                return
        self._shell = None
        with suppress(OSError):
            shell.communicate()


_GROUP_GUARD = _Guard()
"""One for all children of this process."""
hold_guard = _GROUP_GUARD.hold
"""For a block that starts many children."""


# --- starting -----------------------------------------------------------------------------


FIRST_LINE_BYTES = 256
"""The most that Linux reads of a script to find its interpreter."""
ENV = "/usr/bin/env"
"""Sets the folder and the loader's variables after a prefix."""
LOADER_VARIABLES = re.compile(r"LD_|GLIBC_|GCONV_PATH$|LOCPATH$|NLSPATH$|MALLOC_|DYLD_")
"""Variables that make the system's loader and C library read files or run code."""


class ChildStartError(Exception):
    """The command could not be started; the message has the reason for a user."""


def _start(
    command: Sequence[str],
    *,
    prefix: Sequence[str],
    cwd: str,
    environment: Environ,
    reads_input: bool,
) -> subprocess.Popen[bytes]:
    """The process, in its own session, with pipes. Raises ChildStartError. Without a prefix the
    system decides what can be started: it also takes a later folder of PATH."""
    if prefix or not command:  # the prefix's program has words of its own
        problem = _start_problem(command, cwd=cwd, environment=environment)
        if problem:
            raise ChildStartError(problem)
    full_command = list(command)
    start_folder = cwd
    variables = dict(environment)
    if prefix:
        # the prefix's programs still have our rights: the command's folder and the loader's
        # variables are set after them
        loader_variables = {
            name: value for name, value in environment.items() if LOADER_VARIABLES.match(name)
        }
        variables = without(environment, loader_variables)
        full_command = [
            *prefix,
            ENV,
            f"--chdir={cwd}",
            *(f"{name}={value}" for name, value in loader_variables.items()),
            *command,
        ]
        start_folder = "/"
    try:
        return subprocess.Popen(
            full_command,
            cwd=start_folder,
            env=variables,
            stdin=subprocess.PIPE if reads_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except FileNotFoundError:
        problem = _start_problem(command, cwd=cwd, environment=environment)
        raise ChildStartError(problem or f"{command[0]}: {_NO_LOADER}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ChildStartError(f"{command[0]}: {reason}") from None


_NO_LOADER = "the file exists, but its loader does not; it may be built for another system"
"""The reason if the system does not find a program that exists."""


def _start_problem(command: Sequence[str], *, cwd: str, environment: Environ) -> str:
    """The reason why a command cannot be started, if it shows without a start, else ""."""
    if not command:
        return "(empty command): list index out of range"
    program = command[0]
    is_denied = False
    try:
        if not Path(cwd).is_dir():
            return f"the folder {cwd} does not exist"
        for folder in [""] if "/" in program else os.get_exec_path(environment):
            path = Path(cwd, folder, program)
            if path.is_file() and os.access(path, os.X_OK):
                problem = _interpreter_problem(path)
                return f"{program}: {problem}" if problem else ""
            is_denied |= path.exists()
    except OSError:  # a folder on the way is closed, a name is too long: starting tells
        return ""
    return f"{program}: {'Permission denied' if is_denied else 'command not found'}"


def _interpreter_problem(program: Path) -> str:
    """The problem with the first line of a script; "" if there is none, or it is not a script."""
    first_line = b""
    with suppress(OSError):
        # the file may have become a pipe without a writer
        descriptor = os.open(program, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            first_line = file.readline(FIRST_LINE_BYTES).rstrip(b"\n")
    interpreter = first_line[2:].split()[:1] if first_line.startswith(b"#!") else []
    has_cr = first_line.endswith(b"\r")
    if not interpreter or (Path(os.fsdecode(interpreter[0])).exists() and not has_cr):
        return ""
    interpreter_line = first_line.removeprefix(b"#!").decode("utf-8", "replace").strip()
    reason = " (the line ends in CR LF, as on Windows: save the file with LF)" if has_cr else ""
    return f"the file exists, but the interpreter in its first line does not: {interpreter_line}{reason}"


def _limit_memory(pid: int, limit: int) -> bool:
    """Limit the private memory of a running process, in bytes; False if the system does not support
    it."""
    if not hasattr(resource, "prlimit"):
        return False
    try:
        resource.prlimit(pid, resource.RLIMIT_DATA, (limit, limit))
    except (OSError, ValueError):
        return False
    return True


# --- a running child ----------------------------------------------------------------------


TAIL_BYTES = 64 * 1024
"""Of each output, unless a caller wants more."""
CHUNK_BYTES = 64 * 1024
"""The most bytes of one read."""
TICK_S = 0.25
"""The interval in which a silent child is polled if the system cannot report its end."""
KILL_GRACE_S = 2.0
"""Between SIGTERM and SIGKILL."""
DRAIN_S = 0.5
"""The time in which output of an ended child may still arrive."""


class ChildClosed(Exception):  # noqa: N818 - the name of an outcome
    """The child no longer reads its standard input."""


@frozen_dataclass
class Ended:
    """The end of a child."""

    returncode: int
    """Its exit code, or minus the signal."""

    @property
    def signal(self) -> int | None:
        """The number of the signal that ended it."""
        return -self.returncode if self.returncode < 0 else None

    def __str__(self) -> str:
        """What happened, for a sentence about the child."""
        if self.signal is None:
            return f"exited with code {self.returncode}"
        try:
            name = signal.Signals(self.signal).name
        except ValueError:
            name = "unknown"
        return f"was killed by signal {self.signal} ({name})"


class Child:
    """A running child process and the thread that listens to it, from `listen` on.

    Standard error is read into `stderr`, a tail. `memory_bytes` limits private memory (RLIMIT_DATA,
    which unlike RLIMIT_AS does not count memory that Node and JVMs only reserve); `memory_capped`:
    True if the system accepted the limit. `prefix` starts the command as another user
    (`isolation.Account`)."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str,
        environment: Environ,
        memory_bytes: int | None = None,
        reads_input: bool = True,
        prefix: Sequence[str] = (),
    ) -> None:
        """Start the command. Raises ChildStartError."""
        memory_prefix = (
            isolation.memory_prefix(memory_bytes) if prefix and memory_bytes is not None else ()
        )
        self._process = _start(
            command,
            prefix=(*memory_prefix, *prefix),
            cwd=cwd,
            environment=environment,
            reads_input=reads_input,
        )
        self.pid = self._process.pid
        """Also the number of its group."""
        _GROUP_GUARD.guard(self.pid)
        self.memory_capped = bool(memory_prefix) or (
            memory_bytes is not None and _limit_memory(self.pid, memory_bytes)
        )
        self.stderr = Tail(limit=TAIL_BYTES)
        self._signals: list[tuple[float, signal.Signals]] = []
        """Those to send, each with its monotonic time."""
        self._ended: Ended | None = None
        """None until it is reaped."""
        self._writing = threading.Lock()
        """Held while its input is written or closed."""
        self._leaving = threading.Event()
        """Set when it shall end, or has ended: nobody writes any more."""
        self._waking = threading.Lock()
        """Held while the pipe that wakes the listening thread is used or closed."""
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._outputs = [pipe for pipe in (self._process.stdout, self._process.stderr) if pipe]
        """Standard output, then standard error."""
        self._pipes = [*self._outputs, *filter(None, [self._process.stdin])]
        """All pipes on our side, with its input."""
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        self._thread = threading.Thread(target=self._listen, name=f"child-{self.pid}", daemon=True)

    # --- methods for any thread ---

    def listen(
        self, on_output: Callable[[bytes], None], on_end: Callable[[Ended], None] = lambda _: None
    ) -> None:
        """Pass each chunk of standard output to `on_output`, and the end to `on_end`; neither may
        block.

        An empty chunk means that standard output was closed. Both are called in the child's own
        thread."""
        self._on_output = on_output
        self._on_end = on_end
        self._thread.start()

    def write(self, data: bytes, *, timeout_s: float) -> None:
        """Write `data` to its standard input. Raises ChildClosed, or TimeoutError if it does not
        read in time.

        After a TimeoutError a part may have been written: the child is unusable."""
        deadline = time.monotonic() + timeout_s
        if not self._writing.acquire(timeout=max(timeout_s, 0.0)):
            raise TimeoutError
        pipe = self._process.stdin
        remaining_bytes = memoryview(data)
        try:
            while remaining_bytes:
                if self._leaving.is_set() or pipe is None or pipe.closed:
                    raise ChildClosed
                try:
                    remaining_bytes = remaining_bytes[os.write(pipe.fileno(), remaining_bytes) :]
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        raise TimeoutError from None
                    poll = select.poll()
                    poll.register(pipe, select.POLLOUT)
                    poll.poll(1000 * min(TICK_S, max(deadline - time.monotonic(), 0.0)))
                except OSError:
                    raise ChildClosed from None
        finally:
            self._writing.release()

    def end(self, *, patience_s: float = 0.0, grace_s: float = KILL_GRACE_S) -> None:
        """Close its input, send SIGTERM to its group after `patience_s`, and SIGKILL `grace_s`
        later. Returns at once.

        A later call can only make the end earlier."""
        moment = time.monotonic()
        self._leaving.set()
        self._signals += [
            (moment + patience_s, signal.SIGTERM),
            (moment + patience_s + grace_s, signal.SIGKILL),
        ]
        with self._waking:
            if self._ended is None:
                with suppress(BlockingIOError):  # a full pipe wakes as well
                    os.write(self._wake_write, b"!")

    def wait(self, timeout_s: float | None = None) -> Ended | None:
        """Wait until it has ended, is reaped and its pipes are closed; None if that takes
        longer."""
        self._thread.join(timeout_s)
        return None if self._thread.is_alive() else self._ended

    def close(self, *, patience_s: float = 0.0, grace_s: float = KILL_GRACE_S) -> Ended | None:
        """`end`, then `wait`."""
        self.end(patience_s=patience_s, grace_s=grace_s)
        return self.wait(patience_s + grace_s + 10.0)

    # --- the listening thread ---

    def _listen(self) -> None:
        """The thread: listen until the child has ended, then end its group, reap it, and tell."""
        try:
            self._read_output()
        finally:
            self._leaving.set()
            self._signal_group(signal.SIGKILL)  # leftovers in its group
            _GROUP_GUARD.release(self.pid)
            ended = Ended(returncode=self._process.wait())
            with self._writing:
                for pipe in self._pipes:
                    with suppress(OSError):
                        pipe.close()
            with self._waking:
                self._ended = ended
                os.close(self._wake_read)
                os.close(self._wake_write)
            self._on_end(ended)

    def _read_output(self) -> None:
        """Pass on its output until it has ended, and send the signals that are due."""
        poll = select.poll()
        streams = [pipe.fileno() for pipe in self._outputs]
        feeds = dict(zip(streams, (self._on_output, self.stderr.feed), strict=True))
        exit_fds = []  # readable when the child ends, if the system supports it
        with suppress(AttributeError, OSError):
            exit_fds.append(os.pidfd_open(self.pid))
        for fd in (*streams, self._wake_read, *exit_fds):
            poll.register(fd, select.POLLIN)
        has_ended = False
        drain_until: float | None = None
        while drain_until is None or (feeds and time.monotonic() < drain_until):
            delay_s = min((at - time.monotonic() for at, _ in self._signals), default=TICK_S)
            events = poll.poll(1000 * min(max(delay_s, 0.0), TICK_S))
            for fd, _ in events:
                if fd == self._wake_read:
                    os.read(fd, 1024)
                elif fd in exit_fds:
                    has_ended = True
                    poll.unregister(fd)
                elif not self._read_from(fd, feeds):
                    poll.unregister(fd)
                    del feeds[fd]
            self._send_due_signals()
            if not (exit_fds and events):
                has_ended = has_ended or self._has_ended()
            if drain_until is None and has_ended:
                drain_until = time.monotonic() + DRAIN_S
                self._signal_group(signal.SIGKILL)  # leftover processes may hold the pipes open
        for fd in exit_fds:
            os.close(fd)

    def _read_from(self, fd: int, feeds: Mapping[int, Callable[[bytes], None]]) -> bool:
        """Pass on the available bytes; False at the end. Standard error is read before standard
        output: it may explain it."""
        chunk = _read(fd)
        errors = self._outputs[1].fileno()
        if chunk is not None and fd != errors and errors in feeds:
            self.stderr.feed(_read(errors) or b"")
        if chunk is not None:
            feeds[fd](chunk)
        return chunk != b""

    def _send_due_signals(self) -> None:
        """Close its input once it shall leave, and send the signals whose time has come."""
        if (
            self._leaving.is_set()
            and self._process.stdin is not None
            and not self._process.stdin.closed
        ):
            # a writer stops within a tick, since it checks `_leaving`
            with self._writing, suppress(OSError):
                self._process.stdin.close()
        moment = time.monotonic()
        for due_at, number in list(self._signals):
            if due_at <= moment:
                self._signals.remove((due_at, number))
                self._signal_group(number)

    def _signal_group(self, number: signal.Signals) -> None:
        """Only called before the child is reaped: until then its number is not reused."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _has_ended(self) -> bool:
        """True if it has ended, without reaping it where the system can tell."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            return True
        except (AttributeError, OSError):  # macOS before Python 3.13; a sandbox that refuses it
            return self._process.poll() is not None


def _read(fd: int) -> bytes | None:
    """The available bytes, b"" at the end, None if there are none."""
    try:
        return os.read(fd, CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""


# --- children that run to their end


WATCH_S = 1.0
"""Between two calls of `watch`."""


@frozen_dataclass
class Finished(Ended):
    """The end of a one-shot child, with the tails of its output."""

    stdout: Tail
    stderr: Tail
    timed_out: bool
    """It was ended by us."""


def run_to_end(
    command: Sequence[str],
    *,
    cwd: str,
    environment: Environ,
    timeout_s: float,
    memory_bytes: int | None = None,
    prefix: Sequence[str] = (),
    watch: Callable[[int, str], None] = lambda *_: None,
    most_output: int | None = None,
) -> Finished:
    """Run a command without input, at most `timeout_s` long, and keep the tails of its output.

    `watch` gets the child's number and the tail of standard error, every second. `most_output`: the
    bytes of standard output that are kept; more than that ends it. Raises ChildStartError."""
    started_at = time.monotonic()
    stdout = Tail(limit=most_output or TAIL_BYTES)
    child = Child(
        command,
        cwd=cwd,
        environment=environment,
        memory_bytes=memory_bytes,
        reads_input=False,
        prefix=prefix,
    )

    def feed(chunk: bytes) -> None:
        """Keep a chunk; end the child if it is one too many."""
        stdout.feed(chunk)
        if most_output is not None and stdout.total > most_output:
            child.end()

    child.listen(feed)
    try:
        ended = child.wait(min(WATCH_S, timeout_s))
        while ended is None and (left_s := started_at + timeout_s - time.monotonic()) > 0:
            watch(child.pid, child.stderr.text())
            ended = child.wait(min(WATCH_S, left_s))
        is_timed_out = ended is None
        ended = ended or child.close() or Ended(returncode=-signal.SIGKILL)
    except BaseException:  # Ctrl-C while waiting: leave nothing behind
        child.close(grace_s=0.2)
        raise
    return Finished(
        returncode=ended.returncode, stdout=stdout, stderr=child.stderr, timed_out=is_timed_out
    )


# --- this process -------------------------------------------------------------------------


def collect_garbage_rarely() -> None:
    """Search rarely for cyclic garbage; call it before heavy imports.

    Most objects of imports and of a run live until their end, and repeated searches take a tenth of
    the imports and a twentieth of a run; so does a last search at the exit."""
    gc.set_threshold(50_000, 100, 100)
    atexit.register(gc.freeze)


_ENDS_WITH_RUN = threading.Event()
"""Set once this process makes only one run."""


@contextmanager
def no_garbage_search() -> Iterator[None]:
    """Search for no cyclic garbage: for code that makes many objects which live as long as the run.
    What remains is searched as before, because the process may be a test's, or a server; after
    `end_with_run` it never is."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if _ENDS_WITH_RUN.is_set():
            gc.freeze()
        if was_enabled:
            gc.enable()


def end_with_run() -> None:
    """Say that this process makes one run and ends: what lives now is no garbage until then."""
    _ENDS_WITH_RUN.set()
    gc.freeze()


def close_to_other_processes() -> bool:
    """Prevent the agent, which may run as the same user, from reading our environment and memory.

    Closes /proc/PID/environ, /proc/PID/mem and debuggers to other processes without CAP_SYS_PTRACE,
    which containers do not have by default; False if the system does not support it. Children are
    open again as soon as they run their own program. Source: prctl(2), PR_SET_DUMPABLE (4)."""
    try:
        return bool(ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0)
    except (OSError, AttributeError, TypeError):  # not Linux
        return False


def keep_streams(wrapper: type[io.TextIOWrapper] = io.TextIOWrapper) -> None:
    """Reopen the standard streams, so that output is dropped after the first failed write.
    `wrapper`: the text layer."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except (
            OSError
        ):  # it is closed: the next opened file, such as a journal, would become standard output
            os.open(os.devnull, os.O_RDWR)
    sys.stdout, sys.stderr = _reopen(sys.stdout, 1, wrapper), _reopen(sys.stderr, 2, wrapper)


class _Output(io.FileIO):
    """A descriptor that accepts all output. Errors other than a closed reader are reported on
    standard error, once."""

    _is_lost = False
    """True after the first failed write: nothing is written any more."""

    def write(self, data: Any, /) -> int:
        """The number of bytes, also if they are lost: no caller fails."""
        if not self._is_lost:
            try:
                return super().write(data)
            except OSError as error:
                self._is_lost = True
                if error.errno != errno.EPIPE:
                    with suppress(OSError):
                        os.write(
                            2, f"evalgate: output cannot be written: {error.strerror}\n".encode()
                        )
        return memoryview(data).nbytes


def _reopen(stream: TextIO | None, number: int, wrapper: type[io.TextIOWrapper]) -> TextIO:
    """A new stream for the same descriptor; output of a stream that was closed at Python's start is
    lost."""
    raw = _Output(number if stream is None else stream.fileno(), "w", closefd=False)
    if not isinstance(stream, io.TextIOWrapper):
        return wrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")
    return wrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering or stream.write_through,
    )


# --- leftovers of build hooks
# -------------------------------------------------------------------------


GRACE_S = 5.0
"""The time that they may run after the installer's last own child ended."""


class Orphans:
    """Ends leftover children that an installer waits for, because they hold the pipe of a hook.
    Linux only: it does nothing elsewhere."""

    def __init__(self, program: str) -> None:
        """`program`: the installer's path, without the prefix that drops its rights."""
        self._program = os.fsencode(program)
        """As /proc has it."""
        self._since: float | None = None
        """Monotonic: the first sight of leftovers; None if there were none at the last look."""

    def look(self, pid: int) -> None:
        """Look for leftovers; to be called every second or so. `pid`: of the child that is the
        installer, or will start it."""
        orphans = self._orphan_pids(pid) if sys.platform == "linux" else ()
        if not orphans:
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
        elif time.monotonic() - self._since >= GRACE_S:
            for orphan in orphans:
                with suppress(OSError):  # it has ended
                    os.kill(orphan, signal.SIGKILL)

    def _orphan_pids(self, pid: int) -> set[int]:
        """The processes that an installer without children of its own waits for."""
        statuses = dict(isolation.processes())
        parents = {child: int(fields["PPid"]) for child, fields in statuses.items()}
        descendants = {
            child: parent
            for child, parent in parents.items()
            if child == pid or pid in _ancestors(child, parents)
        }
        installer = next(
            (child for child in descendants if _first_argument(child) == self._program), None
        )
        if installer is None or installer in parents.values():
            return set()
        other_pids = parents.keys() - {installer, os.getpid(), *_ancestors(installer, parents)}
        users = {child: int(fields["Uid"].split()[1]) for child, fields in statuses.items()}
        pipes = _pipes(installer)
        # the pipes of other users' processes are not visible, and all processes of the installer's
        # user are its own
        is_apart = users[installer] != os.getuid()
        return {
            other
            for other in other_pids
            if (is_apart and users[other] == users[installer]) or pipes & _pipes(other)
        }


def _ancestors(pid: int, parents: Mapping[int, int]) -> set[int]:
    """The ancestors of a process."""
    ancestors: set[int] = set()
    while (pid := parents.get(pid, 0)) and pid not in ancestors:
        ancestors.add(pid)
    return ancestors


def _first_argument(pid: int) -> bytes:
    """The program of a process; empty if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
    return b""


def _pipes(pid: int) -> set[str]:
    """The pipes that a process has open and that we may see, as /proc names them."""
    links = set()
    with suppress(OSError):
        for place in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                links.add(str(place.readlink()))
    return {link for link in links if link.startswith("pipe:")}
