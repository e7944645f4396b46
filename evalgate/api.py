"""The public API for Python, as `import evalgate` gives it: like the command line, without
output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evalgate.config import load
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.discovery.project import Project
from evalgate.errors import EvalgateError
from evalgate.gate import prepare, run as gate_run, stored_results
from evalgate.model import Report, VerdictKind

__all__ = [
    "Context",
    "EvalgateError",
    "Project",
    "Report",
    "Settings",
    "VerdictKind",
    "compare",
    "discover",
    "load_settings",
    "run",
]


def load_settings(root: str | Path = ".", **options: Any) -> Settings:
    """The settings of a run in the folder `root`: `options` first, then evalgate.yml, then the
    defaults.

    Options have the names of docs/settings.md, with `_` for `-`. Raises ConfigError for an invalid
    option. Problems of evalgate.yml are among the problems of `discover`, and stop `run`."""
    return load.load_settings({**options, "root": str(root)})


def discover(root: str | Path = ".", **options: Any) -> Project:
    """Find the cases that would run, and every problem with them; runs no agent and makes no model
    calls. `options` as in `load_settings`.

    Raises NothingToDo if nothing matches, ConfigError for an invalid option."""
    return prepare.prepare(load_settings(root, **options))


def run(settings: Settings, context: Context | None = None) -> Report:
    """Run the gate, write its reports into `settings.output`, and return the report. `context`
    None: this process's environment.

    A verdict of any kind is not an error (`report.verdict`, `report.exit_code`). Raises
    EvalgateError without a verdict: ConfigError for broken files or settings, NothingToDo,
    UnavailableError if writing fails."""
    return gate_run.run(settings, context or _local_context(settings))


def compare(
    base: str | Path,
    head: str | Path,
    *,
    settings: Settings | None = None,
    context: Context | None = None,
) -> Report:
    """Compare two results.json by the rules of `settings` (None: those of the working folder); runs
    no agent.

    Writes the reports as `run` does. Raises ConfigError if a file cannot be read."""
    settings = settings or load_settings()
    return stored_results.compare(
        settings, context or _local_context(settings), base=Path(base), head=Path(head)
    )


def _local_context(settings: Settings) -> Context:
    return prepare.make_context(settings)
