"""`evalgate record` and `evalgate migrate`: evaluation files from conversations that happened, and from old formats."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import click

from evalgate import cli
from evalgate.errors import ConfigError, ExitCode, Place, UnavailableError
from evalgate.formats import eval_set, rewrite
from evalgate.gate import record as gate_record
from evalgate.results import output
from evalgate.system import redact
from evalgate.text import plain, words

ENDINGS = (".evalset.json", ".test.json")


@click.command("record")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--from",
    "log",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="LOG",
    help="An ADK session, an OpenTelemetry trace (OTLP as JSON; OpenInference, google-adk's own spans), a trace of "
    "agents-cli, results of `adk eval`, or a log of the agent protocol.",
)
@click.option("--session", "sessions", multiple=True, metavar="ID", help="Only this one; may be repeated.")
@click.option("--case", "name", default="", metavar="ID", help="Id of the new case. [default: the session's id]")
@click.option("--debug", is_flag=True, help="Show where an error comes from.")
@cli.ends
def record(file: Path, log: Path, sessions: Sequence[str], name: str, debug: bool) -> int:  # noqa: ARG001 - see `ends`
    """Add the conversations in LOG as cases to FILE, an evaluation set (made where it is not there): what the user said
    is asked again, and what the agent did is expected. Secrets that the environment holds are written as `***`."""
    if not file.name.endswith(ENDINGS):
        raise ConfigError(f"{file} would not be found: its name ends in neither {' nor '.join(ENDINGS)}")
    found, problems = gate_record.read_recordings(log, sessions=sessions)
    cli.show_problems(problems)
    if name and len(found) > 1:
        listed = words.listed([each.case_id for each in found], limit=5)
        raise ConfigError(f"{log} holds {len(found)} sessions, and a case has one name", hint=f"--session: {listed}")
    for case in gate_record.add(file, found, name=name, redact=redact.redactor_of_files(os.environ)):
        turns = case.conversation or ()
        calls = sum(len(turn.tool_calls) for turn in turns)
        held = f"{words.counted(len(turns), 'turn')}, {words.counted(calls, 'tool call')}"
        click.echo(plain.one_line(f"{file}:{case.case_id} ({held})"))
    click.echo("Review what is expected: it is what the agent did, right or wrong.")
    return ExitCode.PASS


@click.command("migrate")
@click.argument("old")
@click.argument("new", required=False)
@click.option(
    "--initial-session", metavar="FILE", help="A JSON file with ADK's initial session, for cases without one."
)
@click.option("--force/--no-force", default=False, help="Overwrite NEW where it exists.")
@cli.ends
def migrate(old: str, new: str | None, initial_session: str | None, force: bool) -> int:
    """Write OLD, a file in one of ADK's two old formats, in the current one: to NEW, or in its own place."""
    source = rewrite.read(Path(old), shown_as=old)
    session = None
    if initial_session:
        try:
            session = json.loads(rewrite.read(Path(initial_session), shown_as=initial_session).text)
        except ValueError as error:
            raise ConfigError(f"is not JSON: {error}", where=Place(file=initial_session)) from error
    text = eval_set.migrated(source.text, file=old, session=session)
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
