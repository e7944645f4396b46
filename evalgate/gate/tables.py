"""All cases of two runs, one beside the other: which are compared, which decide, how each ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evalgate import parting
from evalgate.gate import origins, pairing
from evalgate.gate import verdict as verdicts
from evalgate.gate.origins import Ended
from evalgate.gate.pairing import CaseKey, Pair
from evalgate.gate.threshold import Scale
from evalgate.model import CaseComparison, CaseVerdict, CriterionUse, Parting, Policy, Run, Standing, Suite


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All cases of both sides: `pairs` are compared; `deciding` of them count, `shown` do not."""

    head: Run
    base: Run
    uses: Mapping[CaseKey, Sequence[CriterionUse]]
    head_trials: pairing.Trials
    base_trials: pairing.Trials
    head_verdicts: Mapping[CaseKey, CaseVerdict]
    base_verdicts: Mapping[CaseKey, CaseVerdict]
    unpaired: Mapping[CaseKey, Standing]
    pairs: tuple[Pair, ...]
    deciding: tuple[Pair, ...]
    shown: tuple[Pair, ...]

    def cases(self, policy: Policy) -> tuple[CaseComparison, ...]:
        """Every case of head, then those that only base has."""
        led = _led(self.head)
        own = [self._case(key, alpha=policy.alpha, led=led) for key in self.uses]
        gone = [key for key in self.unpaired if key not in self.uses]
        return (*own, *(_removed(key, self.unpaired[key]) for key in gone))

    def _case(self, key: CaseKey, *, alpha: float, led: Mapping[CaseKey, Suite]) -> CaseComparison:
        standing, uses = self.unpaired.get(key, Standing.PAIRED), self.uses[key]
        # what the base made of another question, or has no question for, is no outcome of this case
        head, base = self._ended(key, head=True), self._ended(key, head=False) if standing is Standing.PAIRED else None
        found = origins.whose(head, base, uses, alpha=alpha)
        return CaseComparison(
            suite=key[0],
            case_id=key[1],
            standing=standing,
            head=head.arm,
            base=None if base is None else base.arm,
            origin=found.origin,
            newly=found.newly,
            why=_why(standing, base_ran=bool(self.base_trials.get(key))),
            parting=_parting(self, key, led.get(key)),
        )

    def _ended(self, key: CaseKey, *, head: bool) -> Ended:
        run, trials, found = (
            (self.head, self.head_trials, self.head_verdicts)
            if head
            else (self.base, self.base_trials, self.base_verdicts)
        )
        return Ended.of(trials.get(key, ()), found[key], self.uses[key], expected=run.expected(*key))


def of(
    head: Run,
    base: Run,
    *,
    policy: Policy,
    scales: Mapping[str, Scale],
    unpaired: Mapping[CaseKey, Standing],
    unreliable: frozenset[CaseKey],
) -> Table:
    """Head's cases on both sides, judged by head's criteria."""
    uses = pairing.uses_by_case(head)
    head_trials, base_trials = pairing.trials_by_case(head), pairing.trials_by_case(base)
    pairs = tuple(
        pairing.pair(key, head=head, base=base, head_trials=head_trials, base_trials=base_trials, uses=own)
        for key, own in uses.items()
        if unpaired.get(key, Standing.PAIRED) is Standing.PAIRED
    )
    silent = {pair.key for pair in pairs if pair.key[0] in policy.advisory or pair.key in unreliable}
    return Table(
        head=head,
        base=base,
        uses=uses,
        head_trials=head_trials,
        base_trials=base_trials,
        head_verdicts=verdicts.case_verdicts(head, uses, policy=policy, scales=scales),
        base_verdicts=verdicts.case_verdicts(base, uses, policy=policy, scales=scales),
        unpaired=unpaired,
        pairs=pairs,
        deciding=tuple(pair for pair in pairs if pair.key not in silent),
        shown=tuple(pair for pair in pairs if pair.key in silent),
    )


def _led(run: Run) -> dict[CaseKey, Suite]:
    """The suites of the cases that a simulated user leads."""
    return {
        (suite.key, case.case_id): suite
        for suite in run.suites
        for case in suite.eval_set.cases
        if case.scenario is not None
    }


def _parting(table: Table, key: CaseKey, suite: Suite | None) -> Parting | None:
    """Where the conversations of a simulated user part, in the first repeat that both sides have; None without one
    (`suite` None), and where they do not part."""
    for trial in () if suite is None else table.head_trials.get(key, ()):
        head, base = (run.transcripts.find(trial.key) for run in (table.head, table.base))
        if suite is not None and head is not None and base is not None:
            hears_calls = suite.simulator.include_function_calls
            return parting.compare(base.invocations, head.invocations, hears_calls=hears_calls)
    return None


def _removed(key: CaseKey, standing: Standing) -> CaseComparison:
    why = _why(standing, base_ran=True)
    return CaseComparison(suite=key[0], case_id=key[1], standing=standing, head=None, base=None, why=why)


def _why(standing: Standing, *, base_ran: bool) -> str:
    match standing:
        case Standing.PAIRED:
            return "" if base_ran else "the base did not run it"
        case Standing.NEW:
            return "not in the base's evaluation files"
        case Standing.CHANGED:
            return "the case changed since the base's results"
        case Standing.REMOVED:
            return "only on the base"
