"""Compare head's run with the base's: each case, each criterion, and all trials together; and the
failures that a passing gate could have missed."""

from __future__ import annotations

import functools
import itertools
import math
import random
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import TypeAlias

from evalgate.model import (
    AppliedRule,
    BaseOrigin,
    Book,
    CaseComparison,
    CaseKey,
    CaseOutcome,
    CaseStatus,
    Cell,
    Change,
    ComparedCases,
    Comparison,
    Confirmation,
    CriterionComparison,
    FailureOrigin,
    Lack,
    PassRates,
    Power,
    Purpose,
    Reruns,
    ThresholdRule,
    VerdictKind,
)
from evalgate.values import Sentence, Wording, grouped
from . import pairing, purse, threshold
from .book import ScoredSide, Sides
from .pairing import PolicyRule
from .purse import CaseRuns, RunPair, Terms, play

DUST = 1e-9
Falls: TypeAlias = Sequence[tuple[float, bool]]
"""By how much head was worse in each pair of runs, from -1 to 1; and True if the base ran on
another day."""


def comparison_of(
    sides: Sides,
    *,
    origin: BaseOrigin,
    edited: tuple[CaseKey, ...],
    unread: tuple[str, ...],
) -> Comparison:
    """Compare head with the base, by head's cases, criteria and seed. `edited`, `unread`: see
    `Comparison`."""
    base = sides.base
    assert base is not None
    outcomes = {
        key: [side.known_outcomes(key, Purpose.FIRST) for side in sides.scored_sides]
        for key in sides.uses
        if sides.is_paired(key) and sides.policy.blocks(key)
    }
    rows = tuple(_rows(sides))
    head_side, base_side = sides.scored_sides
    # every case of head in its order, then the cases that only the base has
    cases = [_case(sides, key) for key in sides.uses]
    cases += [case for case in unpaired_cases(sides.unpaired) if case.key not in sides.uses]
    return Comparison(
        origin=origin,
        base=base,
        cases=tuple(cases),
        criteria=rows,
        rates=pass_rates(outcomes.values()),
        power=power_of(sides, outcomes),
        book=sides.book_and_reruns[0],
        unchanged=tuple(sorted(sides.unchanged)),
        unread=unread,
        edited=edited,
        is_past=any(row.lack is Lack.PAST for row in rows),
        decided=head_side.verdicts,
        # a base that ran alongside head has head's criteria; a stored base may have its own
        base_decided=base_side.verdicts if pairing.uses_by_case(base) == sides.uses else {},
    )


def unpaired_cases(statuses: Mapping[CaseKey, CaseStatus]) -> tuple[CaseComparison, ...]:
    """The cases that cannot be compared, whatever was measured."""
    return tuple(
        CaseComparison(
            suite=suite, case_id=case_id, status=status, why=Sentence("case_status", status)
        )
        for (suite, case_id), status in statuses.items()
    )


def _case(sides: Sides, key: CaseKey) -> CaseComparison:
    """Compare one case."""
    head_side, base_side = sides.scored_sides
    book = sides.book_and_reruns[0]
    status = sides.unpaired.get(key, CaseStatus.PAIRED)
    is_paired = status is CaseStatus.PAIRED
    # a base result for another question, or for no question, is not an outcome of this case
    head = _outcome(head_side, key)
    base = _outcome(base_side, key) if is_paired else None
    has_failed = base is not None and head.kind is VerdictKind.FAIL
    # a case that failed all along can fail in a new way
    new_failures = tuple(
        use.name
        for use in pairing.deciding(sides.uses[key])
        if has_failed and sides.kinds(key, use.name) == (VerdictKind.FAIL, VerdictKind.PASS)
    )
    why: Wording = "" if is_paired else Sentence("case_status", status)
    if is_paired and not base_side.trials(key, Purpose.FIRST):
        why = Sentence("case_not_on_base")
    purposes = (Purpose.PAIR, Purpose.SINGLE)
    reruns = None
    if head_side.trials(key, *purposes):
        again, base_again = (side.known_outcomes(key, *purposes) for side in sides.scored_sides)
        reruns = Reruns(
            passed=sum(again),
            runs=len(again),
            base_passed=sum(base_again),
            base_runs=len(base_again),
        )
    return CaseComparison(
        suite=key[0],
        case_id=key[1],
        status=status,
        head=head,
        base=base,
        origin=origin_of(key, head, base, new_failures, book),
        newly=new_failures,
        reruns=reruns,
        evidence=book.factors.get(key, 1.0),
        why=why,
        listed=key in sides.policy.exemptions,
    )


