"""Simulated pull requests: cases with pass probabilities, their runs on both sides, and what gates say of them.

Our gate is evalgate's own functions: `regressed`, `two_stage` and `default` ask what a run asks, without the interval
that a verdict of "regressed" does not need, and `real` goes through runs, comparison and decision as a whole.
`bench/statistics.py` checks on random pull requests that both say the same.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from evalgate.comparison import compare, confirm, joint, sensitivity, tests
from evalgate.comparison import repeats as comparison_repeats
from evalgate.comparison import verdict as comparison_verdict
from evalgate.comparison.confirm import Suspect
from evalgate.comparison.joint import Trials
from evalgate.comparison.pairing import Sample
from evalgate.comparison.repeats import SHARES, Stage
from evalgate.comparison.sensitivity import Gates, Runs
from evalgate.comparison.tests import DUST, Stratum
from evalgate.model import (
    FRESH,
    POOLED,
    AgentFailure,
    AgentUse,
    BaseOrigin,
    BaseSource,
    Case,
    ConfigOrigin,
    CriteriaSource,
    CriterionUse,
    EvalSet,
    FailureKind,
    GateKind,
    GradedTrial,
    InMemoryTranscripts,
    NotEvaluated,
    Policy,
    Reason,
    Run,
    Scale,
    Score,
    Suite,
    ThresholdRule,
    TrialKey,
    VerdictKind,
)
from evalgate.model import comparison as model_comparison

CASES = 20
POLICY = Policy(threshold=ThresholdRule.ALL)
MIXES: Mapping[str, Sequence[float]] = {
    ".98/.8/.4 (70/20/10 %)": [0.98] * 14 + [0.8] * 4 + [0.4] * 2,
    "all .95": [0.95] * 20,
    ".99/.9/.6 (70/20/10 %)": [0.99] * 14 + [0.9] * 4 + [0.6] * 2,
    "all .5": [0.5] * 20,
}
"""Pass probabilities of the cases; the last mix is nothing but coin tosses."""

UNSTABLE: Mapping[str, Sequence[float] | tuple[float, float]] = {
    ".3/.5/.9/.97": [0.3] * 5 + [0.5] * 5 + [0.9] * 5 + [0.97] * 5,
    "beta(4, 4)": (4, 4),
}
"""Mixes for the default verdict alone: given, or drawn anew for each pull request."""

TYPICAL, TOSSES = next(iter(MIXES)), "all .5"


def rates_of(mix: str, cases: int, random: Random) -> Sequence[float]:
    """The pass probabilities of a pull request with so many cases."""
    known = MIXES.get(mix) or UNSTABLE[mix]
    if isinstance(known, tuple):
        return [random.betavariate(*known) for _ in range(cases)]
    return [known[number * len(known) // cases] for number in range(cases)]


Outcomes = list[int]


def broken(count: int) -> Callable[[Sequence[float], Random], Sequence[float]]:
    """`count` cases, any of them, pass one time in ten from now on."""

    def change(rates: Sequence[float], random: Random) -> Sequence[float]:
        hit = set(random.sample(range(len(rates)), count))
        return [min(rate, 0.1) if number in hit else rate for number, rate in enumerate(rates)]

    return change


def lowered(points: float) -> Callable[[Sequence[float], Random], Sequence[float]]:
    """Every case passes less often."""
    return lambda rates, _: [max(0.0, rate - points) for rate in rates]


CHANGES: Mapping[str, Callable[[Sequence[float], Random], Sequence[float]]] = {
    "none": lambda rates, _: rates,
    "1 broken": broken(1),
    "3 broken": broken(3),
    "all -.10": lowered(0.10),
}


@dataclass(frozen=True, kw_only=True)
class PullRequest:
    """What its cases would do, run after run: rows of outcomes, more than any gate asks for."""

    head: list[Outcomes]
    base: list[Outcomes]
    head_rates: Sequence[float]
    base_rates: Sequence[float]


def draw(rates: Sequence[float], change: Callable[..., Sequence[float]], runs: int, random: Random) -> PullRequest:
    """One pull request, `runs` runs a case on each side."""
    changed = change(rates, random)
    return PullRequest(
        head=[[int(random.random() < rate) for _ in range(runs)] for rate in changed],
        base=[[int(random.random() < rate) for _ in range(runs)] for rate in rates],
        head_rates=changed,
        base_rates=rates,
    )


# --- our gate ---------------------------------------------------------------------------------------


def regressed(pull: PullRequest, k: int, *, limit: float = POLICY.alpha, of_base: int = 0) -> bool:
    """Fixed repeats: the exact test and the margin. `of_base`: runs of the base, where it has others."""
    if tests.exact(_strata(pull, k, of_base=of_base)).drop >= limit:
        return False
    pairs = zip(pull.head, pull.base, strict=True)
    return _is_beyond_margin([_sample(head[:k], base[: of_base or k], k) for head, base in pairs])


def _strata(pull: PullRequest, k: int, *, of_base: int = 0) -> list[Stratum]:
    then = of_base or k
    return [
        Stratum(head_passes=sum(head[:k]), head_runs=k, base_passes=sum(base[:then]), base_runs=then)
        for head, base in zip(pull.head, pull.base, strict=True)
    ]


def _is_beyond_margin(samples: Sequence[Sample]) -> bool:
    means = [compare.case_means(sample) for sample in samples]
    drop = math.fsum(base - head for head, base in means) / len(means)
    if drop <= POLICY.max_drop:
        return False
    noise = math.sqrt(math.fsum(map(compare.squared_error, samples))) / len(samples)
    return drop - tests.SURE * noise > POLICY.max_drop + DUST


def two_stage(pull: PullRequest, first: int, more: int) -> tuple[bool, int]:
    """Adaptive repeats, and the agent calls of both sides that they took."""
    pairs = list(zip(pull.head, pull.base, strict=True))
    calls = 2 * first * len(pairs)
    if _falls([_sample(head[:first], base[:first], first) for head, base in pairs], Stage.FIRST):
        return True, calls
    samples = []
    for head, base in pairs:
        again = 0 < sum(head[:first]) + sum(base[:first]) < 2 * first
        runs = first + more if again else first
        calls += 2 * more * again
        samples.append(_sample(head[:runs], base[:runs], first))
    return _falls(samples, Stage.LAST), calls


def _sample(head: Outcomes, base: Outcomes, first: int) -> Sample:
    patterns = tuple((bool(each),) for each in head), tuple((bool(each),) for each in base)
    return Sample(
        key=("s", ""),
        head=tuple(map(float, head)),
        base=tuple(map(float, base)),
        head_first=first,
        base_first=first,
        patterns=patterns if len(head) > first else None,
    )


def _falls(samples: Sequence[Sample], stage: Stage) -> bool:
    is_significant = compare.test(samples, draws=1, seed=0).drop / SHARES[stage] < POLICY.alpha
    return is_significant and _is_beyond_margin(samples)


def real(pull: PullRequest, k: int, *, of_base: int = 0) -> bool:
    """The same through runs, comparison and decision; all but the first `k` of the base's runs are pooled ones."""
    head, base = run(pull.head, k), run(pull.base, k)
    pooled = tuple(
        _trial(number, POOLED + at, outcome)
        for number, row in enumerate(pull.base)
        for at, outcome in enumerate(row[k : of_base or k])
    )
    base = dataclasses.replace(base, pooled=pooled)
    return _decided(head, base, Stage.ONLY) is VerdictKind.FAIL


