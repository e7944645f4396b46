"""`evalgate doctor`: the problems that a run would meet, each with a line that fixes it."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from evalgate import cli
from evalgate.config.context import Opening
from evalgate.errors import ExitCode, Severity
from evalgate.gate import doctor
from evalgate.gate.doctor import Check
from evalgate.text import plain, words
from . import commands

SETTINGS = (
    *commands.SELECTING,
    "base",
    "baseline",
    "cache",
    "output",
    "isolate",
    "start_timeout",
    "skip_judged",
    "debug",
)
"""Those that decide what a run needs, without those that only judge its results."""
MARKS: dict[Severity | None, tuple[str, str]] = {
    None: ("ok", "green"),
    Severity.NOTE: ("note", "blue"),
    Severity.WARNING: ("warn", "yellow"),
    Severity.ERROR: ("error", "red"),
}
"""A word and its color by severity; None: no problem."""
DETAIL_LINES = 12
"""Lines of a failed check's detail that are shown, from its beginning and its end."""
DETAIL_BYTES = 2000
"""The same limit in characters."""


@click.command("doctor")
@commands.options(*SETTINGS)
@cli.ends
def command(**values: Any) -> int:
    """Check everything that a run needs: files, criteria, judges, the agent's environment, import
    and models, the base, permissions and workflows. Makes no model calls."""
    settings = commands.settings_of(values)
    opening = Opening(isolate=commands.isolates(settings, lambda _: None))
    context = commands.context_of(settings, opening=opening)
    counts: Counter[Severity] = Counter()
    suites = 0
    codes = set[ExitCode]()
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
    """A check in a line; for a problem, its code, its details and the lines that fix it. `title`:
    the file of the section, which is not repeated."""
    problem = check.problem
    word, color = MARKS[None if problem is None else problem.severity]
    mark = click.style(f"{word:<5}", fg=color)
    if problem is None:
        yield f"  {mark}  {check.label:<11}  {plain.visible(check.text)}"
        return
    text = f"{problem.message} [{problem.code}]"
    if problem.place is not None:
        file, line_number = problem.place.file, problem.place.line
        if file != title:
            text = f"{file}:{line_number}: {text}" if line_number else f"{file}: {text}"
        elif line_number:
            text = f"line {line_number}: {text}"
    yield f"  {mark}  {check.label:<11}  {plain.visible(text)}"
    for line in plain.ends(check.detail, most_lines=DETAIL_LINES, limit=DETAIL_BYTES).splitlines():
        yield f"         | {plain.visible(line)}"
    first_line, _, details = str(problem.hint).partition("\n")
    if first_line:
        yield f"         fix: {plain.visible(first_line)}"
    for line in textwrap.dedent(details).splitlines():
        yield f"              {plain.visible(line)}"