def _outcome(side: ScoredSide, key: CaseKey) -> CaseOutcome:
    """Count a case's trials by the deciding criteria. Trials that never ran count as unmeasured."""
    uses = pairing.deciding(side.uses[key])
    trials = side.trials(key, Purpose.FIRST)
    outcomes = [pairing.passes(pairing.pattern_of(trial, uses)) for trial in trials]
    outcomes += [None] * (side.run.repeats - len(outcomes))
    return CaseOutcome(
        passed=outcomes.count(True),
        failed=outcomes.count(False),
        unmeasured=outcomes.count(None),
        kind=side.verdicts[key].kind,
    )


def origin_of(
    key: CaseKey,
    head: CaseOutcome,
    base: CaseOutcome | None,
    new_failures: Sequence[str],
    book: Book,
) -> FailureOrigin | None:
    """The origin of a case's failure. None if head does not fail, or only crashed without a known
    origin.

    The reruns decide. Without reruns, the first runs of both sides decide."""
    confirmation = book.confirmations.get(key)
    is_confirmed = confirmation in (Confirmation.FLAKY, Confirmation.BROKEN)
    if head.kind is not VerdictKind.FAIL and not is_confirmed:
        return None
    if confirmation in OF_RERUNS:
        return OF_RERUNS[confirmation]
    if base is None or not (base.passed + base.failed or new_failures):
        return FailureOrigin.UNKNOWN
    has_fallen = base.passed > base.failed or bool(new_failures)
    is_new = has_fallen and key not in book.on_both
    if confirmation is Confirmation.OPEN and is_new and not book.is_worse:
        # once head is certainly worse, no further suspect is rerun
        return FailureOrigin.UNCONFIRMED
    if (confirmation is None and (head.mixed or base.mixed)) or (
        is_new and head.passed >= head.failed > 0
    ):
        return FailureOrigin.MIXED
    return FailureOrigin.NEW if is_new else FailureOrigin.KNOWN


OF_RERUNS: Mapping[Confirmation | None, FailureOrigin] = {
    Confirmation.FLAKY: FailureOrigin.FLAKY,
    Confirmation.BROKEN: FailureOrigin.NEW,
    Confirmation.LOST: FailureOrigin.UNCONFIRMED,
}


def pass_rates(outcomes: Iterable[Sequence[Sequence[bool]]]) -> tuple[PassRates, ...]:
    """The pass rates of each side, from each case's outcomes on each side. Cases without an outcome
    on one side are left out; the result is empty if no case remains. k is the fewest outcomes of a
    case. Source: Yao et al. 2024 (arXiv 2406.12045); Chen et al. 2021 (arXiv 2107.03374)."""
    counts_by_case = [
        [(sum(runs), len(runs)) for runs in runs_of_sides]
        for runs_of_sides in outcomes
        if all(runs_of_sides)
    ]
    k = min((runs for counts in counts_by_case for _, runs in counts), default=0)
    return tuple(
        PassRates(
            cases=len(counts),
            k=k,
            rate=fmean(passes / runs for passes, runs in counts),
            all_of_k=fmean(math.comb(passes, k) / math.comb(runs, k) for passes, runs in counts),
            any_of_k=fmean(
                1 - math.comb(runs - passes, k) / math.comb(runs, k) for passes, runs in counts
            ),
        )
        for counts in zip(*counts_by_case, strict=True)
    )


def _sample(
    sides: Sides, key: CaseKey, name: str
) -> tuple[Sequence[Sequence[float]], Lack | None] | None:
    """One criterion's scores of a case on each side, without crashed runs, and why one is missing;
    None if all runs of a side crashed. Nothing is missing if the criterion abstained."""
    scores = []
    unscored_trials = []
    lack = None
    repeats = min(side.run.repeats for side in sides.scored_sides)
    for side in sides.scored_sides:
        trials = side.trials(key, Purpose.FIRST)
        counted_trials = [
            trial for trial in trials if not pairing.is_crash(trial, of_base=side.is_base)
        ]
        if trials and not counted_trials:
            return None
        side_scores = [pairing.value_of(trial, name) for trial in counted_trials]
        scores.append([score for score in side_scores if score is not None])
        unscored_trials += [
            side.is_base and trial.own_failure
            for trial, score in zip(counted_trials, side_scores, strict=True)
            if score is None and not threshold.abstains(trial.grades.get(name))
        ]
        if len(trials) < repeats:
            lack = Lack.RUNS
    if unscored_trials:
        lack = Lack.BASE_FAILED if all(unscored_trials) else Lack.SCORES
    return scores, lack


