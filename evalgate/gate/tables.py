"""All cases of two runs, one beside the other: which are compared, which decide, how each ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evalgate.gate import origins, pairing
from evalgate.gate import verdict as verdicts
from evalgate.gate.pairing import CaseKey, Pair
from evalgate.gate.threshold import Scale
from evalgate.model import Arm, CaseComparison, CaseVerdict, CriterionUse, Policy, Run, Standing


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
        own = [self._case(key, alpha=policy.alpha) for key in self.uses]
        gone = [key for key in self.unpaired if key not in self.uses]
        return (*own, *(_removed(key, self.unpaired[key]) for key in gone))

    def _case(self, key: CaseKey, *, alpha: float) -> CaseComparison:
        standing = self.unpaired.get(key, Standing.PAIRED)
        head, base = self._arm(key, head=True), self._arm(key, head=False)
        ran = bool(self.base_trials.get(key))
        known = base if ran or standing is Standing.PAIRED else None
        return CaseComparison(
            suite=key[0],
            case_id=key[1],
            standing=standing,
            head=head,
            base=known,
            origin=origins.origin(head, known, alpha=alpha),
            why=_why(standing, base_ran=ran),
        )

    def _arm(self, key: CaseKey, *, head: bool) -> Arm:
        run, trials, found = (
            (self.head, self.head_trials, self.head_verdicts)
            if head
            else (self.base, self.base_trials, self.base_verdicts)
        )
        return origins.arm(trials.get(key, ()), found[key], self.uses[key], expected=run.expected(*key))


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


def _removed(key: CaseKey, standing: Standing) -> CaseComparison:
    why = _why(standing, base_ran=True)
    return CaseComparison(suite=key[0], case_id=key[1], standing=standing, head=None, base=None, why=why)


def _why(standing: Standing, *, base_ran: bool) -> str:
    match standing:
        case Standing.PAIRED:
            return "" if base_ran else "the base did not run it"
        case Standing.NEW:
            return "the base's evaluation files do not have it"
        case Standing.CHANGED:
            return "the base's results are of another content of the case"
        case Standing.REMOVED:
            return "only the base has it"
