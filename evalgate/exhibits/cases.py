"""One case as a reader meets it: its verdict, its trials, and how it stands beside the base."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evalgate.exhibits import compared, excuses
from evalgate.model import (
    AgentFailure,
    Case,
    CaseComparison,
    CaseVerdict,
    CriterionUse,
    CriterionVerdict,
    FailureOrigin,
    GradedTrial,
    Reason,
    Report,
    Score,
    Suite,
    VerdictKind,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseExhibit:
    """A case with its verdict, its place in the user's files, and all its trials in order of repeats; `compared`: how
    it stands beside the base, None where it does not. `excuse`: why it decides nothing although it does not pass, ""
    where that lies in whose failure it is; None where it decides."""

    verdict: CaseVerdict
    suite: Suite
    case: Case | None
    trials: tuple[GradedTrial, ...]
    compared: CaseComparison | None = None
    excuse: str | None = None

    @property
    def file(self) -> str:
        """The file that the case stands in."""
        return self.case.place.file if self.case and self.case.place else self.suite.key

    @property
    def line(self) -> int | None:
        """The line of that file, from 1."""
        return self.case.place.line if self.case and self.case.place else None

    @property
    def failing(self) -> tuple[CriterionVerdict, ...]:
        """The criteria that failed."""
        return tuple(each for each in self.verdict.criteria if each.kind is VerdictKind.FAIL)

    @property
    def unmeasured(self) -> tuple[CriterionVerdict, ...]:
        """The deciding criteria without a verdict."""
        undecided = (VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE)
        return tuple(each for each in self.verdict.criteria if each.kind in undecided)

    @property
    def agent_failed(self) -> bool:
        """Whether an agent that broke, and no criterion, made this case what it is."""
        return not self.failing and self.failure is not None

    @property
    def failure(self) -> AgentFailure | None:
        """The first failure of the agent in any of its runs."""
        return next((trial.failure for trial in self.trials if trial.failure is not None), None)

    @property
    def skipped(self) -> bool:
        """Whether the user asked to leave out all that is unmeasured here."""
        return bool(self.unmeasured) and bool(self.trials) and all(_was_skipped(each) for each in self.unmeasured)

    @property
    def shortfall(self) -> float:
        """How far the worst criterion is from its threshold, in units of the threshold's size; 0.0 where none fails."""
        return max((_shortfall(each) for each in self.failing), default=0.0)

    @property
    def shown(self) -> GradedTrial | None:
        """The trial to look at: most criteria below their thresholds, else a broken agent, else the first."""
        uses = {use.name: use for use in self.suite.criteria}
        return max(
            self.trials,
            key=lambda trial: (_below(trial, uses=list(uses.values())), trial.failure is not None, -trial.key.repeat),
            default=None,
        )

    @property
    def whose(self) -> str:
        """Whose failure it is, where there is a base to tell, and why it decides nothing, where that is so."""
        excuse = self.excuse if self.verdict.admitted else excuses.WAITING
        return ", ".join(each for each in (compared.whose(self.compared), excuse) if each)

    @property
    def flaky(self) -> tuple[CriterionVerdict, ...]:
        """The deciding criteria that reached their threshold in some repeats and not in others."""
        if len(self.trials) < 2:
            return ()
        uses = {use.name: use for use in self.suite.criteria}
        return tuple(each for each in self.verdict.criteria if each.name in uses and _is_flaky(each, uses[each.name]))


def collect(report: Report) -> tuple[CaseExhibit, ...]:
    """All cases of a report in the order of its verdict. The last report's are kept: renderers ask one by one."""
    global _last  # noqa: PLW0603 - one value, replaced whole
    if _last is None or _last[0] is not report:
        _last = report, tuple(_collected(report))
    return _last[1]


_last: tuple[Report, tuple[CaseExhibit, ...]] | None = None


def _collected(report: Report) -> Iterator[CaseExhibit]:
    suites = {suite.key: suite for suite in report.run.suites}
    beside = compared.by_case(report.comparison)
    excused = excuses.find(report)
    trials: defaultdict[tuple[str, str], list[GradedTrial]] = defaultdict(list)
    for trial in report.run.trials:
        trials[trial.key.suite, trial.key.case_id].append(trial)
    for suite in report.verdict.suites:
        if suite.suite in suites:
            known = {case.case_id: case for case in suites[suite.suite].eval_set.cases}
            for verdict in suite.cases:
                name = (verdict.suite, verdict.case_id)
                yield CaseExhibit(
                    verdict=verdict,
                    suite=suites[verdict.suite],
                    case=known.get(verdict.case_id),
                    trials=tuple(trials.get(name, ())),
                    compared=beside.get(name),
                    excuse=excused.get(name),
                )


def worst_first(exhibits: Sequence[CaseExhibit]) -> tuple[CaseExhibit, ...]:
    """What the change broke first, then the furthest below its threshold; equals keep their order."""
    return tuple(sorted(exhibits, key=lambda each: (_whose(each), -each.shortfall)))


def _whose(exhibit: CaseExhibit) -> int:
    origin = exhibit.compared.origin if exhibit.compared is not None else None
    new = (FailureOrigin.NEW, FailureOrigin.UNCONFIRMED, FailureOrigin.UNKNOWN)
    order = (*new, None, FailureOrigin.FLAKY, FailureOrigin.KNOWN)
    return order.index(origin)


def of_kind(exhibits: Sequence[CaseExhibit], *kinds: VerdictKind) -> tuple[CaseExhibit, ...]:
    """Those that ended as one of `kinds`."""
    return tuple(each for each in exhibits if each.verdict.kind in kinds)


def meets(value: float, use: CriterionUse) -> bool:
    """ADK's rule for one value: at least the threshold, at most where lower is better."""
    if use.threshold is None:
        return True
    return value <= use.threshold if use.lower_is_better else value >= use.threshold


def _below(trial: GradedTrial, *, uses: Sequence[CriterionUse]) -> int:
    grades = [(use, trial.grades.get(use.name)) for use in uses if not use.informational]
    return sum(1 for use, grade in grades if isinstance(grade, Score) and not meets(grade.value, use))


def _is_flaky(verdict: CriterionVerdict, use: CriterionUse) -> bool:
    known = [meets(value, use) for value in verdict.values if value is not None]
    return verdict.kind is not None and any(known) and not all(known)


def _shortfall(verdict: CriterionVerdict) -> float:
    if verdict.value is None or verdict.threshold is None:
        return 0.0
    return abs(verdict.threshold - verdict.value) / max(abs(verdict.threshold), 1e-9)


def _was_skipped(verdict: CriterionVerdict) -> bool:
    return verdict.reason is Reason.SKIPPED
