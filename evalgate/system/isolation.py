"""Separate users for foreign code: their rights, their files, closed places, and the end of their
processes.

An agent, a custom metric, an installer and its build hooks are code of the change. The code of each
side runs as its own users, without capabilities and new privileges, in a copy of the checkout and
with its own home. See docs/security.md and docs/decisions/015-another-user.md."""

from __future__ import annotations

import fcntl
import functools
import grp
import hashlib
import itertools
import os
import pwd
import re
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from evalgate.errors import UnavailableError
from evalgate.values import Environ, Log, frozen_dataclass, matches_any
from . import redact
from .files import top_of

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The path of our own helper programs; the PATH of agents is never used."""

HIGH_UIDS = range(1_879_100_000, 1_879_165_536)
"""User and group numbers above 2^16 that few systems assign; assigned ones are skipped."""
LOW_UIDS = range(64001, 64907)
"""The same below 2^16, for containers that have no others."""


def _are_mapped(numbers: range) -> bool:
    """True if users and groups may have these numbers: not in a container that has only 65,536."""
    try:
        texts = [Path(f"/proc/self/{name}_map").read_text("ascii") for name in ("uid", "gid")]
    except OSError:  # no Linux
        return False
    maps = [[tuple(map(int, line.split())) for line in text.splitlines()] for text in texts]
    return all(
        any(first <= numbers.start and numbers.stop <= first + count for first, _, count in rows)
        for rows in maps
    )


ROLES = ("head", "base", "metrics")
"""Each sandbox runs the code of one role."""
UIDS_PER_RUN = 2 * len(ROLES)
"""One for the agents and one for the installers of each role."""
UIDS = HIGH_UIDS if _are_mapped(HIGH_UIDS) else LOW_UIDS
"""Those that this system has."""
FIRST_UID = UIDS.start
"""The lowest number with which a gate's block may begin."""
LAST_UID = UIDS.stop - UIDS_PER_RUN - 1
"""No gate's block begins here or later."""
TRIAL_UID = LAST_UID + UIDS_PER_RUN
"""A number that no gate assigns: a trial as this user cannot be ended with another gate's
agents."""
IMAGE = Path("/opt/evalgate")
"""The install folder of the image."""

SEALS = "sealed"
"""The folder of seals, below that of environments."""

IMAGE_FOLDER = Path("/var/lib/evalgate")
"""The folder of sandboxes in the image."""
HOST_FOLDER = Path("/var/cache/evalgate")
"""The folder of environments if we are root outside of the image."""
LOCKS = Path("/run/evalgate")
"""The locks of the gates on this machine, one per user number; only root may enter."""

LANDLOCK_WRITES = (
    "write-file,remove-dir,remove-file,make-dir,make-reg,make-sock,make-fifo,make-sym,refer,truncate"
)  # fmt: skip
"""The writes that Landlock refuses outside a role's own folders; file modes control reading."""

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - everybody's
"""Locks and queues between processes are here under random names, and have no other place. /tmp and
/var/tmp are closed: one role could find the files of another there."""

PRIVATE_NAMES = (".git", "gha-creds-*.json", ".git-credentials", ".netrc", "_netrc", ".pypirc")
"""Names in a checkout that may contain credentials of the job; a `.env` is copied: agents load
it."""

CREDENTIAL_FILES = (
    "KUBECONFIG",
    "NETRC",
    "*CREDS*",
    "PIP_CONFIG_FILE",
    "UV_CONFIG_FILE",
    "NPM_CONFIG_USERCONFIG",
)
"""Variables, besides those with names of secrets, whose values are paths of credential files."""

HOME_VARIABLES = ("HOME", "TMPDIR", "TEMP", "TMP", "USER", "LOGNAME", "XDG_*")
"""Variables about a user and its folders; a sandbox sets its own."""


class NotPossible(UnavailableError):  # noqa: N818 - the name of the fault
    """The system does not let us start processes as another user."""


@frozen_dataclass
class Account:
    """A user for foreign code only."""

    uid: int
    """Has no effect unless we are root."""
    gid: int
    """Shared by a sandbox's agents and installers."""
    home: Path
    """Closed to all other users."""
    prefix: tuple[str, ...]
    """Starts a command as this user."""


