"""evalgate.yml: which agents serve which suites, overrides by suite, and defaults for the settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from evalgate import settings, words
from evalgate.config import yaml_documents
from evalgate.config.yaml_places import Locator
from evalgate.errors import Place, Problem, Severity
from evalgate.settings import Settings
from evalgate.wire import generation_config
from evalgate.wire.generation_config import GenerationConfig

NAMES = ("evalgate.yml", "evalgate.yaml", ".github/evalgate.yml", ".github/evalgate.yaml")
"""Where the file is looked for, relative to the root; the first that exists is used."""

OF_THE_WORKFLOW = ("INPUT_", "ACTIONS_")
"""How variables begin that a runner sets, tokens among them. GITHUB_TOKEN is there only where a workflow passes it on,
as for GitHub's own models."""


class AgentRule(BaseModel):
    """Suites that an agent serves. All keys but `suites` and `driver` are options of the driver."""

    model_config = ConfigDict(extra="allow", frozen=True)

    suites: list[str] = Field(default_factory=lambda: ["**"], description="Globs of evaluation files.")
    driver: str = Field(default="adk", description="adk, python, command, http or replay.")

    @property
    def options(self) -> dict[str, Any]:
        """The driver's options, unvalidated."""
        return dict(self.model_extra or {})


class SuiteRule(BaseModel):
    """Overrides for the suites that match; later rules win."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    match: list[str] = Field(description="Globs of evaluation files.")
    criteria: dict[str, Any] | None = Field(default=None, description="Criteria as in test_config.json.")
    config: str | None = Field(default=None, description="A test_config.json, relative to the root.")
    pass_rate: float | None = Field(default=None, ge=0, le=1, description="Share of the cases that must pass.")
    severity: Literal["gating", "advisory"] | None = Field(
        default=None, description="`advisory`: shown, but never fails the gate."
    )


class CompareRule(BaseModel):
    """How one criterion is compared with the base; what is not said is as the criterion has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gating: bool | None = Field(default=None, description="Whether a drop fails the gate, apart from thresholds.")
    lower_is_better: bool | None = Field(default=None, description="As for tokens, calls and seconds.")
    max_drop: float | None = Field(default=None, ge=0, description="Instead of the setting `max-drop`.")


class JudgeOptionsRule(BaseModel):
    """What a judged criterion asks with; what is not said is left to the criteria file, then to ADK's defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    model: str | None = Field(default=None, description="As in ADK: `gemini-2.5-flash`, `openai/gpt-4.1`.")
    config: GenerationConfig | None = Field(default=None, description="`judge_model_config`, merged by key.")
    num_samples: int | None = Field(default=None, ge=1, description="Votes per question.")
    exhaustive: bool | None = Field(default=None, description="Disable early stopping.")


class BudgetRule(BaseModel):
    """Upper bounds of what judging may spend in one run; beyond them criteria are not measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    calls: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    usd: float | None = Field(default=None, ge=0)


class JudgeRule(JudgeOptionsRule):
    """Judges: defaults for every judged criterion, where they are asked, and what they may cost (docs/judges.md)."""

    criteria: dict[str, JudgeOptionsRule] = Field(
        default_factory=dict, description="For one criterion; takes precedence."
    )
    client: Literal["", "gemini", "openai", "replay"] = Field(default="", description="Empty: by the model's name.")
    base_url: str = Field(default="", description="Base URL, if not the provider's own.")
    api_key_env: str = Field(default="", description="Name of the environment variable with the API key.")
    replay: str = Field(default="", description="Recorded replies, relative to the root; no judge is called.")
    record: str = Field(default="", description="File to record replies in, relative to the root.")
    timeout: float = Field(default=120.0, gt=0, description="Timeout of one call, in seconds.")
    calls_at_once: int = Field(default=32, ge=1)
    deadline: float | None = Field(
        default=None, gt=0, description="Timeout of all calls of one judge model, in seconds."
    )
    budget: BudgetRule = Field(default_factory=BudgetRule)
    calibration: str = Field(default="", description="What `evalgate calibrate` wrote, relative to the root.")
    min_kappa: float | None = Field(
        default=None, ge=-1, le=1, description="Minimum judge-human agreement; below it the run stops."
    )

    @field_validator("api_key_env")
    @classmethod
    def _is_no_secret_of_the_workflow(cls, name: str) -> str:
        if name.upper().startswith(OF_THE_WORKFLOW):
            message = f"{name} belongs to the workflow and is never sent to a judge; use the judge's own API key"
            raise ValueError(message)
        return name


