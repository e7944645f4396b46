"""`evalgate init`: a repository's first files; `record`, `migrate` and `generate`: evaluation files
from recorded conversations, from old formats, and by a model."""

from __future__ import annotations

import difflib
import json
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from evalgate import cli
from evalgate.cli import commands
from evalgate.config.settings import Settings
from evalgate.discovery import agents as discovery_agents, candidates
from evalgate.errors import (
    ConfigError,
    ExitCode,
    NoEvaluationFile,
    NothingToDo,
    Place,
    errors_in,
)
from evalgate.formats import recordings, rewrite
from evalgate.gate import edit, prepare
from evalgate.judges import prompting
from evalgate.results import output
from evalgate.system.files import top_of
from evalgate.text import plain, words
from . import generate as author_generate, old_formats, starter
from .starter import Starter

FILE_SUFFIXES = (".evalset.json", ".test.json")
MOST_SHOWN = 800
"""Characters of an answer that `init` shows."""


@click.command("init")
@commands.options("paths", "root", "config", "agent", "env", "cache")
@click.option(
    "--ask",
    "question",
    default="",
    metavar="QUESTION",
    help="The question of the first case, if there is none yet. [default: ask for it]",
)
@click.option("--yes", is_flag=True, help="Write the first case without asking.")
@click.option(
    "--action",
    default="",
    metavar="OWNER/evalgate/gate@REF",
    help="The action that the workflow uses.",
)
@click.option(
    "--force/--no-force",
    default=False,
    help="Replace existing files; they are kept as *.orig.",
)
@cli.ends
def init(*, action: str, force: bool, **values: Any) -> int:
    """Write a workflow, and an evalgate.yml if it is needed, for the evaluation files and agents of
    the repository. Makes no model calls, except if there is no evaluation file: then the agent
    answers one question, and the conversation becomes the first case."""
    settings = commands.settings_of(values)
    first_files: list[str] = []
    try:
        plan = starter.plan(settings, action=action)
    except NothingToDo as error:
        codes = {problem.code for problem in error.problems}
        if codes != {"selection-unmatched"} and not isinstance(error, NoEvaluationFile):
            raise
        first_files = list(
            _first_case(settings, question=values["question"], is_agreed=values["yes"])
        )
        settings = commands.settings_of(values)
        plan = starter.plan(settings, action=action)
    if plan.elsewhere and not force:
        cli.tell(
            f"{plan.elsewhere} runs evalgate already, so no other workflow is written (--force)"
        )
    pending = list(starter.changes(plan, force=force))
    written_paths = [*first_files]
    unchanged_paths = []
    for path, text, current_text in pending:
        if force or not (plan.top / path).is_file():
            backup = starter.write(plan, path, text)
            click.echo(f"wrote {path}; the former file is {backup}" if backup else f"wrote {path}")
            written_paths.append(path)
        else:
            click.echo(f"{path} exists and is left as it is; --force would make this change:")
            for line in difflib.unified_diff(
                current_text.splitlines(), text.splitlines(), path, path, lineterm=""
            ):
                cli.tell(line)
            unchanged_paths.append(path)
    if not pending:
        click.echo("nothing to write: all files are up to date")
    if values["question"] and not first_files:
        click.echo("--ask is not used: there are evaluation files already")
    # a run finds the same, with what was written
    project = prepare.prepare(commands.settings_of(values))
    suites = project.takes()
    case_count = sum(len(suite.cases) for suite in suites)
    click.echo(
        f"found {words.counted(len(suites), 'suite')} with {words.counted(case_count, 'case')}"
    )
    cli.show_problems(project.refusals())
    for number, step in enumerate(next_steps(plan, written_paths), start=1):
        click.echo(f"{'Next:' if number == 1 else '     '} {number}. {plain.visible(step)}")
    return ExitCode.CONFIG if unchanged_paths else ExitCode.PASS