def real_two_stage(pull: PullRequest, first: int, more: int) -> tuple[bool, int]:
    """Adaptive repeats through runs, `two_stage.undecided`, `early`, comparison and decision."""
    head, base = run(pull.head, first, more=more), run(pull.base, first, more=more)
    calls = len(head.trials) + len(base.trials)
    comparison = _compare(head, base, Stage.FIRST)
    if comparison_repeats.early(comparison, policy=POLICY):
        return True, calls
    again = frozenset(comparison_repeats.undecided(head, base, policy=POLICY))
    head, base = (run(rows, first, more=more, repeated=again) for rows in (pull.head, pull.base))
    return _decided(head, base, Stage.LAST) is VerdictKind.FAIL, len(head.trials) + len(base.trials)


def _decided(head: Run, base: Run, stage: Stage) -> VerdictKind:
    verdict = comparison_verdict.decide(head, POLICY, comparison=_compare(head, base, stage))
    return next(gate.kind for gate in verdict.gates if gate.gate is GateKind.REGRESSION)


def _compare(head: Run, base: Run, stage: Stage, policy: Policy = POLICY) -> model_comparison.Comparison:
    return compare.compare(
        head,
        base,
        policy=policy,
        origin=BaseOrigin(source=BaseSource.RERUN),
        unpaired={},
        stage=stage,
    )


