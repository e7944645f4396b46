"""results.json: the one serialized form of a measured side, with its verdict. Its JSON schema is published."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from evalgate.model import ConfigOrigin, VerdictKind
from evalgate.wire.invocations import AgentDetailsWire
from evalgate.wire.records import FailureWire, GradeWire, TranscriptWire
from evalgate.wire.shapes import Wire

SCHEMA_VERSION = 1


class ResultsShape(Wire):
    """Readers must ignore keys that they do not know: later versions may add some."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


class TrialResult(ResultsShape):
    """One run of a case."""

    repeat: int = Field(default=0, description="Which repeat, from 0.")
    seconds: float = Field(default=0.0, description="Wall seconds of the agent, retries included.")
    attempts: int = Field(default=1, description="Tries; more than one only after infrastructure failures.")
    outcome: TranscriptWire | FailureWire | None = Field(
        default=None, description="What the agent did, or how it failed; null where it was not kept."
    )
    grades: dict[str, GradeWire] = Field(description="By criterion: a score, or a reason why there is none.")


class CaseResult(ResultsShape):
    """One case and its trials."""

    case_id: str
    line: int | None = Field(default=None, description="Line of the case in its evaluation file, from 1.")
    fingerprint: str = Field(description="Equal for equal content of the case, references and rubrics included.")
    verdict: VerdictKind
    reason: str = ""
    trials: list[TrialResult] = Field(default_factory=list)


class CriterionResult(ResultsShape):
    """A criterion as configured."""

    name: str
    threshold: float | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    informational: bool = False
    lower_is_better: bool = False
    code: str | None = Field(default=None, description="Dotted path of a custom metric.")


class AgentResult(ResultsShape):
    """The agent of a suite."""

    driver: str
    options: dict[str, Any] = Field(default_factory=dict)
    about: dict[str, str] = Field(default_factory=dict, description="What answered: framework, versions, interpreter.")


class SuiteResult(ResultsShape):
    """One evaluation file."""

    suite: str = Field(description="Its path, relative to the repository.")
    eval_set_id: str
    agent: AgentResult
    criteria: list[CriterionResult]
    criteria_origin: ConfigOrigin
    criteria_file: str = ""
    verdict: VerdictKind
    reason: str = ""
    required_pass_rate: float = 1.0
    cases: list[CaseResult]


class JudgeResult(ResultsShape):
    """What one criterion asked of one model."""

    criterion: str
    model: str
    calls: int = Field(default=0, description="Calls that were answered.")
    cached: int = Field(default=0, description="Replies that were read instead of asked for.")
    retries: int = Field(default=0, description="Calls made again.")
    failures: dict[str, int] = Field(default_factory=dict, description="Calls that ended without a reply, by kind.")
    prompt_tokens: int = Field(default=0, description="Of the calls that said so.")
    output_tokens: int = Field(default=0, description="Of the calls that said so, thoughts among them.")
    cost_usd: float | None = Field(
        default=None, description="US dollars of the calls whose price is known; absent where no call was priced."
    )
    unpriced: int = Field(default=0, description="Paid calls of unknown price: cost_usd is a lower bound.")


class VerdictResult(ResultsShape):
    """The answer."""

    kind: VerdictKind
    reason: str
    blocks: bool = Field(description="Whether the policy ends the job red.")
    exit_code: int


class Results(ResultsShape):
    """The whole file."""

    schema_version: int = SCHEMA_VERSION
    evalgate: str = Field(description="Version of evalgate.")
    started_at: str = Field(default="", description="ISO 8601, UTC.")
    seconds: float = 0.0
    repeats: int = 1
    seed: int = 0
    complete: bool = Field(default=True, description="false: the run was interrupted.")
    adk_compat: bool = False
    commit: str = ""
    verdict: VerdictResult
    agent_details: dict[str, list[AgentDetailsWire]] = Field(
        default_factory=dict, description="What agents were told and given; transcripts refer to it by address."
    )
    judges: list[JudgeResult] = Field(
        default_factory=list, description="What judging took in this run; what was taken from its journal is not in it."
    )
    suites: list[SuiteResult]


def schema() -> dict[str, Any]:
    """The JSON schema of results.json."""
    described = Results.model_json_schema(by_alias=False)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | described
