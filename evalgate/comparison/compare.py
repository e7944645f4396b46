"""Head's run beside base's, wherever the two come from: measured just now, joined from parts, read from files."""

from __future__ import annotations

import dataclasses
import functools
import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from evalgate.comparison import cases as comparison_cases
from evalgate.comparison import confirm, joint, pairing, power, sensitivity, tests, verdict
from evalgate.comparison.cases import Table
from evalgate.comparison.pairing import Pair, Pattern, Sample
from evalgate.comparison.repeats import SHARES, Stage
from evalgate.comparison.sensitivity import Gates
from evalgate.comparison.tests import ScoredStratum, Stratum, Tails
from evalgate.model import (
    POOLED,
    AgentFailure,
    AppliedRule,
    BaseOrigin,
    BaseSource,
    CaseKey,
    CaseStatus,
    Change,
    ComparedCases,
    Comparison,
    CriterionComparison,
    CriterionRule,
    CriterionUse,
    Difference,
    FailureKind,
    Interval,
    Policy,
    Power,
    PValue,
    RelaxedRule,
    Run,
    Scale,
    Suite,
    ThresholdRule,
    VerdictKind,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Means over cases of the cases' means, the interval of head - base, and the p-values of a drop and a rise.

    `tails` None: the difference is a fact, not a sample. `noise`: the standard error of the difference in these cases,
    were they all run again.
    """

    head: float
    base: float
    interval: Interval | None
    tails: Tails | None
    noise: float


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
        noise=0.0 if fact else math.sqrt(math.fsum(map(squared_error, paired))) / len(means),
    )


def squared_error(sample: Sample) -> float:
    """Of a case's difference: from the runs of each side, of both together where a side has a single one."""
    head, base = pairing.known(sample.head), pairing.known(sample.base)
    spreads = (head, base) if min(len(head), len(base)) > 1 else ((*head, *base),) * 2
    runs = [len(head), len(base)]
    if sample.patterns is not None and sample.full:  # further runs make the means better, by how much is hard to say
        runs = [sample.head_first, sample.base_first]
    return math.fsum(variance(spread) / count for spread, count in zip(spreads, runs, strict=True))


def test(samples: Sequence[Sample], *, draws: int, seed: int) -> Tails:
    """The exact test where scores take two values at most, else Monte Carlo; strata are (case, stage)."""
    strata = strata_of(samples)
    passes = as_passes(strata)
    return tests.monte_carlo(strata, draws=draws, seed=seed) if passes is None else tests.exact(passes)


def strata_of(samples: Sequence[Sample]) -> list[ScoredStratum]:
    """The scores of each case in each stage."""
    return [
        ScoredStratum(head=pairing.known(head), base=pairing.known(base))
        for sample in samples
        for head, base in sample.stages
    ]


def as_passes(strata: Sequence[ScoredStratum]) -> list[Stratum] | None:
    """Scores of two values at most as passes and failures; None where there are more values."""
    values = {value for stratum in strata for side in (stratum.head, stratum.base) for value in side}
    if len(values) > 2:
        return None
    best = max(values, default=0.0)
    return [
        Stratum(
            head_passes=stratum.head.count(best),
            head_runs=len(stratum.head),
            base_passes=stratum.base.count(best),
            base_runs=len(stratum.base),
        )
        for stratum in strata
    ]


def case_means(sample: Sample) -> tuple[float, float]:
    """Head's and base's mean of a case that has a score on both sides.

    A case that was run again was chosen because its first runs differed. The plain mean of all its runs, beside the
    first runs of the cases that were not chosen, would shrink the difference (by 40% for a case that falls from 0.95
    to 0.85 with 2 + 3 runs). So the mean of the first stage is taken, averaged over all ways in which the runs of a
    side could have been dealt to the two stages and the case still been chosen: unbiased, and it uses every run
    (Rao and Blackwell). Where a score is missing, the plain means.
    """
    head, base = pairing.known(sample.head), pairing.known(sample.base)
    plain = fmean(head), fmean(base)
    if sample.patterns is None or not sample.full:
        return plain
    head_patterns, base_patterns = sample.patterns
    heads, bases = Counter(head_patterns), Counter(base_patterns)
    # the patterns that all first runs of both sides could have had alike, and how probably
    unlike = [
        (
            pattern,
            _all_of(heads[pattern], len(head), sample.head_first)
            * _all_of(bases[pattern], len(base), sample.base_first),
        )
        for pattern in sorted(heads, key=repr)
    ]
    chosen = 1 - math.fsum(chance for _, chance in unlike)
    if chosen < 1e-9:
        return plain
    return (
        (plain[0] - _weighted(head, head_patterns, unlike)) / chosen,
        (plain[1] - _weighted(base, base_patterns, unlike)) / chosen,
    )


def _all_of(hits: int, total: int, drawn: int) -> float:
    return math.comb(hits, drawn) / math.comb(total, drawn)


def _weighted(
    values: Sequence[float], patterns: Sequence[Pattern | None], chances: Sequence[tuple[Pattern | None, float]]
) -> float:
    return math.fsum(
        chance * fmean(value for value, own in zip(values, patterns, strict=True) if own == pattern)
        for pattern, chance in chances
        if chance
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """How the policy compares one criterion. `max_drop`: a share of the scale, or of base's mean where it is open."""

    name: str
    gating: bool
    lower_is_better: bool
    scale: Scale
    max_drop: float


def rule_of(use: CriterionUse, policy: Policy, *, advisory: bool) -> PolicyRule:
    """How the policy compares a criterion. Informational ones decide only where the policy says so."""
    rule = policy.criteria.get(use.name, CriterionRule())
    informational = use.informational or use.threshold is None
    return PolicyRule(
        name=use.name,
        gating=not advisory and (not informational if rule.gating is None else rule.gating),
        lower_is_better=use.lower_is_better if rule.lower_is_better is None else rule.lower_is_better,
        scale=use.scale,
        max_drop=policy.max_drop if rule.max_drop is None else rule.max_drop,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionResult:
    """A criterion's numbers over the cases that are to be compared: as measured, and with what is missing put in at
    the ends of its scale.

    `samples_at_best`, `samples_at_worst`: with what is missing put in; `at_best`: head's missing scores at their best
    and base's at their worst; `at_worst` the other way round. `fact`: both sides repeat themselves exactly.
    `clock_based`: read from a clock, and the sides were not run together, so that nothing may be claimed.
    """

    rule: PolicyRule
    samples: Sequence[Sample]
    fact: bool
    measured: Estimate | None
    at_best: Estimate | None
    at_worst: Estimate | None
    samples_at_best: Sequence[Sample]
    samples_at_worst: Sequence[Sample]
    clock_based: bool

    @property
    def floor(self) -> float:
        """The drop that is tolerated, on the criterion's own scale."""
        return max(self.rule.max_drop * self.reach, self.rule.scale.resolution) if self.measured is not None else 0.0

    @property
    def reach(self) -> float:
        """How long the scale is; of an open one, base's mean."""
        scale = self.rule.scale
        if scale.lowest is None or scale.highest is None:
            return 0.0 if self.measured is None else abs(self.measured.base)
        return scale.highest - scale.lowest

    def drop(self, estimate: Estimate) -> float:
        """By how much head is worse."""
        delta = estimate.head - estimate.base
        return delta if self.rule.lower_is_better else -delta

    def p_value(self, estimate: Estimate | None) -> PValue:
        """The p-values of an estimate; 0 or 1 where the difference is a fact; 1 of nothing."""
        if estimate is None:
            return PValue(worse=1.0, better=1.0)
        if estimate.tails is None:
            drop = self.drop(estimate)
            return PValue(worse=0.0 if drop > tests.DUST else 1.0, better=0.0 if drop < -tests.DUST else 1.0)
        if self.rule.lower_is_better:
            return PValue(worse=estimate.tails.rise, better=estimate.tails.drop)
        return PValue(worse=estimate.tails.drop, better=estimate.tails.rise)

    def is_beyond_floor(self, *, worse: bool) -> bool:
        """Whether the difference exceeds the floor by more than runs vary (a one-sided bound of 80%), as measured and
        with the missing put in against that."""
        against = self.at_best if worse else self.at_worst
        if self.measured is None or against is None:
            return False
        both = (self.measured, against)
        drops = [(self.drop(each) if worse else -self.drop(each)) - tests.SURE * each.noise for each in both]
        return min(drops) > self.floor + tests.DUST

    def is_within_floor(self) -> bool:
        """Whether the whole interval lies within the floor, whatever the missing would have been."""
        floor = self.floor + tests.DUST
        for each in (self.measured, self.at_best, self.at_worst):
            if each is None:
                return False
            delta = each.head - each.base
            ends = [delta] if each.tails is None else [each.interval.low, each.interval.high] if each.interval else []
            if not ends or max(map(abs, ends)) > floor:
                return False
        return True

    def would_see_floor(self, *, alpha: float) -> bool:
        """Whether a drop of the floor would be seen with a probability of 80%: without that, an interval of width 0
        says no more than that few runs agree."""
        if self.fact:
            return True
        values = [abs(value) for sample in self.samples for value in pairing.known((*sample.head, *sample.base))]
        # of an open scale the values may be anything beside the base's mean, and their squares no number
        if not self.reach or max(values, default=0.0) > self.reach * 1e6:
            return False
        scaled = [
            dataclasses.replace(
                sample,
                head=tuple(None if value is None else value / self.reach for value in sample.head),
                base=tuple(None if value is None else value / self.reach for value in sample.base),
            )
            for sample in self.samples
        ]
        drop = power.detectable(scaled, alpha=alpha)
        return drop is not None and drop <= self.floor / self.reach + tests.DUST

    @property
    def base_failed(self) -> int:
        """How many cases lack a score for the base's own failures alone."""
        return sum(sample.base_failed for sample in self.samples)

    def side_intervals(self) -> dict[str, Interval]:
        """Of head's mean and of the base's, as fields of a `Difference`."""
        means = [case_means(sample) for sample in self.samples if sample.paired]
        is_share = (self.rule.scale.lowest, self.rule.scale.highest) == (0.0, 1.0)
        # where runs were added to some cases, their unbiased mean may lie beyond the scale
        if self.fact or not is_share or not all(0 <= mean <= 1 for pair in means for mean in pair):
            return {}
        heads, bases = zip(*means, strict=True)
        return {
            "head_interval": power.interval_of_means(heads),
            "base_interval": power.interval_of_means(bases),
        }

    def missing(self, *, min_measured: float, truncated: bool) -> Change | None:
        """What is said where too little was measured; None where it is enough. What a budget cut short is inconclusive
        where the trials that never ran would have been enough; so is what only the base's own failures keep from being
        compared."""
        if not self.samples:  # crashes were all that there was to compare
            return Change.INCONCLUSIVE
        # by runs: more of them do not make more that is missing
        full = math.fsum(sample.measured_share for sample in self.samples)
        enough = max(len(self.samples) * min_measured - tests.DUST, tests.DUST)
        if self.measured is not None and full >= enough:
            return None
        lacking = [sample for sample in self.samples if sample.base_failed]
        lacking += [sample for sample in self.samples if truncated and sample.unrun and not sample.failed]
        excused = math.fsum(1 - sample.measured_share for sample in lacking)
        return Change.INCONCLUSIVE if full + excused >= enough else Change.NOT_MEASURED


def _chance(samples: Sequence[Sample]) -> float:
    """The chance that every case whose sides differ is a coin toss, each at its worst: all of h runs of head one way,
    all of b of base the other. 0 where no case differs."""
    chances = []
    for sample in samples:
        head, base = pairing.known(sample.head), pairing.known(sample.base)
        if head and base and head[0] != base[0]:
            share = len(head) / (len(head) + len(base))
            chances.append(share ** len(head) * (1 - share) ** len(base))
    return math.prod(chances) if chances else 0.0


DRAWS = 9_999
"""Of the Monte Carlo tests and of the bootstrap; fewer for very many cases: the p-values stay valid, and 20,000 cases
take the time of 2,000."""

OVERALL = "trials that pass"
"""The name of the row over all deciding criteria."""


def compare(
    head: Run,
    base: Run,
    *,
    policy: Policy,
    origin: BaseOrigin,
    unpaired: Mapping[CaseKey, CaseStatus],
    relaxed: tuple[RelaxedRule, ...] = (),
    stage: Stage = Stage.ONLY,
    unreliable: Collection[CaseKey] = (),
    run_together: bool | None = None,
    by_base: bool = False,
    unchanged: tuple[str, ...] = (),
    edited: tuple[CaseKey, ...] = (),
    is_past: bool = False,
) -> Comparison:
    """Head beside base, by head's cases, criteria and seed; where nothing of the base could be measured, a comparison
    that says so.

    `unpaired`: cases that are left out of every difference. `unreliable`: cases that are shown and never decide, like
    those of advisory suites. `stage`: which look at adaptive repeats this is; it says how much of alpha may be spent.
    `run_together`: whether all of the base was run side by side with head, None: as the origin says; where not, nothing
    is said of what is read from a clock. `by_base`: whether the base's rules decide.
    `is_past`: cases are worse than results of another time, and the base cannot be run for them: a drop may be the
    provider's, and no criterion regresses.
    """
    problem, base_failed = _base_problem(head, base, unpaired)
    if problem:
        return Comparison(origin=origin, problem=problem, base_failed=base_failed, relaxed=relaxed, by_base=by_base)
    run_together = origin.source is BaseSource.RERUN if run_together is None else run_together
    notes = dict.fromkeys((*origin.notes, *_other_models(head, base, run_together=run_together)))
    table = comparison_cases.of(head, base, policy=policy, unpaired=unpaired, unreliable=unreliable)
    # what an earlier stage could have spent is not known to this one: it is taken as if failures were confirmed
    own_share = confirm.share(policy, can_fail=stage is Stage.FIRST or table.may_fail(policy))
    share = SHARES[stage] * own_share
    # a case whose two sides differ is about to be run again, and may yet turn out to be a coin toss
    is_deterministic = stage is not Stage.FIRST and (policy.deterministic or _is_steady(table, unchanged))
    criteria = _Criteria(
        table, policy=policy, steady=is_deterministic, share=share, run_together=run_together, is_past=is_past
    )
    rows = criteria.rows()
    overall = criteria.overall()
    outcomes = criteria.outcomes()
    return Comparison(
        origin=dataclasses.replace(origin, notes=tuple(notes)),
        base=base,
        cases=table.cases(policy),
        criteria=rows,
        overall=overall,
        head_rates=power.rates([sample.head[: sample.head_first] for sample in outcomes]),
        # pass^k of both sides by the same k
        base_rates=power.rates([sample.base[: sample.base_first] for sample in outcomes], most=base.repeats),
        power=criteria.power(outcomes, rows, overall),
        relaxed=relaxed,
        by_base=by_base,
        alpha=policy.alpha,
        seed=head.seed,
        draws=criteria.draws,
        spent=_spent(
            criteria,
            stage,
            policy.alpha * own_share,
            asked=any(pair.key[0] not in unchanged for pair in table.deciding),
        ),
        deterministic=is_deterministic,
        unchanged=unchanged,
        edited=edited,
        is_past=is_past,
        decided=table.head.verdicts,
        # a base that ran alongside has head's criteria; one that was stored may have its own
        base_decided=table.base.verdicts if pairing.uses_by_case(base) == table.uses else {},
    )


def _is_steady(table: comparison_cases.Table, unchanged: Collection[str]) -> bool:
    """Whether all runs of a side did the same; an agent that did not change has one side. Of pooled runs what they did
    may not have been kept."""
    return confirm.is_steady(
        [
            *(trial for trial in side.trials if trial is None or trial.key.repeat < POOLED or trial.behavior),
            *[None] * side.left_out,
        ]
        for pair in table.pairs
        for side in ((pair.head,) if pair.key[0] in unchanged else (pair.head, pair.base))
    )


def _spent(criteria: _Criteria, stage: Stage, most: float, *, asked: bool) -> float:
    """What the comparison may take of alpha, at most `most`: nothing where no two agents are compared."""
    if not asked:
        return 0.0
    return criteria.spent if stage is Stage.ONLY else most


def again(
    told: Comparison,
    head: Run,
    base: Run | None,
    *,
    policy: Policy,
    stage: Stage,
    lacking: str,
    unreliable: Collection[CaseKey] = (),
    by_base: bool = False,
    is_past: bool = False,
) -> Comparison:
    """What results tell of a comparison, computed from both runs again. `lacking`: what is said where there is no base
    and the results do not tell why. The others: as `compare`."""
    if base is None:
        return Comparison(
            origin=told.origin,
            problem=told.problem or lacking,
            no_agent=told.no_agent,
            base_failed=told.base_failed,
            relaxed=told.relaxed,
            by_base=by_base,
            stricter=told.stricter,
        )
    found = compare(
        head,
        base,
        policy=policy,
        origin=told.origin,
        unpaired={(case.suite, case.case_id): case.status for case in told.cases},
        relaxed=told.relaxed,
        stage=stage,
        unreliable=unreliable,
        by_base=by_base,
        unchanged=told.unchanged,
        edited=told.edited,
        is_past=is_past or told.is_past,
    )
    found = dataclasses.replace(found, stricter=told.stricter)
    # which knows more of the cause than the runs do
    is_told = bool(found.problem and told.problem) and not found.base_failed
    return dataclasses.replace(found, problem=told.problem) if is_told else found


class _Criteria:
    """The criteria of a table's cases, compared. `share`: of alpha that this stage may spend."""

    def __init__(
        self,
        table: Table,
        *,
        policy: Policy,
        steady: bool,
        share: float,
        run_together: bool,
        is_past: bool,
    ) -> None:
        trials = sum(len(side.trials) for pair in table.pairs for side in (pair.head, pair.base))
        self.draws = max(1_999, min(DRAWS, 80_000_000 // max(trials, 1)))
        self._table, self._policy, self._steady, self._share = table, policy, steady, share
        self._is_past = is_past
        self._run_together = run_together
        self._truncated = bool(table.head.run.truncated or table.base.run.truncated)
        self.spent = 0.0

    def rows(self) -> tuple[CriterionComparison, ...]:
        """The criteria that decide, those beside them, and those of cases that are only shown."""
        rows: list[CriterionComparison] = []
        for pairs, advisory in ((self._table.deciding, False), (self._table.shown, True)):
            # in the order in which suites name them; a criterion of many suites is one
            uses: dict[str, CriterionUse] = {}
            samples: defaultdict[str, list[Sample]] = defaultdict(list)
            for pair in pairs:
                for use in pair.uses:
                    uses.setdefault(use.name, use)
                    sample = pairing.scores(pair, use.name)
                    samples[use.name] += [] if sample.is_left_out else [sample]
            judged = {use.name for pair in pairs for use in pair.uses if use.is_judged}
            results = [
                self._result(rule_of(use, self._policy, advisory=advisory), samples[name], is_judged=name in judged)
                for name, use in uses.items()
            ]
            for gating in (True, False):
                own = [result for result in results if result.rule.gating is gating]
                if gating:
                    self.spent += self._spends(own)
                rows += self._compared(own, pairs, advisory=advisory)
        return tuple(rows)

    def overall(self) -> CriterionComparison | None:
        """The trials that pass every deciding criterion; None where no case decides."""
        pairs = self._table.deciding
        if not pairs:
            return None
        rule = PolicyRule(
            name=OVERALL, gating=False, lower_is_better=False, scale=Scale(), max_drop=self._policy.max_drop
        )
        is_judged = any(use.is_judged for pair in pairs for use in pairing.deciding(pair.uses))
        result = self._result(rule, self.outcomes(), is_judged=is_judged)
        return self._compared([result], pairs, advisory=False)[0]

    def outcomes(self) -> list[Sample]:
        """Which trials of the cases that decide pass all that decides."""
        found = [pairing.outcomes(pair) for pair in self._table.deciding]
        return [sample for sample in found if not sample.is_left_out]

    def power(
        self, outcomes: Sequence[Sample], rows: Sequence[CriterionComparison], overall: CriterionComparison | None
    ) -> Power | None:
        """Which drop of the trials that pass would have been seen, as one criterion of those that decide and vary."""
        policy = self._policy
        told = [row.difference.p for row in rows if row.rule.gating and row.difference is not None]
        varying = sum(p is not None and min(p.worse, p.better) < 1 for p in told)
        looks = SHARES[Stage.LAST] if any(any(sample.stages[1]) for sample in outcomes) else 1.0
        uses = [use for pair in self._table.deciding for use in pairing.deciding(pair.uses)]
        scores = {
            value
            for pair in self._table.deciding
            for use in pairing.deciding(pair.uses)
            for value in pairing.known(pairing.scores(pair, use.name).head)
        }
        # under a pass rate it takes more than one failure
        every = min([policy.pass_rate, *policy.suite_pass_rate.values()]) == 1
        gates = Gates(
            limit=policy.alpha * self._share / looks / max(varying, 1),
            floor=policy.max_drop,
            alpha=policy.alpha if every and policy.threshold is not ThresholdRule.ALL else 0.0,
            # of graded scores the mean decides, which is beyond a threshold about as often as most of them are
            required=max((use.threshold or 0.0 for use in uses), default=1.0) if scores <= {0.0, 1.0} else 0.5,
            alone=policy.threshold is ThresholdRule.CONFIRMED,
        )
        return sensitivity.line(outcomes, gates, fact=overall is not None and overall.fact)

    def _spends(self, results: Sequence[CriterionResult]) -> float:
        """How often chance alone makes one of these criteria regress: what the tests can reach of alpha's share."""
        limit = self._policy.alpha * self._share
        found = 0.0
        for result in results:
            strata = strata_of(result.samples)
            binary = None if result.fact else as_passes(strata)
            lower = result.rule.lower_is_better
            found += limit if binary is None else tests.attainable(binary, limit, rise=lower)
        return min(found, limit)

    def _result(self, rule: PolicyRule, samples: Sequence[Sample], *, is_judged: bool) -> CriterionResult:
        """`is_judged`: a judge scores it, whose scores vary though the agent does not. A difference is a fact only
        where so many coin tosses would look like it with a chance below alpha."""
        fact = (
            self._steady
            and not is_judged
            and all(len(set(pairing.known(side))) <= 1 for sample in samples for side in (sample.head, sample.base))
            and (self._policy.deterministic or _chance(samples) < self._policy.alpha)
        )
        # a criterion's draws are its own, whatever other criteria there are
        seed = (abs(self._table.head.run.seed) << 32) | zlib.crc32(rule.name.encode("utf-8", "surrogatepass"))
        # the worst and the best that a missing score could be; the most extreme seen where the scale is open
        seen = [value for sample in samples for value in pairing.known((*sample.head, *sample.base))]
        low = min(seen, default=0.0) if rule.scale.lowest is None else rule.scale.lowest
        high = max(seen, default=0.0) if rule.scale.highest is None else rule.scale.highest
        best, worst = (low, high) if rule.lower_is_better else (high, low)

        estimate = functools.partial(estimate_mean, draws=self.draws, seed=seed, fact=fact)
        measured = estimate(samples)
        at_best = at_worst = samples
        if measured is not None and not all(sample.full for sample in samples):
            at_best = [sample.filled(head=best, base=worst) for sample in samples]
            at_worst = [sample.filled(head=worst, base=best) for sample in samples]
        return CriterionResult(
            rule=rule,
            samples=samples,
            fact=fact and measured is not None,
            measured=measured,
            at_best=measured if at_best is samples else estimate(at_best),
            at_worst=measured if at_worst is samples else estimate(at_worst),
            samples_at_best=at_best,
            samples_at_worst=at_worst,
            clock_based=rule.scale.clocked and not self._run_together,
        )

    def _compared(
        self, results: Sequence[CriterionResult], pairs: Sequence[Pair], *, advisory: bool
    ) -> list[CriterionComparison]:
        """The rows of criteria that are adjusted for each other.

        Adjusted p-values are divided by the share of this stage, so that all of them are compared with alpha.
        """
        measured = self._adjusted([(each, each.measured, each.samples) for each in results])
        at_best, at_worst = measured, measured
        if any(each.samples_at_best is not each.samples for each in results):
            at_best = self._adjusted([(each, each.at_best, each.samples_at_best) for each in results])
            at_worst = self._adjusted([(each, each.at_worst, each.samples_at_worst) for each in results])
        alpha, rows = self._policy.alpha, []
        own_alpha = alpha * self._share / max(len(results), 1)
        for result, p, p_at_best, p_at_worst in zip(results, measured, at_best, at_worst, strict=True):
            name, found = result.rule.name, result.measured
            missing = result.missing(min_measured=self._policy.min_measured, truncated=self._truncated)
            is_sample = not result.fact and not result.clock_based
            regressed = max(p.worse, p_at_best.worse) < alpha and result.is_beyond_floor(worse=True)
            # a smaller one than what is let pass was seen
            seen = min(p.worse, p.better) < alpha
            improved = max(p.better, p_at_worst.better) < alpha and result.is_beyond_floor(worse=False)
            rows.append(
                CriterionComparison(
                    name=name,
                    rule=AppliedRule(
                        gating=result.rule.gating,
                        advisory=advisory,
                        lower_is_better=result.rule.lower_is_better,
                        floor=result.floor,
                    ),
                    change=_change(
                        result,
                        regressed=regressed,
                        is_past=self._is_past,
                        improved=improved,
                        missing=missing,
                        seen=seen or result.would_see_floor(alpha=own_alpha),
                    ),
                    cases=self._cases(result, pairs),
                    difference=None
                    if found is None
                    else Difference(
                        base=found.base,
                        head=found.head,
                        interval=found.interval,
                        **result.side_intervals(),
                        p=result.p_value(found) if is_sample else None,
                        p_adjusted=p if is_sample else None,
                    ),
                    fact=result.fact,
                    clock_based=result.clock_based,
                    short=missing is Change.NOT_MEASURED,
                    base_failed=missing is Change.INCONCLUSIVE and result.base_failed > 0,
                )
            )
        return rows

    def _adjusted(self, results: Sequence[tuple[CriterionResult, Estimate | None, Sequence[Sample]]]) -> list[PValue]:
        """The p-values of criteria for all of them together and for the share of this stage; those of facts, and of
        what may not be compared, as they are."""
        found = [result.p_value(estimate) for result, estimate, _ in results]
        places = [at for at, (each, _, _) in enumerate(results) if not each.fact and not each.clock_based]
        own = [Tails(drop=found[at].worse, rise=found[at].better) for at in places]
        strata = _trials([(results[at][0].rule, results[at][2]) for at in places])
        together = joint.adjusted(strata, own, draws=self.draws, seed=abs(self._table.head.run.seed))
        for at, tails in zip(places, together, strict=True):
            found[at] = PValue(worse=min(1.0, tails.drop / self._share), better=min(1.0, tails.rise / self._share))
        return found

    def _cases(self, result: CriterionResult, pairs: Sequence[Pair]) -> ComparedCases:
        name = None if result.rule.name == OVERALL else result.rule.name
        base, head = self._table.base, self._table.head
        kinds = [(base.kind(pair.key, name), head.kind(pair.key, name)) for pair in pairs]
        return ComparedCases(
            compared=sum(sample.paired for sample in result.samples),
            unpaired=sum(not sample.full for sample in result.samples),
            broken=kinds.count((VerdictKind.PASS, VerdictKind.FAIL)),
            fixed=kinds.count((VerdictKind.FAIL, VerdictKind.PASS)),
        )


def _trials(criteria: Sequence[tuple[PolicyRule, Sequence[Sample]]]) -> list[joint.Trials]:
    """The trials of each case in each stage, with their scores by all criteria, higher ones better."""
    by_case: defaultdict[CaseKey, dict[int, Sample]] = defaultdict(dict)
    for at, (_, samples) in enumerate(criteria):
        for sample in samples:
            by_case[sample.key][at] = sample
    signs = [-1 if rule.lower_is_better else 1 for rule, _ in criteria]
    strata = []
    for own in by_case.values():
        some = next(iter(own.values()))
        for stage in (0, 1):
            sides = [
                [
                    tuple(
                        None if at not in own or (value := own[at].stages[stage][side][run]) is None else sign * value
                        for at, sign in enumerate(signs)
                    )
                    for run in range(len(some.stages[stage][side]))
                ]
                for side in (0, 1)
            ]
            strata.append(joint.Trials(head=sides[0], base=sides[1]))
    return strata


def _change(
    result: CriterionResult, *, regressed: bool, is_past: bool, improved: bool, missing: Change | None, seen: bool
) -> Change:
    """`seen`: whether a drop of what is let pass would have been seen; `is_past`: see `compare`."""
    if result.clock_based:
        return Change.NOT_MEASURED
    if regressed:
        return (missing or Change.INCONCLUSIVE) if is_past else Change.REGRESSED
    if missing is not None:
        return missing
    if improved:
        return Change.IMPROVED
    if not result.is_within_floor():
        return Change.INCONCLUSIVE
    return Change.UNCHANGED if seen else Change.NO_DIFFERENCE


def clock_based(policies: Iterable[Policy], suites: Iterable[Suite]) -> tuple[str, ...]:
    """The criteria that are read from a clock and decide all the same, by any of the policies."""
    named = dict.fromkeys(use.name for suite in suites for use in suite.criteria if use.scale.clocked)
    found = (name for policy in policies for name in named if policy.criteria.get(name, CriterionRule()).gating)
    return tuple(dict.fromkeys(found))


def _base_problem(head: Run, base: Run, unpaired: Mapping[CaseKey, CaseStatus]) -> tuple[str, bool]:
    """Why no trial of the base can be used at all, and whether only the base's own failures are why; "" where one can,
    and where every case is new or changed, so that nothing could be compared whatever became of the base."""
    keys = pairing.uses_by_case(head)
    if keys and all(unpaired.get(key, CaseStatus.PAIRED) is not CaseStatus.PAIRED for key in keys):
        return "", False
    if not base.trials:
        return "no base result could be compared", False
    failed = [(trial.failure, trial.own_failure) for trial in base.trials if trial.failure is not None]
    if len(failed) < len(base.trials):
        return "", False
    others = [failure for failure, own in failed if not own]
    if others:
        return f"the base's agent did not run: {verdict.why_failed(others[0])}", False
    return _base_failed_sentence(failed[0][0]), True


def _base_failed_sentence(failure: AgentFailure) -> str:
    """What keeps all of the base from being measured."""
    why = verdict.why_failed(failure)
    match failure.kind:
        case FailureKind.INSTALL:
            return f"the base's environment cannot be made: {why}"
        case FailureKind.START | FailureKind.NO_RECORDING:
            return f"the base cannot start: {why}"
        case _:
            return f"the base's agent failed in every run: {why}"


def _other_models(head: Run, base: Run, *, run_together: bool) -> tuple[str, ...]:
    """A note where other models answered: though the agent is the same, or at another time, when a provider may have
    moved as well. That difference is not the change's, or not its alone."""
    same = dict(head.codes) == dict(base.codes)
    if not head.models or not base.models or head.models == base.models or (run_together and not same):
        return ()
    then, now = (", ".join(sorted(run.models)) for run in (base, head))
    agent = "the same agent" if same else "the agent"
    return (f"{agent} used other models on the base ({then}) than on head ({now})",)
