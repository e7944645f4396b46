"""`evalgate accept`: what the agent did becomes what its failing cases expect, one case after another."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from evalgate import cli, reports
from evalgate.cli import commands
from evalgate.config import load
from evalgate.errors import ConfigError, ExitCode
from evalgate.gate import accept, known
from evalgate.gate.accept import LeftAsItIs, Proposal
from evalgate.text import plain, words

SETTINGS = ("root", "config", "output", "debug")
KEYS = "[a]ccept  [r]eject  [s]kip  accept [A]ll  [q]uit"


@click.command("accept")
@commands.settings_options(*SETTINGS)
@click.argument("cases", nargs=-1)
@click.option("--failed", is_flag=True, help="All cases that failed. [default, where no case is named]")
@click.option("--new", "only_new", is_flag=True, help="Only failures that the base does not have, and new cases.")
@click.option("--calls", is_flag=True, help="Accept tool calls, whatever the case fails by.")
@click.option("--answer", is_flag=True, help="Accept answers, whatever the case fails by.")
@click.option("--run", "run_number", type=click.IntRange(1), metavar="N", help="Take the Nth run, where runs differ.")
@click.option("--results", metavar="FILE", help="Results to accept. [default: the newest of each case]")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--yes", is_flag=True, help="Accept all without being asked.")
def command(**values: Any) -> None:
    """Accept what the agent did as what CASES (ids) expect: by default the calls or answers that their criteria found
    wrong. Only these values change in an evaluation file. Asks for each case."""
    sys.exit(cli.run_command(lambda: run(values), debug=bool(values.get("debug"))))


def run(values: dict[str, Any]) -> int:
    """Accept cases; exit code 1 where one could not be. Raises EvalgateError."""
    settings = load.load_settings(commands.given({name: values.get(name) for name in SETTINGS}))
    asks = not values["yes"] and not values["dry_run"]
    if asks and not sys.stdin.isatty():
        raise ConfigError("nobody is there to be asked", hint="Use --dry-run to look, --yes to accept.")
    results = Path(values["results"]).absolute() if values["results"] else None
    chosen = known.select(known.newest(settings, results), values["cases"])
    if not values["cases"] or values["only_new"] or values["failed"]:
        chosen = [each for each in chosen if accept.is_wanted(each, only_new=values["only_new"])]
    parts = [name for name in ("calls", "answer") if values[name]]
    proposals: list[Proposal] = []
    left = 0
    for each in chosen:
        try:
            proposals.append(accept.propose(each, root=settings.root, parts=parts, run=values["run_number"]))
        except LeftAsItIs as why:
            left += 1
            click.echo(plain.visible(f"{each.key[1]}: not accepted: {why}"), err=True)
    taken = list(_each(proposals, asks=asks, dry_run=values["dry_run"]))
    files = {proposal.path for proposal, is_taken in zip(proposals, taken, strict=False) if is_taken}
    _conclude(sum(taken), len(chosen), files=files, dry_run=values["dry_run"])
    return ExitCode.FAIL if left and values["cases"] else ExitCode.PASS


def _each(proposals: Sequence[Proposal], *, asks: bool, dry_run: bool) -> Iterator[bool]:
    """Whether each was accepted, in order, until somebody quits."""
    for number, proposal in enumerate(proposals, 1):
        try:
            accept.apply(proposal)  # before anybody decides
        except ConfigError as error:
            click.echo(
                plain.visible(f"{proposal.known.key[1]}: not accepted: {error.message}\n  {error.hint}"), err=True
            )
            yield False
            continue
        _show(proposal, f"{number} of {len(proposals)}")
        answer = _answer() if asks else "a"
        if answer == "q":
            return
        asks = asks and answer != "A"
        is_accepted = answer in ("a", "A")
        if is_accepted and not dry_run:
            accept.write(proposal)
        yield is_accepted


def _show(proposal: Proposal, place: str) -> None:
    suite, case_id = proposal.known.key
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    click.secho(plain.visible(f"{case_id} ({suite}), {place}"), bold=True)
    for change in proposal.changes:
        if proposal.turns > 1:
            click.echo(f"    turn {change.turn + 1} of {proposal.turns}")
        differs = reports.render_change(
            change.expected,
            change.actual,
            calls=change.with_calls,
            answer=change.answer is not None,
            width=width,
            color=True,
        )
        click.echo(differs, nl=False)


def _answer() -> str:
    """One of the keys of KEYS; the end of the input, and Ctrl-C, quit."""
    while True:
        click.echo(f"  {KEYS}: ", nl=False)
        try:
            key = click.getchar()
        except (EOFError, KeyboardInterrupt):
            key = "q"
        click.echo(key if key.isprintable() else "")
        if key in ("a", "r", "s", "A", "q"):
            return key


def _conclude(accepted: int, of: int, *, files: set[Path], dry_run: bool) -> None:
    cases = words.counted(accepted, "case")
    if dry_run:
        click.echo(f"{cases} of {of} would be accepted; nothing was changed")
        return
    click.echo(f"{cases} of {of} accepted")
    if accepted:
        names = words.listed(sorted(os.path.relpath(file) for file in files))
        click.echo(plain.visible(f"changed {names}"))
        click.echo("The pull request will show each as a case whose expectation changed.")
        click.echo("Check it: evalgate run --failed")
