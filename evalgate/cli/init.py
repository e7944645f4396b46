"""`evalgate init`: a workflow and, if the defaults do not fit, an evalgate.yml for the files
found."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Iterator

import click

from evalgate import cli
from evalgate.cli import commands
from evalgate.config import load
from evalgate.errors import ExitCode
from evalgate.gate import starter
from evalgate.gate.starter import Starter
from evalgate.text import plain, words


@click.command("init")
@commands.settings_options("root")
@click.option(
    "--action",
    default="",
    metavar="OWNER/evalgate/gate@REF",
    help="The action that the workflow uses.",
)
@click.option(
    "--force/--no-force",
    default=False,
    help="Replace files that are there; they are kept as *.orig.",
)
@cli.ends
def command(root: str | None, action: str, force: bool) -> int:
    """Write a workflow, and an evalgate.yml if it is needed, for the evaluation files and agents
    that are found. Makes no model calls."""
    settings = load.load_settings(commands.explicit_options({"root": root}))
    plan = starter.plan(settings, environ=os.environ, action=action)
    suites = plan.project.suites
    case_count = sum(len(suite.eval_set.cases) for suite in suites)
    click.echo(
        f"found {words.counted(len(suites), 'suite')} with {words.counted(case_count, 'case')}"
    )
    if plan.elsewhere and not force:
        click.echo(
            plain.visible(
                f"{plan.elsewhere} runs evalgate already, so no other workflow is written (--force)"
            )
        )
    pending = list(starter.changes(plan, force=force))
    written = []
    unchanged_paths = []
    for path, text, current_text in pending:
        if current_text is None or force:
            former = starter.write(plan, path, text)
            click.echo(
                f"wrote {path}; what stood there is in {former}" if former else f"wrote {path}"
            )
            written.append(path)
        else:
            click.echo(f"{path} exists and is left as it is; --force would make this change:")
            for line in difflib.unified_diff(
                current_text.splitlines(), text.splitlines(), path, path, lineterm=""
            ):
                click.echo(plain.visible(line))
            unchanged_paths.append(path)
    if not pending:
        click.echo("nothing to write: the files are as they would be written")
    for number, step in enumerate(next_steps(plan, written), start=1):
        click.echo(f"{'Next:' if number == 1 else '     '} {number}. {plain.visible(step)}")
    return ExitCode.CONFIG if unchanged_paths else ExitCode.PASS


def next_steps(plan: Starter, written: list[str]) -> Iterator[str]:
    """The steps left to do by hand, as commands if possible."""
    workflow = starter.WORKFLOW in written
    if workflow and plan.action == starter.ACTION:
        yield f"In {starter.WORKFLOW}, replace OWNER by the publisher of the action."
    if plan.undecided:
        rules = next(path for path in plan.files if path != starter.WORKFLOW)
        yield f"In {rules}, name the agent of {words.listed(plan.undecided, limit=3)}."
    if workflow and plan.secrets:
        yield "Set the secrets, and take those out that the agents do without: " + "; ".join(
            f"gh secret set {name}" for name in plan.secrets.values()
        )
    if workflow and (
        renamed := {name: other for name, other in plan.secrets.items() if name != other}
    ):
        pairs = words.listed(f"{name} from {other}" for name, other in renamed.items())
        yield f"GitHub refuses secrets whose names begin with GITHUB_, so the workflow sets {pairs}."
    if workflow and plan.uses_cloud:
        yield (
            "Set who the workflow signs in to Google Cloud as (docs/action.md, Vertex AI): "
            + "; ".join(f"gh variable set {name}" for name in starter.CLOUD_VARIABLES)
        )
    yield "Check what a run needs: evalgate doctor"
    if written:
        paths = " ".join(shlex.quote(os.path.relpath(plan.top / path)) for path in written)
        yield f"git add {paths} && git commit -m 'Gate pull requests with evalgate'"
