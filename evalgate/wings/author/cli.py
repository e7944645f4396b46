"""`evalgate record`, `migrate` and `generate`: evaluation files from recorded conversations, from
old formats, and by a model."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from evalgate import cli
from evalgate.cli import commands
from evalgate.errors import ConfigError, ExitCode, Place, UnavailableError
from evalgate.formats import rewrite
from evalgate.gate import edit, prepare, progress
from evalgate.results import output
from evalgate.system import redact
from evalgate.text import plain, words
from . import generate as author_generate, old_formats

FILE_SUFFIXES = (".evalset.json", ".test.json")


@click.command("record")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--from",
    "log",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="LOG",
    help="An ADK session, an OpenTelemetry trace (OTLP as JSON; OpenInference, google-adk's own spans), a trace of "
    "agents-cli, or results of `adk eval`.",
)
@click.option(
    "--session", "sessions", multiple=True, metavar="ID", help="Only this one; may be repeated."
)
@click.option(
    "--case",
    "name",
    default="",
    metavar="ID",
    help="Id of the new case. [default: the session's id]",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@cli.ends
def record(file: Path, log: Path, sessions: Sequence[str], name: str, debug: bool) -> int:  # noqa: ARG001 - see `ends`
    """Add the conversations in LOG as cases to FILE, an evaluation set (created if missing). The
    user's messages are asked again, and the agent's actions are expected. Secrets from the
    environment are written as `***`."""
    if not file.name.endswith(FILE_SUFFIXES):
        raise ConfigError(
            f"evalgate would not find {file}: end its name in {' or '.join(FILE_SUFFIXES)}"
        )
    recordings, problems = edit.read_recordings(log, sessions=sessions)
    cli.show_problems(problems)
    if name and len(recordings) > 1:
        session_ids = words.listed([recording.case_id for recording in recordings], limit=5)
        raise ConfigError(
            f"{log} holds {len(recordings)} sessions, and --case names one case",
            hint=f"--session: {session_ids}",
        )
    cases = edit.add(file, recordings, name=name, redact=redact.redactor_of_files(os.environ))
    for case in cases:
        turns = case.turns
        calls = sum(len(turn.tool_calls) for turn in turns)
        summary = f"{words.counted(len(turns), 'turn')}, {words.counted(calls, 'tool call')}"
        click.echo(plain.one_line(f"{file}:{case.case_id} ({summary})"))
    if any(turn.tool_calls for case in cases for turn in case.turns):
        click.echo(
            "An argument that differs in each run, such as an id or a time, needs a matcher "
            "(docs/criteria/tool_trajectory_avg_score.md#tolerance-evalgate-only)."
        )
    click.echo("Review what is expected: it is what the agent did, right or wrong.")
    return ExitCode.PASS


@click.command("migrate")
@click.argument("old")
@click.argument("new", required=False)
@click.option(
    "--initial-session",
    metavar="FILE",
    help="A JSON file with ADK's initial session, for cases without one.",
)
@click.option("--force/--no-force", default=False, help="Overwrite NEW if it exists.")
@cli.ends
def migrate(old: str, new: str | None, initial_session: str | None, force: bool) -> int:
    """Convert OLD, a file in one of ADK's two old formats, to the current one: into NEW, or in
    place."""
    source = rewrite.read(Path(old), shown_as=old)
    session = None
    if initial_session:
        try:
            session = json.loads(rewrite.read(Path(initial_session), shown_as=initial_session).text)
        except ValueError as error:
            raise ConfigError(f"is not JSON: {error}", place=Place(initial_session)) from error
    text = old_formats.migrated(source.text, file=old, session=session)
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


@click.command("generate")
@commands.options(
    "root", "config", "agent", "python", "requirements", "env", "seed", "cache", "debug"
)
@click.option(
    "--count",
    type=click.IntRange(1, 100),
    default=5,
    show_default=True,
    help="Number of scenarios.",
)
@click.option("--instruction", default="", help="What the scenarios should be about.")
@click.option(
    "--model", default="", help="Model that writes them. [default: the simulated users' model]"
)
@click.option(
    "--into", default="generated", show_default=True, help="Output folder, below the root."
)
@cli.ends
def generate(**values: Any) -> int:
    """Generate conversation scenarios for an agent (docs/simulation.md)."""
    settings = commands.settings_of(values)
    arguments = {name: values[name] for name in ("count", "instruction", "model")}
    watcher = progress.PlainWatcher(sys.stderr)
    context = prepare.make_context(settings, watcher=watcher)
    files, count = author_generate.generate(settings, context, **arguments, into=values["into"])
    for path in files:
        click.echo(f"wrote {os.path.relpath(path)}")
    if count < values["count"]:
        click.echo(
            f"{words.counted(values['count'], 'scenario')} requested, {count} written", err=True
        )
    click.echo(
        f"review {words.counted(count, 'scenario')}, then `evalgate run {os.path.relpath(files[0])}`"
    )
    return ExitCode.PASS
