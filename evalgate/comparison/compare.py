"""Compare head's run with the base's: each case, each criterion, and all trials together."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean

from evalgate.comparison import (
    book as comparison_book,
    cases as comparison_cases,
    pairing,
    purse,
    sensitivity,
)
from evalgate.comparison.book import Sides
from evalgate.comparison.pairing import PolicyRule
from evalgate.model import (
    MOST_REPEATS,
    AppliedRule,
    BaseOrigin,
    CaseKey,
    Change,
    ComparedCases,
    Comparison,
    CriterionComparison,
    CriterionUse,
    PassRates,
    Scale,
    VerdictKind,
)
from evalgate.values import frozen_dataclass

OVERALL = "trials that pass"
"""The name of the row over all deciding criteria."""
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
        [side.passed(side.trials.get(key, ())) for key in deciding_keys]
        for side in sides.scored_sides
    ]
    rows = tuple(_rows(sides))
    head_side, base_side = sides.scored_sides
    return Comparison(
        origin=origin,
        base=base,
        cases=comparison_cases.comparisons_of(sides),
        criteria=rows,
        overall=_overall(sides, deciding_keys, outcomes),
        head_rates=pass_rates(outcomes[0]),
        # pass^k of both sides with the same k
        base_rates=pass_rates(outcomes[1], largest_k=base.repeats),
        power=sensitivity.power_of(
            sides,
            deciding_keys,
            [
                pairing.measured_values((*head_runs, *base_runs))
                for head_runs, base_runs in zip(*outcomes, strict=True)
            ],
        ),
        book=sides.book_and_reruns[0],
        unchanged=tuple(sorted(sides.unchanged)),
        unread=unread,
        edited=edited,
        is_past=any(
            row.change is Change.INCONCLUSIVE and not row.base_failed and not row.short
            for row in rows
        ),
        decided=head_side.verdicts,
        # a base that ran alongside head has head's criteria; a stored base may have its own
        base_decided=base_side.verdicts if pairing.uses_by_case(base) == sides.uses else {},
    )


def pass_rates(
    outcomes: Sequence[Sequence[bool | None]], *, largest_k: int = MOST_REPEATS
) -> PassRates | None:
    """Pass rates from the outcomes of every case (None: unknown). Cases without a known outcome are
    left out; the result is None if no case remains.

    k is the fewest known outcomes of a case, at most `largest_k`. Source: Yao et al. 2024 (arXiv
    2406.12045); Chen et al. 2021 (arXiv 2107.03374)."""
    counts = [
        (known_outcomes.count(True), len(known_outcomes))
        for runs in outcomes
        if (known_outcomes := [outcome for outcome in runs if outcome is not None])
    ]
    if not counts:
        return None
    k = min(largest_k, *(runs for _, runs in counts))
    return PassRates(
        k=k,
        rate=sum(passes for passes, _ in counts) / sum(runs for _, runs in counts),
        all_of_k=fmean(math.comb(passes, k) / math.comb(runs, k) for passes, runs in counts),
        any_of_k=fmean(
            1 - math.comb(runs - passes, k) / math.comb(runs, k) for passes, runs in counts
        ),
    )


@frozen_dataclass
class CaseSample:
    """One criterion's scores of a case on both sides, without crashed runs.

    `is_whole`: no score is missing. `is_unrun`: all missing scores are of trials that never ran.
    `base_failed`: scores are missing only on the base, because the base's own agent failed."""

    head: tuple[float, ...]
    base: tuple[float, ...]
    is_whole: bool
    is_unrun: bool
    base_failed: bool


def _sample(sides: Sides, key: CaseKey, name: str) -> CaseSample | None:
    """The sample of one case; None if all runs of a side crashed."""
    scores = []
    unscored_trials = []
    is_unrun = False
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
            (side, trial)
            for trial, score in zip(counted_trials, side_scores, strict=True)
            if score is None
        ]
        is_unrun = is_unrun or len(trials) < repeats
        scores.append(pairing.measured_values(side_scores))
    return CaseSample(
        head=scores[0],
        base=scores[1],
        is_whole=all(scores) and not unscored_trials and not is_unrun,
        is_unrun=is_unrun and not unscored_trials,
        base_failed=bool(unscored_trials)
        and all(side.is_base and trial.own_failure for side, trial in unscored_trials),
    )


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

    def missing(self, *, min_measured: float, is_truncated: bool) -> Change | None:
        """The change to report if too little was measured; None if enough was. The change is
        inconclusive if the missing trials would have been enough, and a budget or only the base's
        own failures kept them from being compared."""
        if not self.samples:  # every run crashed
            return Change.INCONCLUSIVE
        complete_count = sum(sample.is_whole for sample in self.samples)
        required_count = max(len(self.samples) * min_measured - DUST, DUST)
        if complete_count >= required_count:
            return None
        excused_count = sum(
            sample.base_failed or (is_truncated and sample.is_unrun) for sample in self.samples
        )
        return (
            Change.INCONCLUSIVE
            if complete_count + excused_count >= required_count
            else Change.NOT_MEASURED
        )


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