class Sandbox:
    """The environment of one role's foreign code: a user for agents, another for installers, its
    own folders, and its copies of the checkouts `tops`, made on demand.

    `cache`: the folder of its environments, which installers fill and nobody may write afterwards,
    and of their seals, which not even installers may write. `ready`: callbacks with a checkout and
    its new copy, before any process knows its path. `installing`: held while an installer runs, and
    until its result is sealed, which ends all installers."""

    def __init__(
        self,
        folder: Path,
        *,
        cache: Path,
        uid: int,
        closed: Sequence[Path],
        tops: Sequence[Path],
        is_left_out: Callable[[str], bool],
        say: Log,
    ) -> None:
        """Make its folders. `uid`: the first of its two user numbers. `closed`: places that are
        closed to it. `is_left_out`: True for the absolute path of a file or folder that is not
        copied."""
        self.folder = folder
        """Has the homes, the copies of checkouts, and copies of closed files."""
        self.cache = cache
        self.ready: list[Callable[[Path, Path], None]] = []
        self.installing = threading.RLock()
        self._closed = closed
        self._tops = tops
        self._is_left_out = is_left_out
        self._say = say
        self._lock = threading.Lock()
        """Held while anything is copied."""
        self._copies: dict[Path, Path] = {}
        """By the top of the checkout."""
        uid, gid = (uid, uid) if _is_root() else (os.geteuid(), os.getegid())
        cache.mkdir(mode=0o755, parents=True, exist_ok=True)
        for path in (folder, folder / "tree", folder / "granted"):
            path.mkdir(mode=0o710, exist_ok=True)
            _give(path, 0, gid)
        self.agent = self._make_account("home", uid, gid, writable=(folder,))
        """May not write the cache."""
        self.installer = self._make_account("installer", uid + 1, gid, writable=(folder, cache))
        """May also write the cache."""

    def _make_account(self, name: str, uid: int, gid: int, *, writable: Sequence[Path]) -> Account:
        """An account with its home, which is closed to all others, and with its prefix."""
        if _is_root():
            rights = landlock_rights()
            places = (*writable, *([SHARED_MEMORY] if SHARED_MEMORY.is_dir() else []))
            landlock = _landlock_options(rights, places) if rights else ()
            prefix = (*_drop_rights(uid, gid), *landlock, "--")
        else:
            (self.cache / SEALS).mkdir(exist_ok=True)
            prefix = _namespaces(self.cache, self._closed, writable=writable)
        home = self.folder / name
        for path in (home, home / "tmp"):
            path.mkdir(mode=0o700, exist_ok=True)
            _give(path, uid, gid)
        return Account(uid=uid, gid=gid, home=home, prefix=prefix)

    def placed(self, path: str) -> str:
        """The path in the private copy, which is made at its first use; other paths and texts
        stay unchanged."""
        normal_path = Path(os.path.normpath(path))
        top = next((folder for folder in self._tops if normal_path.is_relative_to(folder)), None)
        if top is None:
            return path
        place = normal_path.relative_to(top)
        if any(self._is_left_out(str(top / part)) for part in (place, *place.parents[:-1])):
            return path
        return str(self._copy_of(top) / place)

    def _copy_of(self, top: Path) -> Path:
        """The copy of a checkout, which no other user can reach before it is complete."""
        with self._lock:
            if top not in self._copies:
                started_at = time.monotonic()
                copy = self.folder / "tree" / top.name
                uid, gid = self.agent.uid, self.agent.gid
                shutil.rmtree(copy, ignore_errors=True)  # leftovers of a failed attempt
                copy.mkdir(mode=0o700, parents=True)
                owner = (uid, gid) if _is_root() else (-1, -1)
                _copy_entries(str(top), str(copy), self._is_left_out, owner)
                _give(copy, uid, gid)
                copy.chmod(0o770)
                for callback in self.ready:
                    callback(top, copy)
                self._copies[top] = copy
                seconds = time.monotonic() - started_at
                if seconds > 3:
                    self._say(f"copied the checkout for its processes in {seconds:.0f} s")
            return self._copies[top]

    def environment(self, variables: Environ, account: Account | None = None) -> dict[str, str]:
        """`variables` for its processes: with their own home, paths in the copy, and readable
        copies of closed credential files that variables name (as `env` grants them)."""
        account = account or self.agent
        placed_variables = {
            name: self._placed_value(name, text)
            for name, text in variables.items()
            if not matches_any(name, HOME_VARIABLES)
        }
        return {
            **placed_variables,
            "HOME": str(account.home),
            "TMPDIR": str(account.home / "tmp"),
            "USER": "agent",
            "LOGNAME": "agent",
        }

    def reachable(self, path: Path) -> Path:
        """A path of a file or folder of this program that the sandbox's processes can reach:
        itself, or a read-only copy. Raises OSError."""
        if not _is_root() or self._is_reachable(path):
            return path
        return self._linked(path, self._granted_place(path))

    def reachable_python(self, python: str) -> str:
        """A path of a Python of the machine that the sandbox's processes can start, with its parts.
        A Python in a checkout is that of the copy. Raises OSError."""
        path = Path(python)
        home = path.parent.parent
        base = path.resolve()
        is_environment = (home / "pyvenv.cfg").is_file()
        placed_python = self.placed(python)
        is_home_reachable = (
            placed_python != python or not is_environment or self._is_reachable(home / "pyvenv.cfg")
        )
        if not _is_root() or (is_home_reachable and self._is_reachable(base)):
            return placed_python
        if not self._is_reachable(base):
            base = self._reachable_base(base)
        if not is_environment:
            return str(base)
        copy = self._linked(home, self._granted_place(home))
        with self._lock:
            _set_base(copy, path.name, base)
        return str(copy / "bin" / path.name)

    def _reachable_base(self, base: Path) -> Path:
        """A copy of a closed Python, with its standard library, without other files of its
        folder."""
        prefix = base.parent.parent
        if any(prefix.glob("lib/libpython3*.so*")) and b"$ORIGIN" not in base.read_bytes():
            raise OSError(f"it looks for its library in {prefix} alone")
        copy = self._granted_place(prefix)
        for path in (base, *prefix.glob("lib/python3.*"), *prefix.glob("lib/libpython3*")):
            self._linked(path, copy / path.relative_to(prefix))
        return copy / base.relative_to(prefix)

    def _granted_place(self, path: Path) -> Path:
        """The place of a copy that the agent may read, in a folder that it cannot write."""
        # another path may have the same name
        place = hashlib.sha256(os.fsencode(path)).hexdigest()[:8]
        return self.folder / "granted" / f"{place}-{path.name}"

    def _linked(self, source: Path, target: Path) -> Path:
        """`target`, with the files of `source` if it does not exist yet."""
        with self._lock:
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                _link_tree(source, target)
        return target

    def seal(self, folder: Path) -> None:
        """End the installers and give their result to root, so that it cannot change any more."""
        if not _is_root():
            return  # agents see it read-only
        end_all([self.installer.uid])
        _run_tool("chown", "-hR", "0:0", "--", str(folder))
        _run_tool("chmod", "-R", "go-w,u-s,g-s", "--", str(folder))

    def make_folder(self, folder: Path, *, is_empty: bool) -> None:
        """A folder for the installer to fill: an empty one, or one that only it uses."""
        if is_empty:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755 if is_empty else 0o700)
        if _is_root() and folder.stat().st_uid != self.installer.uid:
            _run_tool(
                "chown", "-hR", f"{self.installer.uid}:{self.installer.gid}", "--", str(folder)
            )

    def _placed_value(self, name: str, value: str) -> str:
        """A value with its paths in the copy: one path, or several as in PATH."""
        if "/" not in value or "\0" in value:
            return value
        if value.startswith("/") and _has_credential_name(name):
            with suppress(OSError):  # too long for a path, so not a file
                path = Path(os.path.normpath(value))
                is_in_checkout = any(path.is_relative_to(top) for top in self._tops)
                # the change could point a link at any of our files
                is_link = is_in_checkout and path.resolve() != path
                if path.is_file() and not is_link and not self._is_open(path):
                    return str(self._granted(path))
        return os.pathsep.join(map(self.placed, value.split(os.pathsep)))

    def _is_reachable(self, path: Path) -> bool:
        """True if the sandbox's processes can reach a file: it is open, or in an environment made
        for them."""
        return path.resolve().is_relative_to(self.cache) or self._is_open(path)

    def _is_open(self, path: Path) -> bool:
        """True if all users can read a file, by the modes on the way, and it is not in a closed
        place."""
        if any(path.resolve().is_relative_to(place) for place in self._closed):
            return False
        return bool(path.stat().st_mode & 0o004) and all(
            parent.stat().st_mode & 0o001 for parent in path.resolve().parents
        )

    def _granted(self, path: Path) -> Path:
        """A new copy of a closed file that the agent may read."""
        copy = self._granted_place(path)
        with self._lock:
            copy.unlink(missing_ok=True)
            shutil.copyfile(path, copy)
            _give(copy, 0, self.agent.gid)
            copy.chmod(0o440)
        return copy


