"""The sections of evalgate.yml besides settings: agents by suite, overrides by suite, judges,
tools."""

from __future__ import annotations

import datetime as dt
import re
import warnings
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
)
from pydantic_core import PydanticCustomError

from evalgate.model import CriterionRule
from evalgate.text import plain, words
from evalgate.values import Json, JsonObject
from . import Decider, Trait

DOOR, BASE, EITHER, HEAD = Decider
NONE = Trait.NONE
AGENT, MEASUREMENT, PATH, _ = Trait
Value = TypeVar("Value")
Deciding = Annotated[Value, HEAD, NONE]
Judging = Annotated[Value, HEAD, MEASUREMENT]
Reaching = Annotated[Value, HEAD, AGENT]

REFUSED = "bad_option"
"""The type of the pydantic error. Its `ctx` has `at`, the path within the config."""


def _check(config: JsonObject) -> JsonObject:
    if not config:
        return config
    from google.genai import types  # noqa: PLC0415 - takes a second to load, only where a config is given

    try:
        with warnings.catch_warnings():
            # it warns of unknown enum values, and accepts them
            warnings.simplefilter("ignore")
            types.GenerateContentConfig.model_validate(config)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(map(str, fault["loc"]))
        message = f"`{name}` of google.genai's GenerateContentConfig: {words.fault(fault)}"
        if fault["type"] != "extra_forbidden":
            message += f", found {plain.short_json(fault['input'])}"
        raise _refusal(message, fault["loc"]) from error
    except (AttributeError, TypeError) as error:  # by its enums, for a value that is no text
        message = f"google.genai's GenerateContentConfig cannot be made of it: {error}"
        raise _refusal(message, ()) from error
    for name in SYSTEM_INSTRUCTION:
        instruction = config.get(name)
        if instruction is not None and text_of_instruction(instruction) is None:
            message = f"`{name}` is {plain.short_json(instruction)}, expected text"
            raise _refusal(message, (name,))
    return config


def _refusal(message: str, steps: tuple[str | int, ...]) -> PydanticCustomError:
    # pydantic's errors cannot hold lone surrogates
    text = message.encode("utf-8", "backslashreplace").decode()
    return PydanticCustomError("bad_option", "{message}", {"message": text, "at": steps})


SYSTEM_INSTRUCTION = ("system_instruction", "systemInstruction")


def text_of_instruction(instruction: Any) -> str | None:
    """The text of a system instruction in any of its forms: a text, a part, a content, or a list of
    these. None if it holds anything besides text."""
    if isinstance(instruction, str):
        return instruction
    if isinstance(instruction, Mapping):
        return text_of_instruction(instruction.get("parts") or instruction.get("text"))
    if not isinstance(instruction, list):
        return None
    texts = [text_of_instruction(part) for part in instruction]
    return None if None in texts else "\n".join(text for text in texts if text)


GenerationConfig = Annotated[JsonObject, AfterValidator(_check)]
"""A pydantic type: an object that google.genai's GenerateContentConfig accepts, in either spelling,
as written."""

LONGEST_S = 10**9
"""Of a time limit, about 30 years: the system's clocks can wait for it."""
NAMES = ("evalgate.yml", "evalgate.yaml", ".github/evalgate.yml", ".github/evalgate.yaml")
"""Paths of the file, relative to the root. The first that exists is used."""

OF_THE_WORKFLOW = ("INPUT_", "ACTIONS_")
"""Prefixes of variables that a runner sets, including tokens. GITHUB_TOKEN exists only if a
workflow passes it, such as for GitHub's own models."""


class RuleShape(BaseModel):
    """A part of what people write, in this file or elsewhere; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


def short_form(key: str, *kinds: type) -> BeforeValidator:
    """A value of one of these types stands for an object with only this key."""
    return BeforeValidator(lambda value: {key: value} if type(value) in kinds else value)


class AgentRule(BaseModel):
    """Suites that an agent serves. All keys except `suites` and `driver` are options of the
    driver."""

    model_config = ConfigDict(extra="allow", frozen=True)

    suites: list[str] = Field(
        default_factory=lambda: ["**"], description="Globs of evaluation files."
    )
    driver: str = Field(default="", description="Name of a driver (docs/agents). Default: `adk`.")

    _short_form: str = PrivateAttr(default="")

    @classmethod
    def of_short_form(cls, text: str) -> AgentRule:
        """The setting `agent` as a rule for every suite; `agents.rule_use` finds its driver."""
        rule = cls()
        rule._short_form = text
        return rule

    @property
    def short_form(self) -> str:
        """The setting `agent` if the rule comes from it, else ""."""
        return self._short_form

    @property
    def options(self) -> JsonObject:
        """The driver's options, unvalidated."""
        return dict(self.model_extra or {})


