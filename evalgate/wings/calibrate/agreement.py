"""How well a judge agrees with people (agreement, Cohen's kappa, TPR, TNR), and what that allows a run to rely on.

Labels of one case move together: every interval is made for as many independent labels as they are worth.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random

from evalgate.model import (
    AskedJudge,
    Calibration,
    Confusion,
    ConfusionKind,
    CriterionCalibration,
    Example,
    Interval,
    JudgeIdentity,
    Rate,
)
from evalgate.text import plain, words, workflow_commands
from evalgate.wings.calibrate import rates
from evalgate.wings.calibrate.evidence import LabelledVerdict

DRAWS = 10_000
ALPHA = 0.05
WIDE = 0.3
"""An interval of kappa that is wider says too little to gate on."""


def confusion(verdicts: Sequence[LabelledVerdict]) -> Confusion:
    """The matrix of the labels; what the judge could not decide is no disagreement."""
    cells = [(each.label.human, each.passed) for each in verdicts]
    return Confusion(
        true_positive=cells.count((True, True)),
        false_negative=cells.count((True, False)),
        false_positive=cells.count((False, True)),
        true_negative=cells.count((False, False)),
        undecided=sum(each.passed is None for each in verdicts),
        clusters=len({each.cluster for each in verdicts}),
    )


def agreement_rate(verdicts: Iterable[LabelledVerdict], *, of: bool | None = None) -> Rate | None:
    """The share of decided labels that both agree on, by Wilson; `of`: only of those that are yes (TPR) or no (TNR)."""
    clusters = _clusters(each for each in verdicts if of in (None, each.label.human))
    hits, total = (sum(counts) for counts in zip(*clusters, strict=True)) if clusters else (0, 0)
    if not total:
        return None
    effect = rates.design_effect(clusters)
    return Rate(value=hits / total, interval=rates.wilson(hits / effect, total / effect))


def kappa_rate(verdicts: Sequence[LabelledVerdict], *, seed: int, draws: int = DRAWS) -> Rate | None:
    """Cohen's kappa: agreement beyond what two that guess with the same habits would reach.

    None where both only ever say one and the same word. The interval is that of the posterior of the four cells under
    Jeffreys' prior (`draws` draws), widened to the estimate where that lies beside it: with 15 labels it covers 93% to
    95%, the asymptotic interval and the bootstrap 42% to 78%, and both have width 0 where everything agrees.
    Source: Cohen 1960; Basu, Banerjee and Sen 2000.
    """
    matrix = confusion(verdicts)
    cells = (matrix.true_positive, matrix.false_negative, matrix.false_positive, matrix.true_negative)
    value = kappa(*cells)
    if value is None:
        return None
    effect = rates.design_effect(_clusters(verdicts))
    shapes = [each / effect + 0.5 for each in cells]
    random = Random(seed)  # noqa: S311 - draws of a posterior, no secret
    drawn = (kappa(*(random.gammavariate(shape, 1.0) for shape in shapes)) for _ in range(draws))
    ordered = sorted(each for each in drawn if each is not None)
    low, high = ordered[math.floor(ALPHA / 2 * len(ordered))], ordered[math.ceil((1 - ALPHA / 2) * len(ordered)) - 1]
    return Rate(value=value, interval=Interval(low=min(low, value), high=max(high, value)))


def kappa(yes_yes: float, yes_no: float, no_yes: float, no_no: float) -> float | None:
    """(observed - expected) / (1 - expected) agreement, the person's word first; None where it is not defined."""
    total = yes_yes + yes_no + no_yes + no_no
    if not total:
        return None
    by_chance = (yes_yes + yes_no) * (yes_yes + no_yes) + (no_yes + no_no) * (yes_no + no_no)
    left = total * total - by_chance
    return None if left <= 0 else (total * (yes_yes + no_no) - by_chance) / left


def _clusters(verdicts: Iterable[LabelledVerdict]) -> list[tuple[int, int]]:
    """Of each case the labels that judge and person agree on, and those that the judge decided."""
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for each in verdicts:
        if each.passed is not None:
            counts[each.cluster][0] += each.passed is each.label.human
            counts[each.cluster][1] += 1
    return [(hits, total) for hits, total in counts.values()]


def judge_changes(new: JudgeIdentity, old: JudgeIdentity) -> tuple[str, ...]:
    """What differs between two judges, in words: model and prompt version first, then what the model is asked with."""
    pairs: Mapping[str, tuple[object, object]] = {
        "model": (old.model, new.model),
        "prompt version": (old.prompt_version or "unknown", new.prompt_version or "unknown"),
        "samples": (old.num_samples, new.num_samples),
        "options": (dict(old.config), dict(new.config)),
    }
    return tuple(f"{name} {was} -> {now}" for name, (was, now) in pairs.items() if was != now)


