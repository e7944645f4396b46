"""From labelled verdicts to a calibration, and what a calibration allows a run to claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evalgate import words
from evalgate.gate import agreement
from evalgate.model import (
    ConfusionKind,
    CriterionCalibration,
    Example,
    Item,
    JudgeIdentity,
    LabelledVerdict,
)

EXAMPLES = 5
"""Of each kind of confusion."""
CLIP = 400


def calibrate(
    criterion: str, judge: JudgeIdentity, verdicts: Sequence[LabelledVerdict], *, seed: int
) -> CriterionCalibration:
    """Everything that the labels of one criterion say of one judge."""
    return CriterionCalibration(
        criterion=criterion,
        judge=judge,
        matrix=agreement.count(verdicts),
        undecided=sum(1 for each in verdicts if each.judge is None),
        clusters=len({each.cluster for each in verdicts}),
        agreement=agreement.agreement(verdicts),
        kappa=agreement.kappa(verdicts, seed=seed),
        tpr=agreement.true_positive_rate(verdicts),
        tnr=agreement.true_negative_rate(verdicts),
        examples=tuple(example for kind in ConfusionKind for example in _examples(verdicts, kind)),
        items=tuple(Item(address=each.address, human=each.label.human, judge=each.judge) for each in verdicts),
    )


def confusion_of(verdict: LabelledVerdict) -> ConfusionKind | None:
    """How judge and person fail to agree on a label; None where they agree."""
    if verdict.judge is None:
        return ConfusionKind.UNDECIDED
    if verdict.judge is verdict.label.human:
        return None
    return ConfusionKind.FALSE_POSITIVE if verdict.judge else ConfusionKind.FALSE_NEGATIVE


def _examples(verdicts: Iterable[LabelledVerdict], kind: ConfusionKind) -> list[Example]:
    found = [each for each in verdicts if confusion_of(each) is kind]
    return [_example(each, kind) for each in found[:EXAMPLES]]


def _example(verdict: LabelledVerdict, kind: ConfusionKind) -> Example:
    label = verdict.label
    where = "" if label.where is None else f"{label.where}, turn {label.turn or 1}"
    return Example(
        kind=kind,
        line=label.place.line or 0,
        where=where,
        subject=_clipped(label.subject),
        human=label.word,
        judge=verdict.said,
        shown=_clipped(verdict.shown),
        rationale=_clipped(verdict.message),
        note=_clipped(label.note),
    )


def _clipped(text: str) -> str:
    return text if len(text) <= CLIP else f"{text[:CLIP]}..."


# --- what is still lacking ------------------------------------------------------------------------


def caveats(each: CriterionCalibration) -> list[str]:
    """What a reader must know before trusting the figures: sentences, none where all is well."""
    found: list[str] = []
    if not each.matrix.total:
        found.append("the judge decided none of the labels: nothing is known of it")
        return found
    if each.kappa is None:
        one = "yes" if each.matrix.positives else "no"
        found.append(f"every label is a {one}, and so is every verdict: kappa and the other rate need the other kind")
    elif not each.matrix.negatives or not each.matrix.positives:
        lacking = "no" if not each.matrix.negatives else "yes"
        found.append(f"no label is a {lacking}: label some, or half of the judge's errors stay unknown")
    if each.kappa is not None and each.kappa.interval.high - each.kappa.interval.low > agreement.WIDE:
        low, high = words.score(each.kappa.interval.low), words.score(each.kappa.interval.high)
        wanted = agreement.labels_wanted(each.kappa, each.matrix.total)
        found.append(f"too few labels: kappa may be anything from {low} to {high}; about {wanted:,} would narrow it")
    if each.undecided:
        total = each.matrix.total + each.undecided
        found.append(f"{each.undecided} of {words.counted(total, 'label')} undecided by the judge: not in the figures")
    return found
