"""`evalgate compare`: head beside base, from two results.json."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from evalgate.cli import door, options
from evalgate.wiring import choosing, comparing_files


@click.command("compare")
@click.argument("base")
@click.argument("head")
@options.settings_options(*options.DECIDING, "debug")
def command(base: str, head: str, **values: Any) -> None:
    """Compare the results.json HEAD with the results.json BASE; runs nothing."""
    sys.exit(door.guarded(lambda: compare(base, head, options.given(values)), debug=bool(values.get("debug"))))


def compare(base: str, head: str, given: dict[str, Any]) -> int:
    """Compare; the exit code. Raises EvalgateError."""
    choice = choosing.choose(given)
    reproduce = f"evalgate {shlex.join(sys.argv[1:])}"
    return door.show_gated(comparing_files.compare(choice, base=Path(base), head=Path(head), reproduce=reproduce))