EXAMPLES = 5
"""Of each kind of confusion."""
CLIP = 400


def calibrate(asked: AskedJudge, verdicts: Sequence[LabelledVerdict], *, seed: int) -> CriterionCalibration:
    """Everything that the labels of one criterion say of one judge."""
    of_kind = {kind: [each for each in verdicts if confusion_of(each) is kind] for kind in ConfusionKind}
    return CriterionCalibration(
        criterion=asked.criterion,
        judge=asked.judge,
        matrix=confusion(verdicts),
        agreement=agreement_rate(verdicts),
        kappa=kappa_rate(verdicts, seed=seed),
        tpr=agreement_rate(verdicts, of=True),
        tnr=agreement_rate(verdicts, of=False),
        examples=tuple(_example(each, kind) for kind in ConfusionKind for each in of_kind[kind][:EXAMPLES]),
    )


def confusion_of(verdict: LabelledVerdict) -> ConfusionKind | None:
    """How judge and person fail to agree on a label; None where they agree."""
    if verdict.passed is None:
        return ConfusionKind.UNDECIDED
    if verdict.passed is verdict.label.human:
        return None
    return ConfusionKind.FALSE_POSITIVE if verdict.passed else ConfusionKind.FALSE_NEGATIVE


def _example(verdict: LabelledVerdict, kind: ConfusionKind) -> Example:
    line = verdict.label.line
    return Example(
        kind=kind,
        line=verdict.label.place.line or 0,
        where="" if line.where is None else f"{line.where}, turn {line.turn or 1}",
        subject=_clipped(line.subject),
        human=line.word,
        judge=verdict.word,
        shown=_clipped(verdict.shown),
        rationale=_clipped(verdict.message),
        note=_clipped(line.note),
    )


def _clipped(text: str) -> str:
    return text if len(text) <= CLIP else f"{text[:CLIP]}..."


def caveats(each: CriterionCalibration) -> list[str]:
    """What a reader must know before trusting the figures: sentences, none where all is well."""
    if not each.matrix.total:
        return ["the judge decided none of the labels, so its agreement is unknown"]
    found: list[str] = []
    if each.kappa is None:
        one = "yes" if each.matrix.positives else "no"
        found.append(f"every label and every verdict is {one}: kappa and the other rate need both yes and no labels")
    elif not each.matrix.negatives or not each.matrix.positives:
        lacking = "no" if not each.matrix.negatives else "yes"
        found.append(f"no label is a {lacking}: add some to measure the judge's other error rate")
    if each.kappa is not None and each.kappa.interval.high - each.kappa.interval.low > WIDE:
        low, high = each.kappa.interval.low, each.kappa.interval.high
        wanted = math.ceil(each.matrix.total * ((high - low) / WIDE) ** 2)  # it narrows with the root of their number
        span = f"from {low:.2f} to {high:.2f}"
        found.append(f"too few labels: kappa may be anything {span}; about {wanted:,} labels are needed")
    undecided = each.matrix.undecided
    if undecided:
        total = words.counted(each.matrix.total + undecided, "label")
        found.append(f"{undecided} of {total} undecided by the judge (excluded)")
    return found


def of_judge(criterion: str, judge: JudgeIdentity, calibration: Calibration | None) -> CriterionCalibration | None:
    """What the file says of this judge on this criterion, its other options aside; None where it says nothing."""
    found = [each for each in (calibration.criteria if calibration else ()) if each.criterion == criterion]
    named = (judge.model, judge.prompt_version)
    same = [each for each in found if (each.judge.model, each.judge.prompt_version) == named]
    exact = [each for each in same if each.judge == judge]
    return next(iter(exact or same), None)


def fault_of(
    criterion: str, judge: JudgeIdentity, calibration: Calibration | None, *, min_kappa: float | None
) -> tuple[str, str] | None:
    """Why a run may not rely on this judge: a code of docs/validate.md, and the figures in words; None where it may."""
    found = of_judge(criterion, judge, calibration)
    if found is None:
        others = [each for each in (calibration.criteria if calibration else ()) if each.criterion == criterion]
        if not others:
            return "calibration-missing", f"there are no labels for {_named(judge)}"
        changes = "; ".join(judge_changes(judge, others[0].judge)[:2])
        return "calibration-of-another-judge", f"it was calibrated with a different judge: {changes}"
    if min_kappa is None or (found.kappa is not None and found.kappa.value >= min_kappa):
        return None
    if found.kappa is None:
        lacking = f"kappa of {_named(judge)} cannot be computed from its labels; at least {min_kappa:g} is required"
        return "calibration-below-minimum", lacking
    low, high = found.kappa.interval.low, found.kappa.interval.high
    about = f"{low:.2f} to {high:.2f}, {words.counted(found.matrix.total, 'label')}"
    value = words.score(found.kappa.value, beside=min_kappa)
    told = f"{_named(judge)} has a judge-human kappa of {value} ({about}); at least {min_kappa:g} is required"
    return "calibration-below-minimum", told


