"""One child process, bounded: its group, its output, its memory, its end; what hooks of builds
leave running; and this process's own habits and streams."""

from __future__ import annotations

import atexit
import ctypes
import errno
import gc
import io
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from evalgate.system import isolation
from evalgate.values import Environ, frozen_dataclass

try:
    import resource
except ImportError:  # pragma: no cover - only POSIX systems have it
    resource = None  # type: ignore[assignment]  # absent on other systems


# --- output, kept within bounds ------------------------------------------------------------


class LineTooLong(Exception):  # noqa: N818 - it names what happened
    """A line grew beyond the limit without an end."""


class Tail:
    """The last `limit` bytes of a stream, and how many there were in all."""

    __slots__ = ("_kept", "_limit", "total")

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.total = 0

    def feed(self, chunk: bytes) -> None:
        """Append; what falls out in front is forgotten."""
        self.total += len(chunk)
        self._kept += chunk[-self._limit :]
        if len(self._kept) > 2 * self._limit:  # cut rarely, so that many small chunks stay cheap
            del self._kept[: -self._limit]

    def last_bytes(self) -> bytes:
        """The last bytes, as they came."""
        return bytes(self._kept[-self._limit :])

    def text(self, *, limit: int | None = None) -> str:
        """The tail as text of at most `limit` bytes, whole lines where something was cut off in
        front."""
        tail = self.last_bytes()
        cut = self.total > len(tail)
        if limit is not None and len(tail) > limit:
            tail = tail[-limit:]
            cut = True
        if cut and b"\n" in tail[:-1]:
            tail = tail[tail.index(b"\n") + 1 :]
        return tail.decode("utf-8", "replace")


class LineSplitter:
    """Cuts chunks into lines, never holding more than `limit` bytes of an unfinished one."""

    __slots__ = ("_limit", "_pending", "_scanned")

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._scanned = 0

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
        """What came after the last line's end."""
        return bytes(self._pending)


# --- groups that end with us ---------------------------------------------------------------


_SHELL = "/bin/sh"
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


class _Guard:
    """Ends the process groups of our children if we are killed ourselves and cannot do it.

    A shell of a few hundred kilobytes waits at the end of a pipe that only we hold. While children
    live it gets each group; when the pipe closes without a farewell, it kills the remaining ones.
    (PR_SET_PDEATHSIG is no help: it fires when the *thread* that started the child ends, and it
    reaches neither grandchildren nor other systems.)"""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None

    def guard(self, group: int) -> None:
        """Have `group` killed if we die. Without a shell (a distroless image) nobody guards."""
        with self._lock:
            self._groups.add(group)
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
                groups = self._groups
            else:
                groups = {group}
            self._tell("".join(f"+ {group_id}\n" for group_id in groups))

    def release(self, group: int) -> None:
        """The group is gone: its number may soon belong to others."""
        with self._lock:
            self._groups.discard(group)
            self._tell(f"- {group}\n")

    def _tell(self, lines: str) -> None:
        """Tell the shell; without groups it has nothing more to do, and is dismissed."""
        shell = self._shell
        if shell is None or shell.stdin is None:
            return
        # the shell was killed; the next group gets a new one with all groups
        with suppress(OSError):
            shell.stdin.write(lines.encode())
            shell.stdin.flush()
            if self._groups:
                return
        self._shell = None
        with suppress(OSError):
            shell.communicate()


_GUARD = _Guard()


# --- starting -----------------------------------------------------------------------------


FIRST_LINE_BYTES = 256
ENV = "/usr/bin/env"
LOADING = re.compile(r"LD_|GLIBC_|GCONV_PATH$|LOCPATH$|NLSPATH$|MALLOC_|DYLD_")
"""Variables that make the system's loader and C library read files or run code."""


class ChildStartError(Exception):
    """The command could not be started; the message says why, in words for a user."""


