"""The judges of a run in results.json, with their agreement with human labels."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from evalgate.model import JudgedCriterion, JudgeIdentity, Rate
from evalgate.model.calibration import DECIMALS
from evalgate.model.shapes import Wire
from evalgate.values import JsonObject


class CalibrationShape(Wire):
    """Readers must ignore keys that they do not know: later versions may add some."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


class RateWire(CalibrationShape):
    """An estimate with its 95% interval."""

    value: float = Field(ge=-1, le=1)
    low: float
    high: float


class JudgeWire(CalibrationShape):
    """The judge's configuration."""

    model: str = Field(description="As ADK writes it.")
    prompt_version: str = Field(default="", description="Version of the prompt; empty if unknown.")
    num_samples: int = 1
    config: JsonObject = Field(default_factory=dict, description="judge_model_config.")


class JudgedWire(CalibrationShape):
    """Agreement of a criterion's judge with human labels, in results.json."""

    judge: JudgeWire
    labels: int = Field(default=0, ge=0, description="The decided labels; 0: none for this judge.")
    kappa: RateWire | None = None
    tpr: RateWire | None = None
    tnr: RateWire | None = None


def judge_json(judge: JudgeIdentity) -> JsonObject:
    """A judge as JSON-ready values."""
    fields = {name: getattr(judge, name) for name in ("model", "prompt_version", "num_samples")}
    return fields | ({"config": dict(judge.config)} if judge.config else {})


def rate_json(rate: Rate | None) -> dict[str, float] | None:
    """A rate as JSON-ready values; None stays None."""
    if rate is None:
        return None
    numbers = {"value": rate.value, "low": rate.low, "high": rate.high}
    return {name: round(number, DECIMALS) for name, number in numbers.items()}


def of_criterion(judged: JudgedCriterion) -> JudgedWire:
    """A judged criterion as in results.json."""
    fields: JsonObject = {"judge": judge_json(judged.judge)}
    calibration = judged.calibration
    if calibration is not None:
        rates = {"kappa": calibration.kappa, "tpr": calibration.tpr, "tnr": calibration.tnr}
        fields["labels"] = calibration.matrix.total
        fields |= {name: rate_json(rate) for name, rate in rates.items()}
    return JudgedWire.model_validate(fields)
