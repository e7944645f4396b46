"""Head's run beside base's, wherever the two come from: measured just now, joined from parts, read from files."""

from __future__ import annotations

import dataclasses
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from evalgate.comparison import cases as comparison_cases
from evalgate.comparison import pairing, power, repeats, tests
from evalgate.comparison.cases import Table
from evalgate.comparison.pairing import Pair, Pattern, Sample
from evalgate.comparison.repeats import Stage
from evalgate.comparison.tests import ScoredStratum, Stratum, Tails
from evalgate.model import (
    OPEN,
    BaseOrigin,
    BaseSource,
    CaseKey,
    CaseStatus,
    CaseVerdict,
    Change,
    Comparison,
    CriterionComparison,
    CriterionRule,
    CriterionUse,
    Interval,
    Policy,
    RelaxedRule,
    Run,
    Scale,
    Suite,
    VerdictKind,
)

# -- What a case's runs say of its two means, of all cases' difference, and how sure that is --


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Means over cases of the cases' means, the interval of head - base, and the p-values of a drop and a rise.

    `tails` None: the difference is a fact, not a sample.
    """

    head: float
    base: float
    interval: Interval | None
    tails: Tails | None

    @property
    def delta(self) -> float:
        """head - base."""
        return self.head - self.base


def estimate_mean(samples: Sequence[Sample], *, draws: int, seed: int, fact: bool) -> Estimate | None:
    """From the cases that have a score on both sides; None without any."""
    paired = [sample for sample in samples if sample.paired]
    if not paired:
        return None
    means = [case_means(sample) for sample in paired]
    return Estimate(
        head=math.fsum(head for head, _ in means) / len(means),
        base=math.fsum(base for _, base in means) / len(means),
        interval=None if fact else tests.interval([head - base for head, base in means], draws=draws, seed=seed),
        tails=None if fact else test(paired, draws=draws, seed=seed),
    )


def test(samples: Sequence[Sample], *, draws: int, seed: int) -> Tails:
    """The exact test where scores take two values at most, else Monte Carlo; strata are (case, stage)."""
    strata = [stratum for sample in samples for stratum in _strata(sample)]
    values = {value for stratum in strata for side in (stratum.head, stratum.base) for value in side}
    if len(values) > 2:
        return tests.monte_carlo(strata, draws=draws, seed=seed)
    best = max(values, default=0.0)
    return tests.exact(
        Stratum(
            head_passes=stratum.head.count(best),
            head_runs=len(stratum.head),
            base_passes=stratum.base.count(best),
            base_runs=len(stratum.base),
        )
        for stratum in strata
    )


def _strata(sample: Sample) -> tuple[ScoredStratum, ScoredStratum]:
    head, base = sample.head_first, sample.base_first
    return (
        ScoredStratum(head=_known(sample.head[:head]), base=_known(sample.base[:base])),
        ScoredStratum(head=_known(sample.head[head:]), base=_known(sample.base[base:])),
    )


def _known(values: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(value for value in values if value is not None)


def case_means(sample: Sample) -> tuple[float, float]:
    """Head's and base's mean of a case that has a score on both sides.

    A case that was run again was chosen because its first runs differed. The plain mean of all its runs, beside the
    first runs of the cases that were not chosen, would shrink the difference (by 40 % for a case that falls from 0.95
    to 0.85 with 2 + 3 runs). So the mean of the first stage is taken, averaged over all ways in which the runs of a
    side could have been dealt to the two stages and the case still been chosen: unbiased, and it uses every run
    (Rao and Blackwell). Where a score is missing, the plain means.
    """
    head, base = _known(sample.head), _known(sample.base)
    plain = fmean(head), fmean(base)
    if sample.patterns is None or not sample.full:
        return plain
    head_patterns, base_patterns = sample.patterns
    unlike = _unanimous(sample, head_patterns, base_patterns)
    chosen = 1 - math.fsum(chance for _, chance in unlike)
    if chosen < 1e-9:
        return plain
    return (
        (plain[0] - _weighted(head, head_patterns, unlike)) / chosen,
        (plain[1] - _weighted(base, base_patterns, unlike)) / chosen,
    )


def _unanimous(
    sample: Sample, head: Sequence[Pattern | None], base: Sequence[Pattern | None]
) -> list[tuple[Pattern | None, float]]:
    """The patterns that all first runs of both sides could have had alike, and how probably."""
    heads, bases = Counter(head), Counter(base)
    chances = (
        (
            pattern,
            _all_of(heads[pattern], len(head), sample.head_first)
            * _all_of(bases[pattern], len(base), sample.base_first),
        )
        for pattern in sorted(heads, key=repr)
    )
    return [(pattern, chance) for pattern, chance in chances if chance]


def _all_of(hits: int, total: int, drawn: int) -> float:
    return math.comb(hits, drawn) / math.comb(total, drawn)


def _weighted(
    values: Sequence[float], patterns: Sequence[Pattern | None], chances: Sequence[tuple[Pattern | None, float]]
) -> float:
    return math.fsum(
        chance * fmean(value for value, own in zip(values, patterns, strict=True) if own == pattern)
        for pattern, chance in chances
    )


# -- What may be claimed of a criterion --

DUST = 1e-9
"""Differences of means that are no difference: 1 - 0.95 is not more than 0.05."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """How one criterion is compared. `max_drop`: a share of the scale, or of base's mean where the scale is open."""

    name: str
    gating: bool
    lower_is_better: bool
    scale: Scale
    max_drop: float

    def floor(self, base: float) -> float:
        """The drop that is let pass, on the criterion's own scale."""
        low, high = self.scale.lowest, self.scale.highest
        reach = abs(base) if low is None or high is None else high - low
        return max(self.max_drop * reach, self.scale.resolution)