def _lack(sides: Sides, lacks: Sequence[Lack | None]) -> Lack | None:
    """What is missing if too little was measured; None if enough was. Trials that a budget or the
    base's own failures prevented are excused if they would have been enough. `lacks`: by case."""
    if not lacks:
        return Lack.RUNS
    is_truncated = any(side.run.truncated for side in sides.scored_sides)
    excuses = {None, Lack.BASE_FAILED, Lack.RUNS if is_truncated else None}
    required_count = max(len(lacks) * sides.policy.min_measured - DUST, DUST)
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
        groups = grouped(
            (use.name, (use, key))
            for key, uses in sides.uses.items()
            if sides.is_paired(key) and sides.policy.blocks(key) is not is_shown
            for use in uses
        )
        rows = []
        for group in groups.values():
            rule = pairing.rule_of(group[0][0], sides.policy, advisory=is_shown)
            keys = [key for _, key in group]
            falls: list[tuple[float, bool]] = []
            for key in keys:
                trials = sides.scored_sides[0].trials(key, *Purpose)
                case_falls = [
                    (drop, base.apart)
                    for head, base in sides.common_runs(trials)
                    if (drop := rule.drop_of(head, base)) is not None
                ]
                # a base of another day counts only for cases that the base did not run today
                falls += [fall for fall in case_falls if not fall[1]] or case_falls
            rows.append((rule, keys, falls))
        rows.sort(key=lambda row: not row[0].gating)
        evidences = [_evidence(rule, falls) for rule, _, falls in rows if rule.gating]
        largest = max(evidences, default=1.0)
        for rule, keys, falls in rows:
            yield _row(sides, rule, keys, falls, largest=largest)


def _evidence(
    rule: PolicyRule, falls: Falls, *, sign: float = 1.0, with_past: bool = False
) -> float:
    """The factor that bets on the criterion reach, from 1, if they bet that head is worse or, with
    `sign` -1, that it is better. `with_past`: also with pairs whose base ran on another day."""
    signed_falls = [sign * fall for fall, is_past in falls if with_past or not is_past]
    return purse.evidence(signed_falls, tolerated=rule.max_drop)


