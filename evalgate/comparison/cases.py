"""All cases of two runs side by side: which are compared, which decide, how each ended, whose failure it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from evalgate.comparison import confirm, divergence, pairing, tests
from evalgate.comparison.pairing import Pair
from evalgate.comparison.tests import Stratum
from evalgate.model import (
    CaseComparison,
    CaseKey,
    CaseOutcome,
    CaseStatus,
    CaseVerdict,
    CriterionUse,
    Divergence,
    FailureOrigin,
    Policy,
    Run,
    Suite,
    VerdictKind,
)

WHY: Mapping[CaseStatus, str] = {
    CaseStatus.PAIRED: "",
    CaseStatus.NEW: "not in the base's evaluation files",
    CaseStatus.CHANGED: "the case changed since the base's results",
    CaseStatus.REMOVED: "only on the base",
}


@dataclass(frozen=True, slots=True, kw_only=True)
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

    def outcome(self, key: CaseKey, uses: Sequence[CriterionUse], *, name: str | None = None) -> CaseOutcome:
        """The trials of a case by what the criteria that decide say of them, those that never ran as unmeasured."""
        deciding = [use for use in pairing.deciding(uses) if name in (None, use.name)]
        outcomes = [pairing.passes(pairing.pattern_of(trial, deciding)) for trial in self.trials.get(key, ())]
        outcomes += [None] * (self.run.expected(*key) - len(outcomes))
        return CaseOutcome(
            passed=outcomes.count(True),
            failed=outcomes.count(False),
            unmeasured=outcomes.count(None),
            kind=self.kind(key, name) or VerdictKind.NOT_MEASURED,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Head's cases on both sides, judged by head's criteria: of those that are compared (`pairs`), `deciding` count
    and `shown` do not."""

    uses: Mapping[CaseKey, Sequence[CriterionUse]]
    head: SideResults
    base: SideResults
    unpaired: Mapping[CaseKey, CaseStatus]
    pairs: Sequence[Pair]
    deciding: Sequence[Pair]
    shown: Sequence[Pair]
    quarantined: Collection[CaseKey]

    def cases(self, policy: Policy) -> tuple[CaseComparison, ...]:
        """Every case of head, then those that only base has."""
        simulated = {
            (suite.key, case.case_id): suite
            for suite in self.head.run.suites
            for case in suite.eval_set.cases
            if case.scenario is not None
        }
        own = [self._case(key, alpha=policy.alpha, simulated=simulated.get(key)) for key in self.uses]
        gone = (
            CaseComparison(suite=suite, case_id=case_id, status=status, why=WHY[status])
            for (suite, case_id), status in self.unpaired.items()
            if (suite, case_id) not in self.uses
        )
        return (*own, *gone)

    def may_fail(self, policy: Policy) -> bool:
        """See `confirm.may_fail`."""
        counted = {key: verdict for key, verdict in self.head.verdicts.items() if key not in self.quarantined}
        clean = {pair.key for pair in self.pairs if self._is_clean(pair)}
        failures = {
            key
            for key, verdict in counted.items()
            if key not in clean and (key not in self.unpaired or verdict.kind is not VerdictKind.PASS)
        }
        new = [key for key, status in self.unpaired.items() if status is CaseStatus.NEW]
        return confirm.may_fail(self.head.run.suites, failures, counted, policy=policy, new=new)

    def _is_clean(self, pair: Pair) -> bool:
        return all(
            not side.left_out and all(known is not None and pairing.passes(known) for known in side.patterns)
            for side in (pair.head, pair.base)
        )

    def _case(self, key: CaseKey, *, alpha: float, simulated: Suite | None) -> CaseComparison:
        status, uses = self.unpaired.get(key, CaseStatus.PAIRED), self.uses[key]
        # what the base made of another question, or has no question for, is no outcome of this case
        base = self.base.outcome(key, uses) if status is CaseStatus.PAIRED else None
        head = self.head.outcome(key, uses)
        origin, newly = self._origin(key, head, base, alpha=alpha)
        is_lacking = status is CaseStatus.PAIRED and not self.base.trials.get(key)
        return CaseComparison(
            suite=key[0],
            case_id=key[1],
            status=status,
            head=head,
            base=base,
            origin=origin,
            newly=newly,
            why="the base did not run it" if is_lacking else WHY[status],
            divergence=None if simulated is None else self._divergence(key, simulated),
            quarantined=key in self.quarantined,
        )

    def _origin(
        self, key: CaseKey, head: CaseOutcome, base: CaseOutcome | None, *, alpha: float
    ) -> tuple[FailureOrigin | None, tuple[str, ...]]:
        """Whose failure a case is (None: head does not fail), and the criteria that head alone fails.

        New where the case as a whole or a criterion that head fails says so: a case that failed all along can fail in
        a new way. Known only where the base fails every one of these criteria too.
        """
        if head.kind is not VerdictKind.FAIL:
            return None, ()
        if base is None:
            return FailureOrigin.UNKNOWN, ()
        whole, uses = failure_origin(head, base, alpha=alpha), self.uses[key]
        parts = {
            name: failure_origin(
                self.head.outcome(key, uses, name=name), self.base.outcome(key, uses, name=name), alpha=alpha
            )
            for name in (use.name for use in pairing.deciding(uses) if use.name in self.head.failed(key))
        }
        newly = tuple(name for name, found in parts.items() if found is FailureOrigin.NEW)
        if newly or whole is FailureOrigin.NEW:
            return FailureOrigin.NEW, newly
        # under `adk-compat` an agent that failed is a failure, and no criterion fails
        if whole is FailureOrigin.UNKNOWN or not self.base.failed(key):
            return whole, ()
        unlike = (FailureOrigin.UNKNOWN, FailureOrigin.MIXED)
        return next((each for each in unlike if each in parts.values()), whole), ()

    def _divergence(self, key: CaseKey, suite: Suite) -> Divergence | None:
        """Where the conversations of a simulated user part, in the first repeat that both sides have."""
        for trial in self.head.trials.get(key, ()):
            head, base = (side.run.transcripts.find(trial.key) for side in (self.head, self.base))
            if head is not None and base is not None:
                hears_calls = suite.simulator.include_function_calls
                return divergence.compare(base.invocations, head.invocations, hears_calls=hears_calls)
        return None