def measure_of(use: CriterionUse, policy: Policy, scales: Mapping[str, Scale], *, advisory: bool) -> Measure:
    """How the policy compares a criterion. Informational ones decide only where the policy says so."""
    rule = policy.criteria.get(use.name, CriterionRule())
    informational = use.informational or use.threshold is None
    return Measure(
        name=use.name,
        gating=not advisory and (not informational if rule.gating is None else rule.gating),
        lower_is_better=use.lower_is_better if rule.lower_is_better is None else rule.lower_is_better,
        scale=scales.get(use.name, OPEN),
        max_drop=policy.max_drop if rule.max_drop is None else rule.max_drop,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """P-values of head being worse and of head being better; 0 or 1 where the difference is a fact."""

    worse: float
    better: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A criterion's numbers: as measured, and with what is missing put in at its ends.

    `generous`: head's missing scores at their best and base's at their worst; `harsh` the other way round. `total`
    cases were to be compared; `paired` have a score on both sides, `full` have every score; `unrun` lack only trials
    that never ran. `clock_based`: the two sides were measured apart, so that nothing may be claimed.
    """

    measure: Measure
    total: int
    paired: int
    full: int
    unrun: int
    fact: bool
    measured: Estimate | None
    generous: Estimate | None
    harsh: Estimate | None
    clock_based: bool = False

    @property
    def floor(self) -> float:
        """The drop that is let pass."""
        return 0.0 if self.measured is None else self.measure.floor(self.measured.base)

    def drop(self, estimate: Estimate) -> float:
        """By how much head is worse."""
        return estimate.delta if self.measure.lower_is_better else -estimate.delta

    def odds(self, estimate: Estimate | None) -> Odds:
        """The p-values of an estimate; those of nothing are 1."""
        if estimate is None:
            return Odds(worse=1.0, better=1.0)
        if estimate.tails is None:
            drop = self.drop(estimate)
            return Odds(worse=0.0 if drop > DUST else 1.0, better=0.0 if drop < -DUST else 1.0)
        if self.measure.lower_is_better:
            return Odds(worse=estimate.tails.rise, better=estimate.tails.drop)
        return Odds(worse=estimate.tails.drop, better=estimate.tails.rise)


def read(measure: Measure, samples: Sequence[Sample], *, draws: int, seed: int, fact: bool, alpha: float) -> Reading:
    """A criterion's numbers over the cases that are to be compared.

    `fact`: the agent repeated itself in every case. A difference is a fact only where so many coin tosses would look
    like it with a chance below `alpha`.
    """
    fact = fact and all(_constant(sample.head) and _constant(sample.base) for sample in samples)
    fact = fact and _chance(samples) < alpha
    complete = all(sample.full for sample in samples)
    low, high = _ends(measure.scale, samples)
    best, worst = (low, high) if measure.lower_is_better else (high, low)

    def estimate(given: Sequence[Sample]) -> Estimate | None:
        return estimate_mean(given, draws=draws, seed=seed, fact=fact)

    measured = estimate(samples)
    known = complete or measured is None
    return Reading(
        measure=measure,
        total=len(samples),
        paired=sum(sample.paired for sample in samples),
        full=sum(sample.full for sample in samples),
        unrun=sum(sample.unrun and not sample.failed for sample in samples),
        fact=fact and measured is not None,
        measured=measured,
        generous=measured if known else estimate([sample.filled(head=best, base=worst) for sample in samples]),
        harsh=measured if known else estimate([sample.filled(head=worst, base=best) for sample in samples]),
    )


def _chance(samples: Sequence[Sample]) -> float:
    """The chance that every case whose sides differ is a coin toss, each at its worst: all of h runs of head one way,
    all of b of base the other. 0 where no case differs."""
    chances = []
    for sample in samples:
        head, base = ([value for value in side if value is not None] for side in (sample.head, sample.base))
        if head and base and head[0] != base[0]:
            share = len(head) / (len(head) + len(base))
            chances.append(share ** len(head) * (1 - share) ** len(base))
    return math.prod(chances) if chances else 0.0


def _constant(values: Sequence[float | None]) -> bool:
    return len({value for value in values if value is not None}) <= 1


def _ends(scale: Scale, samples: Sequence[Sample]) -> tuple[float, float]:
    """The worst and the best that a missing score could be; the most extreme seen where the scale is open."""
    seen = [value for sample in samples for value in (*sample.head, *sample.base) if value is not None]
    low = min(seen, default=0.0) if scale.lowest is None else scale.lowest
    high = max(seen, default=0.0) if scale.highest is None else scale.highest
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What is said of a criterion, with the p-values that it rests on, adjusted for the criteria beside it. `short`:
    too little of it was measured, also where it fell for certain."""

    change: Change
    adjusted: Odds | None
    short: bool = False


def claim(
    readings: Mapping[str, Reading], *, alpha: float, share: float, min_measured: float, truncated: bool
) -> dict[str, Claim]:
    """What is said of each criterion of one family. `share`: of alpha that this stage may spend.

    Adjusted p-values are Holm's, divided by `share`, so that all of them are compared with `alpha`.
    """
    measured = {name: reading.odds(reading.measured) for name, reading in readings.items()}
    generous = {name: reading.odds(reading.generous) for name, reading in readings.items()}
    harsh = {name: reading.odds(reading.harsh) for name, reading in readings.items()}
    sampled = [name for name, reading in readings.items() if not reading.fact and not reading.clock_based]

    def adjusted(odds: Mapping[str, float]) -> dict[str, float]:
        found = tests.holm({name: odds[name] for name in sampled})
        return {name: min(1.0, found[name] / share) if name in found else odds[name] for name in odds}

    worse = adjusted({name: odds.worse for name, odds in measured.items()})
    better = adjusted({name: odds.better for name, odds in measured.items()})
    worse_at_best = adjusted({name: odds.worse for name, odds in generous.items()})
    better_at_worst = adjusted({name: odds.better for name, odds in harsh.items()})
    claims = {}
    for name, reading in readings.items():
        regressed = max(worse[name], worse_at_best[name]) < alpha and _beyond(reading, worse=True)
        improved = max(better[name], better_at_worst[name]) < alpha and _beyond(reading, worse=False)
        lacking = _lacking(reading, min_measured=min_measured, truncated=truncated)
        claims[name] = Claim(
            change=_change(reading, regressed=regressed, improved=improved, lacking=lacking),
            adjusted=None
            if name not in sampled or reading.measured is None
            else Odds(worse=worse[name], better=better[name]),
            short=lacking is Change.NOT_MEASURED,
        )
    return claims


def _beyond(reading: Reading, *, worse: bool) -> bool:
    """Whether the difference exceeds the floor, as measured and with the missing put in against the claim."""
    against = reading.generous if worse else reading.harsh
    if reading.measured is None or against is None:
        return False
    drops = [reading.drop(each) if worse else -reading.drop(each) for each in (reading.measured, against)]
    return min(drops) > reading.floor + DUST


def _lacking(reading: Reading, *, min_measured: float, truncated: bool) -> Change | None:
    """What is said where too little was measured; None where it is enough."""
    if reading.measured is not None and _enough(reading, reading.full, min_measured):
        return None
    cut_short = truncated and _enough(reading, reading.full + reading.unrun, min_measured)
    return Change.INCONCLUSIVE if cut_short else Change.NOT_MEASURED


def _change(reading: Reading, *, regressed: bool, improved: bool, lacking: Change | None) -> Change:
    if reading.clock_based:
        return Change.NOT_MEASURED
    if regressed:
        return Change.REGRESSED
    if lacking is not None:
        return lacking
    if improved:
        return Change.IMPROVED
    within = all(_within(reading, each) for each in (reading.measured, reading.generous, reading.harsh))
    return Change.UNCHANGED if within else Change.INCONCLUSIVE


def _enough(reading: Reading, cases: int, min_measured: float) -> bool:
    return reading.total > 0 and cases > 0 and cases >= reading.total * min_measured - DUST


def _within(reading: Reading, estimate: Estimate | None) -> bool:
    if estimate is None:
        return False
    floor = reading.floor + DUST
    if estimate.tails is None:
        return abs(estimate.delta) <= floor
    return estimate.interval is not None and -floor <= estimate.interval.low and estimate.interval.high <= floor


# -- Head's run beside base's --

DRAWS = 9_999
"""Of the Monte Carlo tests and of the bootstrap."""

REPETITIONS = 4
"""As many runs, beyond the first of each side, must have been repetitions before an agent is called deterministic: one
case that is a coin toss looks like a fact, and worse, with a chance of 1/16 at two runs a side."""

OVERALL = "trials that pass"
"""The name of the row over all deciding criteria."""


def draws_for(cases: int) -> int:
    """Fewer draws for very many cases: the p-values stay valid, and 2,000 cases take the same time as 20,000."""
    return max(1_999, min(DRAWS, 20_000_000 // max(cases, 1)))


def compare_runs(
    head: Run,
    base: Run,
    *,
    policy: Policy,
    scales: Mapping[str, Scale],
    judged: frozenset[str],
    origin: BaseOrigin,
    unpaired: Mapping[CaseKey, CaseStatus],
    seed: int,
    relaxed: tuple[RelaxedRule, ...] = (),
    stage: Stage = Stage.ONLY,
    unreliable: frozenset[CaseKey] = frozenset(),
    run_together: bool = True,
) -> Comparison:
    """Head beside base, by head's cases and criteria.

    `judged`: criteria that a judge scores, whose scores vary though the agent does not. `unpaired`: cases that are left
    out of every difference. `unreliable`: cases that are shown and never decide, like those of advisory suites.
    `stage`: which look at adaptive repeats this is; it says how much of alpha may be spent. `run_together`: whether both
    sides were run side by side; where not, nothing is claimed of what is read from a clock.
    """
    table = comparison_cases.of(head, base, policy=policy, scales=scales, unpaired=unpaired, unreliable=unreliable)
    settings = _Settings(
        policy=policy,
        scales=scales,
        judged=judged,
        # a case whose two sides differ is about to be run again, and may yet turn out to be a coin toss
        steady=stage is not Stage.FIRST and _steady(table.pairs),
        share=repeats.SHARES[stage],
        draws=draws_for(len(table.pairs)),
        seed=seed,
        truncated=bool(head.truncated or base.truncated),
        run_together=run_together,
    )
    rows = _rows(table, settings)
    overall = _overall(table, settings)
    outcomes = [pairing.outcomes(pair) for pair in table.deciding]
    gating = sum(row.gating for row in rows)
    return Comparison(
        origin=origin,
        base=base,
        cases=table.cases(policy),
        criteria=rows,
        overall=overall,
        head_rates=power.rates([sample.head[: sample.head_first] for sample in outcomes]),
        base_rates=power.rates([sample.base[: sample.base_first] for sample in outcomes]),
        power=power.detectable(
            outcomes,
            alpha=policy.alpha * settings.share / max(gating, 1),
            floor=policy.max_drop,
            fact=overall is not None and overall.fact,
        ),
        relaxed=relaxed,
        alpha=policy.alpha,
        seed=seed,
        draws=settings.draws,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    policy: Policy
    scales: Mapping[str, Scale]
    judged: frozenset[str]
    steady: bool
    share: float
    draws: int
    seed: int
    truncated: bool
    run_together: bool


def _steady(pairs: Sequence[Pair]) -> bool:
    """Whether every case ran twice or more on each side and the agent did the same each time, and that often enough: it
    is deterministic."""
    sides = [side for pair in pairs for side in (pair.head, pair.base)]
    return sum(len(side.trials) - 1 for side in sides) >= REPETITIONS and all(
        len(side.trials) >= 2
        and len({"" if trial is None else trial.behavior for trial in side.trials}) == 1
        and side.trials[0] is not None
        and side.trials[0].behavior != ""
        for side in sides
    )


def _rows(table: Table, settings: _Settings) -> tuple[CriterionComparison, ...]:
    deciding = _readings(table.deciding, settings, advisory=False)
    shown = _readings(table.shown, settings, advisory=True)
    gating = {name: reading for name, reading in deciding.items() if reading.measure.gating}
    beside = {name: reading for name, reading in deciding.items() if not reading.measure.gating}
    rows: list[CriterionComparison] = []
    for family, pairs, advisory in (
        (gating, table.deciding, False),
        (beside, table.deciding, False),
        (shown, table.shown, True),
    ):
        found = _claim(family, settings)
        rows += [
            _row(reading, found[name], turned=_turned(table, pairs, name), advisory=advisory)
            for name, reading in family.items()
        ]
    return tuple(rows)


def _claim(family: Mapping[str, Reading], settings: _Settings) -> dict[str, Claim]:
    return claim(
        family,
        alpha=settings.policy.alpha,
        share=settings.share,
        min_measured=settings.policy.min_measured,
        truncated=settings.truncated,
    )


def _readings(pairs: Sequence[Pair], settings: _Settings, *, advisory: bool) -> dict[str, Reading]:
    """By criterion, in the order in which suites name them; a criterion of many suites is one."""
    uses = {use.name: use for pair in reversed(pairs) for use in reversed(pair.uses)}
    ordered = dict.fromkeys(use.name for pair in pairs for use in pair.uses)
    readings = {}
    for name in ordered:
        samples = [pairing.scores(pair, name) for pair in pairs if any(use.name == name for use in pair.uses)]
        measure = measure_of(uses[name], settings.policy, settings.scales, advisory=advisory)
        reading = _read(measure, samples, settings, steady=settings.steady and name not in settings.judged)
        readings[name] = dataclasses.replace(reading, clock_based=measure.scale.clocked and not settings.run_together)
    return readings


def _read(measure: Measure, samples: Sequence[Sample], settings: _Settings, *, steady: bool) -> Reading:
    # a criterion's draws are its own, whatever other criteria there are
    seed = (abs(settings.seed) << 32) | zlib.crc32(measure.name.encode("utf-8", "surrogatepass"))
    return read(measure, samples, draws=settings.draws, seed=seed, fact=steady, alpha=settings.policy.alpha)


def _overall(table: Table, settings: _Settings) -> CriterionComparison | None:
    if not table.deciding:
        return None
    names = {use.name for pair in table.deciding for use in pairing.deciding(pair.uses)}
    measure = Measure(
        name=OVERALL, gating=False, lower_is_better=False, scale=Scale(), max_drop=settings.policy.max_drop
    )
    samples = [pairing.outcomes(pair) for pair in table.deciding]
    reading = _read(measure, samples, settings, steady=settings.steady and not names & settings.judged)
    kinds = ((table.base_verdicts[pair.key].kind, table.head_verdicts[pair.key].kind) for pair in table.deciding)
    return _row(reading, _claim({OVERALL: reading}, settings)[OVERALL], turned=_count(kinds), advisory=False)


def _turned(table: Table, pairs: Sequence[Pair], name: str) -> tuple[int, int]:
    """Cases that pass the criterion on base alone, and on head alone."""
    return _count(
        (_kind(table.base_verdicts[pair.key], name), _kind(table.head_verdicts[pair.key], name)) for pair in pairs
    )


def _kind(verdict: CaseVerdict, name: str) -> VerdictKind | None:
    return next((criterion.kind for criterion in verdict.criteria if criterion.name == name), None)


def _count(kinds: Iterable[tuple[VerdictKind | None, VerdictKind | None]]) -> tuple[int, int]:
    found = list(kinds)
    broken, fixed = (VerdictKind.PASS, VerdictKind.FAIL), (VerdictKind.FAIL, VerdictKind.PASS)
    return found.count(broken), found.count(fixed)


def _row(reading: Reading, claim: Claim, *, turned: tuple[int, int], advisory: bool) -> CriterionComparison:
    measured, odds = reading.measured, claim.adjusted
    raw = None if odds is None else reading.odds(measured)
    return CriterionComparison(
        name=reading.measure.name,
        gating=reading.measure.gating,
        lower_is_better=reading.measure.lower_is_better,
        cases=reading.paired,
        base=None if measured is None else measured.base,
        head=None if measured is None else measured.head,
        interval=None if measured is None else measured.interval,
        p=None if raw is None else raw.worse,
        p_rise=None if raw is None else raw.better,
        p_adjusted=None if odds is None else odds.worse,
        p_rise_adjusted=None if odds is None else odds.better,
        floor=reading.floor,
        change=claim.change,
        fact=reading.fact,
        unpaired=reading.total - reading.full,
        advisory=advisory,
        broken=turned[0],
        fixed=turned[1],
        clock_based=reading.clock_based,
        short=claim.short,
    )


def compare(
    head: Run,
    base: Run,
    *,
    policy: Policy,
    origin: BaseOrigin,
    unpaired: Mapping[CaseKey, CaseStatus],
    relaxed: tuple[RelaxedRule, ...],
    stage: Stage,
    unreliable: frozenset[CaseKey] = frozenset(),
    run_together: bool | None = None,
) -> Comparison:
    """The comparison; where nothing of the base could be measured, one that says so.

    `run_together`: whether all of the base was run side by side with head; None: as the origin says.
    """
    problem = "" if _shares_no_case(head, unpaired) else _never_ran(base)
    if problem:
        return Comparison(origin=origin, problem=problem, relaxed=relaxed)
    run_together = origin.source is BaseSource.RERUN if run_together is None else run_together
    notes = dict.fromkeys((*origin.notes, *_other_models(head, base, run_together=run_together)))
    return compare_runs(
        head,
        base,
        policy=policy,
        scales=scales(head.suites),
        judged=frozenset(use.name for suite in head.suites for use in suite.criteria if use.is_judged),
        origin=dataclasses.replace(origin, notes=tuple(notes)),
        unpaired=unpaired,
        seed=head.seed,
        relaxed=relaxed,
        stage=stage,
        unreliable=unreliable,
        run_together=run_together,
    )


def scales(suites: Iterable[Suite]) -> dict[str, Scale]:
    """The scale of every criterion of the suites."""
    return {use.name: use.scale for suite in suites for use in suite.criteria}


def clocked(policy: Policy, suites: Iterable[Suite]) -> tuple[str, ...]:
    """The criteria that are read from a clock and decide all the same."""
    named = [use.name for suite in suites for use in suite.criteria if use.scale.clocked]
    return tuple(name for name in dict.fromkeys(named) if policy.criteria.get(name, CriterionRule()).gating)


def _shares_no_case(head: Run, unpaired: Mapping[CaseKey, CaseStatus]) -> bool:
    """Whether every case is new or changed, so that nothing could be compared whatever became of the base."""
    keys = [(suite.key, case.case_id) for suite in head.suites for case in suite.eval_set.cases]
    return bool(keys) and all(unpaired.get(key, CaseStatus.PAIRED) is not CaseStatus.PAIRED for key in keys)


def _never_ran(base: Run) -> str:
    """Why no trial of the base can be used at all; "" where one can."""
    if not base.trials:
        return "no base result could be compared"
    failures = [trial.failure for trial in base.trials]
    if all(failure is not None for failure in failures) and failures[0] is not None:
        return f"the base's agent did not run: {failures[0].message}"
    return ""


def _other_models(head: Run, base: Run, *, run_together: bool) -> tuple[str, ...]:
    """A note where other models answered: though the agent is the same, or at another time, when a provider may have
    moved as well. That difference is not the change's, or not its alone."""
    same = dict(head.codes) == dict(base.codes)
    if not head.models or not base.models or head.models == base.models or (run_together and not same):
        return ()
    then, now = (", ".join(sorted(run.models)) for run in (base, head))
    agent = "the same agent" if same else "the agent"
    return (f"{agent} used other models on the base ({then}) than on head ({now})",)
