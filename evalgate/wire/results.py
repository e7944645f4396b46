"""results.json: the one serialized form of a measured side, with its verdict. Its JSON schema is published."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field, model_validator

from evalgate.errors import Severity
from evalgate.model import ConfigOrigin, GateKind, VerdictKind
from evalgate.wire import not_finite
from evalgate.wire.calibration import JudgedWire
from evalgate.wire.cases import EvalCaseWire
from evalgate.wire.comparison import ComparisonResult
from evalgate.wire.invocations import AgentDetailsWire
from evalgate.wire.not_finite import Places
from evalgate.wire.numbers import MOST_COUNT, MOST_SECONDS, Count
from evalgate.wire.records import NOT_FINITE, FailureWire, GradeWire, TranscriptWire
from evalgate.wire.shapes import Wire
from evalgate.wire.simulators import SimulatorResult

SCHEMA_VERSION = 2
MOST_SHARDS = 1_000
MOST_REPEATS = 10_000
_MOST_SUM = MOST_COUNT * 1_000_000_000  # of calls


class ResultsShape(Wire):
    """Readers must ignore keys that they do not know: later versions may add some."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


class TrialResult(ResultsShape):
    """One run of a case."""

    repeat: int = Field(
        default=0,
        ge=0,
        le=2 * 1_000_000,
        description="Which repeat, from 0; from 1,000,000 on: reruns that confirm a failure.",
    )
    behaviour: str = Field(default="", description="Equal for equal answers and tool calls; empty where unknown.")
    tokens: Count = Field(default=None, description="What the model calls of the agent reported.")
    reused: bool = Field(default=False, description="Stored results of an earlier run, free for this one.")
    seconds: float = Field(
        default=0.0, ge=0, le=MOST_SECONDS, description="Wall seconds of the agent, retries included."
    )
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
    eval_case: EvalCaseWire | None = Field(default=None, description="The case itself, as ADK's EvalCase.")
    not_finite: Places = Field(default_factory=list, description=f"Of `eval_case`. {NOT_FINITE}")
    verdict: VerdictKind
    reason: str = ""
    waiting: bool = Field(default=False, description="Shown, but non-blocking (`admission`).")
    trials: list[TrialResult] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _restored(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and raw.get("not_finite") and isinstance(raw.get("eval_case"), dict):
            return {**raw, "eval_case": not_finite.restored(raw["eval_case"], raw["not_finite"])}
        return raw


class CriterionResult(ResultsShape):
    """A criterion as configured."""

    name: str
    threshold: float | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    informational: bool = False
    lower_is_better: bool = False
    on_the_test: bool = Field(
        default=False, description="It measures the test itself: below its threshold the case is not measured."
    )
    endpoint: str = Field(default="", description="Where its judge is asked, if not at the model's own provider.")
    code: str | None = Field(default=None, description="Dotted path of a custom metric.")
    fingerprint: str = Field(default="", description="Equal where scores can be compared; thresholds do not count.")
    prompt_version: str = Field(default="", description="Of the question to its judge; empty where none is asked.")
    calibration: JudgedWire | None = Field(
        default=None, description="Judge-human agreement, if evalgate.yml names a calibration."
    )


class AgentResult(ResultsShape):
    """The agent of a suite."""

    driver: str
    options: dict[str, Any] = Field(default_factory=dict)
    about: dict[str, str] = Field(default_factory=dict, description="What answered: framework, versions, interpreter.")
    found_by: str = ""
    code: str = Field(default="", description="Equal for equal files of the agent.")


class SuiteResult(ResultsShape):
    """One evaluation file."""

    suite: str = Field(description="Its path, relative to the repository.")
    eval_set_id: str
    agent: AgentResult
    criteria: list[CriterionResult]
    criteria_origin: ConfigOrigin
    criteria_file: str = ""
    simulator: SimulatorResult | None = Field(
        default=None, description="Model that simulated the users; null if all user turns are scripted."
    )
    verdict: VerdictKind
    reason: str = ""
    required_pass_rate: float = 1.0
    advisory: bool = Field(default=False, description="Shown, but non-blocking.")
    cases: list[CaseResult]


class PlannedCase(ResultsShape):
    """A case of the plan."""

    case_id: str
    line: int | None = None
    fingerprint: str = ""
    shard: int = Field(ge=1, description="The shard that runs it.")


class PlannedSuite(ResultsShape):
    """An evaluation file of the plan."""

    suite: str
    eval_set_id: str
    agent: AgentResult
    criteria: list[CriterionResult]
    criteria_origin: ConfigOrigin
    criteria_file: str = ""
    simulator: SimulatorResult | None = Field(
        default=None, description="Model that simulated the users; null if all user turns are scripted."
    )
    cases: list[PlannedCase]


class ShardResult(ResultsShape):
    """Which part of a plan this is."""

    index: int = Field(ge=1, description="From 1.")
    of: int = Field(ge=1, le=MOST_SHARDS)
    fingerprint: str = Field(description="Equal for shards that can be merged.")
    more: int = Field(default=0, ge=0, le=MOST_REPEATS, description="Additional repeats of flaky cases, as planned.")
    plan: list[PlannedSuite] = Field(description="The whole of it: what other parts measure too.")


class GateResult(ResultsShape):
    """The answer to one question: is head good enough, is it worse than base."""

    gate: GateKind
    kind: VerdictKind
    reason: str
    blocks: bool


class JudgeResult(ResultsShape):
    """What one criterion asked of one model."""

    criterion: str
    model: str
    calls: int = Field(default=0, description="Calls that were answered.")
    cached: int = Field(default=0, description="Replies that were read instead of asked for.")
    retries: int = Field(default=0, description="Calls made again.")
    failures: dict[str, int] = Field(default_factory=dict, description="Calls that ended without a reply, by kind.")
    prompt_tokens: int = Field(default=0, ge=0, le=_MOST_SUM, description="Of the calls that said so.")
    output_tokens: int = Field(
        default=0, ge=0, le=_MOST_SUM, description="Of the calls that said so, thoughts among them."
    )
    cost_usd: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="US dollars of the calls whose price is known; absent where no call was priced.",
    )
    unpriced: int = Field(default=0, description="Paid calls of unknown price: cost_usd is a lower bound.")


