"""Workflow commands: the lines on stdout that a GitHub runner obeys, with nothing in them that ends them early."""

from __future__ import annotations

from evalgate.markup import plain


def render_command(kind: str, message: str, **properties: str | int | None) -> str:
    """`::error file=a.json,line=3::message`; properties that are None or empty are left out.

    Source of the escapes: GitHub's documentation of workflow commands.
    """
    shown = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value not in (None, ""))
    return f"::{kind}{' ' + shown if shown else ''}::{_data(message)}"


def disarm(text: str) -> str:
    """`text` for stdout: no line of it can be taken for a workflow command, old (`##[`) or new (`::`) style."""
    return "\n".join(_disarmed_line(line) for line in plain.visible(text).split("\n"))


def _disarmed_line(line: str) -> str:
    # The runner looks for `::` after leading blanks, and for `##[` anywhere in the line.
    bare = line.lstrip()
    if bare.startswith("::"):
        line = f"{line[: len(line) - len(bare)]}: :{bare[2:]}"
    return line.replace("##[", "# #[")


def _data(text: str) -> str:
    return plain.visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
