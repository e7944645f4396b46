"""How well a judge agrees with people: agreement, Cohen's kappa, true positive and true negative rates.

Labels of one case (its turns, its rubrics, its repeats) move together: every interval is made for as many independent
labels as they are worth.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

from evalgate.gate import proportions
from evalgate.model import (
    Confusion,
    Interval,
    JudgeIdentity,
    LabelledVerdict,
    Rate,
)

DRAWS = 10_000
ALPHA = 0.05
WIDE = 0.3
"""An interval of kappa that is wider says too little to gate on."""


def count(verdicts: Iterable[LabelledVerdict]) -> Confusion:
    """The matrix of the labels that the judge decided; what it could not decide is no disagreement."""
    cells = [(each.label.human, each.judge) for each in verdicts if each.judge is not None]
    return Confusion(
        true_positive=cells.count((True, True)),
        false_negative=cells.count((True, False)),
        false_positive=cells.count((False, True)),
        true_negative=cells.count((False, False)),
    )


def agreement(verdicts: Sequence[LabelledVerdict]) -> Rate | None:
    """The share of decided labels that judge and person agree on, with Wilson's interval."""
    return _rate(verdicts, hit=lambda each: each.judge is each.label.human)


def true_positive_rate(verdicts: Sequence[LabelledVerdict]) -> Rate | None:
    """Of the labels that are yes: how many the judge says yes to."""
    return _rate([each for each in verdicts if each.label.human], hit=lambda each: each.judge is True)


def true_negative_rate(verdicts: Sequence[LabelledVerdict]) -> Rate | None:
    """Of the labels that are no: how many the judge says no to."""
    return _rate([each for each in verdicts if not each.label.human], hit=lambda each: each.judge is False)


def kappa(verdicts: Sequence[LabelledVerdict], *, seed: int, draws: int = DRAWS) -> Rate | None:
    """Cohen's kappa: agreement beyond what two that guess with the same habits would reach.

    None where both only ever say one and the same word. The interval is that of the posterior of the four cells under
    Jeffreys' prior (`draws` draws), widened to the estimate where that lies beside it: with 15 labels it covers 93 % to
    95 %, the asymptotic interval and the bootstrap 42 % to 78 %, and both have width 0 where everything agrees.
    Source: Cohen 1960; Basu, Banerjee and Sen 2000.
    """
    matrix = count(verdicts)
    value = kappa_of(matrix)
    if value is None:
        return None
    effect = proportions.design_effect(_clusters(verdicts, hit=lambda each: each.judge is each.label.human))
    return Rate(value=value, interval=_posterior(matrix, value, effect=effect, seed=seed, draws=draws))


def kappa_of(matrix: Confusion) -> float | None:
    """(observed - expected) / (1 - expected) agreement; None without a label, and where 1 is expected."""
    return _kappa(matrix.true_positive, matrix.false_negative, matrix.false_positive, matrix.true_negative)


def _kappa(yes_yes: float, yes_no: float, no_yes: float, no_no: float) -> float | None:
    total = yes_yes + yes_no + no_yes + no_no
    if not total:
        return None
    by_chance = (yes_yes + yes_no) * (yes_yes + no_yes) + (no_yes + no_no) * (yes_no + no_no)
    left = total * total - by_chance
    return None if left <= 0 else (total * (yes_yes + no_no) - by_chance) / left


def _posterior(matrix: Confusion, value: float, *, effect: float, seed: int, draws: int) -> Interval:
    cells = (matrix.true_positive, matrix.false_negative, matrix.false_positive, matrix.true_negative)
    shapes = [each / effect + 0.5 for each in cells]
    random = Random(seed)  # noqa: S311 - draws of a posterior, no secret
    drawn = (_kappa(*(random.gammavariate(shape, 1.0) for shape in shapes)) for _ in range(draws))
    ordered = sorted(each for each in drawn if each is not None)
    low, high = ordered[math.floor(ALPHA / 2 * len(ordered))], ordered[math.ceil((1 - ALPHA / 2) * len(ordered)) - 1]
    return Interval(low=min(low, value), high=max(high, value))


def _rate(verdicts: Sequence[LabelledVerdict], *, hit: Callable[[LabelledVerdict], bool]) -> Rate | None:
    clusters = _clusters(verdicts, hit=hit)
    hits, total = sum(own for own, _ in clusters), sum(count for _, count in clusters)
    if not total:
        return None
    effect = proportions.design_effect(clusters)
    return Rate(value=hits / total, interval=proportions.wilson(hits / effect, total / effect))


def _clusters(verdicts: Sequence[LabelledVerdict], *, hit: Callable[[LabelledVerdict], bool]) -> list[tuple[int, int]]:
    """Hits and decided labels of each case."""
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for each in verdicts:
        if each.judge is not None:
            counts[each.cluster][0] += hit(each)
            counts[each.cluster][1] += 1
    return [(hits, total) for hits, total in counts.values()]


def labels_wanted(rate: Rate, labels: int, *, width: float = WIDE) -> int:
    """About how many labels in all would make the interval `width` wide: it narrows with the root of their number."""
    return math.ceil(labels * ((rate.interval.high - rate.interval.low) / width) ** 2)


def judge_changes(new: JudgeIdentity, old: JudgeIdentity) -> tuple[str, ...]:
    """What differs between two judges, in words: model and prompt version first, then what the model is asked with."""
    pairs: Mapping[str, tuple[object, object]] = {
        "model": (old.model, new.model),
        "prompt version": (old.prompt_version or "unknown", new.prompt_version or "unknown"),
        "samples": (old.num_samples, new.num_samples),
        "options": (dict(old.config), dict(new.config)),
    }
    return tuple(f"{name} {was} -> {now}" for name, (was, now) in pairs.items() if was != now)


def same_judge(one: JudgeIdentity, other: JudgeIdentity) -> bool:
    """Whether model and prompt are the same, so that what is known of one holds for the other."""
    return (one.model, one.prompt_version) == (other.model, other.prompt_version)
