"""Git, run safely on the user's repository, which is only read.

Commands have limits, never prompt, run in our environment, and their errors never show a secret.
Fetches and checkouts use a private repository that borrows the user's objects. Of the user's
repository only selected settings apply there, so that none can run a command
(docs/decisions/008-private-repository.md)."""

from __future__ import annotations

import base64
import enum
import itertools
import os
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from evalgate.errors import EvalgateError, UnavailableError
from evalgate.values import Environ, frozen_dataclass, matches_any
from . import process, redact
from .files import top_of
from .process import ChildStartError

if TYPE_CHECKING:  # filelock takes 0.05 s to import, and many runs need no lock
    import filelock

Setting: TypeAlias = tuple[str, str]
"""A key and its value."""
Settings: TypeAlias = Sequence[Setting]
"""Settings of git, by key; one may occur several times."""

USER_VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"),
    "DBUS_SESSION_BUS_ADDRESS",  # for credential helpers of a desktop
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_*"),
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "*_proxy", "*_PROXY"),
)
"""The user's own variables, which are trusted. GIT_DIR, GIT_INDEX_FILE and similar ones (set in
hooks) must not pass."""

FIXED_VARIABLES = {
    "LC_ALL": "C",  # git's messages are parsed
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # empty, not absent, so that neither core.askPass nor SSH_ASKPASS is used
    "GCM_INTERACTIVE": "never",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file",  # never ext::, which is a command
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_DEFAULT_REF_FORMAT": "files",
}
"""Variables of every git command, whatever the user's own are."""

