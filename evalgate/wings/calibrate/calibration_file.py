"""calibration.json: the agreement of a judge with people, for later runs. Its JSON schema is
published."""

from __future__ import annotations

import json

from pydantic import Field, ValidationError

from evalgate.model import Calibration, Confusion, ConfusionKind, CriterionCalibration, Example
from evalgate.results.judged import CalibrationShape, JudgeWire, RateWire, judge_json, rate_json
from evalgate.values import JsonObject

SCHEMA_VERSION = 1
_HEADER_FIELDS = ("evalgate", "made_at", "labels_file", "source", "seed", "draws")
_RATES = ("agreement", "kappa", "tpr", "tnr")
_TEXTS = ("where", "subject", "human", "judge", "shown", "rationale", "note")


class MatrixWire(CalibrationShape):
    """Counts of decided labels. Positive means yes; true means that the judge agrees with the
    person."""

    true_positive: int = Field(default=0, ge=0)
    false_negative: int = Field(default=0, ge=0)
    false_positive: int = Field(default=0, ge=0)
    true_negative: int = Field(default=0, ge=0)

    def to_model(self, *, undecided: int, clusters: int) -> Confusion:
        """The matrix."""
        return Confusion(**self.model_dump(), undecided=undecided, clusters=clusters)


class ExampleWire(CalibrationShape):
    """A label that the judge disagrees with or could not decide. Texts are clipped."""

    kind: ConfusionKind
    line: int = Field(description="Line of the labels file, from 1.")
    where: str = ""
    subject: str = ""
    human: str
    judge: str = ""
    shown: str = Field(default="", description="What was judged.")
    rationale: str = Field(default="", description="The judge's; for an undecided one: why.")
    note: str = Field(default="", description="The human label.")

    def to_model(self) -> Example:
        """The example."""
        return Example(**self.model_dump())


class CriterionWire(CalibrationShape):
    """The figures of one judge on one criterion."""

    criterion: str
    judge: JudgeWire
    labels: int = Field(ge=0, description="Decided and undecided.")
    undecided: int = Field(default=0, ge=0)
    clusters: int = Field(default=0, ge=0, description="Cases that the labels come from.")
    matrix: MatrixWire
    agreement: RateWire | None = None
    kappa: RateWire | None = Field(
        default=None, description="Cohen's kappa; null if both only ever say one value."
    )
    tpr: RateWire | None = Field(
        default=None, description="Share of human yes labels that the judge says yes to."
    )
    tnr: RateWire | None = Field(
        default=None, description="Share of human no labels that the judge says no to."
    )
    examples: list[ExampleWire] = Field(default_factory=list)

    def to_model(self) -> CriterionCalibration:
        """The criterion's calibration."""
        return CriterionCalibration(
            criterion=self.criterion,
            judge=self.judge.to_model(),
            matrix=self.matrix.to_model(undecided=self.undecided, clusters=self.clusters),
            examples=tuple(example.to_model() for example in self.examples),
            **{name: getattr(self, name) and getattr(self, name).to_model() for name in _RATES},
        )


class CalibrationWire(CalibrationShape):
    """The whole file."""

    schema_version: int = SCHEMA_VERSION
    evalgate: str = Field(default="", description="Version of evalgate.")
    made_at: str = Field(default="", description="ISO 8601, UTC.")
    labels_file: str = ""
    source: str = Field(
        default="asked", description="`asked`: the judge was asked; `results`: verdicts of a run."
    )
    seed: int = Field(default=0, description="Of the draws behind kappa's intervals.")
    draws: int = 0
    criteria: list[CriterionWire]


def schema() -> JsonObject:
    """The JSON schema of calibration.json."""
    shape_schema = CalibrationWire.model_json_schema(by_alias=False)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | shape_schema


def render(calibration: Calibration) -> str:
    """The file's text, without nulls."""
    header = {name: getattr(calibration, name) for name in _HEADER_FIELDS}
    criteria = [_criterion_json(criterion) for criterion in calibration.criteria]
    calibration_json = {"schema_version": SCHEMA_VERSION, **header, "criteria": criteria}
    return json.dumps(calibration_json, ensure_ascii=True, indent=1) + "\n"


def parse(text: str) -> Calibration:
    """Read a file of this or an earlier schema version. Raises ValueError with the reason for
    anything else."""
    try:
        wire = CalibrationWire.model_validate_json(text)
    except ValidationError as error:
        first_error = error.errors()[0]
        location = ".".join(str(step) for step in first_error["loc"]) or "the file"
        raise ValueError(f"`{location}`: {first_error['msg']}") from None
    if wire.schema_version > SCHEMA_VERSION:
        raise ValueError(
            f"its schema version is {wire.schema_version}, this evalgate reads {SCHEMA_VERSION}"
        )
    header = {name: getattr(wire, name) for name in _HEADER_FIELDS}
    return Calibration(
        criteria=tuple(criterion.to_model() for criterion in wire.criteria), **header
    )


def _criterion_json(criterion: CriterionCalibration) -> JsonObject:
    rates = {name: getattr(criterion, name) for name in _RATES}
    return {
        "criterion": criterion.criterion,
        "judge": judge_json(criterion.judge),
        "labels": criterion.matrix.total + criterion.matrix.undecided,
        "undecided": criterion.matrix.undecided,
        "clusters": criterion.matrix.clusters,
        "matrix": {name: getattr(criterion.matrix, name) for name in MatrixWire.model_fields},
        **{name: rate_json(rate) for name, rate in rates.items() if rate is not None},
        "examples": [_example_json(example) for example in criterion.examples],
    }


def _example_json(example: Example) -> JsonObject:
    texts = {
        name: getattr(example, name) for name in _TEXTS if getattr(example, name) or name == "human"
    }
    return {"kind": example.kind.value, "line": example.line, **texts}
