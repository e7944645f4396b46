"""A judge compared with human labels: its identity, and how often it agrees.

calibration.json has these values as they are; its JSON schema has their docstrings."""

from __future__ import annotations

import enum
from dataclasses import field
from typing import Annotated, TypeAlias

from pydantic import Field, PlainSerializer

from evalgate.values import Json, frozen_dataclass

SCHEMA_VERSION = 1
"""Of calibration.json; raised if a reader of the earlier version would misread it."""
DECIMALS = 6
"""Of the rates in calibration.json."""
Count: TypeAlias = Annotated[int, Field(ge=0)]
Rounded: TypeAlias = Annotated[float, PlainSerializer(lambda number: round(number, DECIMALS))]
"""A rate as calibration.json writes it."""


@frozen_dataclass
class JudgeIdentity:
    """The identity of a judge: two verdicts come from the same judge only if all fields are
    equal."""

    model: str
    """As ADK writes it."""
    prompt_version: str = ""
    """Of evalgate's question; empty if unknown."""
    num_samples: int = 1
    """Replies that the judge gives for each question."""
    config: Json = field(default_factory=dict)
    """The model's options."""


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
    """Both say yes."""
    false_negative: Count = 0
    """The judge says no, the human yes."""
    false_positive: Count = 0
    """The judge says yes, the human no."""
    true_negative: Count = 0
    """Both say no."""

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
    """From 0 to 1; kappa may be negative."""
    low: Rounded
    """The lower end of its 95 % interval."""
    high: Rounded
    """The upper end."""


class ConfusionKind(enum.StrEnum):
    """How a judge and a human can disagree."""

    FALSE_POSITIVE = "false_positive"
    """The judge says yes, the human no: the gate misses a failure."""
    FALSE_NEGATIVE = "false_negative"
    """The judge says no, the human yes: the gate fails without cause."""
    UNDECIDED = "undecided"
    """The judge could not decide: not a disagreement."""


@frozen_dataclass
class LabelDifference:
    """A label on which judge and person do not agree."""

    kind: ConfusionKind
    line: int
    """Of the labels file, from 1."""
    where: str = ""
    """Its run and turn; "" if unknown."""
    subject: str = ""


@frozen_dataclass
class Example(LabelDifference):
    """One label on which the judge disagreed or that it could not decide; texts are clipped."""

    human: str
    """The verdict of the human label."""
    judge: str = ""
    """The verdict of the judge."""
    shown: str = ""
    """What was judged."""
    rationale: str = ""
    """The judge's reasons; of an undecided one, why it is undecided."""
    note: str = ""
    """The note of the human label."""


@frozen_dataclass
class CriterionCalibration:
    """One judge compared with human labels on one criterion."""

    criterion: str
    judge: JudgeIdentity
    labels: Count
    """Decided and undecided ones."""
    undecided: Count = 0
    """Labels that the judge could not decide."""
    clusters: Count = 0
    """The number of cases that they come from."""
    matrix: Confusion
    """The decided labels."""
    agreement: Rate | None = None
    """The share of decided labels on which both agree."""
    kappa: Rate | None = None
    """Cohen's; None if there is only one kind of label on both sides."""
    tpr: Rate | None = None
    """Share of human yes labels that the judge confirms; None without such a label, as in `tnr`."""
    tnr: Rate | None = None
    """Share of human no labels that the judge confirms."""
    examples: tuple[Example, ...] = ()
    """Disagreements and undecided labels, a limited number."""


@frozen_dataclass
class Calibration:
    """The content of calibration.json. Readers must ignore keys that they do not know: other
    versions may have more."""

    schema_version: int = SCHEMA_VERSION
    evalgate: str = ""
    """Its version."""
    made_at: str = ""
    """ISO 8601, UTC."""
    labels_file: str = ""
    seed: int = 0
    """Of the draws behind kappa's intervals."""
    draws: int = 0
    """The number of these draws."""
    criteria: tuple[CriterionCalibration, ...]


@frozen_dataclass
class JudgedCriterion:
    """A judged criterion of a suite in a run: its judge, and the judge's calibration with human
    labels, if any."""

    suite: str
    criterion: str
    judge: JudgeIdentity
    """The identity of its judge in this run."""
    calibration: CriterionCalibration | None = None
    """None if there is none for this very judge."""
