"""What every check of the linter is given, and how its findings are worded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evalgate.criteria.base import CriterionSpec, Need
from evalgate.errors import Place, Problem, Severity
from evalgate.model import Case, CriterionUse, Suite
from evalgate.text import words


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The criteria of this version. `metricless`: drivers that run no custom metrics. `adk_compat`: as the setting."""

    specs: Mapping[str, CriterionSpec]
    metricless: frozenset[str] = frozenset()
    adk_compat: bool = False


def uses_needing(suite: Suite, need: Need, setting: Setting) -> Iterator[CriterionUse]:
    """The built-in criteria of the suite that need `need`."""
    for use in suite.criteria:
        spec = setting.specs.get(use.name)
        if spec is not None and use.code is None and need in spec.needs:
            yield use


def error(code: str, message: str, *, place: Place, hint: str = "") -> Problem:
    """A finding that stops the run."""
    return Problem(severity=Severity.ERROR, code=code, message=message, place=place, hint=hint)


def warning(code: str, message: str, *, place: Place | None, hint: str = "") -> Problem:
    """A finding that is shown, and stops the run where the user asked for strictness."""
    return Problem(severity=Severity.WARNING, code=code, message=message, place=place, hint=hint)


def note(code: str, message: str, *, place: Place, hint: str = "") -> Problem:
    """A finding that only explains."""
    return Problem(severity=Severity.NOTE, code=code, message=message, place=place, hint=hint)


def place_of(suite: Suite, case: Case | None = None) -> Place:
    """Where a case stands, else its file."""
    return (case.place if case else None) or Place(file=suite.key)


def named(cases: Sequence[Case]) -> str:
    """`case a`, `cases a, b and 7 more`."""
    return f"{'case' if len(cases) == 1 else 'cases'} {words.listed(case.case_id for case in cases)}"


def has_text(texts: Iterator[str]) -> bool:
    """Whether any of the texts holds more than blanks."""
    return any(text.strip() for text in texts)
