"""`evalgate migrate`: an evaluation file in one of ADK's old formats, written in its current one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from evalgate import cli
from evalgate.errors import ConfigError, ExitCode, Place, UnavailableError
from evalgate.formats import eval_set, rewrite
from evalgate.results import output


@click.command("migrate")
@click.argument("old")
@click.argument("new", required=False)
@click.option(
    "--initial-session", metavar="FILE", help="A JSON file with ADK's initial session, for cases without one."
)
@click.option("--force/--no-force", default=False, help="Overwrite NEW where it exists.")
def command(old: str, new: str | None, initial_session: str | None, force: bool) -> None:
    """Write OLD, a file in one of ADK's two old formats, in the current one: to NEW, or in its own place."""
    sys.exit(cli.run_command(lambda: _migrate(Path(old), new, initial_session, force=force), debug=False))


def _migrate(old: Path, new: str | None, initial_session: str | None, *, force: bool) -> int:
    source = rewrite.read(old, shown_as=str(old))
    session = None
    if initial_session:
        try:
            session = json.loads(rewrite.read(Path(initial_session), shown_as=initial_session).text)
        except ValueError as error:
            raise ConfigError(f"is not JSON: {error}", where=Place(file=initial_session)) from error
    text = eval_set.migrated(source.text, file=str(old), session=session)
    if new is None:
        rewrite.save(source, text)
    elif Path(new).exists() and not force:
        raise ConfigError(f"{new} exists already", hint="--force overwrites it.")
    else:
        problem = output.write_file(Path(new), [text])
        if problem is not None:
            raise UnavailableError(f"{new} {problem.message}")
    click.echo(f"wrote {os.path.relpath(new or old)}")
    return ExitCode.PASS