def of(
    head: Run,
    base: Run,
    *,
    policy: Policy,
    unpaired: Mapping[CaseKey, CaseStatus],
    unreliable: Collection[CaseKey],
) -> Table:
    """The table of two runs."""
    uses = pairing.uses_by_case(head)
    ours, theirs = (
        SideResults(
            run=run,
            trials=pairing.trials_by_case(run),
            verdicts=pairing.case_verdicts(run, uses, policy=policy),
        )
        for run in (head, base)
    )
    pooled = pairing.by_case(base.pooled)
    accidents = confirm.crashes(head, policy)
    of_base = {trial.key for trial in base.trials if trial.own_failure}
    base_accidents = confirm.crashes(base, policy) & (of_base | accidents)
    pairs = [
        pairing.pair(
            key,
            head=head,
            base=base,
            head_trials=ours.trials,
            base_trials=theirs.trials,
            uses=own,
            pooled=pooled.get(key, ()),
            left_out=accidents,
            base_left_out=base_accidents,
        )
        for key, own in uses.items()
        if unpaired.get(key, CaseStatus.PAIRED) is CaseStatus.PAIRED
    ]
    shown = {pair.key for pair in pairs if pair.key[0] in policy.advisory or pair.key in unreliable}
    return Table(
        uses=uses,
        head=ours,
        base=theirs,
        unpaired=unpaired,
        quarantined=unreliable,
        pairs=pairs,
        deciding=[pair for pair in pairs if pair.key not in shown],
        shown=[pair for pair in pairs if pair.key in shown],
    )


def failure_origin(head: CaseOutcome, base: CaseOutcome, *, alpha: float) -> FailureOrigin | None:
    """Whose failure it is by the outcomes of both sides; None where head does not fail.

    Where runs of a side differ among themselves the results are mixed, unless base passes and the case alone shows
    that head is worse (exact test): 5 of 5 against 1 of 5 is no coin toss.
    """
    if head.kind is not VerdictKind.FAIL:
        return None
    if base.kind in (VerdictKind.NOT_MEASURED, VerdictKind.INCONCLUSIVE):
        return FailureOrigin.UNKNOWN
    passed = base.kind is VerdictKind.PASS
    if not (head.mixed or base.mixed):
        return FailureOrigin.NEW if passed else FailureOrigin.KNOWN
    stratum = Stratum(
        head_passes=head.passed,
        head_runs=head.passed + head.failed,
        base_passes=base.passed,
        base_runs=base.passed + base.failed,
    )
    return FailureOrigin.NEW if passed and tests.is_worse(stratum, alpha=alpha) else FailureOrigin.MIXED
