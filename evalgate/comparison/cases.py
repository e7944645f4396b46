"""All cases of two runs side by side: how each ended, whose failure it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evalgate.comparison import book, divergence, pairing
from evalgate.comparison.book import Sides
from evalgate.model import (
    Book,
    CaseComparison,
    CaseKey,
    CaseOutcome,
    CaseStatus,
    CaseVerdict,
    Confirmation,
    CriterionUse,
    Divergence,
    FailureOrigin,
    GradedTrial,
    Reruns,
    Run,
    Suite,
    VerdictKind,
)
from evalgate.values import frozen_dataclass

WHY: Mapping[CaseStatus, str] = {
    CaseStatus.PAIRED: "",
    CaseStatus.NEW: "not in the base's evaluation files",
    CaseStatus.CHANGED: "the case changed since the base's results",
    CaseStatus.REMOVED: "only on the base",
}


@frozen_dataclass
class SideResults:
    """A run's trials by case, and the threshold gate's word on each of head's cases."""

    run: Run
    trials: pairing.Trials
    verdicts: Mapping[CaseKey, CaseVerdict]

    def kind(self, key: CaseKey, name: str | None) -> VerdictKind | None:
        """How a case ended by one criterion; by all of them where `name` is None."""
        verdict = self.verdicts[key]
        if name is None:
            return verdict.kind
        return next((criterion.kind for criterion in verdict.criteria if criterion.name == name), None)

    def failed(self, key: CaseKey) -> frozenset[str]:
        """The criteria that fail a case."""
        return frozenset(each.name for each in self.verdicts[key].criteria if each.kind is VerdictKind.FAIL)

    def outcome(self, key: CaseKey, uses: Sequence[CriterionUse]) -> CaseOutcome:
        """The trials of a case by what the criteria that decide say of them, those that never ran as unmeasured."""
        needed = pairing.deciding(uses)
        outcomes = [pairing.passes(pairing.pattern_of(trial, needed)) for trial in self.trials.get(key, ())]
        outcomes += [None] * (self.run.repeats - len(outcomes))
        return CaseOutcome(
            passed=outcomes.count(True),
            failed=outcomes.count(False),
            unmeasured=outcomes.count(None),
            kind=self.kind(key, None) or VerdictKind.NOT_MEASURED,
        )


@frozen_dataclass
class Table:
    """Head's cases on both sides, judged by head's criteria. `paired`: those that are compared; `pairs`: their runs of
    the same number on both sides, fresh ones too."""

    sides: Sides
    head: SideResults
    base: SideResults
    paired: Sequence[CaseKey]
    pairs: Mapping[CaseKey, Sequence[tuple[GradedTrial, GradedTrial]]]

    def cases(self, bets: Book) -> tuple[CaseComparison, ...]:
        """Every case of head, then those that only base has."""
        simulated = {
            (suite.key, case.case_id): suite
            for suite in self.head.run.suites
            for case in suite.eval_set.cases
            if case.scenario is not None
        }
        reruns = book.reruns_of(self.sides)
        compared = [
            self._case(key, bets, simulated=simulated.get(key), reruns=reruns.get(key)) for key in self.sides.uses
        ]
        gone = (
            CaseComparison(suite=suite, case_id=case_id, status=status, why=WHY[status])
            for (suite, case_id), status in self.sides.unpaired.items()
            if (suite, case_id) not in self.sides.uses
        )
        return (*compared, *gone)

    def _case(self, key: CaseKey, bets: Book, *, simulated: Suite | None, reruns: Reruns | None) -> CaseComparison:
        status, uses = self.sides.unpaired.get(key, CaseStatus.PAIRED), self.sides.uses[key]
        # what the base made of another question, or has no question for, is no outcome of this case
        base = self.base.outcome(key, uses) if status is CaseStatus.PAIRED else None
        head = self.head.outcome(key, uses)
        newly = self._newly(key) if base is not None and head.kind is VerdictKind.FAIL else ()
        is_lacking = status is CaseStatus.PAIRED and not self.base.trials.get(key)
        return CaseComparison(
            suite=key[0],
            case_id=key[1],
            status=status,
            head=head,
            base=base,
            origin=origin_of(key, head, base, newly, bets),
            newly=newly,
            reruns=reruns,
            evidence=bets.factors.get(key, 1.0),
            why="the base did not run it" if is_lacking else WHY[status],
            divergence=None if simulated is None else self._divergence(key, simulated),
            quarantined=key in self.sides.shown,
        )

    def _newly(self, key: CaseKey) -> tuple[str, ...]:
        """The criteria that head fails and the base passes: a case that failed all along can fail in a new way."""
        names = [use.name for use in pairing.deciding(self.sides.uses[key]) if use.name in self.head.failed(key)]
        return tuple(name for name in names if self.base.kind(key, name) is VerdictKind.PASS)

    def _divergence(self, key: CaseKey, suite: Suite) -> Divergence | None:
        """Where the conversations of a simulated user part, in the first repeat that both sides have."""
        for trial in self.head.trials.get(key, ()):
            head, base = (side.run.transcripts.find(trial.key) for side in (self.head, self.base))
            if head is not None and base is not None:
                hears_calls = suite.simulator.include_function_calls
                return divergence.compare(base.invocations, head.invocations, hears_calls=hears_calls)
        return None