def run(
    rows: Sequence[Sequence[int | None]],
    repeats: int,
    *,
    more: int = 0,
    repeated: frozenset[tuple[str, str]] = frozenset(),
) -> Run:
    """A side of a pull request as evalgate has it."""
    suite = Suite(
        key="s",
        eval_set=EvalSet(
            eval_set_id="s", cases=tuple(Case(case_id=str(number), conversation=()) for number in range(len(rows)))
        ),
        criteria=(CriterionUse(name="m", threshold=1.0),),
        criteria_source=CriteriaSource(origin=ConfigOrigin.BESIDE),
        agent=AgentUse(driver="adk"),
    )
    trials = tuple(
        _trial(number, repeat, outcome)
        for number, row in enumerate(rows)
        for repeat, outcome in enumerate(row[: repeats + (more if ("s", str(number)) in repeated else 0)])
    )
    return Run(
        suites=(suite,),
        trials=trials,
        transcripts=InMemoryTranscripts(),
        repeats=repeats,
        more=more,
        repeated=repeated,
    )


def _trial(number: int, repeat: int, passed: float | None) -> GradedTrial:
    """`passed` None: the agent crashed by itself."""
    crash = None if passed is not None else AgentFailure(kind=FailureKind.RAISED, message="KeyError: 'city'")
    return GradedTrial(
        key=TrialKey(suite="s", case_id=str(number), repeat=repeat),
        failure=crash,
        grades={
            "m": NotEvaluated(reason=Reason.AGENT_FAILED, message="") if passed is None else Score(value=float(passed))
        },
        own_failure=passed is None,
    )


# --- the threshold gate -----------------------------------------------------------------------------


def threshold_all(pull: PullRequest, k: int) -> bool:
    """`threshold: all`: any case below its threshold on head (every run must pass)."""
    return any(sum(head[:k]) < k for head in pull.head)


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What the default verdict came to.

    `confirmed`: of the confirmed failures the highest pass rate on head. `fell`: one of them is of a case that passes
    less often than on the base. `calls`: the agent calls of both sides beside those of the first runs. `outcomes`: the
    reruns of cases, by number.
    """

    regressed: bool
    confirmed: float | None
    fell: bool
    calls: float
    outcomes: Mapping[int, tuple[Sequence[bool], Sequence[bool]]]

    @property
    def blocks(self) -> bool:
        return self.regressed or self.confirmed is not None


def default(pull: PullRequest, k: int, random: Random, *, spent: float | None = None) -> Decided:
    """`threshold: confirmed` and the regression gate beside it, with reruns as a run makes them."""
    policy = Policy()
    strata = _strata(pull, k)
    limit = policy.alpha * confirm.share(policy)
    cases = len(strata)
    suspects = [
        Suspect(key=("s", str(number)), uses=(), paired=2 * sum(base[:k]) > k)
        for number, (head, base) in enumerate(zip(pull.head, pull.base, strict=True))
        if sum(head[:k]) < k
    ]
    spent = tests.attainable(strata, limit, rise=False) if spent is None else spent
    asked = confirm.Confirmation(suspects, level=(policy.alpha - spent) / max(len(suspects), 1))
    known: list[tuple[list[bool], list[bool]]] = [([], []) for _ in suspects]
    calls, left = 0, None
    while suspects:
        wanted = asked.next_runs(known, is_failed=left is not None)
        count = sum(runs for side in wanted for runs in side.values())
        if not count or (left is not None and count > left):
            break
        calls += count
        for suspect, sides in zip(suspects, known, strict=True):
            for own, side, rates in zip(sides, wanted, (pull.head_rates, pull.base_rates), strict=True):
                own += [random.random() < rates[int(suspect.key[1])] for _ in range(side.get(suspect.key, 0))]
        if left is not None:
            left -= count
        elif asked.confirmed(known):
            left = cases
    found = [(pull.head_rates[int(key)], pull.base_rates[int(key)]) for _, key in asked.confirmed(known)]
    return Decided(
        regressed=regressed(pull, k, limit=limit),
        confirmed=max((head for head, _ in found), default=None),
        fell=any(head < base for head, base in found),
        calls=(2 * k * cases + calls) / (2 * k * cases),
        outcomes={int(each.key[1]): sides for each, sides in zip(suspects, known, strict=True)},
    )


def sees(pull: PullRequest, k: int, random: Random) -> bool:
    """Whether the default verdict blocks by what fell, and not by a case that always failed."""
    found = default(pull, k, random)
    return found.regressed or found.fell


def real_default(pull: PullRequest, k: int, decided: Decided) -> bool:
    """Whether runs with these reruns, comparison and decision block."""
    policy = Policy()
    head, base = (
        dataclasses.replace(
            run(rows, k),
            confirmations=tuple(
                _trial(number, FRESH + repeat, passed)
                for number, sides in decided.outcomes.items()
                for repeat, passed in enumerate(sides[side])
            ),
        )
        for side, rows in enumerate((pull.head, pull.base))
    )
    comparison = _compare(head, base, Stage.ONLY, policy)
    asked = confirm.of(head, comparison, policy=policy)
    settled = confirm.settle(comparison, asked, head=head)
    return comparison_verdict.decide(head, policy, comparison=settled, asked=asked).blocks


def crashing(rates: tuple[float, float], k: int, random: Random) -> tuple[bool, bool, float]:
    """Whether the default verdict blocks where all runs pass but those in which the agent crashes, with these rates on
    head and base; whether any run of head crashed; and the calls of both sides, with reruns, beside the first ones."""

    def drawn(rate: float) -> int | None:
        return None if random.random() < rate else 1

    policy, first = Policy(), 2 * k * CASES
    rows = [[[drawn(rate) for _ in range(k)] for _ in range(CASES)] for rate in rates]
    has_crashed = any(None in row for row in rows[0])
    if not has_crashed and not any(None in row for row in rows[1]):
        return False, False, 1.0
    sides = [run(side, k) for side in rows]
    comparison = _compare(sides[0], sides[1], Stage.ONLY, policy)
    asked = confirm.of(sides[0], comparison, policy=policy)
    while asked:
        wanted = asked[0].next_runs(asked[0].outcomes(*sides), is_failed=False)
        if not any(wanted):
            break
        for at, rate in enumerate(rates):
            fresh = sides[at].confirmations
            fresh += tuple(
                _trial(int(key[1]), FRESH + len(fresh) + number, drawn(rate))
                for key, count in wanted[at].items()
                for number in range(count)
            )
            sides[at] = dataclasses.replace(sides[at], confirmations=fresh)
    settled = confirm.settle(dataclasses.replace(comparison, base=sides[1]), asked, head=sides[0])
    found = comparison_verdict.decide(sides[0], policy, comparison=settled, asked=asked)
    calls = first + sum(len(side.confirmations) for side in sides)
    return found.blocks, has_crashed, calls / first


# --- several criteria -------------------------------------------------------------------------------

STRUCTURES = ("1", "2 equal", "5 equal", "1 and 4 constant", "1 and 4 noisy", "5 independent")
"""Criteria of a case: `equal` ones say the same in every run; of `1 and 4` the first alone falls; `independent` ones
all fall, each in runs of its own."""


def columns(structure: str, pull: PullRequest, k: int, random: Random) -> list[tuple[list[Outcomes], list[Outcomes]]]:
    """Each criterion's outcomes on head and on base."""
    own = [row[:k] for row in pull.head], [row[:k] for row in pull.base]
    count = int(structure.split(maxsplit=1)[0])
    if structure.endswith("equal"):
        return [own] * count
    if structure == "1 and 4 constant":
        return [own, *([([[1] * k for _ in own[0]], [[1] * k for _ in own[0]])] * 4)]
    rates = (pull.base_rates, pull.base_rates) if structure == "1 and 4 noisy" else (pull.head_rates, pull.base_rates)
    more = 0 if structure == "1" else 4

    def drawn(rates: Sequence[float]) -> list[Outcomes]:
        return [[int(random.random() < rate) for _ in range(k)] for rate in rates]

    return [own, *((drawn(rates[0]), drawn(rates[1])) for _ in range(more))]


