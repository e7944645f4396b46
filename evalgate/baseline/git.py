"""Running git: bounded, never prompting, in an environment of ours, and without a secret in any error."""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from evalgate.baseline import git_environment
from evalgate.errors import UnavailableError
from evalgate.process.child import Child, ChildClosed, ChildStartError, Ended
from evalgate.process.redaction import redactor

LOCAL_TIMEOUT_S = 120.0
NETWORK_TIMEOUT_S = 600.0
MOST_OUTPUT_BYTES = 64 * 1024 * 1024
WORDS_OF_GIT = 1500  # characters of its complaint that an error shows


class Complaint(enum.Enum):
    """What git's complaint amounts to, as far as we act on it."""

    CREDENTIALS = "credentials"  # the remote wants other ones, or refuses these
    MISSING = "missing"  # no such commit, branch or repository
    LOST_RACE = "lost race"  # another push came first
    NETWORK = "network"
    TIMEOUT = "timeout"
    NO_GIT = "no git"
    OTHER = "other"


class GitFailed(UnavailableError):  # noqa: N818 - it says what happened
    """A git command that did not do what was asked; the message holds git's own words, secrets taken out."""

    hints: ClassVar[Mapping[Complaint, str]] = {
        Complaint.CREDENTIALS: "Give the job a token that can read the repository (`permissions: contents: read`; "
        "`write` for a data branch), or leave `persist-credentials` of actions/checkout on.",
        Complaint.MISSING: "Check out with `fetch-depth: 0`, or name a commit or branch that the remote has.",
        Complaint.LOST_RACE: "Another run pushed at the same time; rerun.",
        Complaint.NETWORK: "The remote is unreachable. Check out with `fetch-depth: 0`, or rerun.",
        Complaint.TIMEOUT: "The remote or the disk is too slow. Check out with `fetch-depth: 0`, or rerun.",
        Complaint.NO_GIT: "Install git 2.31 or newer.",
        Complaint.OTHER: "",
    }

    def __init__(self, *, command: str, words: str, complaint: Complaint, hint: str = "") -> None:
        """`command`: as a person would name it (`git fetch`); `words`: git's, redacted."""
        said = words.strip()
        super().__init__(
            f"{command} failed: {said}" if said else f"{command} failed without a message",
            hint=hint or self.hints[complaint],
        )
        self.command = command
        self.words = said
        self.complaint = complaint


_COMPLAINTS: Sequence[tuple[Complaint, re.Pattern[str]]] = (
    (
        Complaint.LOST_RACE,
        re.compile(
            r"\[rejected\]|non-fast-forward|fetch first|stale info|cannot lock ref|failed to update ref"
            r"|incorrect old value|reference already exists|failed to lock",
        ),
    ),
    (
        Complaint.CREDENTIALS,
        re.compile(
            r"could not read (Username|Password)|Authentication failed|Invalid username or password"
            r"|Permission (to .* )?denied|returned error: 40[13]|Write access to repository not granted"
            r"|terminal prompts disabled|Host key verification failed|protected branch|GH006|GH013",
            re.IGNORECASE,
        ),
    ),
    (
        Complaint.MISSING,
        re.compile(
            r"not our ref|couldn't find remote ref|unadvertised object|bad object|unknown revision"
            r"|Needed a single revision|Not a valid (object|commit) name|not a valid object|invalid reference"
            r"|Repository not found|returned error: 404|does not appear to be a git repository"
            r"|no such remote|not a tree object|could not get object info|ambiguous argument",
            re.IGNORECASE,
        ),
    ),
    (
        Complaint.NETWORK,
        re.compile(
            r"Could not resolve|Failed to connect|Connection (refused|reset|timed out|closed)|unable to access"
            r"|early EOF|hung up|RPC failed|returned error: (429|5\d\d)|Operation timed out|SSL|Could not read from",
            re.IGNORECASE,
        ),
    ),
)


def parse_complaint(words: str) -> Complaint:
    """What git's standard error (LC_ALL=C) amounts to; the first row of the table that fits."""
    return next((complaint for complaint, pattern in _COMPLAINTS if pattern.search(words)), Complaint.OTHER)


@dataclass(slots=True, kw_only=True)
class _Output:
    """Standard output up to a limit."""

    limit: int
    sink: Callable[[bytes], object] | None
    kept: bytearray = field(default_factory=bytearray)
    total: int = 0
    on_overflow: Callable[[], None] = lambda: None

    def feed(self, chunk: bytes) -> None:
        self.total += len(chunk)
        if self.total > self.limit:
            self.on_overflow()
        elif self.sink is not None:
            self.sink(chunk)
        else:
            self.kept += chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """How git is run: its environment without GIT_CONFIG_*, its settings, and what no error may show.

    `settings` reach git by environment alone, so that neither a process list nor a file shows a token.
    """

    environment: Mapping[str, str]
    settings: Sequence[tuple[str, str]] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    def run(
        self,
        *arguments: str,
        cwd: str,
        given: bytes = b"",
        timeout_s: float = LOCAL_TIMEOUT_S,
        most_bytes: int = MOST_OUTPUT_BYTES,
        sink: Callable[[bytes], object] | None = None,
        settings: Sequence[tuple[str, str]] = (),
        environment: Mapping[str, str] | None = None,
    ) -> bytes:
        """Standard output of `git ARGUMENTS`, or b"" where `sink` takes it chunk by chunk.

        `given` goes to its standard input. Raises GitFailed for a nonzero exit, too long a time or too much output.
        """
        name = f"git {next((each for each in arguments if not each.startswith('-')), '')}".strip()
        output = _Output(limit=most_bytes, sink=sink)
        full = git_environment.with_settings({**self.environment, **(environment or {})}, [*self.settings, *settings])
        try:
            child = Child(["git", *arguments], cwd=cwd, environment=full, reads_input=bool(given))
        except ChildStartError as error:
            raise GitFailed(command=name, words=str(error), complaint=Complaint.NO_GIT) from None
        output.on_overflow = child.end
        child.listen(output.feed)
        ended = _wait(child, given=given, timeout_s=timeout_s)
        words = self.redacted(child.stderr.text(limit=WORDS_OF_GIT))
        if ended is None:
            late = f"it took longer than {timeout_s:.0f} s and was stopped. {words}"
            raise GitFailed(command=name, words=late, complaint=Complaint.TIMEOUT)
        if output.total > most_bytes:
            raise GitFailed(command=name, words=f"more than {most_bytes:,} bytes of output", complaint=Complaint.OTHER)
        if ended.returncode != 0:
            shown = words.strip() or f"it {ended}"
            raise GitFailed(command=name, words=shown, complaint=parse_complaint(words))
        return bytes(output.kept)

    def redacted(self, text: str) -> str:
        """`text` without tokens, and without user names and passwords in URLs."""
        hidden = redactor({f"SECRET_{name}": value for name, value in self.secrets.items()})(text)
        return re.sub(r"(?<=://)[^/@\s']+@", "***@", hidden)


def _wait(child: Child, *, given: bytes, timeout_s: float) -> Ended | None:
    """How the child ended; None where we ended it for being late."""
    try:
        if given:
            with contextlib.suppress(ChildClosed, TimeoutError):  # how it ended says more
                child.write(given, timeout_s=timeout_s)
            child.end(patience_s=timeout_s)  # closes its input at once
        ended = child.wait(timeout_s)
        if ended is None:
            child.close()
    except BaseException:  # Ctrl-C while waiting: leave nothing behind
        child.close(grace_s=0.2)
        raise
    return ended
