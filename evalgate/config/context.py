"""What a door knows and the settings do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from evalgate.errors import Problem
from evalgate.model import Links, Report
from evalgate.model.watcher import Watcher


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where a run takes place, made once by a door (`gate.prepare.make_context`).

    `cache`: the absolute folder of what outlives a run. `event_base`: the SHA that the event compares with, "" locally.
    `on_base_branch`: a push to the default branch, whose results later pull requests are compared with.
    `is_pull_request`: what runs is a change that nobody has accepted yet, whose evalgate.yml does not decide everything
    (`baseline.guarded`). `workflow_run`: where this runs, as results tell it (`github.events.run_of`), "" outside a
    workflow. `show`: is given problems as they are found. `present`: is given the report while its conversations can be
    read.
    """

    environ: Mapping[str, str]
    watcher: Watcher
    cache: Path
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    links: Links = field(default_factory=Links)
    commit: str = ""
    reproduce: str = ""
    event_base: str = ""
    token: str | None = None
    on_base_branch: bool = False
    is_pull_request: bool = False
    workflow_run: str = ""
    show: Callable[[Sequence[Problem]], None] = lambda _: None
    present: Callable[[Report], None] = lambda _: None

    def say(self, line: str) -> None:
        """A line on what is being done."""
        self.watcher.say(line)
