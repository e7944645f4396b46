"""Annotations: workflow commands that put what broke beside the line of the evaluation file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evalgate import words
from evalgate.exhibits import cases, sentences
from evalgate.exhibits.cases import CaseExhibit
from evalgate.markup import commands, plain
from evalgate.model import Report, VerdictKind

PER_LEVEL = 10
"""GitHub shows ten errors, ten warnings and ten notices of one step."""
MESSAGE_LIMIT = 1_000
TITLE_LIMIT = 120


def render(report: Report) -> tuple[str, ...]:
    """Workflow commands, each one line: errors for failing cases, warnings for those not measured, worst first; one
    notice counts what is more than GitHub shows. Empty where every case passed."""
    exhibits = cases.collect(report)
    failing = cases.worst_first([each for each in exhibits if _failed(each)])
    unknown = [each for each in exhibits if _unknown(each)]
    return (
        *_lines("error", failing),
        *_lines("warning", unknown),
        *_rest(failing=len(failing) - PER_LEVEL, unknown=len(unknown) - PER_LEVEL),
    )


def _failed(exhibit: CaseExhibit) -> bool:
    return exhibit.verdict.kind is VerdictKind.FAIL and not exhibit.agent_failed


def _unknown(exhibit: CaseExhibit) -> bool:
    return exhibit.verdict.kind is not VerdictKind.PASS and not _failed(exhibit) and not exhibit.skipped


def _lines(level: str, exhibits: Sequence[CaseExhibit]) -> Iterator[str]:
    for exhibit in exhibits[:PER_LEVEL]:
        kind = sentences.kind_word(exhibit.verdict.kind)
        yield commands.render_command(
            level,
            plain.clip(_message(exhibit), MESSAGE_LIMIT),
            file=exhibit.file,
            line=exhibit.line,
            title=f"{kind}: {plain.label(exhibit.verdict.case_id, TITLE_LIMIT)}",
        )


def _message(exhibit: CaseExhibit) -> str:
    if not exhibit.failing:
        return sentences.why_unmeasured(exhibit)
    return "\n".join(
        f"{plain.label(each.name, TITLE_LIMIT)} {words.against(each.value, each.threshold, met=False)}"
        for each in exhibit.failing
    )


def _rest(*, failing: int, unknown: int) -> Iterator[str]:
    counts = [
        f"{words.counted(failing, 'more failing case')}" if failing > 0 else "",
        f"{words.counted(unknown, 'more case')} not measured" if unknown > 0 else "",
    ]
    said = words.listed(count for count in counts if count)
    if said:
        yield commands.render_command("notice", f"{said}: see the job summary and report.html.", title="evalgate")
