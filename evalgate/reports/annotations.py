"""Annotations: workflow commands that put what broke beside the line of the evaluation file."""

from __future__ import annotations

from collections.abc import Sequence

from evalgate import words
from evalgate.exhibits import remarks
from evalgate.exhibits.remarks import Level, Remark
from evalgate.markup import commands
from evalgate.model import Report

PER_LEVEL = 10
"""GitHub shows ten errors, ten warnings and ten notices of one step."""


def render(report: Report) -> tuple[str, ...]:
    """Workflow commands, each one line, worst first; one notice counts what is more than GitHub shows. Empty where
    every case passed."""
    found = remarks.collect(report)
    errors = [each for each in found if each.level is Level.ERROR]
    warnings = [each for each in found if each.level is Level.WARNING]
    lines = [_line(each) for each in (*errors[:PER_LEVEL], *warnings[:PER_LEVEL])]
    return (*lines, *_rest(errors[PER_LEVEL:], warnings[PER_LEVEL:]))


def _line(remark: Remark) -> str:
    return commands.render_command(
        remark.level.value, remark.message, file=remark.file, line=remark.line, title=remark.title
    )


def _rest(errors: Sequence[Remark], warnings: Sequence[Remark]) -> list[str]:
    counts = [
        words.counted(len(errors), "more failing case") if errors else "",
        words.counted(len(warnings), "more case") + " not measured" if warnings else "",
    ]
    said = words.listed(count for count in counts if count)
    if not said:
        return []
    return [commands.render_command("notice", f"{said}: see the job summary and report.html.", title="evalgate")]
