"""What a step of a workflow says to its runner: one line after another on standard output."""

from __future__ import annotations

import secrets
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from evalgate.errors import EvalgateError, Problem, below
from evalgate.text import workflow_commands


def wants_tracebacks(environ: Mapping[str, str]) -> bool:
    """Whether the job runs with debug logging."""
    return environ.get("RUNNER_DEBUG") == "1"


def tell_error(error: EvalgateError, *, folder: str, debug: bool) -> None:
    """Every problem of the error, then the error itself at its place; with `debug` the traceback. `folder`: what their
    places are relative to, in the repository."""
    for problem in error.problems:
        tell_problem(problem, folder=folder)
    message = error.message + (f"\n{error.hint}" if error.hint else "")
    file, line = (below(folder, error.where.file), error.where.line) if error.where else (None, None)
    say(workflow_commands.render_command("error", message, file=file, line=line))
    if debug:
        say(workflow_commands.disarm(traceback.format_exc()))


def tell_problem(problem: Problem, *, folder: str) -> None:
    """A problem as the annotation that its severity asks for; `folder` as in `tell_error`."""
    say(workflow_commands.render_problem(problem.below(folder)))


def list_problems(problems: Iterable[Problem]) -> None:
    """Every problem in plain lines, as a desk shows them: a runner shows few annotations of a step."""
    for problem in problems:
        say(workflow_commands.disarm(str(problem)))


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
