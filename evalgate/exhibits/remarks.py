"""What is to be said beside the line of a case in its file: what broke, the most important first."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evalgate import words
from evalgate.exhibits import cases, compared, sentences
from evalgate.exhibits.cases import CaseExhibit
from evalgate.markup import plain
from evalgate.model import FailureOrigin, Links, Report, VerdictKind

MESSAGE_LIMIT = 1_000
TITLE_LIMIT = 120


class Level(enum.StrEnum):
    """How loud a remark is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One remark; `line` counts from 1, None where it is not known."""

    level: Level
    file: str
    line: int | None
    title: str
    message: str


def collect(report: Report) -> tuple[Remark, ...]:
    """Errors for failing cases; warnings for those not measured, those that the base fails as well, those that decide
    nothing, and for rules that the change weakens, where their line is known; worst first."""
    exhibits = cases.collect(report)
    failing = cases.worst_first([each for each in exhibits if _failed(each)])
    unknown = [each for each in exhibits if _unknown(each)]
    loud = [each for each in failing if not _is_quiet(each)]
    quiet = [each for each in failing if _is_quiet(each)]
    return (
        *_remarks(Level.ERROR, loud, report.links),
        *_remarks(Level.WARNING, [*unknown, *quiet], report.links),
        *_loosened(report),
    )


def _loosened(report: Report) -> Iterator[Remark]:
    for each in report.comparison.loosened if report.comparison is not None else ():
        if each.place is not None:
            yield Remark(
                level=Level.WARNING,
                file=report.links.place(each.place.file),
                line=each.place.line,
                title="weaker than the base",
                message=plain.clip(compared.loosening_sentence(each), MESSAGE_LIMIT),
            )


def _failed(exhibit: CaseExhibit) -> bool:
    return exhibit.verdict.kind is VerdictKind.FAIL and not exhibit.agent_failed


def _unknown(exhibit: CaseExhibit) -> bool:
    return exhibit.verdict.kind is not VerdictKind.PASS and not _failed(exhibit) and not exhibit.skipped


def _is_quiet(exhibit: CaseExhibit) -> bool:
    known = exhibit.compared is not None and exhibit.compared.origin is FailureOrigin.KNOWN
    return known or exhibit.excuse is not None


def _remarks(level: Level, exhibits: Sequence[CaseExhibit], links: Links) -> list[Remark]:
    return [
        Remark(
            level=level,
            file=links.place(exhibit.file),
            line=exhibit.line,
            title=f"{sentences.kind_word(exhibit.verdict.kind)}: {plain.label(exhibit.verdict.case_id, TITLE_LIMIT)}",
            message=plain.clip(_message(exhibit), MESSAGE_LIMIT),
        )
        for exhibit in exhibits
    ]


def _message(exhibit: CaseExhibit) -> str:
    if not exhibit.failing:
        failure = exhibit.failure
        words_of = "" if failure is None else sentences.last_words(failure)
        return "\n".join(each for each in (sentences.why_unmeasured(exhibit), words_of) if each)
    lines = [
        f"{plain.label(each.name, TITLE_LIMIT)} {words.against(each.value, each.threshold, met=False)}"
        for each in exhibit.failing
    ]
    return "\n".join(each for each in (*lines, exhibit.whose) if each)
