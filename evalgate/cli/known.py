"""`evalgate show`, `history` and `accept`: earlier results of a case, which may become its
expectations."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from evalgate import cli, reports
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, ExitCode, NothingToDo, UnavailableError
from evalgate.formats import rewrite
from evalgate.gate import edit, stored_results
from evalgate.gate.edit import CaseUnchanged, Proposal
from evalgate.gate.stored_results import StoredCase
from evalgate.model import CaseKey, VerdictKind
from evalgate.reports import cases as reports_cases
from evalgate.reports.phrases import phrase
from evalgate.results import kept
from evalgate.results.kept import KeptRun
from evalgate.text import plain, words
from . import commands

SETTINGS = ("root", "config", "output", "debug")
"""Of all three commands: they only find results, and run nothing."""
NAME_WIDTH = 80
"""Characters of an id or a file in a line."""
KEYS = "[a]ccept  [r]eject  [s]kip  accept [A]ll  [q]uit"
"""The prompt of `accept`; the letter in brackets is the key."""


@click.command("show")
@commands.options(*SETTINGS)
@click.argument("cases", nargs=-1)
@click.option(
    "--run",
    "run_number",
    type=click.IntRange(1),
    metavar="N",
    help="The Nth run. [default: the worst]",
)
@click.option(
    "--results", metavar="FILE", help="Results to look at. [default: the newest of each case]"
)
@cli.ends
def show(**values: Any) -> int:
    """Show CASES (ids) as they last ran: criteria, calls and answers, turn by turn; without one,
    list them."""
    settings = commands.settings_of(values)
    folder = str(settings.root) if cli.shows_links() else ""
    stored_cases, unrun_count = _load_cases(settings, values["results"])
    if not values["cases"]:
        return _list_cases(stored_cases.values(), unrun_count)
    for number, stored_case in enumerate(stored_results.select(stored_cases, values["cases"])):
        case, repeat = stored_case, values["run_number"]
        if repeat is not None:
            case = case.with_trials(
                trial for trial in case.trials if trial.key.number == repeat - 1
            )
            if not case.trials:
                raise ConfigError(
                    f"case {case.case_id!r} has no run {repeat}",
                    hint=f"It has {len(stored_case.trials)}.",
                )
        run = case.head.run
        if number:
            click.echo()
        changed = " with uncommitted changes" if run.dirty else ""
        commit = f", commit {run.commit[:7]}{changed}" if run.commit else ""
        cli.tell(f"ran at {run.started_at}{commit}")
        click.echo(reports.render_whole_case(case, width=cli.width(), folder=folder), nl=False)
    return ExitCode.PASS


def _load_cases(settings: Settings, results: str | None) -> tuple[dict[CaseKey, StoredCase], int]:
    """All cases with results, or those in `results`; and the number of cases without any."""
    if results:
        return stored_results.of_file(commands.results_at(results)), 0
    report, stored_cases = stored_results.current(settings)
    return stored_cases, sum(case.key not in stored_cases for case in report.verdict.cases)


def _list_cases(stored_cases: Iterable[StoredCase], unrun_count: int) -> int:
    """A line for each case; those that did not pass come first."""
    rows = [("", "case", "suite", "ran at")]
    for stored_case in sorted(stored_cases, key=lambda case: case.kind is VerdictKind.PASS):
        suite, case_id = (plain.label(name, NAME_WIDTH) for name in stored_case.key)
        rows.append((stored_case.word, case_id, suite, stored_case.head.run.started_at))
    for line in plain.table(rows):
        click.echo(line)
    if unrun_count:
        click.echo(phrase("never_run", unrun_count))
    click.echo("Show one: evalgate show CASE")
    return ExitCode.PASS


@click.command("history")
@commands.options(*SETTINGS)
@click.argument("case", required=False)
@cli.ends
def history(**values: Any) -> int:
    """Show how CASE (an id) ended in the runs that are kept, the newest first; without one, list
    the runs."""
    settings = commands.settings_of(values)
    name = values["case"]
    if name is None:
        return _list_runs(settings)
    rows = [("time", "commit", "verdict", "")]
    words_of_runs: dict[CaseKey, str] = {}
    names = set[str]()
    for run in kept.runs(settings.root):
        for (suite, case_id), outcome in run.outcomes().items():
            names.add(case_id)
            if name in (case_id, f"{suite}:{case_id}"):
                word = reports_cases.stored_word(*outcome)
                words_of_runs.setdefault((suite, case_id), word)
                rows.append((run.started_at, _commit(run), word, plain.label(suite, NAME_WIDTH)))
    if len(rows) == 1:
        hint = words.did_you_mean(
            name, names, fallback="Runs at a terminal are kept: `evalgate run`."
        )
        raise NothingToDo(f"no run of a case {plain.label(name, NAME_WIDTH)!r} is kept", hint=hint)
    current_words: dict[CaseKey, str] = {}
    with suppress(NothingToDo, ConfigError):  # a deleted case has a history, too
        _, stored_cases = stored_results.current(settings)
        current_words = {key: case.word for key, case in stored_cases.items()}
    rows[1:1] = (
        ("now", "", current_words[key], plain.label(key[0], NAME_WIDTH))
        for key, word in words_of_runs.items()
        if current_words.get(key, word) != word
    )
    for line in plain.table(rows):
        click.echo(line)
    if any(row[1].endswith("*") for row in rows[1:]):
        click.echo("* with uncommitted changes")
    return ExitCode.PASS


def _commit(run: KeptRun) -> str:
    """The first seven digits, or `-` outside git; `*` marks uncommitted changes."""
    return f"{run.commit[:7] or '-'}{'*' if run.dirty else ''}"


def _counts(run: KeptRun) -> list[str]:
    """The number of cases by outcome: `17 pass`, `2 fail`, `1 flaky`."""
    counts = Counter(reports_cases.stored_word(*outcome) for outcome in run.outcomes().values())
    return [f"{count:,} {word}" for word, count in sorted(counts.items(), reverse=True)]


def _list_runs(settings: Settings) -> int:
    """A line for each kept run, the newest first."""
    runs = kept.runs(settings.root)
    if not runs:
        raise NothingToDo("no run is kept", hint="Runs at a terminal are kept: `evalgate run`.")
    rows = [("time", "commit", "verdict", "cases")]
    for run in runs:
        verdict = run.verdict.value.replace("_", " ")
        rows.append((run.started_at, _commit(run), verdict, ", ".join(_counts(run))))
    for line in plain.table(rows):
        click.echo(line)
    click.echo("The runs of one case: evalgate history CASE")
    return ExitCode.PASS


@click.command("accept")
@commands.options(*SETTINGS)
@click.argument("cases", nargs=-1)
@click.option("--failed", is_flag=True, help="All cases that failed. [default without a case]")
@click.option(
    "--new",
    "only_new",
    is_flag=True,
    help="Only failures that the base does not have, and new cases.",
)
@click.option("--calls", is_flag=True, help="Accept tool calls, whatever the case fails by.")
@click.option("--answer", is_flag=True, help="Accept answers, whatever the case fails by.")
@click.option(
    "--run",
    "run_number",
    type=click.IntRange(1),
    metavar="N",
    help="Take the Nth run, where runs differ.",
)
@click.option(
    "--results", metavar="FILE", help="Results to accept. [default: the newest of each case]"
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--yes", is_flag=True, help="Accept all without being asked.")
@cli.ends
def accept(**values: Any) -> int:
    """Accept what the agent did as what CASES (ids) expect: by default the calls or answers that
    their criteria found wrong. Only these values change in an evaluation file. Asks for each."""
    settings = commands.settings_of(values)
    asks = not values["yes"] and not values["dry_run"]
    if asks and not sys.stdin.isatty():
        raise ConfigError(
            "nobody is there to be asked", hint="Use --dry-run to look, --yes to accept."
        )
    proposals: list[Proposal] = []
    skipped_count = 0
    parts = [name for name in ("calls", "answer") if values[name]]
    for stored_case in _select_cases(values, settings):
        try:
            proposal = edit.propose(
                stored_case, root=settings.root, parts=parts, run_number=values["run_number"]
            )
            proposals.append(proposal)
        except CaseUnchanged as reason:
            skipped_count += 1
            _tell(stored_case.case_id, str(reason))
    decisions = list(_decisions(proposals, asks=asks, dry_run=values["dry_run"]))
    files = {
        settings.root / proposal.stored_case.key[0]
        for proposal, is_accepted in zip(proposals, decisions, strict=False)
        if is_accepted
    }
    total = len(proposals) + skipped_count
    _conclude(decisions.count(True), total, files=files, dry_run=values["dry_run"])
    return (
        ExitCode.FAIL if None in decisions or (skipped_count and values["cases"]) else ExitCode.PASS
    )


def _select_cases(values: dict[str, Any], settings: Settings) -> list[StoredCase]:
    """The named cases, or those that did not pass; --new and --failed also narrow named ones."""
    names = values["cases"]
    selection = stored_results.select(_load_cases(settings, values["results"])[0], names)
    if not names or values["only_new"] or values["failed"]:
        selection = [
            stored_case
            for stored_case in selection
            if (stored_case.is_of_change or not values["only_new"])
            and stored_case.kind is not VerdictKind.PASS
        ]
    return selection


def _decisions(
    proposals: Sequence[Proposal], *, asks: bool, dry_run: bool
) -> Iterator[bool | None]:
    """In order, True for each accepted proposal, until the user quits; None if its file cannot be
    changed."""
    for number, proposal in enumerate(proposals, 1):
        suite, case_id = (plain.label(name, NAME_WIDTH) for name in proposal.stored_case.key)
        try:
            edit.apply(proposal)  # before the user decides
            click.secho(f"{case_id} ({suite}), {number} of {len(proposals)}", bold=True)
            _show_proposal(proposal)
            answer = _answer() if asks else "a"
            if answer == "q":
                return
            asks = asks and answer != "A"
            is_accepted = answer in ("a", "A")
            if is_accepted and not dry_run:
                rewrite.save(*edit.apply(proposal))
        except (ConfigError, UnavailableError) as error:
            _tell(proposal.stored_case.case_id, f"{error.message}\n  {error.hint}".rstrip())
            yield None
        else:
            yield is_accepted


def _tell(name: str, reason: str) -> None:
    """Report on standard error why a case stays as it is; the others go on."""
    cli.tell(f"{plain.label(name, NAME_WIDTH)}: not accepted: {reason}", err=True)


def _show_proposal(proposal: Proposal) -> None:
    """Print what would change in each turn of a case."""
    for change in proposal.changes:
        turn = change.turn
        if turn.of > 1:
            click.echo(f"    turn {turn.number} of {turn.of}")
        difference = reports.render_change(
            turn,
            calls=change.edits_calls,
            answer=change.answer is not None,
            width=cli.width(),
        )
        click.echo(difference, nl=False)


def _answer() -> str:
    """One of the keys of KEYS; the end of the input and Ctrl-C mean quit."""
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
    """Print the number of accepted cases, their files and the next step. `of`: cases looked at."""
    cases = words.counted(accepted, "case")
    if dry_run:
        click.echo(f"{cases} of {of} would be accepted; nothing was changed")
        return
    click.echo(f"{cases} of {of} accepted")
    if accepted:
        names = words.listed(sorted(os.path.relpath(file) for file in files))
        cli.tell(f"changed {names}")
        click.echo("The pull request will show each as a case whose expectation changed.")
        click.echo("Check it: evalgate run --failed")
