"""`evalgate quarantine add` and `list`: cases with mixed results that do not block for a while."""

from __future__ import annotations

import os
import sys
from pathlib import PurePosixPath
from typing import Any

import click

from evalgate import cli
from evalgate.cli import commands
from evalgate.config import quarantine
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.errors import ExitCode
from evalgate.gate import prepare, progress
from evalgate.gate import quarantine as gate_quarantine
from evalgate.model import Quarantine

SETTINGS = ("root", "config", "data_branch", "baseline_folder", "output", "cache", "debug")


@click.group("quarantine")
def command() -> None:
    """Cases with mixed results that do not block for a while, each with an owner and an end (docs/quarantine.md)."""


@command.command("add")
@click.argument("case", metavar="FILE:CASE")
@click.option("--owner", required=True, help="Who sees to it that the case becomes reliable: a name or @handle.")
@click.option(
    "--days",
    type=click.IntRange(1, quarantine.MOST_DAYS),
    default=quarantine.DAYS,
    show_default=True,
    help="Days until the case can block again.",
)
@click.option("--reason", default="", help="Why its results are mixed, as far as that is known.")
@commands.settings_options(*SETTINGS)
@cli.ends
def add(**values: Any) -> int:
    """Quarantine a case with mixed results. Its runs must differ: those of the base branch, or of the last run here. A
    case that always fails is broken, and is not quarantined."""
    settings, context = _opened(values)
    file, _, case_id = values["case"].partition(":")
    until = gate_quarantine.until(context, days=values["days"])
    given = Quarantine(owner=values["owner"].strip(), expires=until, reason=values["reason"])
    known = gate_quarantine.add(settings, context, (str(PurePosixPath(file)), case_id), given)
    click.echo(f"added to {quarantine.NAME}: {values['case']} ({known}), {given.owner}, until {until}")
    click.echo("It counts once it is on the base branch: open a pull request.")
    return ExitCode.PASS


@command.command("list")
@commands.settings_options(*SETTINGS)
@cli.ends
def show(**values: Any) -> int:
    """Show the quarantined cases: whose they are, until when, and how they did on the base branch."""
    lines = list(gate_quarantine.listed(*_opened(values)))
    for line in lines or ["no case is quarantined"]:
        click.echo(line)
    return ExitCode.PASS


def _opened(values: dict[str, Any]) -> tuple[Settings, Context]:
    settings = commands.settings_of(values, SETTINGS)
    watcher = progress.PlainWatcher(sys.stderr)
    return settings, prepare.make_context(settings, environ=os.environ, watcher=watcher)
