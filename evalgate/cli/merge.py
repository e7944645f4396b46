"""`evalgate merge`: the results of all parts of a run as one verdict and one set of reports."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from evalgate.cli import door, options
from evalgate.wiring import choosing, merging, watching
from evalgate.wiring.scenes import Scene

SETTINGS = (*options.DECIDING, "base", "data_branch", "baseline_folder", "save_baseline", "cache", "debug")


@click.command("merge")
@click.argument("places", nargs=-1, required=True)
@options.settings_options(*SETTINGS)
def command(places: tuple[str, ...], **values: Any) -> None:
    """Merge the results of `evalgate run --shard 1/N` ... `N/N` in PLACES (files, or folders to search).

    Missing shards count as not measured. The policy comes from evalgate.yml and the options of this command.
    """
    sys.exit(door.guarded(lambda: merge(places, options.given(values)), debug=bool(values.get("debug"))))


def merge(places: tuple[str, ...], given: dict[str, Any]) -> int:
    """Merge; the exit code. Raises EvalgateError."""
    choice = choosing.choose(given)
    watcher = watching.watch(sys.stderr)
    scene = Scene(environ=os.environ, watcher=watcher, reproduce=f"evalgate {shlex.join(sys.argv[1:])}")
    return door.show_gated(merging.merge_gate(choice, [Path(place) for place in places], scene))
