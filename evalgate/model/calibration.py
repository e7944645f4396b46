"""A judge compared with human labels: its identity, and how often it agrees.

calibration.json has these values as they are; its JSON schema has their docstrings."""

from __future__ import annotations

import enum
from dataclasses import field
from typing import Annotated, TypeAlias

from pydantic import Field, PlainSerializer

from evalgate.values import Json, frozen_dataclass

SCHEMA_VERSION = 1
DECIMALS = 6
Count: TypeAlias = Annotated[int, Field(ge=0)]
Rounded: TypeAlias = Annotated[float, PlainSerializer(lambda number: round(number, DECIMALS))]


@frozen_dataclass
class JudgeIdentity:
    """The identity of a judge: two verdicts come from the same judge only if all fields are equal.

    `model`: as ADK writes it. `prompt_version`: of evalgate's question; empty if unknown.
    `num_samples`, `config`: the model's options."""

    model: str
    prompt_version: str = ""
    num_samples: int = 1
    config: Json = field(default_factory=dict)


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
    """An estimate and its 95% interval."""

    value: Annotated[Rounded, Field(ge=-1, le=1)]
    low: Rounded
    high: Rounded


class ConfusionKind(enum.StrEnum):
    """How a judge and a human can disagree."""

    # the judge says yes, the human no: the gate misses a failure
    FALSE_POSITIVE = "false_positive"
    # the judge says no, the human yes: the gate fails without cause
    FALSE_NEGATIVE = "false_negative"
    UNDECIDED = "undecided"  # the judge could not decide: not a disagreement


@frozen_dataclass
class LabelDifference:
    """A label on which judge and person do not agree."""

    kind: ConfusionKind
    line: int
    where: str = ""
    subject: str = ""


@frozen_dataclass
class Example(LabelDifference):
    """One label on which the judge disagreed or that it could not decide; texts are clipped.
    `line`: of the labels file, from 1. `shown`: what was judged. `rationale`: the judge's; for an
    undecided one: why. `note`: that of the human label."""

    human: str
    judge: str = ""
    shown: str = ""
    rationale: str = ""
    note: str = ""


@frozen_dataclass
class CriterionCalibration:
    """One judge compared with human labels on one criterion.

    `labels`: decided and undecided ones; `clusters`: the number of cases that they come from.
    `kappa`: Cohen's. `tpr`: share of human yes labels that the judge confirms; `tnr`: the same for
    no. None if it cannot be computed: there is no label of that kind; for `kappa`, only one kind on
    both sides."""

    criterion: str
    judge: JudgeIdentity
    labels: Count
    undecided: Count = 0
    clusters: Count = 0
    matrix: Confusion
    agreement: Rate | None = None
    kappa: Rate | None = None
    tpr: Rate | None = None
    tnr: Rate | None = None
    examples: tuple[Example, ...] = ()


@frozen_dataclass
class Calibration:
    """The content of calibration.json. `evalgate`: its version. `made_at`: ISO 8601, UTC. `seed`,
    `draws`: of the draws behind kappa's intervals. Readers must ignore keys that they do not know:
    other versions may have more."""

    schema_version: int = SCHEMA_VERSION
    evalgate: str = ""
    made_at: str = ""
    labels_file: str = ""
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