def _start(
    command: Sequence[str],
    *,
    prefix: Sequence[str],
    cwd: str,
    environment: Environ,
    reads_input: bool,
) -> subprocess.Popen[bytes]:
    """The process, in a session of its own, with pipes. Raises ChildStartError."""
    full_command = list(command)
    place = cwd
    variables = dict(environment)
    if prefix:
        if problem := _start_problem(command, cwd=cwd, environment=environment):
            # which the program of the prefix would tell in its own words
            raise ChildStartError(problem)
        # the programs of the prefix still have our rights: the command's folder, and what loads
        # code into whatever is started, come behind them
        late = {name: value for name, value in environment.items() if LOADING.match(name)}
        variables = {name: value for name, value in environment.items() if name not in late}
        full_command = [
            *prefix,
            ENV,
            f"--chdir={cwd}",
            *(f"{name}={value}" for name, value in late.items()),
            *command,
        ]
        place = "/"
    try:
        return subprocess.Popen(
            full_command,
            cwd=place,
            env=variables,
            stdin=subprocess.PIPE if reads_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
    except (OSError, ValueError, IndexError) as error:
        problem = ""
        if isinstance(error, FileNotFoundError):
            problem = (
                _start_problem(command, cwd=cwd, environment=environment)
                or f"{command[0]}: {_NO_LOADER}"
            )
        name = command[0] if command else "(empty command)"
        raise ChildStartError(
            problem or f"{name}: {getattr(error, 'strerror', None) or error}"
        ) from None


_NO_LOADER = "the file exists, but its loader does not; it may be built for another system"


def _start_problem(command: Sequence[str], *, cwd: str, environment: Environ) -> str:
    """The reason why a command cannot be started, if known beforehand, else ""."""
    if not command:
        return "(empty command): list index out of range"
    if not Path(cwd).is_dir():
        return f"the folder {cwd} does not exist"
    program = command[0]
    is_denied = False
    for folder in [""] if "/" in program else os.get_exec_path(environment):
        path = Path(cwd, folder, program)
        if path.is_file() and os.access(path, os.X_OK):
            problem = _interpreter_problem(path)
            return f"{program}: {problem}" if problem else ""
        is_denied |= path.exists() and not path.is_dir()
    return f"{program}: {'Permission denied' if is_denied else 'command not found'}"


def _interpreter_problem(program: Path) -> str:
    """The problem with the first line of a script; "" if it has none or is not a script."""
    first = b""
    with suppress(OSError), open(program, "rb", opener=_at_once) as file:
        first = file.readline(FIRST_LINE_BYTES).rstrip(b"\n")
    interpreter = first[2:].split()[:1] if first.startswith(b"#!") else []
    if not interpreter or (
        Path(os.fsdecode(interpreter[0])).exists() and not first.endswith(b"\r")
    ):
        return ""
    interpreter_line = first.removeprefix(b"#!").decode("utf-8", "replace").strip()
    reason = (
        " (the line ends in CR LF, as on Windows: save the file with LF)"
        if first.endswith(b"\r")
        else ""
    )
    return f"the file exists, but the interpreter in its first line does not: {interpreter_line}{reason}"


def _at_once(path: str, flags: int) -> int:
    """Opens a file that may have become a pipe meanwhile, which nobody writes to."""
    return os.open(path, flags | os.O_NONBLOCK)


def _limit_memory(pid: int, limit: int) -> bool:
    """Limit the private memory of a running process, in bytes; False if the system cannot do
    that."""
    if resource is None or not hasattr(resource, "prlimit"):
        return False
    try:
        resource.prlimit(pid, resource.RLIMIT_DATA, (limit, limit))
    except (OSError, ValueError):
        return False
    return True


# --- a running child ----------------------------------------------------------------------


TAIL_BYTES = 64 * 1024
CHUNK_BYTES = 64 * 1024
TICK_S = 0.25  # how often a silent child is polled if the system cannot report its end
KILL_GRACE_S = 2.0
DRAIN_S = 0.5  # how long the output of an ended child may still come


class ChildClosed(Exception):  # noqa: N818 - it says what happened
    """The child no longer reads its standard input."""


@frozen_dataclass
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

    Standard error is drained into `stderr`, a tail. `memory_bytes` bounds private memory
    (RLIMIT_DATA, which unlike RLIMIT_AS leaves alone what Node and JVMs merely reserve);
    `memory_capped` says whether the system took it. `prefix` starts the command as another user
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
        limiting = (
            isolation.memory_prefix(memory_bytes) if prefix and memory_bytes is not None else ()
        )
        self._process = _start(
            command,
            prefix=(*limiting, *prefix),
            cwd=cwd,
            environment=environment,
            reads_input=reads_input,
        )
        self.pid = self._process.pid
        _GUARD.guard(self.pid)
        self.memory_capped = bool(limiting) or (
            memory_bytes is not None and _limit_memory(self.pid, memory_bytes)
        )
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

    def listen(
        self, on_output: Callable[[bytes], None], on_end: Callable[[Ended], None] = lambda _: None
    ) -> None:
        """Give each chunk of standard output to `on_output`, and the end to `on_end`; neither may
        block.

        An empty chunk says that standard output was closed.
        Both are called in the child's own thread.
        """
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
        """Close its input, ask its group to end (SIGTERM) after `patience_s`, kill it `grace_s`
        later. Returns at once.

        Only ever hastens an end that is already on its way.
        """
        moment = time.monotonic()
        self._leaving.set()
        self._signals.append((moment + patience_s, signal.SIGTERM))
        self._signals.append((moment + patience_s + grace_s, signal.SIGKILL))
        with self._waking:
            if self._ended is None:
                with suppress(BlockingIOError):  # a full pipe wakes as well
                    os.write(self._wake_write, b"!")

    def wait(self, timeout_s: float | None = None) -> Ended | None:
        """Wait until it has ended, is reaped and its pipes are closed; None when that takes
        longer."""
        self._thread.join(timeout_s)
        return None if self._thread.is_alive() else self._ended

    def close(self, *, patience_s: float = 0.0, grace_s: float = KILL_GRACE_S) -> Ended | None:
        """`end`, then `wait`."""
        self.end(patience_s=patience_s, grace_s=grace_s)
        return self.wait(patience_s + grace_s + 10.0)

    # --- the listening thread ---

    def _listen(self) -> None:
        try:
            self._read_output()
        finally:
            self._leaving.set()
            self._signal_group(signal.SIGKILL)  # whatever it left behind in its group
            _GUARD.release(self.pid)
            ended = Ended(returncode=self._process.wait())
            with self._writing:
                for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                    if pipe is not None:
                        with suppress(OSError):
                            pipe.close()
            with self._waking:
                self._ended = ended
                os.close(self._wake_read)
                os.close(self._wake_write)
            self._on_end(ended)

    def _read_output(self) -> None:
        """Hand on what it says until it has ended, and send the signals that are due."""
        poll = select.poll()
        streams = [
            pipe.fileno()
            for pipe in (self._process.stdout, self._process.stderr)
            if pipe is not None
        ]
        feeds = dict(zip(streams, (self._on_output, self.stderr.feed), strict=True))
        exit_fds = []  # readable when the child ends, if the system supports it
        with suppress(AttributeError, OSError):
            exit_fds.append(os.pidfd_open(self.pid))
        for fd in (*streams, self._wake_read, *exit_fds):
            poll.register(fd, select.POLLIN)
        drain_until: float | None = None
        while drain_until is None or (feeds and time.monotonic() < drain_until):
            due = min((at - time.monotonic() for at, _ in self._signals), default=TICK_S)
            for fd, _ in poll.poll(1000 * min(max(due, 0.0), TICK_S)):
                if fd == self._wake_read:
                    os.read(fd, 1024)
                elif fd in exit_fds:
                    poll.unregister(fd)
                elif not self._read_from(fd, feeds):
                    poll.unregister(fd)
                    del feeds[fd]
            self._send_due_signals()
            if drain_until is None and self._has_ended():
                drain_until = time.monotonic() + DRAIN_S
                self._signal_group(signal.SIGKILL)  # who is left may hold the pipes open
        for fd in exit_fds:
            os.close(fd)

    def _read_from(self, fd: int, feeds: Mapping[int, Callable[[bytes], None]]) -> bool:
        """Hand on what is there; False at its end. Before a word on standard output comes all that
        was said on standard error before it: it may explain the word."""
        chunk = _read(fd)
        errors = self._process.stderr.fileno() if self._process.stderr is not None else fd
        if chunk is not None and fd != errors and errors in feeds:
            self.stderr.feed(_read(errors) or b"")
        if chunk is not None:
            feeds[fd](chunk)
        return chunk != b""

    def _send_due_signals(self) -> None:
        if (
            self._leaving.is_set()
            and self._process.stdin is not None
            and not self._process.stdin.closed
        ):
            # a writer leaves within a tick: it sees `_leaving`
            with self._writing, suppress(OSError):
                self._process.stdin.close()
        moment = time.monotonic()
        for item in [item for item in self._signals if item[0] <= moment]:
            self._signals.remove(item)
            self._signal_group(item[1])

    def _signal_group(self, number: signal.Signals) -> None:
        # Only called before it is reaped: until then the dead leader keeps the group's number from
        # being given away.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _has_ended(self) -> bool:
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return self._process.poll() is not None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            return True


def _read(fd: int) -> bytes | None:
    """The available bytes, b"" at the end, None if there is no data."""
    try:
        return os.read(fd, CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""


# --- children that run to their end ---------------------------------------------------------------


WATCH_S = 1.0


@frozen_dataclass
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
    environment: Environ,
    timeout_s: float,
    memory_bytes: int | None = None,
    prefix: Sequence[str] = (),
    watch: Callable[[int, str], None] | None = None,
) -> Finished:
    """Run a command without input, at most `timeout_s` long, and keep the tails of what it says.

    `watch` is given the child's number, and what it has said on standard error, every second.
    Raises ChildStartError."""
    began = time.monotonic()
    stdout = Tail(limit=TAIL_BYTES)
    child = Child(
        command,
        cwd=cwd,
        environment=environment,
        memory_bytes=memory_bytes,
        reads_input=False,
        prefix=prefix,
    )
    child.listen(stdout.feed)
    timed_out = False
    try:
        ended = child.wait(timeout_s if watch is None else min(WATCH_S, timeout_s))
        while ended is None and watch is not None and time.monotonic() - began < timeout_s:
            watch(child.pid, child.stderr.text())
            ended = child.wait(WATCH_S)
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


# --- this process -------------------------------------------------------------------------


def collect_seldom() -> None:
    """Look seldom for garbage that only a search finds; to be called before all that is heavy is
    imported.

    What importing and a run make is mostly kept to their end, and looking through it again and
    again takes a tenth of the one and a twentieth of the other; so does a last look when all is
    over."""
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)


