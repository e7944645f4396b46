"""No outage is kept as a base."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from builders import build

from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.errors import ExitCode, Problem
from evalgate.gate import progress, run
from evalgate.gate.run import Gated
from evalgate.model import Policy, Run

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Noted:
    """Keeping that only remembers what it was given."""

    def __init__(self) -> None:
        self.kept: list[Path] = []

    def save(self, _run: Run, results: Path, *, policy: Policy, now: datetime) -> tuple[Problem, ...]:
        assert (policy, now) == (Policy(), NOW)
        self.kept.append(results)
        return ()


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
    heard = io.StringIO()
    scene = Context(environ={}, watcher=progress.PlainWatcher(heard), on_base_branch=True)
    gated = Gated(report=build.report(outcomes), exit_code=ExitCode.PASS, files={"results": Path("results.json")})
    choice = Settings(root=Path())
    keeping = Noted()
    run.keep(gated, keeping, scene, choice, now=NOW)  # type: ignore[arg-type]  # it has all that is asked of it
    assert keeping.kept == [Path("results.json")] * kept
    assert ("not stored: the agent failed in every run" in heard.getvalue()) is not kept
