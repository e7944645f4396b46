"""`evalgate run`: the whole gate at a desk."""

from __future__ import annotations

import os
import shlex
import sys
from typing import Any

import click

from evalgate.cli import door, options
from evalgate.wiring import choosing, preparing, running, watching
from evalgate.wiring.scenes import Scene


@click.command("run")
@options.options()
def command(**values: Any) -> None:
    """Run the gate on PATHS (files, folders, globs, `file.evalset.json:case_1,case_2`; default: all)."""
    sys.exit(door.guarded(lambda: run(options.given(values)), debug=bool(values.get("debug"))))


def run(given: dict[str, Any]) -> int:
    """Run the gate; its exit code. Raises EvalgateError."""
    choice = choosing.choose(given)
    prepared = preparing.prepare(choice, environ=os.environ)
    preparing.insist(prepared, strict=choice.settings.strict)
    door.show_problems(prepared.problems)
    watcher = watching.watch(sys.stderr)
    scene = Scene(environ=os.environ, watcher=watcher, reproduce=f"evalgate {shlex.join(sys.argv[1:])}")
    return door.show_gated(running.run_gate(choice, prepared, scene), shown=prepared.problems)
