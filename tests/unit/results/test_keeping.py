"""No outage is kept as a base."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from builders import build

from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.model.watcher import SilentWatcher
from evalgate.results.history import History
from evalgate.results.stores import Revise

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Noted:
    """A store that only remembers what it was given."""

    name = "notes"

    def __init__(self) -> None:
        self.kept: list[Path] = []

    def save(self, commit: str, results: Path, *, now: datetime, revise: Revise | None = None) -> None:
        assert commit
        assert now == NOW
        self.kept.append(results)


@pytest.mark.parametrize(
    ("outcomes", "kept"),
    [
        ("pass fail", True),
        ("error pass", True),  # what there is can be compared with
        ("error timeout", False),  # an outage would be every pull request's base
        ("never never", False),
    ],
)
def test_a_run_without_a_conversation_is_nobodys_base(outcomes: str, *, kept: bool) -> None:
    watcher, store = SilentWatcher(), Noted()
    context = Context(environ={}, watcher=watcher, cache=Path(), on_base_branch=True, now=NOW)
    history = History(settings=Settings(), context=context, stores=[store])  # type: ignore[list-item]  # all that is asked of it
    assert history.keep(build.report(outcomes), Path("results.json")) == ()
    assert store.kept == [Path("results.json")] * kept
    assert ("the results are not stored: the agent failed in every run" in watcher.lines) is not kept
