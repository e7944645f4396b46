"""Which cases do not pass and yet decide nothing of the verdict, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

from evalgate.model import CaseVerdict, GateKind, Report, SuiteVerdict, VerdictKind

CaseKey: TypeAlias = tuple[str, str]

ADVISORY: Final = "advisory: it decides nothing"
WAITING: Final = "does not decide yet"
LET_PASS: Final = ""
ENOUGH: Final = "within the required pass rate"
WITHIN: Final[Mapping[VerdictKind, str]] = {
    VerdictKind.FAIL: ENOUGH,
    VerdictKind.NOT_MEASURED: "within what `min-measured` allows",
}
"""Why a suite passes all the same."""


def find(report: Report) -> Mapping[CaseKey, str]:
    """The excuse of every case that does not pass and decides nothing, by suite and id; "" where whose failure it is
    says it all."""
    decisive = _broken(report)
    found: dict[CaseKey, str] = {}
    for suite in report.verdict.suites:
        advisory = suite.suite in report.policy.advisory
        for case in suite.cases:
            key = case.suite, case.case_id
            why = None if case.kind is VerdictKind.PASS else _excuse(case, suite, advisory=advisory)
            if why is not None and not (why == ENOUGH and key in decisive):
                found[key] = why
    return found


def _broken(report: Report) -> Collection[CaseKey]:
    """The cases that the change broke, where that is a regression: what a pass rate allows may still be worse."""
    regressed = any(gate.gate is GateKind.REGRESSION and gate.kind is VerdictKind.FAIL for gate in report.verdict.gates)
    compared = report.comparison.cases if regressed and report.comparison is not None else ()
    return {(case.suite, case.case_id) for case in compared if case.broken}


def _excuse(case: CaseVerdict, suite: SuiteVerdict, *, advisory: bool) -> str | None:
    if advisory:
        return ADVISORY
    if not case.admitted:
        return WAITING
    if case.excused:
        return LET_PASS
    return WITHIN.get(case.kind) if suite.kind is VerdictKind.PASS else None