SAFE_SETTINGS = (
    ("safe.directory", "*"),
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    # otherwise git reads the refs of the user's repository, under its config
    ("core.alternateRefsCommand", "true"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("submodule.recurse", "false"),
    ("log.showSignature", "false"),
    ("filter.lfs.process", ""),
    ("filter.lfs.smudge", ""),
    ("filter.lfs.clean", ""),
    ("filter.lfs.required", "false"),
    ("http.lowSpeedLimit", "1000"),
    ("http.lowSpeedTime", "60"),
    ("advice.detachedHead", "false"),
)
"""Settings of every git command: it runs no hook, no filter of LFS and no maintenance, and ends a
transfer that nearly stands still."""


def git_environment(environ: Environ) -> dict[str, str]:
    """The environment of git, without settings (`with_settings`)."""
    variables = {
        name: value for name, value in environ.items() if matches_any(name, USER_VARIABLES)
    }
    return {**variables, **FIXED_VARIABLES}


def user_settings(environ: Environ) -> Iterator[Setting]:
    """The user's settings for every git command, from GIT_CONFIG_COUNT."""
    count = environ.get("GIT_CONFIG_COUNT", "")
    for number in range(int(count) if count.isdecimal() and len(count) < 4 else 0):
        key = environ.get(f"GIT_CONFIG_KEY_{number}")
        value = environ.get(f"GIT_CONFIG_VALUE_{number}")
        if key and value is not None:
            yield key, value


def with_settings(environment: Environ, settings: Settings) -> dict[str, str]:
    """`environment` with settings that git (2.31 and newer) reads from it; the last value of a key
    wins."""
    setting_variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        setting_variables[f"GIT_CONFIG_KEY_{number}"] = key
        setting_variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return {**environment, **setting_variables}


def token_settings(token: str, *, server: str) -> list[Setting]:
    """The settings that send `token` only to `server` (`https://github.com`), and that replace
    earlier headers."""
    key = f"http.{server.rstrip('/')}/.extraheader"
    return [(key, ""), (key, f"Authorization: Basic {basic(token)}")]


def basic(token: str) -> str:
    """A token in GitHub's form for git over HTTP."""
    return base64.b64encode(f"x-access-token:{token}".encode()).decode()


# --- running git ------------------------------------------------------------------------


LOCAL_TIMEOUT_S = 120.0
"""Of a command that needs no network."""
NETWORK_TIMEOUT_S = 600.0
"""Of a command that talks to the remote."""
MOST_OUTPUT_BYTES = 64 * 1024 * 1024
"""Of standard output; more is an error."""
MESSAGE_WIDTH = 1500
"""Bytes of git's message that an error shows, from its end."""


class Complaint(enum.Enum):
    """The meaning of git's error message, as far as it matters here: its words, and the next
    step."""

    CREDENTIALS = (
        (
            r"could not read (Username|Password)|Authentication failed|Invalid username or password"
            r"|Permission (to .* )?denied|returned error: 40[13]"
            r"|terminal prompts disabled|Host key verification failed"
        ),
        (
            "Give the job a token that can read the repository (`permissions: contents: read`), "
            "or leave `persist-credentials` of actions/checkout on."
        ),
    )
    """The remote needs other credentials, or refuses these."""
    MISSING = (
        (
            r"not our ref|couldn't find remote ref|unadvertised object|bad object|unknown revision"
            r"|Needed a single revision|Not a valid (object|commit) name|not a valid object|invalid reference"
            r"|Repository not found|returned error: 404|does not appear to be a git repository"
            r"|no such remote|not a tree object|could not get object info|ambiguous argument"
        ),
        "Check out with `fetch-depth: 0`, or name a commit or branch that the remote has.",
    )
    """No such commit, branch or repository."""
    NETWORK = (
        (
            r"Could not resolve|Failed to connect|Connection (refused|reset|timed out|closed)|unable to access"
            r"|early EOF|hung up|RPC failed|returned error: (429|5\d\d)|Operation timed out|SSL|Could not read from"
        ),
        "The remote is unreachable. Check out with `fetch-depth: 0`, or rerun.",
    )
    """The remote cannot be reached, or a transfer broke off."""
    OTHER = ("", "")
    """Any other message; the empty pattern matches all."""
    TIMEOUT = (
        "",
        "The remote or the disk is too slow. Check out with `fetch-depth: 0`, or rerun.",
    )
    """Not in git's words: evalgate stopped it."""
    NO_GIT = ("", "Install git 2.31 or newer.")
    """Not in git's words: it cannot be started."""


class GitFailed(UnavailableError):  # noqa: N818 - the name of an outcome
    """A failed git command; the message has git's own words, without secrets."""

    def __init__(self, *, command: str, words: str, complaint: Complaint, hint: str = "") -> None:
        """`command`: in words (`git fetch`); `words`: git's message, redacted."""
        text = words.strip()
        super().__init__(
            f"{command} failed: {text}" if text else f"{command} failed without a message",
            hint=hint or complaint.value[1],
        )
        self.words = text
        """The message alone, without the command."""
        self.complaint = complaint
        """By it, callers try another way or give up."""


def parse_complaint(words: str) -> Complaint:
    """The meaning of git's standard error (LC_ALL=C): the first that matches."""
    return next(
        complaint for complaint in Complaint if re.search(complaint.value[0], words, re.IGNORECASE)
    )


@frozen_dataclass
class Git:
    """The configuration of git."""

    environment: Environ
    """Without GIT_CONFIG_*."""
    settings: Settings = ()
    """Git gets them only by its environment, so that neither a process list nor a file shows a
    token."""
    secrets: Sequence[str] = field(default=(), repr=False)
    """What errors must not show."""

    def run(
        self,
        *arguments: str,
        cwd: str,
        timeout_s: float = LOCAL_TIMEOUT_S,
        settings: Settings = (),
        codes: Container[int] = (0,),
    ) -> bytes:
        """The output of `git ARGUMENTS`. Raises GitFailed for an exit code that is not in `codes`,
        a timeout or too much output."""
        name = f"git {next((argument for argument in arguments if not argument.startswith('-')), '')}".strip()
        full_environment = with_settings(self.environment, [*self.settings, *settings])
        try:
            finished = process.run_to_end(
                ["git", *arguments],
                cwd=cwd,
                environment=full_environment,
                timeout_s=timeout_s,
                most_output=MOST_OUTPUT_BYTES,
            )
        except ChildStartError as error:
            raise GitFailed(command=name, words=str(error), complaint=Complaint.NO_GIT) from None
        is_too_large = finished.stdout.total > MOST_OUTPUT_BYTES
        if finished.returncode in codes and not finished.timed_out and not is_too_large:
            return finished.stdout.last_bytes()
        words = self.redacted(finished.stderr.text(limit=MESSAGE_WIDTH))
        complaint = parse_complaint(words)
        message = words.strip() or f"it {finished}"
        if finished.timed_out:
            message = f"it took longer than {timeout_s:.0f} s and was stopped. {words}"
            complaint = Complaint.TIMEOUT
        elif is_too_large:
            message = f"more than {MOST_OUTPUT_BYTES:,} bytes of output"
            complaint = Complaint.OTHER
        raise GitFailed(command=name, words=message, complaint=complaint)

    def redacted(self, text: str) -> str:
        """`text` without tokens, and without user names and passwords in URLs."""
        redacted_text = redact.redactor({}, self.secrets)(text)
        return re.sub(r"(?<=://)[^/@\s']+@", "***@", redacted_text)


# --- the user's repository ----------------------------------------------------------------


_REF = re.compile(rb"[0-9a-f]{40,64} refs/[^\s\x00-\x1f\x7f]+")
"""A line of `for-each-ref` with an object and a name that needs no quotes."""
_OBJECT_NAME = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
"""SHA-1 or SHA-256."""


def is_full_sha(text: str) -> bool:
    """True if `text` is a full object name, SHA-1 or SHA-256, except the zeros for no object."""
    return bool(_OBJECT_NAME.fullmatch(text)) and bool(text.strip("0"))


@frozen_dataclass
class UserRepository:
    """A user's repository."""

    working_tree: Path
    """Its top folder."""
    git_dir: Path
    """Of this working tree."""
    common_dir: Path
    """The one with objects and branches, which differs in a linked working tree."""


@frozen_dataclass
class Remote:
    """The remote of a repository."""

    name: str = ""
    """"" if there is none, or if none of several is `origin`."""
    url: str = field(default="", repr=False)
    """It may contain a password."""
    headers: tuple[Setting, ...] = field(default=(), repr=False)
    """Credentials that actions/checkout left."""
    partial: tuple[Setting, ...] = ()
    """That make it the source of objects that a partial clone lacks."""


def find_source(root: Path) -> UserRepository:
    """The repository of `root`. Raises UnavailableError.

    It is found here and named to git, so that git need not trust its owner (`safe.directory`)."""
    start = root.resolve()
    for folder in (start, *start.parents):
        git_dir = folder / ".git"
        if git_dir.is_file():  # of a linked worktree or a submodule
            with git_dir.open(encoding="utf-8", errors="surrogateescape") as file:
                text = file.read(4096)
            if not text.startswith("gitdir: "):
                continue
            git_dir = (folder / text.removeprefix("gitdir: ").strip()).resolve()
        head = git_dir / "HEAD"
        if head.is_file() or head.is_symlink():
            pointer = git_dir / "commondir"
            common = git_dir
            if pointer.is_file():
                common = (git_dir / pointer.read_text("utf-8", "surrogateescape").strip()).resolve()
            return UserRepository(working_tree=folder, git_dir=git_dir, common_dir=common)
    raise UnavailableError(
        f"{root} is not in a git repository, so there is no base to compare with",
        hint="Check out with actions/checkout (it needs `git` in the job), or use `baseline: file:PATH`.",
    )


def _read_settings(git: Git, git_dir: Path, *, cwd: Path) -> Iterator[Setting]:
    """The repository's own settings, with included ones; reading them runs nothing. Raises
    GitFailed."""
    files = [["--local"]]
    if (git_dir / "config.worktree").is_file():
        files.append(["--file", str(git_dir / "config.worktree")])
    for file in files:
        arguments = (f"--git-dir={git_dir}", "config", *file, "--includes", "--null", "--list")
        output = git.run(*arguments, cwd=str(cwd)).decode("utf-8", "surrogateescape")
        for entry in output.split("\0"):
            key, separator, value = entry.partition("\n")
            if separator:
                yield key, value


def parse_remote(settings: Settings, *, working_tree: Path) -> Remote:
    """The remote `origin`, else the only remote; of its settings only those that cannot run
    anything."""
    last_values = dict(settings)
    headers = [
        (key, value) for key, value in settings if re.fullmatch(r"http\.(?:.*\.)?extraheader", key)
    ]
    matches = (re.fullmatch(r"remote\.(.*)\.url", key) for key in last_values)
    names = [match[1] for match in matches if match]
    name = "origin" if "origin" in names else names[0] if len(names) == 1 else ""
    if not name:
        return Remote()
    partial_settings = [
        (f"remote.origin.{key}", last_values.get(f"remote.{name}.{key}", ""))
        for key in _PARTIAL_KEYS
    ]
    url = last_values[f"remote.{name}.url"]
    # neither a URL nor ssh's `host:path`
    if ":" not in url.partition("/")[0] and not url.startswith("/"):
        url = str((working_tree / url).resolve())
    return Remote(
        name=name,
        url=url,
        headers=tuple(headers),
        partial=tuple(partial_settings) if partial_settings[0][1] else (),
    )


_PARTIAL_KEYS = ("promisor", "partialclonefilter")
"""Keys of a remote that a partial clone takes objects from; without the first it is not partial."""


def _head(run: Callable[..., bytes]) -> str:
    """The checked-out commit; "" on a branch without any. `run`: runs git. Raises GitFailed."""
    # `--symbolic-full-name` and peeling are left out: they would read objects of the user's
    # repository
    try:
        name = run("rev-parse", "HEAD").decode("ascii", "replace").strip()
    except GitFailed as error:
        if error.complaint is not Complaint.MISSING:
            raise
        return ""
    return name if is_full_sha(name) else ""


def _read(root: Path, environ: Environ, *arguments: str, **more: Any) -> bytes:
    """The output of a command that only reads the repository of `root`, run there. Raises
    UnavailableError."""
    source = find_source(root)
    git = Git(environment=git_environment(environ), settings=SAFE_SETTINGS)
    options = (f"--git-dir={source.git_dir}", f"--work-tree={source.working_tree}")
    return git.run(*options, *arguments, cwd=str(root), **more)


def commit_of(root: Path, environ: Environ) -> str:
    """The checked-out commit at `root`; "" if unknown."""
    try:
        return _head(partial(_read, root, environ))
    except (UnavailableError, OSError):
        return ""


def state_of(root: Path, environ: Environ) -> tuple[str, bool | None]:
    """The checked-out commit at `root`, and whether files below `root` differ from it; "" and None
    if unknown."""
    commit = commit_of(root, environ)
    try:
        keys = _read(root, environ, "config", "--null", "--name-only", "--list").split(b"\0")
        filters = sorted(
            {os.fsdecode(key).rpartition(".")[0] for key in keys if key.startswith(b"filter.")}
        )
        # the programs of filters are disabled
        settings = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
        status = _read(
            root,
            environ,
            *("--no-optional-locks", "status", "--porcelain", "--ignore-submodules=all", "--"),
            *_SOURCE_PATHS,
            timeout_s=STATUS_TIMEOUT_S,
            settings=[(f"{name}.{key}", value) for name in filters for key, value in settings],
        )
    except (UnavailableError, OSError):
        return commit, None
    return commit, bool(status.strip()) if commit else None


def day_of(root: Path, environ: Environ) -> str:
    """The day of the checked-out commit at `root`, such as 2025-06-30; "" if unknown."""
    try:
        return _read(root, environ, "log", "-1", "--format=%cs").decode().strip()
    except (UnavailableError, OSError):
        return ""


def tracked(root: Path, paths: Iterable[str], environ: Environ) -> frozenset[str]:
    """Those of `paths` (POSIX, relative to `root`) that are in git's index, even if a .gitignore
    matches them; empty if git does not say."""
    try:
        output = _read(root, environ, "--literal-pathspecs", "ls-files", "-z", "--", *paths)
    except (UnavailableError, OSError):
        return frozenset()
    return frozenset(os.fsdecode(output).split("\0")) - {""}


_SOURCE_PATHS = (".", ":(exclude,glob)**/__pycache__/**")
"""All files except bytecode, which every run of Python adds."""
STATUS_TIMEOUT_S = 10.0
"""In a larger working tree it stays unknown whether files differ."""


# --- private folders ----------------------------------------------------------------------


_PREFIX = "evalgate-base-"
"""By it, the folders of killed runs are found."""


@contextmanager
def private_folder(under: Path) -> Iterator[Path]:
    """A new folder in `under`, removed at the end; folders of killed runs there are removed first.

    A lock beside it shows that its process runs; the system releases the lock at the end of the
    process. Raises UnavailableError."""
    import filelock  # noqa: PLC0415 - see above

    name = f"{_PREFIX}{uuid.uuid4().hex[:12]}"
    new_lock = partial(filelock.FileLock, timeout=0, thread_local=False)
    try:
        under.mkdir(parents=True, exist_ok=True)
        for old_folder in sorted(under.glob(f"{_PREFIX}*")):
            if old_folder.is_dir():
                lock = new_lock(old_folder.with_suffix(".lock"))
                with suppress(OSError):  # filelock.Timeout, if its process runs, is an OSError
                    lock.acquire()
                    _remove_with_lock(old_folder, lock)
        folder = under.resolve() / name
        lock = new_lock(folder.with_suffix(".lock"))
        lock.acquire()  # before the folder exists, so that no folder is without a lock
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise UnavailableError(
            f"cannot make a folder for the base in {under}: {error.strerror or error}"
        ) from error
    try:
        yield folder
    finally:
        _remove_with_lock(folder, lock)


def remove_folder(folder: Path) -> None:
    """Remove a folder, whatever modes an agent set in it."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        folder.chmod(stat.S_IRWXU)
        for path, names, _ in os.walk(folder):
            for place in (Path(path, name) for name in names):
                if not place.is_symlink():
                    with suppress(OSError):
                        place.chmod(stat.S_IRWXU)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_with_lock(folder: Path, lock: filelock.FileLock) -> None:
    """Remove the folder and its lock's file, and release the lock last."""
    remove_folder(folder)
    Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()


# --- the private repository ---------------------------------------------------------------


GITHUB = "https://github.com"
"""The server if GITHUB_SERVER_URL names no other."""


@frozen_dataclass
class Repository:
    """The repository that is asked for commits, and that they are fetched into."""

    prefix: str
    """The path of evalgate's root below the top of the working tree; "" for the top itself."""
    source: UserRepository
    """The user's own, which is only read."""
    folder: Path
    """Private, removed at the end."""
    git_dir: Path
    """The bare repository in it."""
    remote: Remote
    """That of the user's own; empty if it has none."""
    head: str
    """The checked-out commit; "" on a branch without any."""
    git: Git
    """Hides the remote's secrets in its errors."""
    ways: tuple[Settings, ...] = field(default=(), repr=False)
    """Settings for the remote, tried in order."""

    def run(self, *arguments: str, **options: Any) -> str:
        """The output of `git ARGUMENTS` without surrounding blanks, with the options of `Git.run`;
        no network. Raises GitFailed."""
        return self.run_bytes(*arguments, **options).decode("utf-8", "surrogateescape").strip()

    def run_bytes(self, *arguments: str, **options: Any) -> bytes:
        """Like `run`, as bytes."""
        git_dir = f"--git-dir={self.git_dir}"
        return self.git.run(git_dir, *arguments, cwd=str(self.folder), **options)

    def run_with_remote(self, *arguments: str) -> bytes:
        """Like `run_bytes`, with the remote `origin`: with the credentials of the checkout, else
        with the token.

        Raises GitFailed, that of the last try."""
        if not self.remote.url:
            raise GitFailed(
                command=f"git {arguments[0]}",
                words="the repository has no remote",
                complaint=Complaint.MISSING,
            )
        for number, way in enumerate(self.ways):
            try:
                settings = [*way, *self.remote.partial]
                return self.run_bytes(*arguments, timeout_s=NETWORK_TIMEOUT_S, settings=settings)
            except GitFailed as error:
                # GitHub hides private repositories from those who may not see them
                may_help = error.complaint in {Complaint.CREDENTIALS, Complaint.MISSING}
                if not may_help or number + 1 == len(self.ways):
                    raise
        raise AssertionError("there is always a way")

    def fetch(self, *names: str, depth: int | None = None, deepen: int | None = None) -> None:
        """Fetch commits or refs by name, and no tag. Raises GitFailed."""
        options = [f"--depth={depth}"] if depth else [f"--deepen={deepen}"] if deepen else []
        specs = [f"+{name}:refs/evalgate/fetched/{name.removeprefix('refs/')}" for name in names]
        quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        self.run_with_remote("fetch", *quiet, *options, "origin", *specs)

    def resolve(self, name: str) -> str | None:
        """The commit of a name (branch, tag, SHA, `HEAD~2`); None if it is not a commit."""
        if not name or name.startswith("-") or "\0" in name or "\n" in name:
            return None
        try:
            # 1: there is no such name
            commit = f"{name}^{{commit}}"
            return self.run("rev-parse", "--verify", "--quiet", commit, codes=(0, 1)) or None
        except GitFailed as error:
            if error.complaint in {Complaint.NO_GIT, Complaint.TIMEOUT}:
                raise
            return None

    @property
    def is_shallow(self) -> bool:
        """True if history is incomplete because it was not fetched further."""
        shallow = self.git_dir / "shallow"
        return shallow.is_file() and shallow.stat().st_size > 0


@contextmanager
def open_repository(
    root: Path, *, environ: Environ, token: str | None, under: Path
) -> Iterator[Repository]:
    """The repository of `root`, for the block; its private part is in `under`: a bare repository
    with the same branches, which borrows the user's objects.

    The user's settings are read now and never again: open it before an agent runs. Raises
    UnavailableError."""
    source = find_source(root)
    with private_folder(under) as folder, process.hold_guard():
        environment = git_environment(environ)
        git_settings = [*user_settings(environ), *SAFE_SETTINGS]
        all_settings = tuple(
            _read_settings(
                Git(environment=environment, settings=git_settings), source.git_dir, cwd=folder
            )
        )
        settings = {key: value.lower() for key, value in all_settings}
        remote = parse_remote(all_settings, working_tree=source.working_tree)
        is_sparse = settings.get("core.sparsecheckout") == "true"
        if is_sparse:  # a checkout of the base uses it too
            cone = str(settings.get("core.sparsecheckoutcone") == "true").lower()
            git_settings += [("core.sparseCheckout", "true"), ("core.sparseCheckoutCone", cone)]
        git = Git(environment=environment, settings=git_settings, secrets=_secrets(remote, token))
        is_sha256 = settings.get("extensions.objectformat") == "sha256"
        git_dir = _make_repository(
            git, folder, source, object_format="sha256" if is_sha256 else "sha1"
        )
        head = _head(partial(git.run, f"--git-dir={source.git_dir}", cwd=str(folder)))
        if head:
            (git_dir / "HEAD").write_text(f"{head}\n", encoding="ascii")
        if is_sparse:
            patterns = Path("info", "sparse-checkout")
            (git_dir / patterns).parent.mkdir(exist_ok=True)
            with suppress(FileNotFoundError):
                shutil.copyfile(source.git_dir / patterns, git_dir / patterns)
        ways = [[*remote.headers, ("remote.origin.url", remote.url)]]
        if token:
            server = environ.get("GITHUB_SERVER_URL") or GITHUB
            url = over_https(remote.url, server=server)
            ways.append([*token_settings(token, server=server), ("remote.origin.url", url)])
        prefix = root.resolve().relative_to(source.working_tree).as_posix()
        yield Repository(
            prefix="" if prefix == "." else prefix,
            source=source,
            folder=folder,
            git_dir=git_dir,
            remote=remote,
            head=head,
            git=git,
            ways=tuple(ways),
        )


def _make_repository(git: Git, folder: Path, source: UserRepository, *, object_format: str) -> Path:
    """A bare repository in `folder` that borrows the objects of the source and has its branches.
    Raises GitFailed."""
    git_dir = folder / "repository.git"
    kind = f"--object-format={object_format}"
    git.run("init", "--bare", "--quiet", "--template=", kind, str(git_dir), cwd=str(folder))
    alternates = git_dir / "objects" / "info" / "alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_bytes(quoted_path(source.common_dir / "objects"))
    with suppress(FileNotFoundError):
        shutil.copyfile(source.common_dir / "shallow", git_dir / "shallow")
    list_refs = (f"--git-dir={source.git_dir}", "for-each-ref", "--format=%(objectname) %(refname)")
    refs = git.run(*list_refs, cwd=str(folder)).split(b"\n")
    (git_dir / "packed-refs").write_bytes(
        b"".join(line + b"\n" for line in refs if _REF.fullmatch(line))
    )
    return git_dir


def quoted_path(path: Path) -> bytes:
    """A path as a line of `objects/info/alternates`, quoted as in C."""
    encoded = str(path).encode("utf-8", "surrogateescape")
    quoted_bytes = b"".join(
        bytes([byte]) if 32 <= byte < 127 and byte not in b'"\\' else b"\\%03o" % byte
        for byte in encoded
    )
    return b'"' + quoted_bytes + b'"\n'


def over_https(url: str, *, server: str) -> str:
    """The https address, for a token, of an ssh address of `server`; other addresses stay
    unchanged."""
    host = urlsplit(server).hostname or ""
    match = re.fullmatch(r"(?:ssh://)?(?:[^@/]+@)?([^:/@]+)(?::\d+/|[:/])(.+)", url)
    if match is None or "://" in url.removeprefix("ssh://") or match[1] != host:
        return url
    return f"{server.rstrip('/')}/{match[2]}"


def _secrets(remote: Remote, token: str | None) -> list[str]:
    """The secrets that no error may show: the token, in plain form and as git sends it, and headers
    of the checkout."""
    secrets = [secret for _, value in remote.headers for secret in (value, *value.split()[-1:])]
    user_and_password = (
        urlsplit(remote.url).netloc.rpartition("@")[0] if "://" in remote.url else ""
    )
    secrets += [user_and_password, user_and_password.rpartition(":")[2]]
    return [*secrets, token, basic(token)] if token else secrets


def ancestors(repo: Repository, sha: str, *, limit: int = 200) -> tuple[str, ...]:
    """`sha` and its first-parent ancestors, nearest first: the commits that base results may be
    stored for.

    A shallow checkout is deepened; if that fails, the local ones are returned. Raises GitFailed for
    an unknown `sha`."""
    arguments = ("rev-list", "--first-parent", f"--max-count={limit}", sha, "--")
    commits = repo.run(*arguments).split()
    if len(commits) < limit and repo.is_shallow and repo.remote.url:
        try:
            repo.fetch(sha, depth=limit)
        except GitFailed:
            return tuple(commits)
        commits = repo.run(*arguments).split()
    return tuple(commits)


def is_committed(place: Path, repo: Repository) -> bool:
    """True if the commit has files in `place`, or a submodule, a link or a file on the way to
    it."""
    top = repo.source.working_tree.resolve()
    return bool(repo.head) and any(
        _has(way, top, repo) for way in _spellings(place) if way.is_relative_to(top)
    )


def _spellings(place: Path) -> set[Path]:
    """The path as it is written, and its target through links."""
    return {Path(os.path.normpath(place.absolute())), place.resolve()}


def _has(path_of_place: Path, top: Path, repo: Repository) -> bool:
    """True if the commit has files at a place in the working tree whose top is `top`, or something
    else than a folder on the way to it."""
    if path_of_place == top:
        return True
    paths = list(itertools.accumulate(path_of_place.relative_to(top).parts, "{}/{}".format))
    output = repo.run_bytes(
        "--literal-pathspecs", "ls-tree", "--full-tree", "-z", repo.head, "--", *paths
    )
    for entry in output.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        entry_fields, _, path = entry.partition("\t")
        # git also lists neighbors of a missing path
        if path == paths[-1] or (path in paths and entry_fields.split(" ")[1] != "tree"):
            return True
    return False


def first_committed(
    paths: Iterable[Path], root: Path, environ: Environ, *, cache: str = os.devnull
) -> Path | None:
    """The first of the places with files of the commit, in the repository of `root`: a change may
    have written them. If git cannot tell, the commit may have them.

    A checkout with none of the places is not opened: a watch would count it as read by its agent.
    `cache`: a folder without files of the commit."""
    top = top_of(root)
    inside_paths = [
        path
        for path in paths
        if any(
            way.is_relative_to(top) and not way.is_relative_to(cache) for way in _spellings(path)
        )
    ]
    if not (inside_paths and (top / ".git").exists()):  # nothing is committed
        return None
    try:
        with (
            tempfile.TemporaryDirectory() as scratch,
            open_repository(root, environ=environ, token=None, under=Path(scratch)) as repo,
        ):
            return next((path for path in inside_paths if is_committed(path, repo)), None)
    except (EvalgateError, OSError):
        return inside_paths[0]
