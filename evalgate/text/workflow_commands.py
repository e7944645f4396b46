"""Workflow commands: the lines on stdout that a GitHub runner obeys. Their values cannot end them
early."""

from __future__ import annotations

import sys

from evalgate.errors import Problem
from . import plain


def render_command(kind: str, message: str, **properties: str | int | None) -> str:
    """`::error file=a.json,line=3::message`; properties that are None or empty are left out.

    Source of the escapes: GitHub's documentation of workflow commands.
    """
    fields = ",".join(
        f"{name}={_data(str(text)).replace(':', '%3A').replace(',', '%2C')}"
        for name, text in properties.items()
        if text not in (None, "")
    )
    return f"::{kind}{' ' + fields if fields else ''}::{_data(message)}"


def render_problem(problem: Problem, *, limit: int = sys.maxsize) -> str:
    """A problem as an annotation; message and hint are cut to about `limit` characters each. The
    message names a file outside the repository, since runners do not show it."""
    text, hint = (
        plain.keep_advice(str(wording), limit) for wording in (problem.message, problem.hint)
    )
    code = f" [{problem.code}]" if problem.code else ""
    message = f"{text}{code}" + (f"\n{hint}" if hint else "")
    kind = problem.severity.value
    place = problem.place
    if place is None:
        return render_command(kind, message)
    if place.file.startswith("/"):
        return render_command(kind, f"{place}: {message}")
    return render_command(kind, message, file=place.file, line=place.line, col=place.column)


def _data(text: str) -> str:
    """A value whose characters cannot end the command."""
    return plain.visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