class VerdictResult(ResultsShape):
    """The answer."""

    kind: VerdictKind
    reason: str
    blocks: bool = Field(description="Whether the policy fails the job.")
    exit_code: int
    gates: list[GateResult] = Field(default_factory=list)


class ProblemResult(ResultsShape):
    """A warning or a note about the evaluation files or the inputs."""

    severity: Severity
    code: str = Field(description="A stable name (docs/validate.md).")
    message: str
    hint: str = ""
    file: str = Field(default="", description="Empty where it is about no file.")
    line: int | None = Field(default=None, ge=1)
    column: int | None = Field(default=None, ge=1)
    json_path: str = ""


class Results(ResultsShape):
    """The whole file."""

    schema_version: int = SCHEMA_VERSION
    evalgate: str = Field(description="Version of evalgate.")
    started_at: str = Field(default="", description="ISO 8601, UTC.")
    seconds: float = Field(default=0.0, ge=0, le=MOST_SECONDS)
    repeats: int = Field(default=1, ge=1, le=MOST_REPEATS)
    more: int = Field(default=0, ge=0, le=MOST_REPEATS, description="Further repeats of the cases in `repeated`.")
    repeated: list[tuple[str, str]] = Field(
        default_factory=list, description="Suite and case of what was run `more` times more, because outcomes differed."
    )
    truncated: str = Field(default="", description="The budget that ended the run early; empty where none did.")
    seed: int = 0
    complete: bool = Field(default=True, description="false: the run was interrupted.")
    adk_compat: bool = False
    commit: str = ""
    root: str | None = Field(
        default=None, description="The folder of the repository that is the gate's; empty: all of it, absent: unknown."
    )
    models: list[str] = Field(default_factory=list, description="Names of the models that answered the agents.")
    shard: ShardResult | None = Field(default=None, description="The shard that was run; null: all cases.")
    verdict: VerdictResult
    comparison: ComparisonResult | None = Field(
        default=None, description="Comparison with the base; null if not requested."
    )
    agent_details: dict[str, list[AgentDetailsWire]] = Field(
        default_factory=dict, description="What agents were told and given; transcripts refer to it by address."
    )
    judges: list[JudgeResult] = Field(
        default_factory=list, description="What judging took in this run; what was taken from its journal is not in it."
    )
    problems: list[ProblemResult] = Field(
        default_factory=list, description="Problems found in evaluation files and inputs."
    )
    suites: list[SuiteResult]


def schema() -> dict[str, Any]:
    """The JSON schema of results.json."""
    described = Results.model_json_schema(by_alias=False)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | described