def _row(sides: Sides, rule: PolicyRule, cases: Sequence[CaseKey]) -> _Row:
    head_side, base_side = sides.scored_sides
    drops: list[float] = []
    past_drops: list[float] = []
    for key in cases:
        for head, base in comparison_book.common_runs(
            sides, (*head_side.trials.get(key, ()), *head_side.fresh.get(key, ()))
        ):
            head_score = pairing.value_of(head, rule.name)
            base_score = pairing.value_of(base, rule.name)
            if head_score is not None and base_score is not None:
                (past_drops if base.apart else drops).append(rule.drop(head_score, base_score))
    kinds = [(base_side.kind(key, rule.name), head_side.kind(key, rule.name)) for key in cases]
    samples = [sample for key in cases if (sample := _sample(sides, key, rule.name)) is not None]
    evidence = comparison_book.evidence
    return _Row(
        rule=rule,
        samples=samples,
        cases=_counted(samples, kinds),
        evidence=evidence(drops, tolerated=rule.max_drop),
        against=evidence([-drop for drop in drops], tolerated=rule.max_drop),
        past=evidence([*past_drops, *drops], tolerated=rule.max_drop) if past_drops else 1.0,
    )


def _counted(
    samples: Sequence[CaseSample], kinds: Sequence[tuple[VerdictKind | None, VerdictKind | None]]
) -> ComparedCases:
    """Count compared, missing, broken and fixed cases. `kinds`: the verdicts of base and head."""
    return ComparedCases(
        compared=sum(bool(sample.head and sample.base) for sample in samples),
        unpaired=sum(not sample.is_whole for sample in samples),
        broken=kinds.count((VerdictKind.PASS, VerdictKind.FAIL)),
        fixed=kinds.count((VerdictKind.FAIL, VerdictKind.PASS)),
    )


def _compared(row: _Row, sides: Sides, *, is_shown: bool, largest: float) -> CriterionComparison:
    book = sides.book_and_reruns[0]
    paired_samples = [sample for sample in row.samples if sample.head and sample.base]
    # the mean of the cases' means, over the cases that have a score on both sides
    head_mean = base_mean = None
    if paired_samples:
        head_mean = fmean(fmean(sample.head) for sample in paired_samples)
        base_mean = fmean(fmean(sample.base) for sample in paired_samples)
    is_truncated = bool(sides.head.truncated or (sides.base and sides.base.truncated))
    shortfall = row.missing(min_measured=sides.policy.min_measured, is_truncated=is_truncated)
    clock_based = row.rule.scale.clocked and not sides.is_together
    change = Change.NO_EVIDENCE
    if clock_based:
        change = Change.NOT_MEASURED
    elif (
        row.rule.gating and book.is_worse and row.evidence >= min(purse.BROKEN_FACTOR, largest) > 1
    ):
        change = Change.REGRESSED
    elif shortfall is not None:
        change = shortfall
    elif row.rule.gating and row.past >= book.needed:
        change = Change.INCONCLUSIVE
    elif row.rule.gating and book.better >= book.needed and row.against >= purse.BROKEN_FACTOR:
        change = Change.IMPROVED
    return CriterionComparison(
        name=row.rule.name,
        rule=AppliedRule(
            gating=row.rule.gating,
            advisory=is_shown,
            lower_is_better=row.rule.lower_is_better,
            floor=row.rule.floor(base_mean),
        ),
        change=change,
        cases=row.cases,
        base=base_mean,
        head=head_mean,
        evidence=row.evidence,
        clock_based=clock_based,
        short=shortfall is Change.NOT_MEASURED,
        base_failed=shortfall is Change.INCONCLUSIVE
        and any(sample.base_failed for sample in row.samples),
    )


def _overall(
    sides: Sides, deciding: Sequence[CaseKey], outcomes: Sequence[Sequence[Sequence[bool | None]]]
) -> CriterionComparison | None:
    """Compare the trials that pass all deciding criteria; None if no case decides. `outcomes`:
    those of head, then of the base."""
    if not deciding:
        return None
    samples = [
        CaseSample(
            head=pairing.measured_values(head_runs),
            base=pairing.measured_values(base_runs),
            is_whole=bool(head_runs and base_runs) and None not in (*head_runs, *base_runs),
            is_unrun=False,
            base_failed=False,
        )
        for head_runs, base_runs in zip(*outcomes, strict=True)
    ]
    head_side, base_side = sides.scored_sides
    kinds = [(base_side.verdicts[key].kind, head_side.verdicts[key].kind) for key in deciding]
    book = sides.book_and_reruns[0]
    row = _Row(
        rule=PolicyRule(
            name=OVERALL, gating=False, lower_is_better=False, scale=Scale(), max_drop=0.0
        ),
        samples=samples,
        cases=_counted(samples, kinds),
        evidence=book.worse,
        against=book.better,
        past=1.0,
    )
    return _compared(row, sides, is_shown=False, largest=1.0)
