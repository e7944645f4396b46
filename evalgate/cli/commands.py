"""`evalgate run`, `merge`, `compare` and `validate`; and the options of every command, from the
settings table."""

from __future__ import annotations

import datetime as dt
import os
import shlex
import sys
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from evalgate import cli, config, reports
from evalgate.baseline import quarantine
from evalgate.config import Door, Heading, load, settings as config_settings
from evalgate.config.context import Context
from evalgate.config.settings import Settings
from evalgate.errors import ConfigError, ExitCode, Problem, Severity
from evalgate.gate import (
    compare_files,
    known,
    merge as gate_merge,
    prepare,
    progress,
    run as gate_run,
)
from evalgate.model import Report
from evalgate.reports.phrases import phrase
from evalgate.results.output import RESULTS
from evalgate.system import isolation
from evalgate.text import words
from evalgate.values import JsonObject

Command = TypeVar("Command", bound=Callable[..., Any])

SELECTING = (
    "root",
    "config",
    "criteria",
    "agent",
    "grep",
    "python",
    "requirements",
    "env",
    "strict",
    "runs",
)
"""The settings of `list` and `validate`; `run` has all."""

DECIDING = (
    *("root", "config", "fail_on", "threshold", "alpha", "max_drop", "policy", "pass_rate"),
    *("min_measured", "output"),
)
"""The settings of `merge` and `compare`, which measure nothing."""

OTHER_OPTIONS = {Heading.SELECTING: ("failed",), Heading.SHOWING: ("everything", "help")}
GROUPS: dict[str, tuple[str, ...]] = {
    group: (*config.names_with(Settings, Door.CLI, group), *OTHER_OPTIONS.get(group, ()))
    for group in Heading
}
"""The options of `run` by topic."""

EXAMPLES = """\b
Examples:
  evalgate run                                all evaluation files
  evalgate run tests/booking.evalset.json:case_1
                                              one case
  evalgate run --base main --runs 3           also the agent of main, three runs per case and side
  evalgate run --failed                       the cases that did not pass when they last ran
  evalgate run --grep refund --all            cases about refunds, informational criteria too
  evalgate run --agent python:app:answer      another agent than the one that is found
"""

MERGE_SETTINGS = (*DECIDING, "base", "baseline_folder", "save_baseline", "cache", "debug")


def options(*names: str) -> Callable[[Command], Command]:
    """Add `PATHS...` and an option for each named setting (all if none is named)."""

    def add(command: Command) -> Command:
        return click.argument("paths", nargs=-1)(settings_options(*names)(command))

    return add


def settings_options(*names: str) -> Callable[[Command], Command]:
    """Add an option for each named setting (all if none is named)."""
    setting_names = names or config.names_with(Settings, Door.CLI)

    def add(command: Command) -> Command:
        for name in reversed(setting_names):
            if name != "paths":
                command = _option(name)(command)
        return command

    return add


def explicit_options(values: JsonObject) -> JsonObject:
    """The settings that the command line contains."""
    return {name: argument for name, argument in values.items() if argument not in (None, ())}


def settings_of(values: JsonObject, names: Sequence[str]) -> Settings:
    """The settings of a command that also has other options. Raises ConfigError."""
    return load.load_settings(explicit_options({name: values[name] for name in names}))


def _option(name: str) -> Callable[[Command], Command]:
    field = Settings.model_fields[name]
    flag = f"--{config_settings.input_name(name)}"
    description = field.description or ""
    if field.annotation is bool:
        return click.option(
            f"{flag}/--no-{config_settings.input_name(name)}", name, default=None, help=description
        )
    origin = typing.get_origin(field.annotation)
    if origin in (tuple, types.GenericAlias):
        return click.option(
            flag, name, multiple=True, metavar="ITEM", help=f"{description} May be repeated."
        )
    default = f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
    if default and field.default != ():
        description += f" [default: {default}]"
    metavars: dict[Any, str] = {int: "N", float: "NUMBER"}
    metavar = (
        "|".join(filter(None, typing.get_args(field.annotation)))
        if origin is typing.Literal
        else metavars.get(field.annotation)
    )
    return click.option(flag, name, default=None, metavar=metavar or "TEXT", help=description)


class GroupedCommand(click.Command):
    """A command whose help shows its options in GROUPS."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A section for each group; options without a group come last."""
        records = {
            option.name: option.get_help_record(ctx)
            for option in self.params
            if isinstance(option, click.Option)
        }
        help_option = self.get_help_option(ctx)
        records["help"] = None if help_option is None else help_option.get_help_record(ctx)
        grouped_names = {name for names in GROUPS.values() for name in names}
        other_names = [name for name in records if name not in grouped_names and name is not None]
        for title, names in {
            **GROUPS,
            **({"More": other_names} if any(map(records.get, other_names)) else {}),
        }.items():
            with formatter.section(title):
                formatter.write_dl(
                    [record for name in names if (record := records.get(name)) is not None]
                )


show_all = click.option(
    "--all", "everything", is_flag=True, help="Also show informational criteria."
)


