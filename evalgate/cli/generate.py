"""`evalgate generate`: new conversation scenarios for an agent, or the recorded conversations of old ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from evalgate import cli
from evalgate.cli import commands
from evalgate.errors import ExitCode
from evalgate.gate import generate as gate_generate, prepare, progress, record as gate_record
from evalgate.text import words

SETTINGS = ("root", "config", "agent", "python", "requirements", "env", "seed", "cache", "debug")


@click.command("generate")
@commands.settings_options(*SETTINGS)
@click.option("--count", type=click.IntRange(1, 100), default=5, show_default=True, help="Number of scenarios.")
@click.option("--instruction", default="", help="What the scenarios should be about.")
@click.option("--model", default="", help="Model that writes them. [default: the simulated users' model]")
@click.option(
    "--into", default="", help="Output folder, below the root. [default: generated; with --from-results: recorded]"
)
@click.option(
    "--from-results",
    type=click.Path(dir_okay=False),
    help="Write the conversations of this results.json as replayable cases; no model calls.",
)
@cli.ends
def command(**values: Any) -> int:
    """Generate conversation scenarios for an agent, or save conversations with simulated users as replayable
    cases (docs/simulation.md)."""
    settings = commands.settings_of(values, SETTINGS)
    if values["from_results"]:
        into, results = values["into"] or "recorded", Path(values["from_results"])
        file, holds = gate_record.record_simulated(settings.root, results=results, into=into)
        shown = os.path.relpath(file)
        click.echo(f"wrote {shown}")
        click.echo(f"review {holds}, then `evalgate run {shown}`")
        return ExitCode.PASS
    wanted = {name: values[name] for name in ("count", "instruction", "model")}
    watcher = progress.PlainWatcher(sys.stderr)
    context = prepare.make_context(settings, environ=os.environ, watcher=watcher)
    files, count = gate_generate.generate(settings, context, **wanted, into=values["into"] or "generated")
    for path in files:
        click.echo(f"wrote {os.path.relpath(path)}")
    if count < values["count"]:
        click.echo(f"{words.counted(values['count'], 'scenario')} requested, {count} written", err=True)
    click.echo(f"review {words.counted(count, 'scenario')}, then `evalgate run {os.path.relpath(files[0])}`")
    return ExitCode.PASS