@frozen_dataclass
class Isolation:
    """The sandboxes of a run: head's, the base's, and that of metrics."""

    head: Sandbox
    base: Sandbox
    metrics: Sandbox

    @property
    def sides(self) -> tuple[tuple[Sandbox, Sandbox], tuple[Sandbox, Sandbox]]:
        """For head and for the base: the sandbox of its agents, and that of metrics."""
        return (self.head, self.metrics), (self.base, self.metrics)

    def end_all(self) -> None:
        """End every process of these users. Raises UnavailableError if one cannot be ended."""
        if not _is_root():
            # each has its own process namespace, which ends with the program that made it
            return
        sandboxes = (self.head, self.base, self.metrics)
        end_all(
            [account.uid for sandbox in sandboxes for account in (sandbox.agent, sandbox.installer)]
        )


def in_image() -> bool:
    """True if this is the action's own container, in which every place may be closed."""
    return Path(sys.prefix) == IMAGE


def is_account(uid: int) -> bool:
    """True if a user ID is of a user that only foreign code runs as."""
    return uid in LOW_UIDS or uid in HIGH_UIDS


def _is_root() -> bool:
    """True if foreign code can run as other users; otherwise it runs in namespaces (bubblewrap)."""
    return os.geteuid() == 0


def refusal_reason() -> str:
    """The reason why foreign code cannot be isolated here; "" if it can: by another user if we are
    root, else by namespaces."""
    if not _is_root():
        bwrap = _tool("bwrap")
        if bwrap is None:
            return "it takes root, or bubblewrap (`bwrap`), which is not installed"
        error_text = _tool_error((bwrap, "--ro-bind", "/", "/", *NAMESPACES, "--", "/bin/true"))
        return f"the system refuses bubblewrap its namespaces ({error_text})" if error_text else ""
    if _tool("setpriv") is None:
        return "there is no `setpriv` (util-linux)"
    trial = (*_drop_rights(TRIAL_UID, TRIAL_UID), "--", "/bin/true")
    error_text = "" if landlock_rights() else _tool_error(trial)
    if error_text:
        return (
            f"the system refuses it ({error_text}); it takes CAP_SETUID, CAP_SETGID and CAP_SETPCAP"
        )
    return ""


