"""`evalgate show` and `history`: what earlier runs at this terminal found of a case."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import click

from evalgate import cli, reports
from evalgate.cli import commands
from evalgate.comparison import labels
from evalgate.comparison import verdict as comparison_verdict
from evalgate.config import load
from evalgate.errors import ConfigError, ExitCode, NothingToDo
from evalgate.gate import known
from evalgate.gate.known import Known
from evalgate.model import Report
from evalgate.reports.cases import CaseView
from evalgate.results import kept
from evalgate.text import plain, words

SETTINGS = ("root", "config", "output", "debug")


@click.command("show")
@commands.settings_options(*SETTINGS)
@click.argument("cases", nargs=-1, required=True)
@click.option("--run", "run_number", type=click.IntRange(1), metavar="N", help="The Nth run. [default: the worst]")
@click.option("--results", metavar="FILE", help="Results to look at. [default: the newest of each case]")
def show(**values: Any) -> None:
    """Show CASES (ids) as they last ran: criteria, calls and answers, turn by turn."""
    sys.exit(cli.run_command(lambda: _show(values), debug=bool(values.get("debug"))))


@click.command("history")
@commands.settings_options(*SETTINGS)
@click.argument("case")
def history(**values: Any) -> None:
    """Show how CASE (an id) ended in the runs that are kept, the newest first."""
    sys.exit(cli.run_command(lambda: _history(values), debug=bool(values.get("debug"))))


def _show(values: dict[str, Any]) -> int:
    settings = load.load_settings(commands.given({name: values.get(name) for name in SETTINGS}))
    results = Path(values["results"]).absolute() if values["results"] else None
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    folder = str(settings.root) if cli.shows_links() else ""
    for number, each in enumerate(known.select(known.newest(settings, results), values["cases"])):
        run, policy = each.stored.run, load.policy_of(settings, each.stored.run.suites)
        if number:
            click.echo()
        changed = " with uncommitted changes" if run.dirty else ""
        commit = f", commit {run.commit[:7]}{changed}" if run.commit else ""
        click.echo(plain.visible(f"ran at {run.started_at}{commit}"))
        report = Report(run=run, verdict=comparison_verdict.decide(run, policy, comparison=None), policy=policy)
        case = _view(each, report, values["run_number"])
        click.echo(reports.render_whole_case(case, width=width, color=True, folder=folder), nl=False)
    return ExitCode.PASS


def _view(each: Known, report: Report, number: int | None) -> CaseView:
    trials = [trial for trial in each.trials if number is None or trial.key.repeat == number - 1]
    if number is not None and not trials:
        raise ConfigError(f"case {each.key[1]!r} has no run {number}", hint=f"It has {len(each.trials)}.")
    case = next(case for case in each.suite.eval_set.cases if case.case_id == each.key[1])
    label = labels.label(each.verdict)
    return CaseView(report=report, verdict=each.verdict, suite=each.suite, case=case, trials=tuple(trials), label=label)


def _history(values: dict[str, Any]) -> int:
    settings = load.load_settings(commands.given({name: values.get(name) for name in SETTINGS}))
    name, rows, names = values["case"], [("time", "commit", "verdict", "")], set[str]()
    for run in kept.runs(settings.root):
        about = run.about
        for (suite, case), kind in about.kinds().items():
            names.add(case)
            if name in (case, f"{suite}:{case}"):
                commit = f"{about.commit[:7] or '-'}{'*' if about.dirty else ''}"
                rows.append((about.started_at, commit, kind.value.replace("_", " "), plain.label(suite, 80)))
    if len(rows) == 1:
        near = words.nearest(name, names)
        hint = f"Did you mean `{near}`?" if near else "Runs at a terminal are kept: `evalgate run`."
        raise NothingToDo(f"no run of a case {plain.label(name, 80)!r} is kept", hint=hint)
    for line in plain.table(rows):
        click.echo(line)
    if any(row[1].endswith("*") for row in rows[1:]):
        click.echo("* with uncommitted changes")
    return ExitCode.PASS