def origin_of(
    key: CaseKey, head: CaseOutcome, base: CaseOutcome | None, newly: Sequence[str], bets: Book
) -> FailureOrigin | None:
    """Whose failure a case is; None where head does not fail, or only crashed and nothing explains it.

    The fresh runs have the last word. Where there were none, the first runs of both sides tell.
    """
    confirmation = bets.confirmations.get(key)
    is_told = confirmation in (Confirmation.FLAKY, Confirmation.BROKEN)
    if head.kind is not VerdictKind.FAIL and not is_told:
        return None
    if confirmation in OF_RERUNS:
        return OF_RERUNS[confirmation]
    if base is None or not (base.passed + base.failed or newly):
        return FailureOrigin.UNKNOWN
    is_new = base.passed > base.failed or bool(newly)
    is_new = is_new and key not in bets.on_both
    if confirmation is Confirmation.OPEN and is_new and not bets.is_worse:
        return FailureOrigin.UNCONFIRMED  # once head is worse for certain, no further suspect is looked at
    if (confirmation is None and (head.mixed or base.mixed)) or (is_new and head.passed >= head.failed > 0):
        return FailureOrigin.MIXED
    return FailureOrigin.NEW if is_new else FailureOrigin.KNOWN


OF_RERUNS: Mapping[Confirmation | None, FailureOrigin] = {
    Confirmation.FLAKY: FailureOrigin.FLAKY,
    Confirmation.BROKEN: FailureOrigin.NEW,
    Confirmation.LOST: FailureOrigin.UNCONFIRMED,
}


def of(sides: Sides, verdicts: Mapping[CaseKey, CaseVerdict]) -> Table:
    """The table of two runs. `verdicts`: head's."""
    assert sides.base is not None
    theirs = pairing.case_verdicts(sides.base, sides.uses, policy=sides.policy)
    head, base = (
        SideResults(run=run, trials=pairing.trials_by_case(run), verdicts=decided)
        for run, decided in ((sides.head, verdicts), (sides.base, theirs))
    )
    heads, bases = (pairing.by_case((*run.trials, *run.confirmations)) for run in (sides.head, sides.base))
    paired = [key for key in sides.uses if sides.is_paired(key)]
    pairs = {}
    for key in paired:
        others = {trial.key: trial for trial in bases.get(key, ())}
        pairs[key] = [(trial, others[trial.key]) for trial in heads.get(key, ()) if trial.key in others]
    return Table(sides=sides, head=head, base=base, paired=paired, pairs=pairs)
