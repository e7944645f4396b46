"""`evalgate record`: a conversation that happened becomes a case of an evaluation set."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from evalgate import cli
from evalgate.errors import ConfigError, ExitCode
from evalgate.gate import record
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
def command(file: Path, log: Path, sessions: Sequence[str], name: str, debug: bool) -> None:
    """Add the conversations in LOG as cases to FILE, an evaluation set (made where it is not there): what the user said
    is asked again, and what the agent did is expected. Secrets that the environment holds are written as `***`."""
    sys.exit(cli.run_command(lambda: run(file, log, sessions, name), debug=debug))


def run(file: Path, log: Path, sessions: Sequence[str], name: str) -> int:
    """Add the cases; the exit code. Raises EvalgateError."""
    if not file.name.endswith(ENDINGS):
        raise ConfigError(f"{file} would not be found: its name ends in neither {' nor '.join(ENDINGS)}")
    found, problems = record.read_recordings(log, sessions=sessions)
    cli.show_problems(problems)
    if name and len(found) > 1:
        listed = words.listed([each.case_id for each in found], limit=5)
        raise ConfigError(f"{log} holds {len(found)} sessions, and a case has one name", hint=f"--session: {listed}")
    for case in record.add(file, found, name=name, redact=redact.redactor(os.environ)):
        turns = case.conversation or ()
        calls = sum(len(turn.tool_calls) for turn in turns)
        held = f"{words.counted(len(turns), 'turn')}, {words.counted(calls, 'tool call')}"
        click.echo(plain.one_line(f"{file}:{case.case_id} ({held})"))
    click.echo("Review what is expected: it is what the agent did, right or wrong.")
    return ExitCode.PASS
