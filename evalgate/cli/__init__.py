"""The desk's door: `evalgate run`, `validate`, `list`. Commands are imported when they are called."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import traceback
from types import FrameType
from typing import Any

import click

from evalgate import __version__
from evalgate.cli import terminal
from evalgate.errors import ExitCode
from evalgate.process import garbage

COMMANDS = {
    "run": ("evalgate.cli.run", "Run the gate and write the reports."),
    "merge": ("evalgate.cli.merge", "Merge the results of all shards (`--shard 1/N` ...) and report."),
    "compare": ("evalgate.cli.compare", "Compare two results.json: base and head."),
    "validate": ("evalgate.cli.validate", "Check evaluation files and configuration; makes no model calls."),
    "list": ("evalgate.cli.listing", "Show suites, cases, criteria, agents and estimated model calls."),
    "generate": ("evalgate.cli.generate", "Generate conversation scenarios for an agent, for review."),
    "calibrate": ("evalgate.cli.calibrate", "Compare the judge with human labels; write calibration.json."),
}


class LazyGroup(click.Group):
    """Knows each command's one line without importing it, so that `--help` is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The commands in the order in which a person meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """One line a command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="evalgate")
def cli() -> None:
    """A pull-request gate for LLM agents.

    Exit codes: 0 pass, 1 fail, 2 bad files or inputs, 3 not measured, 4 nothing matched, 70 internal error,
    130 interrupted.
    """


def main(argv: list[str] | None = None) -> Any:
    """The console script. Ctrl-C ends it at once where no command is at work: before that there is nothing to tidy up,
    and to import one takes a second."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where who started us has it ignored
        signal.signal(signal.SIGINT, _leave)
    terminal.outlive()
    garbage.collect_seldom()
    return dispatch(argv)


def dispatch(argv: list[str] | None) -> Any:
    """Run the command that `argv` names; ends in SystemExit with its exit code."""
    try:
        cli.main(args=argv, prog_name="evalgate", standalone_mode=True)
    except Exception:  # noqa: BLE001 - a command that cannot be imported: Python's own exit code, 1, would say "fail"
        traceback.print_exc()
        sys.exit(ExitCode.BUG)


def _leave(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal module's signature
    with contextlib.suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(ExitCode.INTERRUPTED)  # an exception would end in what is being imported, which may take it for its own
