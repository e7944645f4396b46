"""The command line: `evalgate run`, `validate`, `list` and the others. Commands are imported when
they are called.

Errors are shown here once, in plain words, and become an exit code."""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from types import FrameType
from typing import Any, cast

import click

from evalgate import __version__, errors
from evalgate.errors import EvalgateError, ExitCode, Problem, Severity
from evalgate.extensions import OURS, Command, EntryPoint, Table
from evalgate.system import process
from evalgate.text import plain, words

COMMANDS: Table[Command] = Table(
    "evalgate.commands",
    Command,
    (
        Command("run", "Run the gate and write the reports.", "evalgate.cli.commands:run"),
        Command(
            "merge",
            "Merge the results of all shards (`--shard 1/N` ...) and report.",
            "evalgate.cli.commands:merge",
        ),
        Command(
            "compare", "Compare two results.json: base and head.", "evalgate.cli.commands:compare"
        ),
        Command(
            "conclude",
            "Report that a gate was killed, and how far it came.",
            "evalgate.cli.commands:conclude",
        ),
        Command(
            "accept",
            "Accept what the agent did as what its failing cases expect.",
            "evalgate.cli.known:accept",
        ),
        Command("show", "Show a case as it last ran, turn by turn.", "evalgate.cli.known:show"),
        Command(
            "history",
            "Show how a case ended in the runs that are kept.",
            "evalgate.cli.known:history",
        ),
        Command(
            "report",
            "Write the reports of a results.json again; runs nothing.",
            "evalgate.cli.commands:report",
        ),
        Command(
            "validate",
            "Check evaluation files and configuration; makes no model calls.",
            "evalgate.cli.commands:validate",
        ),
        Command(
            "doctor",
            "Check all that a run needs, the agent's import too; makes no model calls.",
            "evalgate.cli.doctor:command",
        ),
        Command(
            "list",
            "Show suites, cases, criteria, agents and estimated model calls.",
            "evalgate.cli.commands:show_suites",
        ),
    ),
)
"""In the order in which users need them; then the commands of wings and of other packages, except
those that come first."""

COLORS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "blue"}
"""Of a problem, in click's names."""


class CommandGroup(click.Group):
    """Knows the summary of each command without importing it, so that `--help` is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names of the commands in their order."""
        return sorted(COMMANDS, key=lambda name: not COMMANDS[name].comes_first)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        target = COMMANDS[cmd_name].target
        package = target.partition(".")[0]
        package = OURS if package == "evalgate" else package
        command = EntryPoint(
            package=package, group="evalgate.commands", name=cmd_name, value=target
        ).load()
        return cast("click.Command", command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The named command. Raises UsageError, which suggests the nearest name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = words.did_you_mean(args[0], COMMANDS)
            if not hint:
                raise
            raise click.UsageError(f"{error.message} {hint}", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line per command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].about) for name in self.list_commands(ctx)])


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="evalgate")
@click.pass_context
def cli(context: click.Context) -> None:
    """A pull-request gate for LLM agents.

    Exit codes: 0 pass, 1 fail, 2 bad files or inputs, 3 not measured, 4 nothing matched, 70
    internal error, 130 interrupted."""
    # https://no-color.org and https://force-color.org; without either, a terminal gets colors
    context.color = (
        False if os.environ.get("NO_COLOR") else True if os.environ.get("FORCE_COLOR") else None
    )
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(ExitCode.CONFIG)


def main(argv: list[str] | None = None) -> Any:
    """The console script. Ctrl-C ends it at once while no command runs: there is nothing to clean
    up yet, and importing a command takes a second."""
    # not if the parent process ignores it
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    # no line is read as a workflow command, whatever ids and settings contain
    is_workflow = os.environ.get("GITHUB_ACTIONS") == "true"
    process.keep_streams(_Disarmed if is_workflow else io.TextIOWrapper)
    process.collect_garbage_rarely()
    return dispatch(argv)