class SuiteRule(RuleShape):
    """Overrides for matching suites; later rules win."""

    match: Annotated[list[str], EITHER, MEASUREMENT] = Field(
        description="Globs of evaluation files."
    )
    criteria: Annotated[JsonObject | None, EITHER, MEASUREMENT] = Field(
        default=None, description="Criteria as in test_config.json."
    )
    config: Annotated[str | None, EITHER, MEASUREMENT | PATH] = Field(
        default=None, description="A test_config.json, relative to the root."
    )
    pass_rate: Deciding[float | None] = Field(
        default=None, ge=0, le=1, description="Share of the cases that must pass."
    )
    severity: Annotated[Literal["gating", "advisory"] | None, BASE, NONE] = Field(
        default=None, description="`advisory`: shown, but never fails the gate."
    )


class JudgeOptionsRule(RuleShape):
    """The judge of a criterion. Missing keys use the criteria file, then ADK's defaults."""

    model: Judging[str | None] = Field(
        default=None, description="As in ADK: `gemini-2.5-flash`, `openai/gpt-4.1`."
    )
    config: Judging[GenerationConfig | None] = Field(
        default=None, description="`judge_model_config`, merged by key."
    )
    num_samples: Judging[int | None] = Field(default=None, ge=1, description="Votes per question.")
    exhaustive: Judging[bool | None] = Field(default=None, description="Disable early stopping.")


class BudgetRule(RuleShape):
    """Limits of judging in one run; beyond them criteria are not measured."""

    calls: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    usd: float | None = Field(default=None, ge=0)


class JudgeRule(JudgeOptionsRule):
    """Judges: defaults for every judged criterion, how to reach them, and the limits of their cost
    (docs/judges.md)."""

    criteria: Judging[dict[str, JudgeOptionsRule]] = Field(
        default_factory=dict, description="By criterion; takes precedence."
    )
    client: Annotated[Literal["", "gemini", "openai", "replay"], HEAD, AGENT | MEASUREMENT] = Field(
        default="", description="Default: by the model's name."
    )
    base_url: Annotated[str, DOOR, AGENT | MEASUREMENT] = Field(
        default="", description="Base URL, if not the provider's own."
    )
    api_key_env: Annotated[str, DOOR, NONE] = Field(
        default="", description="Name of the environment variable with the API key."
    )
    replay: Annotated[str, HEAD, AGENT | MEASUREMENT | PATH] = Field(
        default="", description="Recorded replies, relative to the root; no judge is called."
    )
    record: Annotated[str, HEAD, PATH] = Field(
        default="", description="File to record replies in, relative to the root."
    )
    timeout: Deciding[float] = Field(
        default=120.0, gt=0, le=LONGEST_S, description="Timeout of one call, in seconds."
    )
    call_deadline: Deciding[float] = Field(
        default=300.0,
        gt=0,
        le=LONGEST_S,
        description="Timeout of one call with all its retries, the wait for a slot aside, in seconds.",
    )
    calls_at_once: Deciding[int] = Field(
        default=32, ge=1, description="Maximum number of calls at the same time."
    )
    deadline: Deciding[float | None] = Field(
        default=None,
        gt=0,
        le=LONGEST_S,
        description="Timeout of all calls of one judge model, in seconds.",
    )
    budget: Annotated[BudgetRule, BASE, NONE] = Field(
        default_factory=BudgetRule, description="What judging may spend in one run."
    )
    calibration: Annotated[str, HEAD, PATH] = Field(
        default="", description="The file that `evalgate calibrate` wrote, relative to the root."
    )
    min_kappa: Deciding[float | None] = Field(
        default=None,
        ge=-1,
        le=1,
        description="Minimum judge-human agreement; below it the run stops.",
    )

    @field_validator("api_key_env")
    @classmethod
    def _is_not_secret_of_workflow(cls, name: str) -> str:
        if name.upper().startswith(OF_THE_WORKFLOW):
            message = f"{name} belongs to the workflow and is never sent to a judge; use the judge's own API key"
            raise ValueError(message)
        return name


