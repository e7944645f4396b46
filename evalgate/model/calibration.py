"""A judge beside people: who judges, and how often it agrees with their labels."""

from __future__ import annotations

import enum
from dataclasses import field

from evalgate.model.comparison import Interval
from evalgate.values import Json, frozen_dataclass


@frozen_dataclass
class JudgeIdentity:
    """Who judges: two verdicts come from the same judge only if all of this is equal.

    `model`: as ADK writes it. `prompt_version`: of our question; empty if it is unknown.
    `num_samples`, `config`: how the model is asked."""

    model: str
    prompt_version: str
    num_samples: int = 1
    config: Json = field(default_factory=dict)


@frozen_dataclass
class CriterionJudge:
    """Who a criterion of a run asks."""

    criterion: str
    judge: JudgeIdentity


@frozen_dataclass
class Confusion:
    """Counts of labels by what the person and the judge said; positive is yes, true is as the
    person says.

    `undecided`: labels that the judge could not decide. `clusters`: how many cases the labels come
    from."""

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
        """Those to which the person says yes."""
        return self.true_positive + self.false_negative

    @property
    def negatives(self) -> int:
        """Those to which the person says no."""
        return self.false_positive + self.true_negative


@frozen_dataclass
class Rate:
    """An estimate and its 95% interval."""

    value: float
    interval: Interval


class ConfusionKind(enum.StrEnum):
    """How a judge and a person can fail to agree."""

    # the judge says yes, the person no: a gate that lets it through
    FALSE_POSITIVE = "false_positive"
    # the judge says no, the person yes: a gate that stops for nothing
    FALSE_NEGATIVE = "false_negative"
    UNDECIDED = "undecided"  # the judge could not decide: no disagreement


@frozen_dataclass
class Example:
    """One label that the judge did not agree with; texts are clipped. `line`: of the labels
    file."""

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
    """One judge compared with people on one criterion.

    `tpr`: share of people's yes that the judge says yes to; `tnr`: the same for no. None if it
    cannot be computed: no label of that kind; for `kappa`, one kind on both sides."""

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
    """What calibration.json holds. `made_at`: ISO 8601, UTC. `source`: `asked`, or `results` for
    stored verdicts."""

    evalgate: str
    made_at: str
    labels_file: str
    source: str
    criteria: tuple[CriterionCalibration, ...]
    seed: int = 0
    draws: int = 0


@frozen_dataclass
class JudgedCriterion:
    """A judged criterion of a suite in a run: its judge, and the judge's calibration by people's
    labels, if any."""

    suite: str
    criterion: str
    judge: JudgeIdentity
    calibration: CriterionCalibration | None = None
