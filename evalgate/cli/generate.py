"""`evalgate generate`: new conversation scenarios for an agent, to be reviewed."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from evalgate import words
from evalgate.cli import door, options
from evalgate.errors import ExitCode
from evalgate.markup import plain
from evalgate.wiring import choosing, generating
from evalgate.wiring.generating import Order

SETTINGS = ("root", "config", "agent", "python", "requirements", "env", "seed", "cache", "debug")


@click.command("generate")
@options.settings_options(*SETTINGS)
@click.option("--count", type=click.IntRange(1, 100), default=5, show_default=True, help="How many scenarios.")
@click.option("--instruction", default="", help="What they should be about, in your words.")
@click.option("--model", default="", help="Who writes them. [default: the model that plays users]")
@click.option("--into", default="generated", show_default=True, help="The folder for the file, below the root.")
def command(**values: Any) -> None:
    """Ask the agent what it can do, and have conversation scenarios written that test it (docs/simulation.md)."""
    sys.exit(door.guarded(lambda: generate(values), debug=bool(values.get("debug"))))


def generate(values: dict[str, Any]) -> int:
    """Write the scenarios; the exit code. Raises EvalgateError."""
    choice = choosing.choose(options.given({name: values.get(name) for name in SETTINGS}))
    order = Order(**{name: values[name] for name in ("count", "instruction", "model", "into")})
    done = generating.generate(
        choice, order, environ=os.environ, say=lambda line: click.echo(plain.one_line(line), err=True)
    )
    for path in done.files:
        click.echo(f"wrote {os.path.relpath(path)}")
    if done.count < order.count:
        click.echo(f"{words.counted(order.count, 'scenario')} were asked for, {done.count} came", err=True)
    click.echo(f"review {words.counted(done.count, 'scenario')}, then `evalgate run {os.path.relpath(done.files[0])}`")
    return ExitCode.PASS
