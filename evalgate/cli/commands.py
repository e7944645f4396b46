"""`evalgate run`, `list` and the other commands that show no dialog; and the options of every
command, from the settings table."""

from __future__ import annotations

import datetime as dt
import os
import shlex
import sys
import types
import typing
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from evalgate import cli, config, errors, reports
from evalgate.baseline import exemptions
from evalgate.config import Door, Heading, load, settings as config_settings
from evalgate.config.context import Audience, Context, Opening
from evalgate.config.settings import Settings
from evalgate.discovery import agents as discovery_agents
from evalgate.errors import ConfigError, ExitCode, Severity
from evalgate.gate import (
    merge as gate_merge,
    prepare,
    progress,
    run as gate_run,
    stored_results,
)
from evalgate.model import ConfigOrigin, Report, Suite
from evalgate.reports.phrases import phrase
from evalgate.results.output import RESULTS
from evalgate.runner import trials
from evalgate.system import isolation, process
from evalgate.text import words
from evalgate.values import JsonObject, Log

Command = TypeVar("Command", bound=Callable[..., Any])
"""A function that click turns into a command."""

SELECTING = (
    "paths",
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
    "root",
    "config",
    "fail_on",
    "threshold",
    "alpha",
    "max_drop",
    "policy",
    "pass_rate",
    "min_measured",
    "output",
)
"""The settings of `merge` and `compare`, which measure nothing."""

OTHER_OPTIONS = {Heading.SELECTING: ("failed",), Heading.SHOWING: ("everything", "help")}
"""Options of `run` that are no settings, by the group of its help."""
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
"""The end of `run --help`; its first character keeps click from joining the lines."""

MERGE_SETTINGS = (*DECIDING, "base", "baseline_folder", "save_baseline", "cache", "debug")
"""The settings of `merge`, which also finds the base and stores a baseline."""


def options(*names: str) -> Callable[[Command], Command]:
    """Add an option for each named setting (all if none is named); for `paths`, the arguments."""

    def add(command: Command) -> Command:
        """Add the last option first, as decorators do: the help then has them in order."""
        for name in reversed(names or config.names_with(Settings, Door.CLI)):
            add_one = click.argument(name, nargs=-1) if name == "paths" else _option(name)
            command = add_one(command)
        return command

    return add


def explicit_options(values: JsonObject) -> JsonObject:
    """The settings that the command line contains."""
    return {
        name: values[name]
        for name in config.names_with(Settings, Door.CLI)
        if values.get(name) not in (None, ())
    }


def context_of(settings: Settings, **facts: Any) -> Context:
    """The context of a command that shows its progress as lines."""
    audience = Audience(watcher=progress.PlainWatcher(sys.stderr))
    return prepare.make_context(settings, audience=audience, **facts)


def settings_of(values: JsonObject) -> Settings:
    """The settings of a command, which may have other options, too. Raises ConfigError."""
    return load.load_settings(explicit_options(values))