@contextmanager
def open_sandboxes(
    roots: Sequence[Path],
    *,
    cache: Path,
    private_folders: Collection[Path] = (),
    is_hidden: Callable[[str], bool] = lambda _: False,
    environ: Environ,
    say: Log = lambda _: None,
) -> Iterator[Isolation]:
    """Sandboxes for the checkouts at `roots`, for the block; all of their processes have ended
    after it.

    `cache`: the folder that persists, with a folder for each side; `private_folders`: files and
    folders in the checkouts that are not copied; `is_hidden`: asked for the absolute path of each
    other one, True if agents and installers do not get it, but metrics do. Checkouts, caches and
    the runner's mounts are closed in the block. Raises NotPossible; UnavailableError at the end if
    a process cannot be ended."""
    reason = refusal_reason()
    if reason:
        raise NotPossible(f"agents cannot be isolated: {reason}", hint="See docs/security.md.")
    # one checkout may be inside another
    tops = tuple(sorted({top_of(root) for root in roots}, key=lambda top: -len(top.parts)))
    is_ours = in_image() and _is_root()
    cache = cache.resolve()
    with ExitStack() as stack:
        first_uid = stack.enter_context(_free_uids()) if _is_root() else 0
        folder = stack.enter_context(_sandbox_folder(is_ours))
        caches = {
            role: (HOST_FOLDER if _is_root() and not is_ours else cache) / role
            for role in ROLES[:2]
        }
        places = _closed_places(tops, cache, environ, is_ours)
        private_paths = {Path(os.path.normpath(path)) for path in private_folders}
        excluded_paths = {
            str(path) for path in {cache, *private_paths, *credential_files(environ)} - {*tops}
        }
        sandboxes = {
            role: Sandbox(
                folder / role,
                cache=caches["head" if role == "metrics" else role],
                uid=first_uid + 2 * number,
                closed=places,
                tops=tops,
                is_left_out=excluded_paths.__contains__
                if role == "metrics"
                else lambda path: path in excluded_paths or is_hidden(path),
                say=say,
            )
            for number, role in enumerate(ROLES)
        }
        isolation = Isolation(**sandboxes)
        if _is_root():
            stack.enter_context(closed(places, keep=tuple(caches.values())))
        stack.callback(isolation.end_all)
        yield isolation


