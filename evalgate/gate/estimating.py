"""What a case's runs say of its two means, of all cases' difference, and how sure that is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from evalgate.gate import bootstrap, permutation
from evalgate.gate.pairing import Pattern, Sample
from evalgate.gate.permutation import ScoredStratum, Stratum, Tails
from evalgate.model import Interval


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


def estimate(samples: Sequence[Sample], *, draws: int, seed: int, fact: bool) -> Estimate | None:
    """From the cases that have a score on both sides; None without any."""
    paired = [sample for sample in samples if sample.paired]
    if not paired:
        return None
    means = [case_means(sample) for sample in paired]
    return Estimate(
        head=math.fsum(head for head, _ in means) / len(means),
        base=math.fsum(base for _, base in means) / len(means),
        interval=None if fact else bootstrap.interval([head - base for head, base in means], draws=draws, seed=seed),
        tails=None if fact else test(paired, draws=draws, seed=seed),
    )


def test(samples: Sequence[Sample], *, draws: int, seed: int) -> Tails:
    """The exact test where scores take two values at most, else Monte Carlo; strata are (case, stage)."""
    strata = [stratum for sample in samples for stratum in _strata(sample)]
    values = {value for stratum in strata for side in (stratum.head, stratum.base) for value in side}
    if len(values) > 2:
        return permutation.monte_carlo(strata, draws=draws, seed=seed)
    best = max(values, default=0.0)
    return permutation.exact(
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