def any_regressed(criteria: Sequence[tuple[list[Outcomes], list[Outcomes]]], *, limit: float, draws: int) -> bool:
    """The regression gate over several criteria."""
    own = []
    for head, base in criteria:
        own.append(
            tests.exact(
                Stratum(head_passes=sum(h), head_runs=len(h), base_passes=sum(b), base_runs=len(b))
                for h, b in zip(head, base, strict=True)
            )
        )
    if min(tails.drop for tails in own) >= limit:  # adjusting makes none smaller
        return False
    strata = [
        Trials(
            head=[tuple(map(float, row)) for row in zip(*(head[case] for head, _ in criteria), strict=True)],
            base=[tuple(map(float, row)) for row in zip(*(base[case] for _, base in criteria), strict=True)],
        )
        for case in range(len(criteria[0][0]))
    ]
    found = joint.adjusted(strata, own, draws=draws, seed=0)
    return any(
        tails.drop < limit and _is_beyond_margin([_sample(h, b, len(h)) for h, b in zip(head, base, strict=True)])
        for tails, (head, base) in zip(found, criteria, strict=True)
    )


def default_of_criteria(structure: str, pull: PullRequest, k: int, random: Random, *, draws: int) -> tuple[bool, bool]:
    """Whether the regression gate blocks alone (all of alpha), and whether the default verdict does, in which reruns
    look at a case as a whole."""
    criteria = columns(structure, pull, k, random)
    alone = any_regressed(criteria, limit=POLICY.alpha, draws=draws)
    policy = Policy()
    rates = pull.head_rates, pull.base_rates
    if structure == "5 independent":
        rates = tuple([rate**5 for rate in side] for side in rates)  # type: ignore[assignment]
    if structure == "1 and 4 noisy":
        rates = tuple([own * other**4 for own, other in zip(side, pull.base_rates, strict=True)] for side in rates)  # type: ignore[assignment]
    whole = PullRequest(
        head=[
            [int(all(runs)) for runs in zip(*(head[case] for head, _ in criteria), strict=True)]
            for case in range(len(pull.head))
        ],
        base=[
            [int(all(runs)) for runs in zip(*(base[case] for _, base in criteria), strict=True)]
            for case in range(len(pull.head))
        ],
        head_rates=rates[0],
        base_rates=rates[1],
    )
    spent = policy.alpha * confirm.share(policy)
    if any_regressed(criteria, limit=spent, draws=draws):
        return alone, True
    return alone, default(whole, k, random, spent=spent).confirmed is not None