@contextmanager
def _sandbox_folder(is_ours: bool) -> Iterator[Path]:  # noqa: FBT001 - private
    """The folder of the sandboxes; others may pass through it. Its path is constant in a container:
    environments in the cache may contain it."""
    if is_ours:
        IMAGE_FOLDER.mkdir(mode=0o711, parents=True, exist_ok=True)
        yield IMAGE_FOLDER  # it is removed with the container
        return
    with tempfile.TemporaryDirectory(
        prefix="evalgate-", dir="/var/tmp", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name).resolve()
        folder.chmod(0o711)
        yield folder


@contextmanager
def _free_uids() -> Iterator[int]:
    """The first of `UIDS_PER_RUN` numbers that are nobody's and that no other gate on this machine
    uses. The system lets go of a lock however we end. What a killed gate left running keeps its
    numbers: nobody can tell that it is not somebody else's."""
    blocks = range(FIRST_UID, LAST_UID, UIDS_PER_RUN)
    begin = secrets.randbelow(len(blocks))  # a gate in another container sees no lock of ours
    for first in (*blocks[begin:], *blocks[:begin]):
        with _lock(f"uid-{first}") as is_locked:
            if is_locked and _is_free(range(first, first + UIDS_PER_RUN)):
                yield first
                return
    message = (
        f"agents cannot run as another user: all numbers from {FIRST_UID} to {LAST_UID} are taken"
    )
    raise NotPossible(message, hint="See docs/security.md.")


