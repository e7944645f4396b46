"""A judge compared with human labels: its identity, and how often it agrees."""

from __future__ import annotations

import enum
from functools import partial
from typing import Annotated, TypeAlias

from pydantic import Field, PlainSerializer, computed_field

from evalgate.model.run import Count
from evalgate.values import Json, frozen_dataclass

Number: TypeAlias = Annotated[float, PlainSerializer(partial(round, ndigits=6))]


@frozen_dataclass
class JudgeIdentity:
    """The identity of a judge: two verdicts come from the same judge only if all fields are equal.

    `model`: as ADK writes it. `prompt_version`: of evalgate's question; empty if unknown.
    `num_samples`, `config`: the model's options; None without any."""

    model: str
    prompt_version: str = ""
    num_samples: int = 1
    config: Json | None = None


@frozen_dataclass
class CriterionJudge:
    """The judge of a run's criterion."""

    criterion: str
    judge: JudgeIdentity


@frozen_dataclass
class Confusion:
    """Counts of decided labels by the verdicts of human and judge. Positive is yes; true means that
    the judge agrees."""

    true_positive: Count = 0
    false_negative: Count = 0
    false_positive: Count = 0
    true_negative: Count = 0

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
    """An estimate and both ends of its 95% interval."""

    value: Annotated[Number, Field(ge=-1, le=1)]
    low: Number
    high: Number


class ConfusionKind(enum.StrEnum):
    """How a judge and a human can disagree."""

    # the judge says yes, the human no: the gate misses a failure
    FALSE_POSITIVE = "false_positive"
    # the judge says no, the human yes: the gate fails without cause
    FALSE_NEGATIVE = "false_negative"
    UNDECIDED = "undecided"  # the judge could not decide: not a disagreement


@frozen_dataclass
class Example:
    """One label that the judge disagreed with or could not decide; texts are clipped. `line`: of
    the labels file, from 1. `shown`: what was judged. `rationale`: the judge's; for an undecided
    label: why. `note`: the human label's."""

    kind: ConfusionKind
    line: int
    where: str = ""
    subject: str = ""
    human: str
    judge: str = ""
    shown: str = ""
    rationale: str = ""
    note: str = ""


@frozen_dataclass
class CriterionCalibration:
    """One judge compared with human labels on one criterion.

    `undecided`: labels without a verdict of the judge. `clusters`: the number of cases with labels.
    `kappa`: Cohen's. `tpr`: share of human yes labels that the judge confirms; `tnr`: the same for
    no. None if it cannot be computed: there is no label of that kind; for `kappa`, only one kind on
    both sides."""

    criterion: str
    judge: JudgeIdentity
    undecided: Count = 0
    clusters: Count = 0
    matrix: Confusion
    agreement: Rate | None = None
    kappa: Rate | None = None
    tpr: Rate | None = None
    tnr: Rate | None = None
    examples: tuple[Example, ...] = ()

    @computed_field  # type: ignore[prop-decorator] # as pydantic documents it
    @property
    def labels(self) -> int:
        """All labels, decided or not."""
        return self.matrix.total + self.undecided


@frozen_dataclass
class Calibration:
    """The content of calibration.json. `evalgate`: its version. `made_at`: ISO 8601, UTC. `source`:
    `asked`, or `results` for stored verdicts. `seed`: of the draws behind kappa's intervals."""

    schema_version: int = 1
    evalgate: str = ""
    made_at: str = ""
    labels_file: str = ""
    source: str = "asked"
    seed: int = 0
    draws: int = 0
    criteria: tuple[CriterionCalibration, ...]


@frozen_dataclass
class JudgedCriterion:
    """A judged criterion of a suite in a run: its judge, and the judge's calibration with human
    labels, if any."""

    suite: str
    criterion: str
    judge: JudgeIdentity
    calibration: CriterionCalibration | None = None
