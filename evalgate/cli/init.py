"""`evalgate init`: the first case if there is none; a workflow and, if the defaults do not fit, an
evalgate.yml for the evaluation files."""

from __future__ import annotations

import difflib
import os
import shlex
import sys
from collections.abc import Iterator
from typing import Any

import click

from evalgate import cli
from evalgate.config.settings import Settings
from evalgate.discovery import candidates
from evalgate.errors import ExitCode, NoEvaluationFile, NothingToDo
from evalgate.gate import prepare, progress, starter
from evalgate.gate.starter import Starter
from evalgate.judges import prompting
from evalgate.system import isolation
from evalgate.text import plain, words
from . import commands

SETTINGS = ("paths", "root", "config", "agent", "env", "cache")


@click.command("init")
@commands.options(*SETTINGS)
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
def command(action: str, force: bool, **values: Any) -> int:
    """Write a workflow, and an evalgate.yml if it is needed, for the evaluation files and agents of
    the repository. Makes no model calls, except if there is no evaluation file: then the agent
    answers one question, and the conversation becomes the first case."""
    settings = commands.settings_of(values)
    first_files: list[str] = []
    try:
        plan = starter.plan(settings, environ=os.environ, action=action)
    except NothingToDo as error:
        codes = {problem.code for problem in error.problems}
        if codes != {"selection-unmatched"} and not isinstance(error, NoEvaluationFile):
            raise
        first_files = list(
            _first_case(settings, question=values["question"], is_agreed=values["yes"])
        )
        settings = commands.settings_of(values)
        plan = starter.plan(settings, environ=os.environ, action=action)
    if plan.elsewhere and not force:
        cli.tell(
            f"{plan.elsewhere} runs evalgate already, so no other workflow is written (--force)"
        )
    pending = list(starter.changes(plan, force=force))
    written_paths = first_files
    unchanged_paths = []
    for path, text, current_text in pending:
        if current_text is None or force:
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
    if not uses:
        raise candidates.no_agent()
    click.echo("There is no evaluation file yet. The first case is what your agent does now.")
    cli.tell(f"agent: {starter.label(uses[0])}")
    if len(uses) > 1:
        other_agents = words.listed([starter.argument(use) for use in uses[1:]], limit=5)
        cli.tell(f"  (others by --agent: {other_agents})")
    try:
        question = question or click.prompt("Ask it one question")
        watcher = progress.PlainWatcher(sys.stderr)
        context = prepare.make_context(settings, watcher=watcher)
        first_turn = starter.ask(uses, question, settings, context)
        for call in first_turn.turn.tool_calls:
            cli.tell(f"  called  {call.name}({plain.short_json(dict(call.arguments))})")
        answer = plain.clip(plain.one_line(prompting.answer_of(first_turn.turn)), MOST_SHOWN)
        cli.tell(f"  said    {answer or '(nothing)'}")
        if first_turn.state:
            state = plain.short_json(dict(first_turn.state))
            cli.tell(f"  its session begins with {state}, made up: correct it in the case")
        _, reason = starter.find_judge(first_turn, settings, os.environ)
        if reason:
            missing_judge = (
                f"No judge would read the answer, only some of its words count. {reason}"
            )
            cli.tell(f"{missing_judge}. Then `evalgate init` writes a rubric.")
        if not is_agreed:
            click.confirm("Is this right, and the first case?", default=True, abort=True)
    except click.Abort:
        click.echo()
        hint = f'evalgate init --ask "{candidates.QUESTION}" --yes'
        raise NothingToDo("no case was written", hint=hint) from None
    for path in starter.write_case(first_turn, settings, os.environ):
        cli.tell(f"wrote {path}")
        yield os.path.relpath(settings.root / path, isolation.top_of(settings.root))


MOST_SHOWN = 800


def next_steps(plan: Starter, written_paths: list[str]) -> Iterator[str]:
    """The steps left to do by hand, as commands if possible."""
    workflow = plan.top / starter.WORKFLOW
    is_open = workflow.is_file() and starter.ACTION in workflow.read_text("utf-8", "replace")
    # also of an earlier time: who has not replaced OWNER has perhaps not set the secrets
    writes_workflow = starter.WORKFLOW in written_paths or is_open
    if is_open:
        yield f"In {starter.WORKFLOW}, replace OWNER with the publisher of the action."
    if plan.undecided:
        rules = next(path for path in plan.files if path != starter.WORKFLOW)
        yield f"In {rules}, name the agent of {words.listed(plan.undecided, limit=3)}."
    if writes_workflow and plan.secrets:
        yield "Set the secrets, and remove those that the agents do not need: " + "; ".join(
            f"gh secret set {name}" for name in plan.secrets.values()
        )
    if writes_workflow and (
        renamed := {name: secret for name, secret in plan.secrets.items() if name != secret}
    ):
        pairs = words.listed(f"{name} from {secret}" for name, secret in renamed.items())
        yield f"GitHub refuses secrets whose names begin with GITHUB_, so the workflow sets {pairs}."
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