def close_to_others() -> bool:
    """Keep the agent, which runs beside us as the same user, from reading our environment and
    memory.

    Closes /proc/PID/environ, /proc/PID/mem and debuggers to other processes without CAP_SYS_PTRACE,
    which containers do not have by default; False if the system does not support it. Children are
    open again as soon as they run a program of their own. Source: prctl(2), PR_SET_DUMPABLE (4)."""
    try:
        return bool(ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0)
    except (OSError, AttributeError, TypeError):  # no Linux
        return False


def keep_streams(wrapper: type[io.TextIOWrapper] = io.TextIOWrapper) -> None:
    """From the first write that fails, what would be written is dropped. `wrapper`: makes text of
    bytes."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # closed: the next file that is opened, a journal, would be standard output
            os.open(os.devnull, os.O_RDWR)
    sys.stdout, sys.stderr = _reopen(sys.stdout, 1, wrapper), _reopen(sys.stderr, 2, wrapper)


class _Output(io.FileIO):
    """A descriptor that accepts all output. Errors other than a closed reader are reported on
    standard error, once."""

    _is_lost = False

    def write(self, data: Any, /) -> int:
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
    """The same stream, of its descriptor; one that was closed when Python started is written to
    nowhere."""
    raw = _Output(number if stream is None else stream.fileno(), "w", closefd=False)
    if not isinstance(stream, io.TextIOWrapper):
        return wrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")
    return wrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering or stream.write_through,
    )


# --- what hooks of builds leave running ----------------------------------------------------------


GRACE_S = 5.0
"""How long they may go on once the installer has no child of its own any more."""


class Orphans:
    """Ends leftover children that an installer waits for. It waits while they hold the pipe that a
    hook wrote to. Linux only: elsewhere it finds nothing."""

    def __init__(self, program: str) -> None:
        """`program`: as the installer was started, behind whatever drops its rights."""
        self._program = os.fsencode(program)
        self._since: float | None = None

    def look(self, pid: int) -> None:
        """To be called every second or so; `pid`: of the child that is the installer, or will start
        it."""
        orphans = self._orphan_pids(pid)
        if not orphans:
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
        elif time.monotonic() - self._since >= GRACE_S:
            for orphan in orphans:
                with suppress(OSError):  # it has ended
                    os.kill(orphan, signal.SIGKILL)

    def _orphan_pids(self, pid: int) -> set[int]:
        parents = dict(_running())
        above = {
            child: parent
            for child, parent in parents.items()
            if child == pid or pid in _above(child, parents)
        }
        installer = next(
            (child for child in above if _first_argument(child) == self._program), None
        )
        if installer is None or installer in parents.values():
            return set()
        other_pids = parents.keys() - {installer, os.getpid(), *_above(installer, parents)}
        user = _user(installer)
        pipes = _pipes(installer)
        # of another user's processes nobody sees the pipes, and all of an installer's user are its
        # own
        is_apart = user != os.getuid()
        return {
            other
            for other in other_pids
            if (is_apart and _user(other) == user) or pipes & _pipes(other)
        }


def _running() -> Iterator[tuple[int, int]]:
    """Every process that has not ended, with its parent."""
    for place in _listed(Path("/proc")):
        with suppress(OSError, IndexError):  # it is gone, or no process
            # the name of the program, in parentheses, may hold anything
            about = (place / "stat").read_bytes().rpartition(b")")[2].split()
            if place.name.isdecimal() and about[0] not in (b"Z", b"X"):
                yield int(place.name), int(about[1])


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _above(pid: int, parents: Mapping[int, int]) -> set[int]:
    """All that are above a process."""
    ancestors: set[int] = set()
    while (pid := parents.get(pid, 0)) and pid not in ancestors:
        ancestors.add(pid)
    return ancestors


def _first_argument(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
    return b""


def _user(pid: int) -> int | None:
    with suppress(OSError):
        return Path(f"/proc/{pid}").stat().st_uid
    return None


def _pipes(pid: int) -> set[str]:
    links = set()
    for place in _listed(Path(f"/proc/{pid}/fd")):
        with suppress(OSError):
            links.add(str(place.readlink()))
    return {link for link in links if link.startswith("pipe:")}
