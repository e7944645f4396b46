"""What a door knows and the settings do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from evalgate.model import Links, Report
from evalgate.model.watcher import Watcher


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where a run takes place. `event_base`: the SHA that the event compares with, "" at a desk.
    `on_base_branch`: a push to the default branch, whose results later pull requests are compared with. `present`: is
    given the report while its conversations can be read. `cache`: absolute path of a folder that runs share.
    """

    environ: Mapping[str, str]
    watcher: Watcher
    links: Links = field(default_factory=Links)
    commit: str = ""
    reproduce: str = ""
    event_base: str = ""
    token: str | None = None
    on_base_branch: bool = False
    present: Callable[[Report], None] = lambda _: None
    cache: Path = field(default_factory=Path)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
