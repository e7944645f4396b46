"""The wall of the desk's door: errors are shown once, in plain words, and become an exit code."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import click

from evalgate import __version__, reports
from evalgate.errors import EvalgateError, ExitCode, Problem, Severity
from evalgate.wiring.concluding import Gated

COLORS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "blue"}


def guarded(action: Callable[[], int], *, debug: bool) -> int:
    """Run `action`; its exit code, or that of the error that it raised."""
    with _interruptible():
        return _told(action, debug=debug)


def _told(action: Callable[[], int], *, debug: bool) -> int:
    try:
        return action()
    except EvalgateError as error:
        show_error(error)
        if debug:
            click.echo(traceback.format_exc(), err=True)
        return error.exit_code
    except KeyboardInterrupt:
        click.secho("interrupted", err=True)
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the door: a bug of ours must say so, whatever it is
        click.secho(f"Internal error in evalgate {__version__}: {type(error).__name__}: {error}", fg="red", err=True)
        click.echo("Please report it with the following lines:\n", err=True)
        click.echo(traceback.format_exc(), err=True)
        return ExitCode.BUG


def show_gated(gated: Gated, *, shown: tuple[Problem, ...] = ()) -> int:
    """The problems that were not `shown` yet, what the gate found and where it is written; its exit code."""
    show_problems(tuple(problem for problem in gated.report.problems if problem not in shown))
    click.echo(reports.render_terminal(gated.report), nl=False)
    for name, path in gated.files.items():
        click.echo(f"{name:>12}  {os.path.relpath(path)}")
    return gated.exit_code


def show_error(error: EvalgateError) -> None:
    """Every problem, then the error itself."""
    show_problems(error.problems)
    where = f"{error.where}: " if error.where else ""
    click.secho(f"error: {where}{error.message}", fg="red", err=True)
    if error.hint:
        click.echo(f"  {error.hint}", err=True)


def show_problems(problems: tuple[Problem, ...]) -> None:
    """One problem after another on standard error."""
    for problem in problems:
        where = click.style(f"{problem.place}: ", bold=True) if problem.place else ""
        severity = click.style(f"{problem.severity.value}: ", fg=COLORS[problem.severity])
        click.echo(f"{where}{severity}{problem.message} [{problem.code}]", err=True)
        if problem.hint:
            click.echo(f"    {problem.hint}", err=True)


@contextmanager
def _interruptible() -> Iterator[None]:
    """While a command is at work, Ctrl-C and SIGTERM are a KeyboardInterrupt, so that it tidies up."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    outside = signal.getsignal(signal.SIGINT)
    if outside is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _as_interrupt)
    try:
        yield
    finally:
        if outside is not None:
            signal.signal(signal.SIGINT, outside)


def _as_interrupt(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal module's signature
    raise KeyboardInterrupt
