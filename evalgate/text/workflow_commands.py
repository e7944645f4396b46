"""Workflow commands: the lines on stdout that a GitHub runner obeys, with nothing in them that ends
them early."""

from __future__ import annotations

from evalgate.errors import Problem
from evalgate.text import plain


def render_command(kind: str, message: str, **properties: str | int | None) -> str:
    """`::error file=a.json,line=3::message`; properties that are None or empty are left out.

    Source of the escapes: GitHub's documentation of workflow commands.
    """
    fields = ",".join(
        f"{name}={_data(str(value)).replace(':', '%3A').replace(',', '%2C')}"
        for name, value in properties.items()
        if value not in (None, "")
    )
    return f"::{kind}{' ' + fields if fields else ''}::{_data(message)}"


def render_problem(problem: Problem) -> str:
    """A problem as an annotation; the message names a file outside the repository, because runners
    show none."""
    message = f"{problem.message} [{problem.code}]" + (f"\n{problem.hint}" if problem.hint else "")
    kind = problem.severity.value
    place = problem.place
    if place is None:
        return render_command(kind, message)
    if place.file.startswith("/"):
        return render_command(kind, f"{place}: {message}")
    return render_command(kind, message, file=place.file, line=place.line, col=place.column)


def disarm(text: str) -> str:
    """`text` for stdout: no line of it can be taken for a workflow command, old (`##[`) or new
    (`::`) style."""
    lines = []
    for line in plain.visible(text).split("\n"):
        # The runner looks for `::` after leading blanks, and for `##[` anywhere in the line.
        bare = line.lstrip()
        harmless = (
            f"{line[: len(line) - len(bare)]}: :{bare[2:]}" if bare.startswith("::") else line
        )
        lines.append(harmless.replace("##[", "# #["))
    return "\n".join(lines)


def _data(text: str) -> str:
    return plain.visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