class ToolsRule(RuleShape):
    """The source of the agents' tool answers (docs/tools.md)."""

    mode: Literal["live", "record", "replay", "mock"] = Field(
        default="live", description="As the setting `tools`."
    )
    cassettes: str = Field(
        default="tool-cassettes", min_length=1, description="A folder, relative to the root."
    )
    mocks: str = Field(default="", description="A file of mock rules, relative to the root.")


class SimulatorRule(RuleShape):
    """Simulated users: overrides of the criteria files, and the verdicts for their faults
    (docs/simulation.md)."""

    model: Reaching[str | None] = Field(default=None, min_length=1, description="As ADK writes it.")
    config: Reaching[GenerationConfig | None] = Field(
        default=None, description="`model_configuration`, merged by key."
    )
    max_allowed_invocations: Reaching[int | None] = Field(
        default=None, description="Maximum number of turns; -1: no limit."
    )
    on_turn_limit: Deciding[Literal["fail", "not_measured", "pass"]] = Field(
        default="fail",
        description="Verdict for a conversation cut off by the turn limit; `pass`: the other criteria decide.",
    )
    on_poor_quality: Deciding[Literal["not_measured", "fail"]] = Field(
        default="not_measured",
        description="Verdict for a case whose simulated user is below its threshold.",
    )

    @field_validator("max_allowed_invocations")
    @classmethod
    def _asks(cls, limit: int | None) -> int | None:
        if limit == 0:
            raise ValueError("with 0 turns the agent is never called")
        return limit


_DATE = re.compile(r"\d{4}-\d\d-\d\d")


class QuarantineRule(RuleShape):
    """A case with mixed results that does not block for a while (docs/quarantine.md)."""

    case: str = Field(pattern=r"(?s)^.+:.+$", description="`evals/loans.evalset.json:renewal`.")
    owner: str = Field(
        min_length=1,
        max_length=100,
        pattern=r"\S",
        description="Who sees to it: a name or @handle.",
    )
    until: dt.date = Field(description="The last day (UTC), at most 90 days from now.")
    reason: str = Field(default="", max_length=500)

    @field_validator("until", mode="before")
    @classmethod
    def _is_date(cls, value: Any) -> Any:
        if type(value) is dt.date or (isinstance(value, str) and _DATE.fullmatch(value)):
            return value
        raise ValueError("must be a date like 2026-02-01")


STRICT: Json = {"quarantine": [], "pass-rate": 1.0}
"""The keys of evalgate.yml that excuse failures, with values that excuse none."""


class GateFile(RuleShape):
    """The whole file. Every other top-level key is a setting (docs/settings.md)."""

    agents: Reaching[list[AgentRule]] = Field(
        default_factory=list,
        description="Which agent serves which suites; the last that matches counts.",
    )
    suites: Annotated[list[SuiteRule], EITHER, MEASUREMENT] = Field(
        default_factory=list, description="Overrides by suite."
    )
    judge: Annotated[JudgeRule, HEAD, MEASUREMENT] = Field(
        default_factory=JudgeRule, description="Who judges, and what it may cost."
    )
    simulator: Annotated[SimulatorRule, HEAD, AGENT] = Field(
        default_factory=SimulatorRule,
        description="Who plays the users, and what their faults mean.",
    )
    compare: Annotated[dict[str, CriterionRule], HEAD, NONE] = Field(
        default_factory=dict, description="By criterion name."
    )
    tools: Annotated[ToolsRule, HEAD, AGENT, short_form("mode", str)] = Field(
        default_factory=ToolsRule, description="Where the answers of the agents' tools come from."
    )
    quarantine: Annotated[list[QuarantineRule], BASE, NONE] = Field(
        default_factory=list, description="Cases with mixed results that do not block for a while."
    )
    exclude: Annotated[list[str], EITHER, NONE] = Field(
        default_factory=list, description="Globs of files to ignore."
    )

    @field_validator("quarantine")
    @classmethod
    def _are_listed_once(cls, rules: list[QuarantineRule]) -> list[QuarantineRule]:
        names = [rule.case for rule in rules]
        repeated_name = next((name for name in names if names.count(name) > 1), None)
        if repeated_name is not None:
            raise ValueError(f"`{repeated_name}` is listed twice")
        return rules
