"""A judge compared with human labels: its identity, and how often it agrees."""

from __future__ import annotations

import enum
from dataclasses import field

from evalgate.model.comparison import Interval
from evalgate.values import Json, frozen_dataclass


@frozen_dataclass
class JudgeIdentity:
    """The identity of a judge: two verdicts come from the same judge only if all fields are equal.

    `model`: as ADK writes it. `prompt_version`: of evalgate's question; empty if unknown.
    `num_samples`, `config`: the model's options."""

    model: str
    prompt_version: str
    num_samples: int = 1
    config: Json = field(default_factory=dict)


@frozen_dataclass
class CriterionJudge:
    """The judge of a run's criterion."""

    criterion: str
    judge: JudgeIdentity


@frozen_dataclass
class Confusion:
    """Counts of labels by the verdicts of human and judge. Positive is yes; true means that the
    judge agrees.

    `undecided`: labels without a verdict of the judge. `clusters`: the number of cases with
    labels."""

    true_positive: int = 0
    false_negative: int = 0
    false_positive: int = 0
    true_negative: int = 0
    undecided: int = 0
    clusters: int = 0

    @property
    def total(self) -> int:
        """All labels that the judge decided."""
        return self.positives + self.negatives

    @property
    def positives(self) -> int:
        """Labels with a human yes."""
        return self.true_positive + self.false_negative

    @property
    def negatives(self) -> int:
        """Labels with a human no."""
        return self.false_positive + self.true_negative


@frozen_dataclass
class Rate:
    """An estimate and its 95% interval."""

    value: float
    interval: Interval


class ConfusionKind(enum.StrEnum):
    """How a judge and a human can disagree."""

    # the judge says yes, the human no: the gate misses a failure
    FALSE_POSITIVE = "false_positive"
    # the judge says no, the human yes: the gate fails without cause
    FALSE_NEGATIVE = "false_negative"
    UNDECIDED = "undecided"  # the judge could not decide: not a disagreement


@frozen_dataclass
class Example:
    """One label on which the judge disagreed; texts are clipped. `line`: of the labels file."""

    kind: ConfusionKind
    line: int
    where: str
    subject: str
    human: str
    judge: str
    shown: str
    rationale: str
    note: str = ""


@frozen_dataclass
class CriterionCalibration:
    """One judge compared with human labels on one criterion.

    `tpr`: share of human yes labels that the judge confirms; `tnr`: the same for no. None if it
    cannot be computed: there is no label of that kind; for `kappa`, only one kind on both sides."""

    criterion: str
    judge: JudgeIdentity
    matrix: Confusion
    agreement: Rate | None
    kappa: Rate | None
    tpr: Rate | None
    tnr: Rate | None
    examples: tuple[Example, ...] = ()


@frozen_dataclass
class Calibration:
    """The content of calibration.json. `made_at`: ISO 8601, UTC. `source`: `asked`, or `results`
    for stored verdicts."""

    evalgate: str
    made_at: str
    labels_file: str
    source: str
    criteria: tuple[CriterionCalibration, ...]
    seed: int = 0
    draws: int = 0


@frozen_dataclass
class JudgedCriterion:
    """A judged criterion of a suite in a run: its judge, and the judge's calibration with human
    labels, if any."""

    suite: str
    criterion: str
    judge: JudgeIdentity
    calibration: CriterionCalibration | None = None
