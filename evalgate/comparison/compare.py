"""Compare head's run with the base's: each case, each criterion, and all trials together."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

from evalgate.comparison import (
    book as comparison_book,
    cases as comparison_cases,
    pairing,
    purse,
    sensitivity,
)
from evalgate.comparison.book import Sides
from evalgate.comparison.pairing import PolicyRule, known_values
from evalgate.model import (
    AppliedRule,
    BaseOrigin,
    CaseKey,
    Change,
    ComparedCases,
    Comparison,
    CriterionComparison,
    CriterionUse,
    Lack,
    PassRates,
    VerdictKind,
)
from evalgate.values import frozen_dataclass

DUST = 1e-9


def comparison_of(
    sides: Sides,
    *,
    origin: BaseOrigin,
    edited: tuple[CaseKey, ...] = (),
    unread: tuple[str, ...] = (),
) -> Comparison:
    """Compare head with the base, by head's cases, criteria and seed. `edited`, `unread`: see
    `Comparison`."""
    base = sides.base
    assert base is not None
    deciding_keys = [key for key in sides.uses if sides.is_paired(key) and sides.blocks(key)]
    outcomes = [
        [known_values(side.passed(side.trials.get(key, ()))) for side in sides.scored_sides]
        for key in deciding_keys
    ]
    rows = tuple(_rows(sides))
    head_side, base_side = sides.scored_sides
    return Comparison(
        origin=origin,
        base=base,
        cases=comparison_cases.comparisons_of(sides),
        criteria=rows,
        rates=pass_rates(outcomes),
        power=sensitivity.power_of(
            sides, deciding_keys, [[*head_runs, *base_runs] for head_runs, base_runs in outcomes]
        ),
        book=sides.book_and_reruns[0],
        unchanged=tuple(sorted(sides.unchanged)),
        unread=unread,
        edited=edited,
        is_past=any(row.lack is Lack.PAST for row in rows),
        decided=head_side.verdicts,
        # a base that ran alongside head has head's criteria; a stored base may have its own
        base_decided=base_side.verdicts if pairing.uses_by_case(base) == sides.uses else {},
    )


def pass_rates(outcomes: Iterable[Sequence[Sequence[bool]]]) -> tuple[PassRates, ...]:
    """The pass rates of each side, from each case's outcomes on each side. Cases without an outcome
    on one side are left out; the result is empty if no case remains.

    k is the fewest outcomes of a case. Source: Yao et al. 2024 (arXiv 2406.12045); Chen et al. 2021
    (arXiv 2107.03374)."""
    cases = [runs_of_sides for runs_of_sides in outcomes if all(runs_of_sides)]
    k = min((len(runs) for runs_of_sides in cases for runs in runs_of_sides), default=0)
    return tuple(_rates(side, k) for side in zip(*cases, strict=True))


def _rates(cases: Sequence[Sequence[bool]], k: int) -> PassRates:
    counts = [(sum(runs), len(runs)) for runs in cases]
    return PassRates(
        cases=len(cases),
        k=k,
        rate=fmean(passes / runs for passes, runs in counts),
        all_of_k=fmean(math.comb(passes, k) / math.comb(runs, k) for passes, runs in counts),
        any_of_k=fmean(
            1 - math.comb(runs - passes, k) / math.comb(runs, k) for passes, runs in counts
        ),
    )


@frozen_dataclass
class CaseSample:
    """One criterion's scores of a case on both sides, without crashed runs, and why one is
    missing."""

    head: tuple[float, ...]
    base: tuple[float, ...]
    lack: Lack | None


def _sample(sides: Sides, key: CaseKey, name: str) -> CaseSample | None:
    """The sample of one case; None if all runs of a side crashed."""
    scores = []
    unscored_trials = []
    lack = None
    repeats = min(side.run.repeats for side in sides.scored_sides)
    for side in sides.scored_sides:
        trials = side.trials.get(key, ())
        counted_trials = [
            trial for trial in trials if not pairing.is_crash(trial, of_base=side.is_base)
        ]
        if trials and not counted_trials:
            return None
        side_scores = [pairing.value_of(trial, name) for trial in counted_trials]
        unscored_trials += [
            side.is_base and trial.own_failure
            for trial, score in zip(counted_trials, side_scores, strict=True)
            if score is None
        ]
        if len(trials) < repeats:
            lack = Lack.RUNS
        scores.append(known_values(side_scores))
    if unscored_trials:
        lack = Lack.BASE_FAILED if all(unscored_trials) else Lack.SCORES
    return CaseSample(head=scores[0], base=scores[1], lack=lack)


@frozen_dataclass
class _Row:
    """One criterion over its cases. `evidence`, `against`: the factor that bets on the criterion
    reach, from 1, if they bet that head is worse or that head is better. `past`: like `evidence`,
    with pairs whose base ran on another day."""

    rule: PolicyRule
    samples: Sequence[CaseSample]
    cases: ComparedCases
    evidence: float
    against: float
    past: float

    def lack(self, sides: Sides) -> Lack | None:
        """What is missing if too little was measured; None if enough was. Trials that a budget or
        the base's own failures prevented are excused if they would have been enough."""
        if not self.samples:
            return Lack.RUNS
        is_truncated = any(side.run.truncated for side in sides.scored_sides)
        excuses = {None, Lack.BASE_FAILED, *((Lack.RUNS,) if is_truncated else ())}
        required_count = max(len(self.samples) * sides.policy.min_measured - DUST, DUST)
        lacks = [sample.lack for sample in self.samples]
        if lacks.count(None) >= required_count:
            return None
        if sum(lack in excuses for lack in lacks) < required_count:
            return Lack.SCORES
        return Lack.BASE_FAILED if Lack.BASE_FAILED in lacks else Lack.RUNS