def doubts(judge: JudgeIdentity, found: CriterionCalibration, *, min_kappa: float | None) -> list[str]:
    """What weakens a calibration that a run may rely on: sentences."""
    told = []
    if judge != found.judge:
        told.append(f"it was calibrated with different options: {'; '.join(judge_changes(judge, found.judge))}")
    if min_kappa is not None and found.kappa is not None and found.kappa.interval.low < min_kappa:
        low = words.score(found.kappa.interval.low, beside=min_kappa)
        told.append(f"kappa {found.kappa.value:.2f} reaches {min_kappa:g}, but with so few labels it could be {low}")
    return told


def _named(judge: JudgeIdentity) -> str:
    return f"`{judge.model}` (prompt {judge.prompt_version or 'unknown'})"


# --- as a terminal shows it -----------------------------------------------------------------------

NAME = 60
TEXT = 160
MINUS = "-"
KINDS = {
    ConfusionKind.FALSE_POSITIVE: "the judge says yes, people say no (it would let these through)",
    ConfusionKind.FALSE_NEGATIVE: "the judge says no, people say yes (it would stop these)",
    ConfusionKind.UNDECIDED: "the judge could not decide",
}


def render(calibration: Calibration, *, notes: Iterable[str] = ()) -> str:
    """A table of figures, what to know of them, and where judge and people part. Nothing in it can command a terminal
    or a runner."""
    figures: list[tuple[str, ...]] = [("criterion", "judge", "labels", "agreement", "kappa", "TPR", "TNR")]
    counts: list[tuple[str, ...]] = [
        ("criterion", "both yes", "both no", "only judge yes", "only people yes", "undecided")
    ]
    for each in calibration.criteria:
        name, found = plain.label(each.criterion, NAME), each.matrix
        rates = [_rate(known) for known in (each.agreement, each.kappa, each.tpr, each.tnr)]
        figures.append((name, _judge(each.judge), f"{found.total + found.undecided:,}", *rates))
        agreed, parted = (found.true_positive, found.true_negative), (found.false_positive, found.false_negative)
        counts.append((name, *(f"{count:,}" for count in (*agreed, *parted, found.undecided))))
    lines = [
        *plain.table(figures),
        "",
        *plain.table(counts),
        *(f"{plain.label(each.criterion, NAME)}: {told}" for each in calibration.criteria for told in caveats(each)),
        *(f"note: {note}" for note in notes),
        *(line for each in calibration.criteria for line in _shown_examples(each)),
    ]
    return workflow_commands.disarm("\n".join(lines)) + "\n"


def _judge(identity: JudgeIdentity) -> str:
    """`gemini-2.5-flash, prompt 1, 5 samples`."""
    version = f"prompt {plain.label(identity.prompt_version, 20)}" if identity.prompt_version else "prompt unknown"
    return f"{plain.label(identity.model, NAME)}, {version}, {words.counted(identity.num_samples, 'sample')}"


def _rate(found: Rate | None) -> str:
    """`0.85 (0.71 to 0.93)`; `-` where it is not known."""
    if found is None:
        return MINUS
    return f"{found.value:.2f} ({found.interval.low:.2f} to {found.interval.high:.2f})"


def _shown_examples(each: CriterionCalibration) -> Iterator[str]:
    for kind, title in KINDS.items():
        found = [example for example in each.examples if example.kind is kind]
        if not found:
            continue
        yield ""
        yield f"{plain.label(each.criterion, NAME)}: {title}"
        for example in found:
            where = f" ({plain.label(example.where, NAME * 2)})" if example.where else ""
            said = f"; the judge: {plain.label(example.judge, 40)}" if example.judge else ""
            yield f"  line {example.line}{where}: people: {plain.label(example.human, 40)}{said}"
            texts = {"of": example.subject, "text": example.shown, "why": example.rationale, "note": example.note}
            for name, text in texts.items():
                if text.strip():
                    yield f"    {name:<5}{plain.label(text, TEXT)}"