def dispatch(argv: list[str] | None) -> Any:
    """Run the command that `argv` names; ends in SystemExit with its exit code."""
    try:
        cli.main(args=argv, prog_name="evalgate", standalone_mode=True)
    except EvalgateError as error:  # raised by another package's command
        show_error(error)
        sys.exit(error.exit_code)
    except Exception as error:  # noqa: BLE001 - a command that cannot be imported: Python's own exit code, 1, would say "fail"
        traceback.print_exc()
        sys.exit(ExitCode.NOT_MEASURED if errors.shortage(error) else ExitCode.BUG)


def shows_links() -> bool:
    """True if file names are links: at a terminal with colors that is not a plain console."""
    return (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and not os.environ.get("CI")
        and os.environ.get("TERM", "dumb") not in ("dumb", "linux")
    )


def width() -> int:
    """Columns of the terminal; 0 if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def _leave(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal module's signature
    """The handler of Ctrl-C while no command runs: end the process without cleanup."""
    with suppress(OSError):
        os.write(2, b"interrupted\n")
    # an exception would be raised inside an import, which may catch it
    os._exit(ExitCode.INTERRUPTED)


def run_command(action: Callable[[], int], *, debug: bool) -> int:
    """Run `action`; return its exit code, or that of its error."""
    try:
        with _interrupt_on_signal(), errors.paths_explained():
            return action()
    except EvalgateError as error:
        show_error(error)
        if debug:
            tell(traceback.format_exc(), err=True)
        return error.exit_code
    except KeyboardInterrupt:
        click.secho("interrupted", err=True)
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last handler: it reports any bug as one
        if shortage := errors.shortage(error):
            click.secho(f"error: {shortage}", fg="red", err=True)
            return ExitCode.NOT_MEASURED
        message = plain.visible(f"{type(error).__name__}: {error}")
        click.secho(f"Internal error in evalgate {__version__}: {message}", fg="red", err=True)
        click.echo("Please report it with the following lines:\n", err=True)
        tell(traceback.format_exc(), err=True)
        return ExitCode.BUG


def tell(text: str, **options: Any) -> None:
    """Show text from anywhere, without control characters. `options`: of `click.echo`."""
    click.echo(plain.visible(text), **options)


def show_error(error: EvalgateError) -> None:
    """Show an error with its problems and its hint on standard error."""
    show_problems(error.problems)
    click.secho(plain.visible(f"error: {error.text}"), fg="red", err=True)
    if error.hint:
        tell(f"  {error.hint}", err=True)


def ends(action: Callable[..., int]) -> Callable[..., None]:
    """The function of a command: it ends the process with the exit code of `action`, or of its
    error."""

    @wraps(action)
    def command(**values: Any) -> None:
        """Never returns. The option `debug`, if there is one, shows the traceback of an error."""
        sys.exit(run_command(lambda: action(**values), debug=bool(values.get("debug"))))

    return command


def show_problems(problems: tuple[Problem, ...]) -> None:
    """Show the problems on standard error, one after another."""
    for problem in problems:
        prefix = (
            click.style(plain.visible(f"{problem.place}: "), bold=True) if problem.place else ""
        )
        severity = click.style(f"{problem.severity.value}: ", fg=COLORS[problem.severity])
        click.echo(
            f"{prefix}{severity}{plain.visible(str(problem.message))} [{problem.code}]", err=True
        )
        if problem.hint:
            tell(f"    {problem.hint}", err=True)


@contextmanager
def _interrupt_on_signal() -> Iterator[None]:
    """While a command runs, Ctrl-C and SIGTERM raise KeyboardInterrupt, so that it cleans up."""
    signal.signal(signal.SIGTERM, _interrupt)
    previous_handler = signal.getsignal(signal.SIGINT)
    if previous_handler is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        if previous_handler is not None:
            signal.signal(signal.SIGINT, previous_handler)


def _interrupt(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal module's signature
    """The handler of signals while a command runs."""
    raise KeyboardInterrupt


class _Disarmed(io.TextIOWrapper):
    """A text stream for a runner that obeys workflow commands; each write counts as the start of a
    line."""

    def write(self, text: str, /) -> int:
        """Write the text without workflow commands; return the length of the original."""
        super().write(plain.disarm(text))
        return len(text)