@contextmanager
def _lock(name: str) -> Iterator[bool]:
    """Hold a lock that no agent can take, for the block; False if another process has it. Raises
    NotPossible."""
    try:
        LOCKS.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(LOCKS / name, flags, 0o600)
    except OSError as error:
        message = f"{LOCKS} cannot be written: {error.strerror}"
        raise NotPossible(message, hint="See docs/security.md.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _is_free(numbers: Collection[int]) -> bool:
    """True if no user, group or process has any of these numbers."""
    for number in numbers:
        for lookup in (pwd.getpwuid, grp.getgrgid):
            with suppress(KeyError):
                lookup(number)
                return False
    return not running(numbers, by=("Uid", "Gid", "Groups"))


# --- starting ---------------------------------------------------------------------------------


def _drop_rights(uid: int, gid: int) -> tuple[str, ...]:
    """The beginning of a command of setpriv that runs the rest as this user, without rights."""
    identity = (f"--reuid={uid}", f"--regid={gid}", "--clear-groups")
    program = _tool("setpriv") or "setpriv"
    return (program, *identity, "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all")


@functools.cache
def landlock_rights() -> str:
    """The rights that Landlock can refuse here, in setpriv's words; "" if setpriv or the kernel
    does not support it."""
    # which older kernels do not support
    without_truncate = LANDLOCK_WRITES.removesuffix(",truncate")
    for rights in (LANDLOCK_WRITES, without_truncate):
        prefix = (*_drop_rights(TRIAL_UID, TRIAL_UID), *_landlock_options(rights, ()))
        if not _tool_error((*prefix, "--", "/bin/true")):
            return rights
    return ""


def _landlock_options(rights: str, writable: Sequence[Path]) -> tuple[str, ...]:
    """Options of setpriv that refuse these rights outside of the writable places and /dev."""
    rules = (f"--landlock-rule=path-beneath:{rights}:{place}" for place in writable)
    return (
        f"--landlock-access=fs:{rights}",
        *rules,
        "--landlock-rule=path-beneath:write-file:/dev",
    )


NAMESPACES = (
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--cap-drop",
    "ALL",
)
"""Options of bubblewrap: own devices and processes, and no capabilities."""


def _namespaces(
    cache: Path, places: Sequence[Path], *, writable: Sequence[Path]
) -> tuple[str, ...]:
    """The prefix that gives a command its own file system: read-only except for `writable`, and for
    the seals in `cache` without exception. `places` and HOME are empty except for the interpreters
    in them."""
    bwrap = _tool("bwrap")
    assert bwrap is not None, "as `refusal_reason` found"
    hidden_places = dict.fromkeys(
        str(place)
        for place in (Path.home(), *places, Path("/run"), Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - everybody's
    )
    python = shutil.which("python3")
    candidates = [
        *(sys.prefix, sys.base_prefix),
        *([str(Path(python).resolve().parent.parent)] if python else []),
        str(Path(__file__).parent.parent),
        *os.environ.get("PATH", "").split(":"),
    ]
    readable_paths = [
        path
        for path in dict.fromkeys(candidates)
        if path.startswith("/") and any(Path(path).is_relative_to(place) for place in hidden_places)
    ]
    seals = str(cache / SEALS)
    # each option may cover what those before it have shown
    options: list[tuple[str, ...]] = [
        ("--tmpfs", place) for place in hidden_places if Path(place).is_dir()
    ]
    options += [("--ro-bind-try", path, path) for path in readable_paths]
    options += [("--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve")]
    options += [("--ro-bind", str(cache), str(cache))]
    options += [("--bind", str(path), str(path)) for path in writable]
    options += [("--ro-bind", seals, seals)]
    prefix = (bwrap, "--ro-bind", "/", "/", *NAMESPACES)
    return (*prefix, *itertools.chain.from_iterable(options), "--")


def memory_prefix(limit: int) -> tuple[str, ...]:
    """The prefix that limits the private memory of a command before it changes its user; () if
    unsupported."""
    prlimit = _tool("prlimit")
    return () if prlimit is None else (prlimit, f"--data={limit}:{limit}", "--")


def _give(path: Path, uid: int, gid: int) -> None:
    """Set the owner of a path, which only root can."""
    if _is_root():
        os.chown(path, uid, gid)


def _tool(name: str) -> str | None:
    """The path of one of the system's programs; None if it is missing."""
    return shutil.which(name, path=SYSTEM_PATH)


def _tool_error(command: Sequence[str]) -> str:
    """Run one of the system's own programs; "" if it succeeded, else its error message."""
    try:
        finished = subprocess.run(
            command,
            env={"PATH": SYSTEM_PATH, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=False,
            timeout=3600,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if finished.returncode == 0:
        return ""
    return finished.stderr.strip()[-500:] or f"exit code {finished.returncode}"


def _run_tool(name: str, *arguments: str) -> None:
    """Run one of the system's programs on the checkout. Raises UnavailableError."""
    error_text = _tool_error((_tool(name) or name, *arguments))
    if error_text:
        raise UnavailableError(
            f"the checkout cannot be prepared for its processes: {error_text}",
            hint="Is the disk full?",
        )


# --- ending -----------------------------------------------------------------------------------


END_S = 10.0
"""The longest time until all processes have ended."""


def end_all(uids: Collection[int]) -> None:
    """End every process of these users, however it was started. Raises UnavailableError if one
    remains."""
    deadline = time.monotonic() + END_S
    # kill before looking: a process that always forks may never be seen
    while not _kill_all_of(uids) or running(uids):
        if time.monotonic() > deadline:
            raise UnavailableError(
                "processes of an agent cannot be ended", hint="See docs/security.md."
            )
        time.sleep(0.005)


def running(uids: Collection[int], *, by: Collection[str] = ("Uid",)) -> frozenset[int]:
    """Processes of these users, also those that may become them, without ended ones. `by`: the
    fields of `processes` with the owners."""
    numbers = {str(uid) for uid in uids}
    return frozenset(
        pid
        for pid, fields in processes()
        if any(not numbers.isdisjoint(fields[name].split()) for name in by)
    )


def processes() -> Iterator[tuple[int, dict[str, str]]]:
    """Every process that has not ended, with the fields of /proc/PID/status. Raises OSError without
    Linux's /proc."""
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with suppress(OSError):  # it is gone
                status = Path(entry.path, "status").read_text("utf-8", "replace")
                # no other line breaks: a process chooses its name
                lines = (line.partition(":") for line in status.split("\n"))
                fields = {name: text.strip() for name, _, text in lines}
                if fields["State"][0] not in "ZX":
                    yield int(entry.name), fields


def _kill_all_of(uids: Collection[int]) -> bool:
    """Kill all at once, as these users themselves: one by one, they could be faster. False if one
    of them ended the killing process first."""
    with warnings.catch_warnings():
        # the child calls nothing that takes a lock
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgroups([])
            for uid in uids:
                os.setresuid(uid, uid, 0)  # back to root for the next one
                if os.getresuid()[:2] == (uid, uid):
                    with suppress(ProcessLookupError):  # no process
                        os.kill(-1, signal.SIGKILL)
                os.setresuid(0, 0, 0)
            code = 0
        finally:
            os._exit(code)
    for _ in range(200):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)  # one of the users' processes stopped it
    os.waitpid(pid, 0)
    return False


# --- closed places -----------------------------------------------------------------------------


COMMAND_FILES = (
    *("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"),
    "GITHUB_EVENT_PATH",
)
"""The runner's variables with files, by which a step sets outputs or reads its event."""
RUNNER_MOUNTS = (Path("/github"), Path("/run"), Path("/root"))
"""In a container: the runner's mounts, and the folder of the Docker socket, which is the
container's own."""


def _closed_places(
    tops: Sequence[Path],
    cache: Path,
    environ: Environ,
    is_ours: bool,  # noqa: FBT001 - private
) -> tuple[Path, ...]:
    """The closed places: the checkouts, the cache, and in a workflow the folders of the command
    files, of HOME and of the runner."""
    places = [Path(environ[name]).parent for name in COMMAND_FILES if environ.get(name)]
    if environ.get("RUNNER_TEMP"):
        places.append(Path(environ["RUNNER_TEMP"]))
    if environ.get("HOME") and (is_ours or environ.get("GITHUB_ACTIONS") == "true"):
        places.append(Path(environ["HOME"]))
    if is_ours:
        places += RUNNER_MOUNTS
    # created now, so that they are closed from the start
    for name in ("verdicts", "bases", "store"):
        (cache / name).mkdir(parents=True, exist_ok=True)
    shared_places = {Path("/"), Path("/tmp"), Path("/var/tmp")}  # noqa: S108 - everybody's
    return tuple(
        dict.fromkeys(
            place.resolve()
            for place in (*places, *tops, cache)
            if place.resolve() not in shared_places
        )
    )


@contextmanager
def closed(places: Sequence[Path], *, keep: Sequence[Path]) -> Iterator[None]:
    """In the block, only owners (and root) reach `places`; the folders `keep` in them stay
    reachable by name, and their siblings are closed one by one."""
    former_modes: list[tuple[Path, int]] = []
    try:
        for place in places:
            _close(place, tuple(folder.resolve() for folder in keep), former_modes)
        yield
    finally:
        for path, mode in reversed(former_modes):
            with suppress(OSError):
                path.chmod(mode)


def _close(path: Path, keep: Sequence[Path], former_modes: list[tuple[Path, int]]) -> None:
    """Close a place, except for the folders `keep`; add each changed path with its mode to
    `former_modes`. Raises NotPossible."""
    try:
        status = path.lstat()
        if path in keep or stat.S_ISLNK(status.st_mode):
            return
        is_parent_of_kept = any(folder.is_relative_to(path) for folder in keep)
        mode = stat.S_IMODE(status.st_mode)
        closed_mode = mode & 0o7700 | (0o011 if is_parent_of_kept else 0)
        if mode != closed_mode:
            path.chmod(closed_mode)
            former_modes.append((path, mode))
        if is_parent_of_kept:
            for child in path.iterdir():
                _close(child, keep, former_modes)
    except FileNotFoundError:
        return
    except OSError as error:
        message = f"{path} cannot be closed to agents: {error.strerror}"
        raise NotPossible(message, hint="See docs/security.md.") from error


# --- copies of closed files
# ---------------------------------------------------------------------------


def _link_tree(source: Path, target: Path) -> None:
    """The same files at another place, in open folders: links, which need no room and time, or
    copies on another file system. Raises OSError."""
    if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, target, symlinks=True, copy_function=_link, ignore=ignored)
        for folder, _, _ in os.walk(target):
            Path(folder).chmod(0o755)
    else:
        _link(str(source), str(target))


def _link(source: str, target: str) -> None:
    """Link a file that all can read and nobody else can write, else copy it."""
    status = Path(source).stat(follow_symlinks=False)
    if (
        stat.S_ISREG(status.st_mode)
        and status.st_mode & 0o044 == 0o044
        and not status.st_mode & 0o022
    ):
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copyfile(source, target)
    Path(target).chmod(0o755 if status.st_mode & 0o100 else 0o644)


def _set_base(environment: Path, name: str, base: Path) -> None:
    """Turn a copied environment into one of another Python."""
    settings = environment / "pyvenv.cfg"
    text = settings.read_text("utf-8")
    settings.unlink()  # it may be a link to the user's own file
    new_line = f"home = {base.parent}"
    settings.write_text(re.sub(r"(?m)^\s*home\s*=.*$", lambda _: new_line, text), "utf-8")
    for program in {"python", "python3", name}:
        link = environment / "bin" / program
        link.unlink(missing_ok=True)
        link.symlink_to(base)


# --- the copy ---------------------------------------------------------------------------------


def credential_files(environ: Environ) -> frozenset[Path]:
    """The credential files that variables name, by the names of these variables."""
    paths = []
    for name, value in environ.items():
        if _has_credential_name(name) and value.startswith("/") and "\0" not in value:
            with suppress(OSError):  # too long for a path, so a key and not a file
                if Path(value).is_file():
                    paths.append(Path(os.path.normpath(value)))
    return frozenset(paths)


def _has_credential_name(variable: str) -> bool:
    """True if a variable's value may be a secret, or the path of a file with one."""
    return redact.is_named(variable) or matches_any(variable, CREDENTIAL_FILES)


def is_private(name: str) -> bool:
    """True if a file or folder of a checkout may contain credentials of the job, by its name."""
    return matches_any(name, PRIVATE_NAMES)


BLOCK_BYTES = 64 * 1024
"""Of a file that is copied, at a time."""


def _copy_entries(
    source: str, target: str, is_left_out: Callable[[str], bool], owner: tuple[int, int]
) -> None:
    """Copy a folder's entries for a user and its group, without excluded paths and private names;
    links stay links. By descriptors, which avoids repeated lookups of thousands of paths. Raises
    OSError."""
    with os.scandir(source) as entries:
        for entry in entries:
            copy = f"{target}/{entry.name}"
            if is_private(entry.name) or is_left_out(entry.path):
                continue
            if entry.is_symlink():
                Path(copy).symlink_to(Path(entry.path).readlink())
                os.chown(copy, *owner, follow_symlinks=False)
            elif entry.is_dir():
                Path(copy).mkdir(mode=0o700)
                _copy_entries(entry.path, copy, is_left_out, owner)
                with open_descriptor(copy, os.O_RDONLY) as folder:
                    _set_owner(folder, entry.stat(), owner)
            elif entry.is_file():  # not a pipe or a socket
                create_flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with (
                    open_descriptor(entry.path, os.O_RDONLY) as source_file,
                    open_descriptor(copy, create_flags) as target_file,
                ):
                    while block := os.read(source_file, BLOCK_BYTES):
                        while block:
                            block = block[os.write(target_file, block) :]
                    _set_owner(target_file, os.fstat(source_file), owner)


@contextmanager
def open_descriptor(path: str, flags: int) -> Iterator[int]:
    """The descriptor of a file that is no link, for the block. Raises OSError."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _set_owner(copy: int, status: os.stat_result, owner: tuple[int, int]) -> None:
    """Set the owner, mode and times of a copy."""
    os.fchown(copy, *owner)
    mode = status.st_mode & 0o700 | 0o600
    # installers are in the group: builds of local packages write into them
    os.fchmod(copy, mode | mode >> 3)
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
