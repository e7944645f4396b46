"""Head's run beside base's: which cases broke, and what may be claimed of every criterion."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evalgate.gate import claims, pairing, power, rates, tables, two_stage
from evalgate.gate.claims import Claim, Measure, Reading
from evalgate.gate.pairing import CaseKey, Pair, Sample
from evalgate.gate.tables import Table
from evalgate.gate.threshold import Scale
from evalgate.gate.two_stage import Stage
from evalgate.model import (
    BaseOrigin,
    CaseVerdict,
    Comparison,
    CriterionComparison,
    Loosening,
    Policy,
    Run,
    Standing,
    VerdictKind,
)

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


def compare(
    head: Run,
    base: Run,
    *,
    policy: Policy,
    scales: Mapping[str, Scale],
    judged: frozenset[str],
    origin: BaseOrigin,
    unpaired: Mapping[CaseKey, Standing],
    seed: int,
    loosened: tuple[Loosening, ...] = (),
    stage: Stage = Stage.ONLY,
    unreliable: frozenset[CaseKey] = frozenset(),
    beside: bool = True,
) -> Comparison:
    """Head beside base, by head's cases and criteria.

    `judged`: criteria that a judge scores, whose scores vary though the agent does not. `unpaired`: cases that are left
    out of every difference. `unreliable`: cases that are shown and never decide, like those of advisory suites.
    `stage`: which look at adaptive repeats this is; it says how much of alpha may be spent. `beside`: whether both
    sides were run side by side; where not, nothing is claimed of what is read from a clock.
    """
    table = tables.of(head, base, policy=policy, scales=scales, unpaired=unpaired, unreliable=unreliable)
    settings = _Settings(
        policy=policy,
        scales=scales,
        judged=judged,
        # a case whose two sides differ is about to be run again, and may yet turn out to be a coin toss
        steady=stage is not Stage.FIRST and _steady(table.pairs),
        share=two_stage.SHARES[stage],
        draws=draws_for(len(table.pairs)),
        seed=seed,
        truncated=bool(head.truncated or base.truncated),
        beside=beside,
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
        head_rates=rates.rates([sample.head[: sample.head_first] for sample in outcomes]),
        base_rates=rates.rates([sample.base[: sample.base_first] for sample in outcomes]),
        power=power.detectable(
            outcomes,
            alpha=policy.alpha * settings.share / max(gating, 1),
            floor=policy.max_drop,
            fact=overall is not None and overall.fact,
        ),
        loosened=loosened,
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
    beside: bool


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
    return claims.claim(
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
        measure = claims.measure_of(uses[name], settings.policy, settings.scales, advisory=advisory)
        reading = _read(measure, samples, settings, steady=settings.steady and name not in settings.judged)
        readings[name] = dataclasses.replace(reading, apart=measure.scale.clocked and not settings.beside)
    return readings


def _read(measure: Measure, samples: Sequence[Sample], settings: _Settings, *, steady: bool) -> Reading:
    # a criterion's draws are its own, whatever other criteria there are
    seed = (abs(settings.seed) << 32) | zlib.crc32(measure.name.encode("utf-8", "surrogatepass"))
    return claims.read(measure, samples, draws=settings.draws, seed=seed, fact=steady, alpha=settings.policy.alpha)


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
        apart=reading.apart,
        short=claim.short,
    )
