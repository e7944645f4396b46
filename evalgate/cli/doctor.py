"""`evalgate doctor`: what a run would stumble over, each with the line that mends it."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from evalgate import cli
from evalgate.cli import commands
from evalgate.config import load
from evalgate.errors import ExitCode, Severity
from evalgate.gate import doctor, prepare, progress
from evalgate.gate.surroundings import Check
from evalgate.text import plain, words

SETTINGS = (*commands.SELECTING, "base", "baseline", "cache", "output", "isolate", "start_timeout", "skip_judged")
MARKS: dict[Severity | None, str] = {
    None: "ok",
    Severity.NOTE: "note",
    Severity.WARNING: "warn",
    Severity.ERROR: "error",
}
COLORS: dict[Severity | None, str] = {
    None: "green",
    Severity.NOTE: "blue",
    Severity.WARNING: "yellow",
    Severity.ERROR: "red",
}
DETAIL_LINES = 12
DETAIL_BYTES = 2000


@click.command("doctor")
@commands.options(*SETTINGS)
@click.option("--debug/--no-debug", default=False, help="Show tracebacks.")
def command(debug: bool, **values: Any) -> None:
    """Check all that a run needs: files, criteria, judges, the agent's environment and import, variables, the base,
    permissions and workflows. Makes no model calls."""
    sys.exit(cli.run_command(lambda: show(commands.given(values)), debug=debug))


def show(given: dict[str, Any]) -> int:
    """Print the sections as they are found; the exit code that a run could not do better than. Raises EvalgateError."""
    settings = load.load_settings(given)
    watcher = progress.PlainWatcher(sys.stderr)
    isolate = commands.isolates(settings, lambda _: None)
    context = prepare.make_context(settings, environ=os.environ, watcher=watcher, isolate=isolate)
    counts: Counter[Severity] = Counter()
    suites, codes = 0, set[ExitCode]()
    for section in doctor.diagnose(settings, context):
        click.secho(plain.visible(section.title), bold=True)
        suites += section.is_suite
        for check in section.checks:
            for line in lines_of(check, title=section.title):
                click.echo(line)
            if check.problem is not None:
                counts[check.problem.severity] += 1
        codes.add(section.exit_code)
    click.echo(
        f"{words.counted(suites, 'suite')}: {words.counted(counts[Severity.ERROR], 'error')}, "
        f"{words.counted(counts[Severity.WARNING], 'warning')}"
    )
    return min(codes - {ExitCode.PASS}, default=ExitCode.PASS)


def lines_of(check: Check, *, title: str = "") -> Iterator[str]:
    """A check in a line; a problem with its code, the lines to show with it and those that mend it. `title`: the file
    that the section is of, which is not told again."""
    problem = check.problem
    severity = None if problem is None else problem.severity
    mark = click.style(f"{MARKS[severity]:<5}", fg=COLORS[severity])
    if problem is None:
        yield f"  {mark}  {check.label:<11}  {plain.visible(check.text)}"
        return
    where = str(problem.place or "")
    if title and where.startswith(title):
        where = where.removeprefix(title).strip(": ")
    place = f"{where}: " if where else ""
    yield f"  {mark}  {check.label:<11}  {plain.visible(f'{place}{problem.message} [{problem.code}]')}"
    for line in plain.ends(check.detail, lines=DETAIL_LINES, limit=DETAIL_BYTES).splitlines():
        yield f"         | {plain.visible(line)}"
    for at, line in enumerate(problem.hint.splitlines()):
        yield f"         {'fix: ' if at == 0 else '     '}{plain.visible(line)}"
