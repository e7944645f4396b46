"""The figures of a run: how many cases ended how, and each criterion over all its cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from evalgate.model import (
    BaseSource,
    CriterionUse,
    CriterionVerdict,
    GradedTrial,
    Report,
    Suite,
    SuiteVerdict,
    VerdictKind,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counts of cases by kind; tokens and seconds are what the run took of agents, None where nothing is known: on both
    sides, fresh runs that confirm included, stored results left out."""

    passed: int
    failed: int
    inconclusive: int
    not_measured: int
    tokens: int | None
    agent_s: float

    @property
    def total(self) -> int:
        """All cases, measured or not."""
        return self.passed + self.failed + self.inconclusive + self.not_measured

    @property
    def pass_rate(self) -> float | None:
        """The share that passed among the cases that could be measured; None where none could."""
        measured = self.total - self.not_measured
        return self.passed / measured if measured else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionTotals:
    """One criterion of one suite over its cases.

    `mean`: over the cases that have a value; None where none has. `threshold` None: informational, never decides.
    """

    suite: str
    name: str
    threshold: float | None
    lower_is_better: bool
    mean: float | None
    passed: int
    failed: int
    not_evaluated: int

    @property
    def total(self) -> int:
        """All cases of the suite."""
        return self.passed + self.failed + self.not_evaluated

    @property
    def met(self) -> bool | None:
        """Whether the mean reaches the threshold; None where there is no mean or no threshold."""
        if self.mean is None or self.threshold is None:
            return None
        return self.mean <= self.threshold if self.lower_is_better else self.mean >= self.threshold


def count(report: Report) -> Totals:
    """The totals of a report."""
    verdict = report.verdict
    spent = _spent(report)
    known = [trial.tokens for trial in spent if trial.tokens is not None]
    return Totals(
        passed=verdict.count(VerdictKind.PASS),
        failed=verdict.count(VerdictKind.FAIL),
        inconclusive=verdict.count(VerdictKind.INCONCLUSIVE),
        not_measured=verdict.count(VerdictKind.NOT_MEASURED),
        tokens=sum(known) if known else None,
        agent_s=sum(trial.seconds for trial in spent),
    )


def _spent(report: Report) -> Sequence[GradedTrial]:
    """All trials that were run for this report."""
    comparison = report.comparison
    found = [*report.run.trials, *report.run.confirmations]
    if comparison is not None and comparison.base is not None and comparison.origin.source is not BaseSource.FILE:
        stored = comparison.origin.source is BaseSource.STORE
        found += [trial for trial in comparison.base.trials if not stored and not trial.reused]
        found += comparison.base.confirmations
    return found


def by_criterion(report: Report) -> tuple[CriterionTotals, ...]:
    """Every criterion of every suite, in the suites' order."""
    verdicts = {suite.suite: suite for suite in report.verdict.suites}
    return tuple(
        _totals_of(use, suite=suite, found=found.get(use.name, ()), cases=cases)
        for suite in report.run.suites
        if suite.key in verdicts
        for found, cases in ((_by_name(verdicts[suite.key]), len(verdicts[suite.key].cases)),)
        for use in suite.criteria
    )


def _by_name(suite: SuiteVerdict) -> Mapping[str, Sequence[CriterionVerdict]]:
    found: defaultdict[str, list[CriterionVerdict]] = defaultdict(list)
    for case in suite.cases:
        for each in case.criteria:
            found[each.name].append(each)
    return found


def _totals_of(use: CriterionUse, *, suite: Suite, found: Sequence[CriterionVerdict], cases: int) -> CriterionTotals:
    values = [each.value for each in found if each.value is not None]
    failed = _count(found, VerdictKind.FAIL)
    # An informational criterion decides nothing: all that it has are values and gaps.
    passed = len(values) if use.informational else _count(found, VerdictKind.PASS)
    return CriterionTotals(
        suite=suite.key,
        name=use.name,
        threshold=None if use.informational else use.threshold,
        lower_is_better=use.lower_is_better,
        mean=fmean(values) if values else None,
        passed=passed,
        failed=failed,
        not_evaluated=cases - passed - failed,
    )


def _count(verdicts: Iterable[CriterionVerdict], kind: VerdictKind) -> int:
    return sum(1 for verdict in verdicts if verdict.kind is kind)