@click.command("run", cls=GroupedCommand, epilog=EXAMPLES)
@options()
@show_all
@click.option("--failed", is_flag=True, help="Only the cases that did not pass when they last ran.")
@cli.ends
def run(failed: bool, **values: Any) -> int:
    """Run the gate on PATHS (files, folders, globs, `file.evalset.json:case_1,case_2`; default:
    all)."""
    if failed and values["paths"]:
        raise ConfigError("--failed selects by itself: give it no paths")
    everything = values.pop("everything")
    options = explicit_options(values)
    if not failed:
        return run_gate(options, gate_run.run, everything=everything)
    options["paths"], passed_count = known.failed(load.load_settings(options), os.environ)
    exit_code = run_gate(options, gate_run.run, everything=everything)
    if passed_count:
        click.echo(phrase("not_run_again", passed_count))
    return exit_code


@click.command("merge")
@click.argument("places", nargs=-1, required=True)
@settings_options(*MERGE_SETTINGS)
@show_all
@cli.ends
def merge(places: tuple[str, ...], everything: bool, **values: Any) -> int:
    """Merge the results of `evalgate run --shard 1/N` ... `N/N` in PLACES (files, or folders to
    search).

    Missing shards count as not measured. The policy comes from evalgate.yml and the options of this
    command."""
    gate = partial(gate_merge.merge_gate, places=[Path(place) for place in places])
    return run_gate(explicit_options(values), gate, everything=everything)


def results_at(name: str) -> Path:
    """The named results.json, or the one in the named folder."""
    path = Path(name).absolute()
    return path / RESULTS if path.is_dir() else path


@click.command("compare")
@click.argument("base")
@click.argument("head")
@settings_options(*DECIDING, "debug")
@show_all
@cli.ends
def compare(base: str, head: str, everything: bool, **values: Any) -> int:
    """Compare the results.json HEAD with the results.json BASE; runs nothing."""
    gate = partial(compare_files.compare, base=results_at(base), head=results_at(head))
    return run_gate(explicit_options(values), gate, everything=everything)


@click.command("report")
@click.argument("results")
@settings_options(*DECIDING, "debug")
@show_all
@cli.ends
def report(results: str, everything: bool, **values: Any) -> int:
    """Write the reports of RESULTS (a results.json, with base.json beside it if there was a base;
    or their folder) again."""
    gate = partial(compare_files.report, results=results_at(results))
    return run_gate(explicit_options(values), gate, everything=everything)


@click.command("validate")
@options(*SELECTING)
@cli.ends
def validate(**values: Any) -> int:
    """Check evaluation files, criteria and evalgate.yml; makes no model calls."""
    settings = load.load_settings(explicit_options(values))
    project = prepare.prepare(settings, environ=os.environ, unrun_suffices=True)
    quarantine_problems = quarantine.dated(settings, dt.datetime.now(dt.UTC).date())
    project = replace(project, problems=(*project.problems, *quarantine_problems))
    problems = project.all_problems()
    cli.show_problems(problems)
    counts = {
        severity: sum(problem.severity is severity for problem in problems) for severity in Severity
    }
    cases = sum(len(suite.eval_set.cases) for suite in project.suites)
    library_counts = "".join(
        f", {words.counted(library.evaluation_count(), library.noun)}"
        for library in project.libraries
    )
    click.echo(
        f"{words.counted(len(project.suites), 'suite')}, {words.counted(cases, 'case')}{library_counts}: "
        f"{words.counted(counts[Severity.ERROR], 'error')}, {words.counted(counts[Severity.WARNING], 'warning')}"
    )
    return ExitCode.CONFIG if project.stops(strict=settings.strict) else ExitCode.PASS


def isolates(settings: Settings, say: Callable[[str], None]) -> bool:
    """True if agents are isolated: as requested; without a request, in a workflow if it is
    possible."""
    if "isolate" in settings.explicit_options or os.environ.get("GITHUB_ACTIONS") != "true":
        return settings.isolate
    reason = isolation.refusal_reason()
    if reason:
        say(
            f"Agents run with the rights of this step and can read what it can read: {reason} (docs/security.md)"
        )
    return not reason


def run_gate(
    options: JsonObject,
    gate: Callable[[Settings, Context], Report],
    *,
    everything: bool,
    more: Callable[[Report], str] = lambda _: "",
) -> int:
    """Run a gate. Show problems as they occur, the results, what `more` says of them, and the
    written files. Return its exit code."""
    settings = load.load_settings(options)
    shown_problems = list[Problem]()
    texts = list[str]()
    width = cli.width()
    shows_links = cli.shows_links()

    def show(problems: Sequence[Problem]) -> None:
        cli.show_problems(tuple(problem for problem in problems if problem not in shown_problems))
        shown_problems.extend(problems)

    # its conversations cannot be read after the run
    def present(report: Report) -> None:
        folder = str(settings.root) if shows_links else ""
        texts.append(
            reports.render_terminal(
                report, width=width, color=True, all_criteria=everything, folder=folder
            )
        )
        texts.append(more(report))

    watcher = progress.watch(sys.stderr)
    command = f"evalgate {shlex.join(sys.argv[1:])}"
    isolate = gate is gate_run.run and isolates(settings, watcher.say)
    context_fields = {
        "reproduce": command,
        "show": show,
        "isolate": isolate,
        "present": present,
        "keep": True,
    }
    context = prepare.make_context(settings, environ=os.environ, watcher=watcher, **context_fields)
    report = gate(settings, context)
    show(report.problems)
    click.echo("".join(texts), nl=False)  # drops colors if stdout is not a terminal
    for name, path in report.files.items():
        place = os.path.relpath(path)
        click.echo(f"{name:>12}  {reports.link(place, path) if shows_links else place}")
    return report.exit_code
