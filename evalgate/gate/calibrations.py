"""From labelled verdicts to a calibration, and what a calibration allows a run to claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evalgate import words
from evalgate.gate import agreement
from evalgate.model import (
    Calibration,
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
        found.append("the judge decided none of the labels, so its agreement is unknown")
        return found
    if each.kappa is None:
        one = "yes" if each.matrix.positives else "no"
        found.append(f"every label is a {one}, and so is every verdict: kappa and the other rate need the other kind")
    elif not each.matrix.negatives or not each.matrix.positives:
        lacking = "no" if not each.matrix.negatives else "yes"
        found.append(f"no label is a {lacking}: add some to measure the judge's other error rate")
    if each.kappa is not None and each.kappa.interval.high - each.kappa.interval.low > agreement.WIDE:
        low, high = each.kappa.interval.low, each.kappa.interval.high
        wanted = agreement.labels_wanted(each.kappa, each.matrix.total)
        span = f"from {low:.2f} to {high:.2f}"
        found.append(f"too few labels: kappa may be anything {span}; about {wanted:,} in all are needed")
    if each.undecided:
        total = each.matrix.total + each.undecided
        found.append(f"{each.undecided} of {words.counted(total, 'label')} undecided by the judge (excluded)")
    return found


# --- what a gate may ask for ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a calibration does not speak for a judge: a code of docs/validate.md, and the figures in words."""

    code: str
    message: str


def of_judge(criterion: str, judge: JudgeIdentity, calibration: Calibration | None) -> CriterionCalibration | None:
    """What the file says of this judge on this criterion; None where it says nothing."""
    found = [each for each in (calibration.criteria if calibration else ()) if each.criterion == criterion]
    same = [each for each in found if agreement.same_judge(each.judge, judge)]
    exact = [each for each in same if each.judge == judge]
    return next(iter(exact or same), None)


def fault_of(
    criterion: str, judge: JudgeIdentity, calibration: Calibration | None, *, min_kappa: float | None
) -> Fault | None:
    """Why a run may not rely on this judge; None where it may."""
    found = of_judge(criterion, judge, calibration)
    if found is None:
        others = [each for each in (calibration.criteria if calibration else ()) if each.criterion == criterion]
        if not others:
            return Fault(code="calibration-missing", message=f"there are no labels for {_named(judge)}")
        changes = "; ".join(agreement.judge_changes(judge, others[0].judge)[:2])
        message = f"it was calibrated with a different judge: {changes}"
        return Fault(code="calibration-of-another-judge", message=message)
    if min_kappa is None or (found.kappa is not None and found.kappa.value >= min_kappa):
        return None
    return Fault(code="calibration-below-minimum", message=_too_low(judge, found, min_kappa))


def _too_low(judge: JudgeIdentity, found: CriterionCalibration, min_kappa: float) -> str:
    if found.kappa is None:
        return f"kappa of {_named(judge)} cannot be computed from its labels, {min_kappa:g} is required"
    low, high = found.kappa.interval.low, found.kappa.interval.high
    about = f"{low:.2f} to {high:.2f}, {words.counted(found.matrix.total, 'label')}"
    value = words.score(found.kappa.value, beside=min_kappa)
    return f"{_named(judge)} has a judge-human kappa of {value} ({about}), {min_kappa:g} is required"


def doubts(judge: JudgeIdentity, found: CriterionCalibration, *, min_kappa: float | None) -> list[str]:
    """What weakens a calibration that a run may rely on: sentences."""
    told = []
    if judge != found.judge:
        told.append(f"it was calibrated with other options: {'; '.join(agreement.judge_changes(judge, found.judge))}")
    if min_kappa is not None and found.kappa is not None and found.kappa.interval.low < min_kappa:
        low = words.score(found.kappa.interval.low, beside=min_kappa)
        told.append(f"kappa {found.kappa.value:.2f} reaches {min_kappa:g}, but with so few labels it could be {low}")
    return told


def _named(judge: JudgeIdentity) -> str:
    return f"`{judge.model}` (prompt {judge.prompt_version or 'unknown'})"
