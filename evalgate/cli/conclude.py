"""`evalgate conclude`: what is left to report of a gate that was killed."""

from __future__ import annotations

import os
from pathlib import Path

import click

from evalgate import action, cli


@click.command("conclude")
@click.option(
    "--journal",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The journal of the gate that ended. Default: journal.jsonl in `output`.",
)
@cli.ends
def command(journal: Path | None) -> int:
    """Report in the check run, the comment and the step's outputs that a gate was killed.

    Exits with 3. The action does it by itself, unless its whole container is killed."""
    return action.conclude(os.environ, "the gate ended before it was done", journal=journal)
