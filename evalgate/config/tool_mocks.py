"""The mock file: what tools answer instead of running, as rules in order."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evalgate.config import yaml_documents
from evalgate.config.yaml_places import Locator
from evalgate.errors import Place, Problem, Severity
from evalgate.matching import Matcher
from evalgate.text import words

LONGEST_LATENCY_S = 600.0


class MockError(BaseModel):
    """What the tool raises."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str = Field(default="RuntimeError", min_length=1, description="The exception's name.")
    message: str = ""


class Latency(BaseModel):
    """How long the answer takes: `seconds`, and up to `jitter` more, by the run's seed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: float = Field(default=0.0, ge=0, le=LONGEST_LATENCY_S, allow_inf_nan=False)
    jitter: float = Field(default=0.0, ge=0, le=LONGEST_LATENCY_S, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _seconds_alone(cls, value: Any) -> Any:
        return {"seconds": value} if isinstance(value, int | float) and not isinstance(value, bool) else value


class MockRule(BaseModel):
    """One rule: for which calls, and what they get. The first rule of a tool that holds answers.

    `args`: these arguments equal these values; others are free, unless `exact`. `where`: these arguments satisfy
    these matchers. `times`: how many calls of a conversation it answers. `probability`: of holding, by the run's seed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    args: dict[str, Any] = Field(default_factory=dict)
    where: dict[str, Matcher] = Field(default_factory=dict)
    exact: bool = False
    times: int | None = Field(default=None, ge=1)
    probability: float = Field(default=1.0, ge=0, le=1)
    latency: Latency = Field(default_factory=Latency)
    response: Any = None
    error: MockError | None = None
    run: Literal[True] | None = None
    effects: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _error_alone(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("error"), str):
            return {**value, "error": {"message": value["error"]}}
        return value

    @model_validator(mode="after")
    def _one_outcome(self) -> Self:
        given = [name for name in ("response", "error", "run") if name in self.model_fields_set]
        if len(given) != 1:
            raise ValueError(f"a rule has exactly one of response, error and run; this one has {len(given)} of them")
        return self


class MockFile(BaseModel):
    """The whole file: rules by tool; `*` and `?` in a tool's name stand for anything."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tools: dict[str, list[MockRule]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _run_alone(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("tools"), dict):
            return value
        tools = {name: [{"run": True}] if rules == "run" else rules for name, rules in value["tools"].items()}
        return {**value, "tools": tools}


@dataclass(frozen=True, slots=True, kw_only=True)
class MockReading:
    """The rules, and all that is wrong with the file."""

    mocks: MockFile = field(default_factory=MockFile)
    places: dict[str, Place] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def parse_mocks(text: str, *, file: str) -> MockReading:
    """Read a mock file, YAML or JSON; `places` tells where each tool stands."""
    document = yaml_documents.load(text, file=file)
    if isinstance(document, Problem):
        return MockReading(problems=(dataclasses.replace(document, code="tool-mocks"),))
    if document.raw is None:
        return MockReading()
    locate = Locator(document.node, file)
    try:
        mocks = MockFile.model_validate(document.raw)
    except ValidationError as error:
        faults = (_of_error(each, locate) for each in error.errors())
        return MockReading(problems=(*faults, *document.warnings))
    places = {name: locate("tools", name) for name in mocks.tools}
    return MockReading(mocks=mocks, places=places, problems=document.warnings)


def _of_error(each: Any, locate: Locator) -> Problem:
    path = each["loc"]
    hint = ""
    if each["type"] == "extra_forbidden":
        known = [name for model in (MockRule, MockFile, Latency, MockError) for name in model.model_fields]
        close = words.nearest(str(path[-1]), known)
        hint = f"Did you mean `{close}`?" if close else ""
    where = ".".join(str(step) for step in path)
    message = each["msg"].removeprefix("Value error, ")
    return _problem(f"`{where}`: {message}" if where else message, locate(*path), hint)


def _problem(message: str, place: Place, hint: str = "") -> Problem:
    return Problem(severity=Severity.ERROR, code="tool-mocks", message=message, place=place, hint=hint)
