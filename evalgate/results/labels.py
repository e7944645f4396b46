"""One word for each case, and how many cases each word has: the counts of every report, which add
up."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from evalgate.model import (
    CaseKey,
    CaseVerdict,
    Comparison,
    FailureOrigin,
    NonBlocking,
    Verdict,
    VerdictKind,
)
from evalgate.values import frozen_dataclass


class CaseLabel(enum.StrEnum):
    """What a case is counted as: exactly one word."""

    PASSED = "passed"  # it passes, and did so before, as far as that is known
    FIXED = "fixed"  # it passes, and the base fails
    NEW = "new"  # it fails, and the base passes
    PRE_EXISTING = "pre_existing"  # it fails, and the base fails too
    # it fails, its runs differ, and no rerun was to tell whether that was an accident
    MIXED = "mixed"
    NO_BASE = "no_base"  # it fails, and the base's outcome is not known
    NOT_CONFIRMED = "not_confirmed"  # it fails, and too few reruns could be measured to tell
    FAILED = "failed"  # it fails, and there is no base to tell more
    FLAKY = "flaky"  # it failed, and reruns did not bear that out: it does not block
    QUARANTINED = "quarantined"  # it decides nothing, however it ended
    INCONCLUSIVE = "inconclusive"  # a budget kept it from being run
    NOT_MEASURED = "not_measured"


OF_ORIGIN: Mapping[FailureOrigin, CaseLabel] = {
    FailureOrigin.NEW: CaseLabel.NEW,
    FailureOrigin.KNOWN: CaseLabel.PRE_EXISTING,
    FailureOrigin.MIXED: CaseLabel.MIXED,
    FailureOrigin.FLAKY: CaseLabel.FLAKY,
    FailureOrigin.UNKNOWN: CaseLabel.NO_BASE,
    FailureOrigin.UNCONFIRMED: CaseLabel.NOT_CONFIRMED,
}

FAILURES = (
    *(
        CaseLabel.NEW,
        CaseLabel.PRE_EXISTING,
        CaseLabel.MIXED,
        CaseLabel.NO_BASE,
        CaseLabel.NOT_CONFIRMED,
    ),
    CaseLabel.FAILED,
)
"""The words of a case that failed, flaky and quarantined ones aside."""


def label(
    case: CaseVerdict, *, origin: FailureOrigin | None = None, is_fixed: bool = False
) -> CaseLabel:
    """The word for a case; `origin`: whose failure it is, if there is a base."""
    if case.quarantined:
        return CaseLabel.QUARANTINED
    match case.kind:
        case VerdictKind.PASS:
            return CaseLabel.FIXED if is_fixed else CaseLabel.PASSED
        case VerdictKind.FAIL | VerdictKind.NOT_MEASURED if case.nonblocking is NonBlocking.FLAKY:
            return CaseLabel.FLAKY
        case VerdictKind.FAIL:
            return CaseLabel.FAILED if origin is None else OF_ORIGIN[origin]
        case VerdictKind.INCONCLUSIVE:
            return CaseLabel.INCONCLUSIVE
        case VerdictKind.NOT_MEASURED:
            return CaseLabel.NOT_MEASURED


def of(verdict: Verdict, comparison: Comparison | None) -> Mapping[CaseKey, CaseLabel]:
    """The word for every case of a verdict."""
    has_base = comparison is not None and comparison.base is not None
    compared = (
        {case.key: case for case in comparison.cases} if comparison is not None and has_base else {}
    )
    labels = {}
    for case in verdict.cases:
        beside = compared.get(case.key)
        labels[case.key] = label(
            case,
            origin=None if beside is None else beside.origin,
            is_fixed=beside is not None and beside.fixed,
        )
    return labels


@frozen_dataclass
class CaseCounts:
    """How many cases each word has. `passed`, `failed`, `flaky`, `quarantined`, `inconclusive` and
    `not_measured` add up to `total`; `fixed` ones are part of `passed`, and the others part of
    `failed`, which they need not add up to if there is no base."""

    total: int = 0
    passed: int = 0
    fixed: int = 0
    failed: int = 0
    new: int = 0
    pre_existing: int = 0
    mixed: int = 0
    no_base: int = 0
    not_confirmed: int = 0
    flaky: int = 0
    quarantined: int = 0
    inconclusive: int = 0
    not_measured: int = 0


def count(labels: Iterable[CaseLabel]) -> CaseCounts:
    """The counts of these words."""
    every = list(labels)
    numbers = {case_label.value: every.count(case_label) for case_label in CaseLabel}
    numbers["passed"] += numbers["fixed"]
    numbers["failed"] = sum(numbers[case_label.value] for case_label in FAILURES)
    return CaseCounts(total=len(every), **numbers)