def _row(
    sides: Sides, rule: PolicyRule, keys: Sequence[CaseKey], falls: Falls, *, largest: float
) -> CriterionComparison:
    """`largest`: the largest evidence on a criterion that decides."""
    book = sides.book_and_reruns[0]
    name = rule.use.name
    kinds = [sides.kinds(key, name) for key in keys]
    samples = [sample for key in keys if (sample := _sample(sides, key, name)) is not None]
    # the mean of the cases' means, over the cases that have a score on both sides
    paired_means = [[*map(fmean, scores)] for scores, _ in samples if all(scores)]
    head_mean, base_mean = (
        map(fmean, zip(*paired_means, strict=True)) if paired_means else (None, None)
    )
    lacks = [case_lack for _, case_lack in samples]
    lack = Lack.CLOCK if rule.use.scale.clocked and not sides.is_together else _lack(sides, lacks)
    change = CHANGES[lack]
    evidence = _evidence(rule, falls)
    if lack is not Lack.CLOCK and rule.gating:
        if book.is_worse and evidence >= min(purse.BROKEN_FACTOR, largest) > 1:
            change = Change.REGRESSED
        elif lack is None:
            is_better = book.better >= book.needed
            is_past = any(is_past for _, is_past in falls)
            if is_past and _evidence(rule, falls, with_past=True) >= book.needed:
                lack = Lack.PAST
                change = Change.INCONCLUSIVE
            elif is_better and _evidence(rule, falls, sign=-1.0) >= purse.BROKEN_FACTOR:
                change = Change.IMPROVED
    return CriterionComparison(
        name=name,
        rule=AppliedRule(
            gating=rule.gating,
            advisory=rule.advisory,
            lower_is_better=rule.lower_is_better,
            floor=rule.floor(base_mean),
        ),
        change=change,
        cases=ComparedCases(
            compared=len(paired_means),
            unpaired=len(lacks) - lacks.count(None),
            broken=kinds.count((VerdictKind.FAIL, VerdictKind.PASS)),
            fixed=kinds.count((VerdictKind.PASS, VerdictKind.FAIL)),
        ),
        base=base_mean,
        head=head_mean,
        evidence=evidence,
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


# --- the failures that a pass may have missed -----------------------------------------------------
# For few cases only the verdict's own rules show this: simulated pull requests of the same size, in
# which cases break. The simulated cases pass as often as their runs suggest, one, two or three of
# them break, and the purse decides.


TRIES = 200
"""Simulated pull requests."""
MOST_PAIRS = 20_000
"""First runs in all of them; larger runs simulate fewer pull requests."""
FEWEST_TRIES = 10
BROKEN_COUNTS = (1, 2, 3)
BROKEN_RATE = 0.02
"""The pass rate of a broken case."""
PRIOR = 2.0
"""The pass rate of all cases counts as this many runs of each case."""
OFTEN_MISSED = 0.5
"""A case is named if its failure is missed more often."""
PAIRS = {
    (True, True): RunPair(cell=Cell.PASSED),
    (True, False): RunPair(cell=Cell.ROSE),
    (False, True): RunPair(cell=Cell.FELL),
    (False, False): RunPair(cell=Cell.FAILED),
}
"""Pairs of runs, by whether head and the base pass."""


def power_of(sides: Sides, outcomes: Mapping[CaseKey, Sequence[Sequence[bool]]]) -> Power | None:
    """The power of a comparison. `outcomes`: for each case that decides, the runs of each side,
    True for a pass. None if no outcome is known, or there are too many cases to simulate."""
    known_runs = {
        key: [*itertools.chain.from_iterable(runs_of_sides)]
        for key, runs_of_sides in outcomes.items()
        if any(runs_of_sides)
    }
    tries = min(TRIES, MOST_PAIRS // max(len(known_runs), 1))
    if not known_runs or tries < FEWEST_TRIES:
        return None
    all_runs = [*itertools.chain.from_iterable(known_runs.values())]
    mean = (sum(all_runs) + PRIOR) / (len(all_runs) + PRIOR)
    rates = tuple(
        min(0.98, (sum(runs) + PRIOR * mean) / (len(runs) + PRIOR)) for runs in known_runs.values()
    )
    policy = sides.policy
    needs = (policy.alpha, policy.pass_rate, policy.threshold)
    caught, unseen = _simulate(rates, needs, rounds=sides.head.repeats, tries=tries)
    known_keys = [*known_runs]
    return Power(
        cases=len(rates), caught=caught, unseen=tuple(known_keys[place] for place in unseen)
    )


@functools.lru_cache(maxsize=64)
def _simulate(
    rates: tuple[float, ...], needs: tuple[float, float, ThresholdRule], *, rounds: int, tries: int
) -> tuple[tuple[tuple[int, float], ...], tuple[int, ...]]:
    """For each number of broken cases, the share of pull requests that is blocked; and the places
    of cases whose failure is mostly missed. `needs`: alpha, the pass rate, and which failures
    count."""
    alpha, pass_rate, rule = needs
    terms = Terms(
        needed=1 / alpha,
        tolerated=Counter({"": len(rates) - threshold.needed(len(rates), pass_rate)}),
        asks_alone=rule is ThresholdRule.CONFIRMED,
    )
    draw = random.Random(zlib.crc32(repr((rates, rounds)).encode())).random  # noqa: S311 - no secret
    simulated_case = functools.partial(
        _simulated_case, draw=draw, rounds=rounds, can_rerun=rule is not ThresholdRule.ALL
    )
    results: defaultdict[int, list[tuple[int, bool]]] = defaultdict(list)
    for count in BROKEN_COUNTS[: len(rates)]:
        for _ in range(tries):
            places = sorted(range(len(rates)), key=lambda _: draw())[:count]
            cases = [
                simulated_case(place, (BROKEN_RATE if place in places else rate, rate))
                for place, rate in enumerate(rates)
            ]
            purse, _ = play(cases, terms)
            results[count].append((places[0], purse.is_worse or purse.is_failing))
    caught = tuple(
        (count, sum(is_blocked for _, is_blocked in pull_requests) / tries)
        for count, pull_requests in results.items()
    )
    return caught, tuple(
        place
        for place, flags in sorted(grouped(results[1]).items())
        if flags.count(False) > OFTEN_MISSED * len(flags)
    )


def _simulated_case(
    place: int,
    rates: tuple[float, float],
    *,
    draw: Callable[[], float],
    rounds: int,
    can_rerun: bool,
) -> CaseRuns:
    """A case with as many runs as the purse requests. `rates`: its pass rates, head's first."""
    head_rate, base_rate = rates
    # head runs first
    pairs = (PAIRS[draw() < head_rate, draw() < base_rate] for _ in itertools.count())
    first_pairs = [*itertools.islice(pairs, rounds)]
    cells = [pair.cell for pair in first_pairs]
    return CaseRuns(
        key=("", str(place)),
        rounds=first_pairs,
        pairs=pairs,
        alone=(draw() < head_rate for _ in itertools.count()),
        is_failing=can_rerun and (Cell.FELL in cells or Cell.FAILED in cells),
        passes_on_base=2 * (cells.count(Cell.FELL) + cells.count(Cell.PASSED)) > len(cells),
    )