# --- what a run says of itself ----------------------------------------------------------------------


def is_called_unchanged(pull: PullRequest, k: int, seed: int) -> bool:
    """Whether the row of the criterion says `unchanged`."""
    samples = [_sample(head[:k], base[:k], k) for head, base in zip(pull.head, pull.base, strict=True)]
    found = compare.estimate_mean(samples, draws=999, seed=seed, fact=False)
    result = compare.CriterionResult(
        rule=compare.PolicyRule(name="m", gating=True, lower_is_better=False, scale=Scale(), max_drop=POLICY.max_drop),
        samples=samples,
        fact=False,
        measured=found,
        at_best=found,
        at_worst=found,
        samples_at_best=samples,
        samples_at_worst=samples,
        clock_based=False,
    )
    return result.is_within_floor() and result.would_see_floor(alpha=POLICY.alpha)


def told_drop(pull: PullRequest, k: int, *, confirmed: bool) -> float | None:
    """The power line's drop."""
    policy = Policy()
    pools = [(sum(head[:k]) + sum(base[:k]), 2 * k) for head, base in zip(pull.head, pull.base, strict=True)]
    gates = Gates(
        limit=policy.alpha * (confirm.share(policy) if confirmed else 1.0),
        floor=policy.max_drop,
        alpha=policy.alpha if confirmed else 0.0,
    )
    return sensitivity.smallest_drop(pools, Runs(head=k, base=k), gates)


def fallen(drop: float) -> Callable[[Sequence[float], Random], Sequence[float]]:
    """Cases, in any order, break altogether one after the other until the pass rate fell by so much."""

    def change(rates: Sequence[float], random: Random) -> Sequence[float]:
        left, found = drop * len(rates), list(rates)
        for number in random.sample(range(len(rates)), len(rates)):
            fall = min(left, found[number])
            found[number] -= fall
            left -= fall
        return found

    return change


# --- what others do ---------------------------------------------------------------------------------


def any_flip(pull: PullRequest, _: int) -> bool:
    """Any case that passed on base fails on head, one run a side."""
    return any(base[0] and not head[0] for head, base in zip(pull.head, pull.base, strict=True))


def mean_drop(pull: PullRequest, k: int) -> bool:
    """The mean falls by more than 5 points."""
    fall = sum(sum(base[:k]) - sum(head[:k]) for head, base in zip(pull.head, pull.base, strict=True))
    return fall / (k * len(pull.head)) > 0.05 + DUST


def mcnemar(pull: PullRequest, k: int) -> bool:
    """McNemar's exact test, one-sided, on the majority of each case's runs."""
    majorities = [
        (2 * sum(head[:k]) > k, 2 * sum(base[:k]) > k) for head, base in zip(pull.head, pull.base, strict=True)
    ]
    worse, better = majorities.count((False, True)), majorities.count((True, False))
    total = worse + better
    return sum(math.comb(total, hits) for hits in range(worse, total + 1)) / 2**total < 0.05


def k_of_n(pull: PullRequest, k: int) -> bool:
    """A case of head fails that does not pass in all but one of its runs (2 of 3, 4 of 5)."""
    return any(sum(head[:k]) < max(1, k - 1) for head in pull.head)


OTHERS: Mapping[str, Callable[[PullRequest, int], bool]] = {
    "any case flips": any_flip,
    "k of n on head": k_of_n,
    "mean drop > 5 points": mean_drop,
    "McNemar": mcnemar,
}