class ToolsRule(BaseModel):
    """Where the answers of the agents' tools come from (docs/tools.md); a text alone is the mode."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["live", "record", "replay", "mock"] = Field(default="live", description="As the setting `tools`.")
    cassettes: str = Field(default="tool-cassettes", min_length=1, description="A folder, relative to the root.")
    mocks: str = Field(default="", description="A file of mock rules, relative to the root.")

    @model_validator(mode="before")
    @classmethod
    def _mode_alone(cls, value: Any) -> Any:
        return {"mode": value} if isinstance(value, str) else value


class SimulatorRule(BaseModel):
    """Simulated users: above what the criteria files say, and what their faults mean (docs/simulation.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    model: str | None = Field(default=None, min_length=1, description="As ADK writes it.")
    config: GenerationConfig | None = Field(default=None, description="`model_configuration`, merged by key.")
    max_allowed_invocations: int | None = Field(default=None, description="Maximum number of turns; -1: no limit.")
    on_turn_limit: Literal["fail", "not_measured", "pass"] = Field(
        default="fail",
        description="Verdict for a conversation cut off by the turn limit; `pass`: the other criteria decide.",
    )
    on_poor_quality: Literal["not_measured", "fail"] = Field(
        default="not_measured", description="Verdict for a case whose simulated user is below its threshold."
    )

    @field_validator("max_allowed_invocations")
    @classmethod
    def _asks(cls, limit: int | None) -> int | None:
        if limit == 0:
            raise ValueError("with 0 turns the agent is never called")
        return limit


class GateFile(BaseModel):
    """The whole file. Every other top-level key is a setting (docs/settings.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agents: list[AgentRule] = Field(default_factory=list)
    suites: list[SuiteRule] = Field(default_factory=list)
    judge: JudgeRule = Field(default_factory=JudgeRule)
    simulator: SimulatorRule = Field(default_factory=SimulatorRule)
    compare: dict[str, CompareRule] = Field(default_factory=dict, description="By criterion name.")
    tools: ToolsRule = Field(default_factory=ToolsRule)
    exclude: list[str] = Field(default_factory=list, description="Globs of files to ignore.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFileReading:
    """The file's rules, the settings it gives (raw values by setting name), and all that is wrong with it. A key that
    is wrong is left out of the rules.

    `places`: where in the file something stands; None where there is none.
    """

    gate_file: GateFile = field(default_factory=GateFile)
    given: dict[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    places: Locator | None = None


def parse_gate_file(text: str, *, file: str) -> GateFileReading:
    """Read evalgate.yml. Setting names may be written with hyphens or underscores."""
    document = yaml_documents.load(text, file=file)
    if isinstance(document, Problem):
        return GateFileReading(problems=(document,))
    raw = document.raw
    if raw is None:
        return GateFileReading()
    if not isinstance(raw, dict):
        found = f"evalgate.yml must be a mapping, found {_kind(raw)}"
        return GateFileReading(problems=(_problem("gate-file-shape", found, Place(file=file, line=1)),))

    locate = Locator(document.node, file)
    rules = {key: value for key, value in raw.items() if key in GateFile.model_fields}
    rest = {key: value for key, value in raw.items() if key not in GateFile.model_fields}
    given, problems = _settings_given(rest, locate)
    problems.extend(document.warnings)
    gate_file = GateFile()
    try:
        gate_file = GateFile.model_validate(rules)
    except ValidationError as error:
        problems.extend(_validation_problems(error, locate, model=GateFile))
        gate_file = GateFile.model_validate({key: value for key, value in rules.items() if _is_sound(key, value)})
    return GateFileReading(gate_file=gate_file, given=given, problems=tuple(problems), places=locate)


def _is_sound(key: str, value: Any) -> bool:
    try:
        GateFile.model_validate({key: value})
    except ValidationError:
        return False
    return True


def _not_allowed(key: str, allowed: Sequence[str], place: Place) -> Problem:
    name = settings.input_name(key.replace("-", "_"))
    if name.replace("-", "_") in Settings.model_fields:
        doors = settings.doors_of(name.replace("-", "_"))
        said = {"cli": f"`--{name}` of the command", "action": f"the input `{name}` of the action"}
        message = f"`{key}` cannot be set in evalgate.yml"
        return _problem("unknown-setting", message, place, f"Use {' or '.join(said[door] for door in doors)}.")
    known = [*GateFile.model_fields, *(settings.input_name(each) for each in allowed)]
    close = words.nearest(key, known)
    hint = f"Did you mean `{close}`?" if close else f"Known keys: {', '.join(known)}."
    return _problem("unknown-setting", f"unknown setting `{key}`", place, hint)


def _settings_given(rest: dict[Any, Any], locate: Locator) -> tuple[dict[str, Any], list[Problem]]:
    given: dict[str, Any] = {}
    problems: list[Problem] = []
    allowed = [name for name in Settings.model_fields if "file" in settings.doors_of(name)]
    for key, value in rest.items():
        name = str(key).replace("-", "_")
        if name not in allowed:
            problems.append(_not_allowed(str(key), allowed, locate(key)))
            continue
        try:
            Settings.model_validate({name: value})
        except ValidationError as error:
            message = "; ".join(each["msg"] for each in error.errors())
            problems.append(_problem("bad-setting", f"`{key}`: {message}, found {value!r}", locate(key)))
            continue
        if name in given:  # `fail-on` and `fail_on`
            twice = _problem(
                "duplicate-key", f"duplicate key `{key}` in two spellings; the last value is used", locate(key)
            )
            problems.append(dataclasses.replace(twice, severity=Severity.WARNING))
        given[name] = value
    return given, problems


def _validation_problems(error: ValidationError, locate: Locator, *, model: type[BaseModel]) -> list[Problem]:
    problems = []
    rules = (model, SuiteRule, AgentRule, JudgeRule, BudgetRule, SimulatorRule, ToolsRule, CompareRule)
    known = [name for rule in rules for name in rule.model_fields]
    for each in error.errors():
        path = each["loc"]
        hint, at = "", ()
        if each["type"] == "extra_forbidden":
            close = words.nearest(str(path[-1]), known)
            hint = f"Did you mean `{close}`?" if close else ""
        elif each["type"] == generation_config.REFUSED:
            at, near = each["ctx"]["at"], each["ctx"]["near"]
            hint = f"Did you mean `{near}`?" if near else ""
        where = ".".join(str(step) for step in path)
        problems.append(_problem("gate-file-shape", f"`{where}`: {each['msg']}", locate(*path, *at), hint))
    return problems


def _problem(code: str, message: str, place: Place, hint: str = "") -> Problem:
    return Problem(severity=Severity.ERROR, code=code, message=message, place=place, hint=hint)


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "true or false"}
    return names.get(type(value), type(value).__name__)
