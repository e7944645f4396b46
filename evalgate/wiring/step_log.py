"""What a step of a workflow says to its runner: one line after another on standard output."""

from __future__ import annotations

import secrets
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from evalgate.errors import EvalgateError, Problem, Severity
from evalgate.markup import commands


def tell_error(error: EvalgateError, *, debug: bool) -> None:
    """Every problem of the error, then the error itself at its place; with `debug` the traceback."""
    for problem in error.problems:
        tell_problem(problem)
    message = error.message + (f"\n{error.hint}" if error.hint else "")
    file, line = (error.where.file, error.where.line) if error.where else (None, None)
    say(commands.render_command("error", message, file=file, line=line))
    if debug:
        say(commands.disarm(traceback.format_exc()))


def tell_problem(problem: Problem) -> None:
    """A problem as the annotation that its severity asks for."""
    kind = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}[problem.severity]
    place = problem.place
    message = f"{problem.message} [{problem.code}]" + (f"\n{problem.hint}" if problem.hint else "")
    say(
        commands.render_command(
            kind,
            message,
            file=place.file if place else None,
            line=place.line if place else None,
            col=place.column if place else None,
        )
    )


@contextmanager
def disarmed() -> Iterator[None]:
    """While agents speak, the runner obeys nothing: what they print may hold workflow commands."""
    word = secrets.token_hex(16)
    say(f"::stop-commands::{word}")
    try:
        yield
    finally:
        say(f"::{word}::")


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
