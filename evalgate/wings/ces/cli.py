"""`evalgate diff` and `evalgate ces`: two versions of CES files by field, and a live app alongside
its files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import click

from evalgate import cli
from evalgate.cli import commands
from evalgate.errors import ConfigError, ExitCode
from evalgate.gate import run, waiting
from evalgate.text import plain, words
from . import compare, files as ces_files, results
from .edit import Refused
from .files import AppChanges, AppFiles, Difference


@click.command("diff")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "--exit-code/--no-exit-code", default=False, help="Exit with 1 if there are differences."
)
@cli.ends
def diff_command(old: Path, new: Path, exit_code: bool) -> int:
    """Compare two versions of CES files or folders by field; what may relax is marked.

    Resources are paired by kind and name, else by display name. Output-only fields are not
    compared."""
    differences, problems = ces_files.differences(old, new)
    cli.show_problems(problems)
    _show(differences, {"old": "removed", "new": "added"})
    return ExitCode.FAIL if exit_code and differences else ExitCode.PASS


def _show(resource_differences: Iterable[Difference], sides: dict[str, str]) -> None:
    """Print a line for each change, and the number of changes."""
    differences = relaxed = 0
    for difference in resource_differences:
        lines = [(str(change), compare.relaxed_reason(change)) for change in difference.changes]
        if difference.only_in:
            lines = [(sides[difference.only_in], "".join(difference.relaxed_reasons))]
        for text, reason in lines:
            mark = " (may relax)" if reason else ""
            cli.tell(f"{difference.kind} {difference.title}: {text}{mark}")
            differences += 1
            relaxed += bool(reason)
    click.echo(f"{words.counted(differences, 'difference')}, {relaxed} that may relax")


# --- a live app -----------------------------------------------------------------------------------

FOLDER = click.argument("folder", default=".", type=click.Path(path_type=Path))
LIVE_APP = click.option(
    "--app",
    default="",
    metavar="NAME",
    help="projects/P/locations/L/apps/A; else the files say it.",
)
ENDPOINT = click.option(
    "--endpoint", default="", metavar="URL", help="Of the API; also CES_API_ENDPOINT."
)


@click.group("ces")
def group() -> None:
    """Evaluations of a live app of Customer Engagement Suite (CES) and those in FOLDER.

    Credentials are those of Google Cloud (GOOGLE_APPLICATION_CREDENTIALS).
    """


@group.command("pull")
@FOLDER
@LIVE_APP
@ENDPOINT
@click.option("--dry-run", is_flag=True, help="Only show what would change in the files.")
@click.option(
    "--overwrite", is_flag=True, help="Also over what was changed in the files since the last pull."
)
@cli.ends
def pull_command(*, dry_run: bool, overwrite: bool, **place: Any) -> int:
    """Write to the files of FOLDER what changed in the app since the last pull. Exit with 1 if a
    field changed on both sides; that file stays as it is."""
    pull = partial(AppFiles.pull, preview=dry_run, overwrite=overwrite)
    sides = {"old": "only in the files", "new": "new" if not dry_run else "would be new"}
    return _live(pull, sides, **place)


@group.command("run", cls=commands.GroupedCommand)
@commands.options()
@commands.show_all
@cli.ends
def run_command(*, everything: bool, **values: Any) -> int:
    """Let the platform run and judge the evaluations in PATHS, and gate on its outcomes, as
    `evalgate run` does; agents are those of the driver `ces`. Shows where evalgate judges
    otherwise."""
    options = {**commands.explicit_options(values), "on_platform": True}
    return commands.run_gate(options, run.run, everything=everything, more=results.render_agreement)


@group.command("push")
@FOLDER
@LIVE_APP
@ENDPOINT
@click.option(
    "--dry-run", is_flag=True, help="Only show what would change, and what of it may relax."
)
@click.option("--no-relaxing", is_flag=True, help="Push nothing if a change may relax.")
@click.option(
    "--overwrite", is_flag=True, help="Also over what was changed in the app since it was pulled."
)
@cli.ends
def push_command(*, dry_run: bool, no_relaxing: bool, overwrite: bool, **place: Any) -> int:
    """Write the content of the files in FOLDER to the app, if it differs. Exit with 1 on a
    refusal."""
    push = partial(AppFiles.push, preview=dry_run, no_relaxing=no_relaxing, overwrite=overwrite)
    sides = {"old": "only in the app", "new": "created" if not dry_run else "would be created"}
    return _live(push, sides, **place)


@group.command("drift")
@FOLDER
@LIVE_APP
@ENDPOINT
@cli.ends
def drift_command(**place: Any) -> int:
    """Compare the app with the files of FOLDER. Exit with 1 if they differ."""
    sides = {"old": "only in the files", "new": "only in the app"}
    return _live(AppFiles.drift, sides, is_drift=True, **place)


@group.command("accept")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--root", default=".", type=click.Path(path_type=Path), metavar="FOLDER", help="The repository."
)
@click.option("--reject", is_flag=True, help="Discard them instead.")
@cli.ends
def accept_command(names: tuple[str, ...], root: Path, *, reject: bool) -> int:
    """Make changes that an assistant proposed; without a NAME, show those that wait."""
    root = root.resolve()
    if not names:
        for change in waiting.changes(root).values():
            cli.tell(f"{change.name}: {'; '.join(change.reasons)}\n{change.diff}")
    for change in waiting.select(root, names):
        (waiting.drop if reject else waiting.accept)(root, change)
        cli.tell(f"{'rejected' if reject else 'accepted'} {change.name}")
    return ExitCode.PASS


def _live(
    action: Callable[[AppFiles], AppChanges],
    sides: dict[str, str],
    *,
    folder: Path,
    is_drift: bool = False,
    **app: str,
) -> int:
    """`app`: its name and its endpoint, as AppFiles takes them."""
    try:
        with closing(AppFiles(folder, environment=os.environ, **app)) as files:
            done = action(files)
    except Refused as refused:
        raise ConfigError(refused.message) from refused
    for note in done.notes:
        cli.tell(note, err=True)
    _show(done.differences, sides)
    for refusal in done.refused:
        click.secho(plain.visible(f"refused: {refusal}"), fg="red", err=True)
    return ExitCode.FAIL if done.refused or (is_drift and done.differences) else ExitCode.PASS
