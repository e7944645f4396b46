"""Facts about a run that its door knows and the settings do not, and its progress watcher."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalgate.errors import Problem
from evalgate.model import Links, Outcome, Report, TrialKey, VerdictKind
from evalgate.values import Environ, frozen_dataclass


@frozen_dataclass
class Trigger:
    """The event that started a workflow; of a run by hand nothing is known."""

    is_pull_request: bool
    """The change is not accepted yet: its evalgate.yml does not decide everything."""
    links: Links = field(default_factory=Links)
    base: str = ""
    """The SHA that the event compares with; "" locally."""
    token: str | None = field(default=None, repr=False)
    """The workflow's token for the repository."""
    on_base_branch: bool = False
    """A push to the default branch, or a schedule: other runs are compared with its results."""


class Watcher:
    """Receives the progress of trials, and shows nothing of it by itself."""

    def begin(self, *, trials: int, reason: str = "") -> None:
        """Called when so many trials begin. `reason`: the purpose of reruns; "" for the first
        runs."""

    def trial_done(
        self,
        key: TrialKey,
        outcome: Outcome,
        seconds: float,
        *,
        of_base: bool = False,
        kind: VerdictKind | None = None,
        is_known: bool = False,
        judges_usd: float = 0.0,
    ) -> None:
        """A trial ended, of head or of the base. `kind`: its verdict; `is_known`: it came from the
        journal and cost nothing; `judges_usd`: the judges' cost so far, in dollars."""

    def say(self, line: str) -> None:
        """A line for users."""

    def end(self) -> None:
        """No more trials follow."""


@frozen_dataclass
class Audience:
    """Whom a run tells what happens."""

    watcher: Watcher = field(default_factory=Watcher)
    show: Callable[[Sequence[Problem]], None] = lambda _: None
    """Receives problems as they are found."""
    present: Callable[[Report], None] = lambda _: None
    """Receives the report while its conversations can be read."""
    reproduce: str = ""
    """The command that repeats the run, for reports."""


@frozen_dataclass
class Opening:
    """How agents are opened."""

    isolate: bool = False
    """Agents and all other foreign code run as other users (docs/security.md)."""
    host: Callable[[Any], Any] | None = None
    """Opens every agent in this process, by its setting, in place of its driver: a test's guest."""
    environments: dict[Path, str] = field(default_factory=dict)
    """See `seals.Seals.verified`."""


@frozen_dataclass
class Context:
    """The context of a run, made once by a door (`gate.prepare.make_context`)."""

    environ: Environ
    cache: Path
    """An absolute folder for data that outlives a run."""
    moment: datetime = field(default_factory=lambda: datetime.now(UTC))
    trigger: Trigger = Trigger(is_pull_request=False)
    audience: Audience = field(default_factory=Audience)
    opening: Opening = field(default_factory=Opening)
    keep: bool = False
    """At a terminal, the run is stored (`results.kept`), and continued if it was interrupted."""
    scored: frozenset[str] | None = None
    """Names of criteria: all others are skipped and not measured; None: all are measured."""

    def say(self, line: str) -> None:
        """Log a line about progress."""
        self.audience.watcher.say(line)

    @property
    def workflow_run(self) -> str:
        """The workflow run and its attempt, see `run_of`."""
        return run_of(self.environ)

    @property
    def is_attended(self) -> bool:
        """True if this runs on a user's own machine, not in a workflow or another CI."""
        return not self.workflow_run and not self.environ.get("CI")

    @property
    def store_key(self) -> bytes:
        """The key that signs stored data; empty if none is set."""
        secret = self.environ.get("INPUT_STORE-KEY") or self.environ.get("EVALGATE_STORE_KEY", "")
        return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest() if secret else b""


def run_of(environ: Environ) -> str:
    """The workflow run and its attempt, as at the end of GitHub's URL:
    `o/r/actions/runs/99/attempts/1`; "" outside a workflow."""
    repository = environ.get("GITHUB_REPOSITORY", "")
    run = environ.get("GITHUB_RUN_ID", "")
    attempt = environ.get("GITHUB_RUN_ATTEMPT", "") or "1"
    return f"{repository}/actions/runs/{run}/attempts/{attempt}" if repository and run else ""


def is_of_run(writer: str, run: str) -> bool:
    """True if the file's author `writer` belongs to the workflow run `run`: the same run, in this
    or an earlier attempt, such as parts that did not fail."""
    (run_address, _, attempt), (writer_address, _, writer_attempt) = (
        address.partition("/attempts/") for address in (run, writer)
    )
    return (
        run_address.lower() == writer_address.lower()
        and writer_attempt.isdecimal()
        and 0 < int(writer_attempt[:9]) <= int(attempt or 0)
    )
