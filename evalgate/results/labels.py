"""One label for each case, and the number of cases of each label. The counts of every report come
from here and add up."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from evalgate.model import (
    CaseComparison,
    CaseKey,
    CaseVerdict,
    FailureOrigin,
    Report,
    VerdictKind,
)


class CaseLabel(enum.StrEnum):
    """The label that counts a case: exactly one."""

    PASSED = "passed"
    """It passes, and is not known to fail on the base."""
    FIXED = "fixed"
    """It passes, and the base fails."""
    FAILED = "failed"
    """It fails, and there is no base."""
    NEW = "new"
    """It fails, and the base passes."""
    PRE_EXISTING = "pre_existing"
    """It fails, and the base fails too."""
    MIXED = "mixed"
    """It fails, its runs differ, and no rerun showed whether that was chance."""
    NO_BASE = "no_base"
    """It fails, and the base's outcome is unknown."""
    NOT_CONFIRMED = "not_confirmed"
    """It fails, and too few reruns could be measured."""
    FLAKY = "flaky"
    """It failed, and reruns did not confirm it: it does not block."""
    LISTED = "quarantined"
    """evalgate.yml lists it: it does not decide, however it ended."""
    INCONCLUSIVE = "inconclusive"
    """A budget ended before it ran."""
    NOT_MEASURED = "not_measured"
    """A part of it could not be evaluated, and no other part fails."""


OF_ORIGIN: Mapping[FailureOrigin, CaseLabel] = {
    FailureOrigin.NEW: CaseLabel.NEW,
    FailureOrigin.KNOWN: CaseLabel.PRE_EXISTING,
    FailureOrigin.MIXED: CaseLabel.MIXED,
    FailureOrigin.FLAKY: CaseLabel.FLAKY,
    FailureOrigin.UNKNOWN: CaseLabel.NO_BASE,
    FailureOrigin.UNCONFIRMED: CaseLabel.NOT_CONFIRMED,
}
"""The label of a failure by its origin."""

FAILURES = (
    CaseLabel.NEW,
    CaseLabel.PRE_EXISTING,
    CaseLabel.MIXED,
    CaseLabel.NO_BASE,
    CaseLabel.NOT_CONFIRMED,
    CaseLabel.FAILED,
)
"""The labels of failed cases, without unstable ones."""

UNSTABLE = (CaseLabel.FLAKY, CaseLabel.LISTED)
"""The labels of cases whose runs differ."""


LIST_CODES = frozenset(
    {
        "quarantine-expires",
        "quarantine-expired",
        "quarantine-too-long",
        "quarantine-broken",
        "quarantine-changed-case",
    }
)
"""Codes of problems with entries of `quarantine` and their cases."""


def label(case: CaseVerdict, compared: CaseComparison | None = None) -> CaseLabel:
    """The label of a case; `compared`: its comparison, if there is a base."""
    if case.listing:
        return CaseLabel.LISTED
    if case.is_flaky:
        return CaseLabel.FLAKY
    match case.kind:
        case VerdictKind.PASS:
            is_fixed = compared is not None and compared.fixed
            return CaseLabel.FIXED if is_fixed else CaseLabel.PASSED
        case VerdictKind.FAIL:
            origin = None if compared is None else compared.origin
            return CaseLabel.FAILED if origin is None else OF_ORIGIN[origin]
        case VerdictKind.INCONCLUSIVE:
            return CaseLabel.INCONCLUSIVE
        case VerdictKind.NOT_MEASURED:
            return CaseLabel.NOT_MEASURED


def labels_of(report: Report) -> Mapping[CaseKey, CaseLabel]:
    """The label of every case of a report."""
    comparison = report.compared
    compared = {case.key: case for case in comparison.cases if comparison.base is not None}
    return {case.key: label(case, compared.get(case.key)) for case in report.verdict.cases}


def count(labels: Iterable[CaseLabel]) -> dict[str, int]:
    """The number of cases with each of these labels, and in `total`. `passed`, `failed`, `flaky`,
    `quarantined`, `inconclusive` and `not_measured` add up to it. `fixed` is part of `passed`, the
    others are part of `failed`; without a base they do not add up to it."""
    all_labels = list(labels)
    numbers = {"total": len(all_labels)}
    numbers |= {case_label.value: all_labels.count(case_label) for case_label in CaseLabel}
    numbers["passed"] += numbers["fixed"]
    numbers["failed"] = sum(numbers[case_label.value] for case_label in FAILURES)
    return numbers