def _rows(sides: Sides) -> Iterator[CriterionComparison]:
    """Criteria that decide, then criteria that do not; then the same for cases that are only
    shown."""
    for is_shown in (False, True):
        # in the order of the suites; a criterion that several suites use is one row
        uses: dict[str, CriterionUse] = {}
        cases: defaultdict[str, list[CaseKey]] = defaultdict(list)
        for key, case_uses in sides.uses.items():
            if sides.is_paired(key) and sides.blocks(key) is not is_shown:
                for use in case_uses:
                    uses.setdefault(use.name, use)
                    cases[use.name].append(key)
        rows = [
            _row(sides, pairing.rule_of(use, sides.policy, advisory=is_shown), cases[name])
            for name, use in uses.items()
        ]
        for is_gating in (True, False):
            kind_rows = [row for row in rows if row.rule.gating is is_gating]
            largest = max((row.evidence for row in kind_rows), default=1.0)
            yield from (
                _compared(row, sides, is_shown=is_shown, largest=largest) for row in kind_rows
            )


def _row(sides: Sides, rule: PolicyRule, keys: Sequence[CaseKey]) -> _Row:
    head_side, base_side = sides.scored_sides
    drops: list[float] = []
    past_drops: list[float] = []
    for key in keys:
        for head, base in sides.common_runs(
            (*head_side.trials.get(key, ()), *head_side.fresh.get(key, ()))
        ):
            head_score = pairing.value_of(head, rule.name)
            base_score = pairing.value_of(base, rule.name)
            if head_score is not None and base_score is not None:
                (past_drops if base.apart else drops).append(rule.drop(head_score, base_score))
    kinds = [(base_side.kind(key, rule.name), head_side.kind(key, rule.name)) for key in keys]
    samples = [sample for key in keys if (sample := _sample(sides, key, rule.name)) is not None]
    evidence = comparison_book.evidence
    return _Row(
        rule=rule,
        samples=samples,
        cases=ComparedCases(
            compared=sum(bool(sample.head and sample.base) for sample in samples),
            unpaired=sum(sample.lack is not None for sample in samples),
            broken=kinds.count((VerdictKind.PASS, VerdictKind.FAIL)),
            fixed=kinds.count((VerdictKind.FAIL, VerdictKind.PASS)),
        ),
        evidence=evidence(drops, tolerated=rule.max_drop),
        against=evidence([-drop for drop in drops], tolerated=rule.max_drop),
        past=evidence([*past_drops, *drops], tolerated=rule.max_drop) if past_drops else 1.0,
    )


def _compared(row: _Row, sides: Sides, *, is_shown: bool, largest: float) -> CriterionComparison:
    book = sides.book_and_reruns[0]
    rule = row.rule
    paired_samples = [sample for sample in row.samples if sample.head and sample.base]
    # the mean of the cases' means, over the cases that have a score on both sides
    head_mean = base_mean = None
    if paired_samples:
        head_mean = fmean(fmean(sample.head) for sample in paired_samples)
        base_mean = fmean(fmean(sample.base) for sample in paired_samples)
    lack = row.lack(sides)
    if rule.scale.clocked and not sides.is_together:
        lack = Lack.CLOCK
    change = CHANGES[lack]
    if lack is not Lack.CLOCK and rule.gating:
        if book.is_worse and row.evidence >= min(purse.BROKEN_FACTOR, largest) > 1:
            change = Change.REGRESSED
        elif lack is None and row.past >= book.needed:
            lack = Lack.PAST
            change = Change.INCONCLUSIVE
        elif lack is None and book.better >= book.needed and row.against >= purse.BROKEN_FACTOR:
            change = Change.IMPROVED
    return CriterionComparison(
        name=rule.name,
        rule=AppliedRule(
            gating=rule.gating,
            advisory=is_shown,
            lower_is_better=rule.lower_is_better,
            floor=rule.floor(base_mean),
        ),
        change=change,
        cases=row.cases,
        base=base_mean,
        head=head_mean,
        evidence=row.evidence,
        lack=lack,
    )


CHANGES = {
    None: Change.NO_EVIDENCE,
    Lack.CLOCK: Change.NOT_MEASURED,
    Lack.SCORES: Change.NOT_MEASURED,
    Lack.RUNS: Change.INCONCLUSIVE,
    Lack.BASE_FAILED: Change.INCONCLUSIVE,
}
"""The change of a criterion by what it lacks, if neither a drop nor a rise is sure."""