def _option(name: str) -> Callable[[Command], Command]:
    """The option of a setting. Without it, the value is None or empty, and evalgate.yml decides."""
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
        other_names = tuple(name for name in records if name and name not in grouped_names)
        for title, names in {**GROUPS, "More": other_names}.items():
            rows = [record for name in names if (record := records.get(name)) is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


show_all = click.option(
    "--all", "everything", is_flag=True, help="Also show informational criteria."
)
"""Of each command that prints results; the report files do not depend on it."""


@click.command("run", cls=GroupedCommand, epilog=EXAMPLES)
@options()
@show_all
@click.option("--failed", is_flag=True, help="Only the cases that did not pass when they last ran.")
@cli.ends
def run(failed: bool, everything: bool, **values: Any) -> int:
    """Run the gate on PATHS (files, folders, globs, `file.evalset.json:case_1,case_2`; default:
    all)."""
    if failed and values["paths"]:
        raise ConfigError("--failed selects by itself: give it no paths")
    options = explicit_options(values)
    if not failed:
        return run_gate(options, gate_run.run, everything=everything)
    options["paths"], passed_count = stored_results.failed(load.load_settings(options))
    exit_code = run_gate(options, gate_run.run, everything=everything)
    if passed_count:
        click.echo(phrase("not_run_again", passed_count))
    return exit_code


@click.command("merge")
@click.argument("places", nargs=-1, required=True)
@options(*MERGE_SETTINGS)
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
@options(*DECIDING, "debug")
@show_all
@cli.ends
def compare(base: str, head: str, everything: bool, **values: Any) -> int:
    """Compare the results.json HEAD with the results.json BASE; runs nothing."""
    gate = partial(stored_results.compare, base=results_at(base), head=results_at(head))
    return run_gate(explicit_options(values), gate, everything=everything)


@click.command("report")
@click.argument("results")
@options(*DECIDING, "debug")
@show_all
@cli.ends
def report(results: str, everything: bool, **values: Any) -> int:
    """Write the reports of RESULTS (a results.json, with base.json beside it if there was a base;
    or their folder) again."""
    gate = partial(stored_results.report, results=results_at(results))
    return run_gate(explicit_options(values), gate, everything=everything)


@click.command("validate")
@options(*SELECTING)
@cli.ends
def validate(**values: Any) -> int:
    """Check evaluation files, criteria and evalgate.yml; makes no model calls."""
    settings = settings_of(values)
    project = prepare.prepare(settings, unrun_suffices=True)
    today = dt.datetime.now(dt.UTC).date()
    project = project.with_problems(exemptions.lint(settings, project.suites, today))
    problems = project.all_problems()
    cli.show_problems(problems)
    counts = Counter(problem.severity for problem in problems)
    cases = sum(len(suite.cases) for suite in project.suites)
    library_counts = "".join(
        f", {words.counted(library.evaluation_count(), library.noun)}"
        for library in project.libraries
    )
    click.echo(
        f"{words.counted(len(project.suites), 'suite')}, {words.counted(cases, 'case')}{library_counts}: "
        f"{words.counted(counts[Severity.ERROR], 'error')}, {words.counted(counts[Severity.WARNING], 'warning')}"
    )
    return ExitCode.CONFIG if project.stops(strict=settings.strict) else ExitCode.PASS


def isolates(settings: Settings, say: Log) -> bool:
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
    process.end_with_run()
    settings = load.load_settings(options)
    texts = list[str]()
    width = cli.width()
    shows_links = cli.shows_links()

    show = errors.once(lambda problem: cli.show_problems((problem,)))

    def present(report: Report) -> None:
        """Render what is printed later: the report's conversations cannot be read after the run."""
        folder = str(settings.root) if shows_links else ""
        text = reports.render_terminal(
            report, width=width, color=True, all_criteria=everything, folder=folder
        )
        texts.extend((text, more(report)))

    watcher = progress.watch(sys.stderr)
    context = prepare.make_context(
        settings,
        audience=Audience(
            watcher=watcher,
            show=show,
            present=present,
            reproduce=f"evalgate {shlex.join(sys.argv[1:])}",
        ),
        opening=Opening(isolate=gate is gate_run.run and isolates(settings, watcher.say)),
        keep=True,
    )
    report = gate(settings, context)
    show(report.problems)
    click.echo("".join(texts), nl=False)  # drops colors if stdout is not a terminal
    for name, path in report.files.items():
        place = os.path.relpath(path)
        click.echo(f"{name:>12}  {reports.link(place, path) if shows_links else place}")
    return report.exit_code


@click.command("list")
@options(*SELECTING)
@click.option(
    "--cases/--no-cases", "with_cases", default=True, help="Show the cases of each suite."
)
@cli.ends
def show_suites(with_cases: bool, **values: Any) -> int:
    """Show suites, cases, criteria, agents and the minimum number of model calls of a run; makes
    none."""
    settings = settings_of(values)
    prepared = prepare.prepare(settings, unrun_suffices=True)
    for suite in prepared.suites:
        for line in suite_lines(suite, with_cases=with_cases):
            cli.tell(line)
    measured_files = {suite.key for suite in prepared.suites}
    for library in prepared.libraries:
        for line in library.lines(measured_files=measured_files):
            cli.tell(line)
    cases = sum(len(suite.cases) for suite in prepared.suites)
    tasks = list(trials.tasks([prepared.suites], trials.first_rounds(settings.runs)))
    size = (
        words.counted(len(prepared.suites), "suite"),
        words.counted(cases, "case"),
        words.counted(len(tasks), "trial"),
    )
    texts = (", ".join(size), prepare.tell_expected(tasks, settings))
    click.echo("; ".join(filter(None, texts)))
    cli.show_problems(prepared.all_problems())
    return ExitCode.CONFIG if prepared.stops(strict=settings.strict) else ExitCode.PASS


def suite_lines(suite: Suite, *, with_cases: bool) -> list[str]:
    """A suite in a few lines."""
    source = suite.criteria_source
    origin = "the defaults" if source.origin is ConfigOrigin.DEFAULTS else source.file
    criteria = [
        use.name
        if use.threshold is None
        else f"{use.name} {'<=' if use.lower_is_better else '>='} {use.threshold:g}"
        for use in suite.criteria
        if not use.informational
    ]
    turns = sum(case.turn_count for case in suite.cases)
    lines = [
        suite.key,
        f"  agent     {discovery_agents.label(suite.agent)}",
        f"  criteria  {', '.join(criteria) or 'none'}, from {origin}",
        f"  cases     {len(suite.cases)} ({words.counted(turns, 'turn')})",
    ]
    if with_cases:
        for case in suite.cases:
            size = (
                "scenario"
                if case.conversation is None
                else words.counted(len(case.conversation), "turn")
            )
            lines.append(f"    - {case.case_id} ({size})")
    return lines


@click.command("conclude")
@click.option(
    "--journal",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The journal of the gate that ended. Default: journal.jsonl in `output`.",
)
@cli.ends
def conclude(journal: Path | None) -> int:
    """Report in the check run, the comment and the step's outputs that a gate was killed.

    Exits with 3. The action does it by itself, unless its whole container is killed."""
    from evalgate import action  # noqa: PLC0415 - its packages take long, and no other command needs them

    return action.conclude(os.environ, "the gate ended before it was done", journal=journal)