def _first_case(settings: Settings, *, question: str, is_agreed: bool) -> Iterator[str]:
    """Ask the agent one question, show its turn, and write it if the user agrees; yield the
    files. Raises NothingToDo without a question or an agreement."""
    uses = candidates.find_agents(settings)
    click.echo("There is no evaluation file yet. The first case is what your agent does now.")
    cli.tell(f"agent: {discovery_agents.label(uses[0])}")
    if len(uses) > 1:
        other_agents = words.listed(map(starter.argument, uses[1:]))
        cli.tell(f"  (others by --agent: {other_agents})")
    try:
        question = question or click.prompt("Ask it one question")
        first_turn = starter.ask(uses, question, settings, commands.context_of(settings))
        for call in first_turn.turn.tool_calls:
            cli.tell(f"  called  {call.name}({plain.short_json(dict(call.arguments))})")
        answer = plain.clip(plain.one_line(prompting.answer_of(first_turn.turn)), MOST_SHOWN)
        cli.tell(f"  said    {answer or '(nothing)'}")
        if first_turn.state:
            state = plain.short_json(dict(first_turn.state))
            cli.tell(f"  its session begins with {state}, made up: correct it in the case")
        if first_turn.lack:
            consequence = "No judge would read the answer, only some of its words count."
            advice = "Then `evalgate init` writes a rubric."
            cli.tell(f"{consequence} {first_turn.lack}. {advice}")
        if not is_agreed:
            click.confirm("Is this right, and the first case?", default=True, abort=True)
    except click.Abort:
        click.echo()
        hint = f'evalgate init --ask "{candidates.QUESTION}" --yes'
        raise NothingToDo("no case was written", hint=hint) from None
    for path in starter.write_case(first_turn, settings):
        cli.tell(f"wrote {path}")
        yield os.path.relpath(settings.root / path, top_of(settings.root))


def next_steps(plan: Starter, written_paths: list[str]) -> Iterator[str]:
    """The steps left to do by hand, as commands if possible."""
    workflow = plan.top / starter.WORKFLOW
    is_open = workflow.is_file() and starter.ACTION in workflow.read_text("utf-8", "replace")
    # also of an earlier time: who has not replaced OWNER has perhaps not set the secrets
    writes_workflow = starter.WORKFLOW in written_paths or is_open
    secrets = plan.secrets if writes_workflow else {}
    if is_open:
        yield f"In {starter.WORKFLOW}, replace OWNER with the publisher of the action."
    if plan.undecided:
        rules = next(path for path in plan.files if path != starter.WORKFLOW)
        yield f"In {rules}, name the agent of {words.listed(plan.undecided, limit=3)}."
    if secrets:
        commands = "; ".join(f"gh secret set {secret}" for secret in secrets.values())
        yield f"Set the secrets, and remove those that the agents do not need: {commands}"
    if pairs := [f"{name} from {secret}" for name, secret in secrets.items() if name != secret]:
        renamed = words.listed(pairs)
        yield f"GitHub refuses secrets whose names begin with GITHUB_, so the workflow sets {renamed}."
    if writes_workflow and plan.uses_cloud:
        page = starter.page_url(plan.action, starter.SIGN_IN_PAGE)
        yield (
            f"Set who the workflow signs in to Google Cloud as ({page}): "
            + "; ".join(f"gh variable set {name}" for name in starter.CLOUD_VARIABLES)
        )
    yield "Check what a run needs: evalgate doctor"
    if written_paths:
        paths = " ".join(shlex.quote(os.path.relpath(plan.top / path)) for path in written_paths)
        yield f"git add {paths} && git commit -m 'Gate pull requests with evalgate'"


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
    reading = recordings.parse_recordings(rewrite.read(log, shown_as=str(log)).text, file=str(log))
    if not reading.recordings or errors_in(reading.problems):
        raise ConfigError.collected(reading.problems)
    known_names = [recording.case_id for recording in reading.recordings]
    for session in sessions:
        if session not in known_names:
            choice = f"It has {words.listed(known_names)}."
            hint = words.did_you_mean(session, known_names, fallback=choice)
            raise ConfigError(f"has no session {session!r}", place=Place(str(log)), hint=hint)
    chosen = [
        recording
        for recording in reading.recordings
        if not sessions or recording.case_id in sessions
    ]
    cli.show_problems(reading.problems)
    if name and len(chosen) > 1:
        session_ids = words.listed(recording.case_id for recording in chosen)
        raise ConfigError(
            f"{log} holds {len(chosen)} sessions, and --case names one case",
            hint=f"--session: {session_ids}",
        )
    cases = edit.add(file, chosen, name=name)
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
        output.save(Path(new), [text], shown_as=new)
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
def generate(count: int, instruction: str, model: str, into: str, **values: Any) -> int:
    """Generate conversation scenarios for an agent (docs/simulation.md)."""
    settings = commands.settings_of(values)
    context = commands.context_of(settings)
    files, written = author_generate.generate(
        settings, context, count=count, instruction=instruction, model=model, into=into
    )
    paths = [os.path.relpath(path) for path in files]
    for path in paths:
        click.echo(f"wrote {path}")
    if written < count:
        click.echo(f"{words.counted(count, 'scenario')} requested, {written} written", err=True)
    click.echo(f"review {words.counted(written, 'scenario')}, then `evalgate run {paths[0]}`")
    return ExitCode.PASS
