"""`evalgate validate`: what would stop a run, or make it meaningless; spends nothing."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from evalgate import words
from evalgate.cli import door, options
from evalgate.errors import ExitCode, Severity
from evalgate.wiring import choosing, preparing


@click.command("validate")
@options.options(*options.SELECTING)
def command(**values: Any) -> None:
    """Check evaluation files, criteria and evalgate.yml; makes no model calls."""
    sys.exit(door.guarded(lambda: validate(options.given(values)), debug=False))


def validate(given: dict[str, Any]) -> int:
    """Show every problem; exit code 2 where a run would be refused. Raises EvalgateError."""
    choice = choosing.choose(given)
    prepared = preparing.prepare(choice, environ=os.environ)
    door.show_problems(prepared.problems)
    counts = {severity: sum(each.severity is severity for each in prepared.problems) for severity in Severity}
    cases = sum(len(suite.eval_set.cases) for suite in prepared.suites)
    click.echo(
        f"{words.counted(len(prepared.suites), 'suite')}, {words.counted(cases, 'case')}: "
        f"{words.counted(counts[Severity.ERROR], 'error')}, {words.counted(counts[Severity.WARNING], 'warning')}"
    )
    return ExitCode.CONFIG if prepared.stops(strict=choice.settings.strict) else ExitCode.PASS
