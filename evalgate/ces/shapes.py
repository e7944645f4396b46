"""The resources of Customer Engagement Suite (CES) that have to do with evaluation, as protobuf's JSON writes them.

The docstring of a class is its name in google.cloud.ces.v1beta; what several share has a name with `_`. A test walks
google-cloud-ces and misses no field and no enum value. Markers on fields say what becomes of them; those without one
are read (docs/ces.md).
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import enum
import functools
import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, TypeAlias, get_args, get_origin

from pydantic import BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from evalgate.model.shapes import MOST_LEVELS, Wire
from evalgate.text import words
from evalgate.values import JsonObject

MOST_TURNS = 100
"""Of a golden and of a scenario."""


class Handling(enum.StrEnum):
    """What becomes of a field."""

    READ = "read"  # validated, listed, compared; decides what is asked or how it is scored
    KEPT = "kept"  # validated and kept as it is written; nothing reads it
    OUTPUT = "output only"  # the platform writes it: kept in files, ignored in updates
    NOT_RUN = "not run"  # kept in files; an evaluation that has it is not run, and `validate` says so


@dataclass(frozen=True, slots=True)
class Rule:
    """Marks a field."""

    handling: Handling


KEPT, OUTPUT, NOT_RUN = Rule(Handling.KEPT), Rule(Handling.OUTPUT), Rule(Handling.NOT_RUN)


class ProtoEnum(enum.IntEnum):
    """An enum as protobuf's JSON has it: read by name or number, written by name; 0 is what an absent one means."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read by name or number, written by name."""
        written = core_schema.plain_serializer_function_ser_schema(lambda value: value.name, when_used="json")
        return core_schema.no_info_plain_validator_function(cls.read, serialization=written)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonObject:
        """The names."""
        return {"type": "string", "enum": [value.name for value in cls]}

    @classmethod
    def read(cls, value: Any) -> ProtoEnum:
        """The member; an error names the one that was probably meant."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value in cls.__members__:
            return cls[value]
        if isinstance(value, int) and not isinstance(value, bool) and value in {each.value for each in cls}:
            return cls(value)
        near = (
            words.nearest(value, cls.__members__, cutoff=0.5) if isinstance(value, str) and len(value) < 100 else None
        )
        raise PydanticCustomError(
            "wrong_value",
            "expected one of {known}",
            {"known": words.listed([f"`{each}`" for each in cls.__members__]), "near": near or ""},
        )


# --- scalars, as lenient as protobuf's own reader -------------------------------------------------

MOST_INT, LEAST_INT = 2**31 - 1, -(2**31)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_DURATION = re.compile(r"-?\d{1,12}(\.\d{1,9})?s")


def _int32(value: Any) -> Any:
    """A whole number, also as `3.0` or as text."""
    number = value
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,12}", value):
        number = int(value)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int):
        raise PydanticCustomError("wrong_type", "expected a whole number")
    if not LEAST_INT <= number <= MOST_INT:
        raise PydanticCustomError("wrong_value", "the number does not fit into 32 bits")
    return number


def _float(value: Any) -> Any:
    """A number, also as text."""
    if isinstance(value, str) and len(value) < 100:
        try:
            value = float(value)
        except ValueError:
            raise PydanticCustomError("wrong_type", "expected a number") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PydanticCustomError("wrong_type", "expected a number")
    if (isinstance(value, int) and abs(value) > 10**300) or not math.isfinite(value):
        raise PydanticCustomError("wrong_value", "the number is not finite")
    return float(value)


def _bool(value: Any) -> Any:
    if not isinstance(value, bool):
        raise PydanticCustomError("wrong_type", "expected true or false")
    return value


def _base64(value: Any) -> Any:
    """Bytes, in the usual alphabet or that of URLs, padded or not."""
    if not isinstance(value, str):
        raise PydanticCustomError("wrong_type", "expected text")
    try:
        base64.b64decode(value.replace("-", "+").replace("_", "/") + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise PydanticCustomError("wrong_value", "expected base64") from None
    return value


def _timestamp(value: Any) -> Any:
    if isinstance(value, str) and _TIMESTAMP.fullmatch(value):
        try:
            dt.datetime.fromisoformat(re.sub(r"\.\d+", "", value))
        except ValueError:
            pass
        else:
            return value
    raise PydanticCustomError("wrong_value", "expected a time such as 2027-02-01T10:00:00Z")


def _duration(value: Any) -> Any:
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        raise PydanticCustomError("wrong_value", "expected a duration such as 1.250s")
    return value


Int32: TypeAlias = Annotated[int, BeforeValidator(_int32)]
Float: TypeAlias = Annotated[float, BeforeValidator(_float)]
Bool: TypeAlias = Annotated[bool, BeforeValidator(_bool)]
Base64: TypeAlias = Annotated[str, BeforeValidator(_base64)]
Timestamp: TypeAlias = Annotated[str, BeforeValidator(_timestamp)]
Duration: TypeAlias = Annotated[str, BeforeValidator(_duration)]


def _struct(value: Any) -> Any:
    """An object as a Struct holds it: text as keys, no numbers that JSON lacks, not too deep."""
    level: list[Any] = [value]
    for _ in range(MOST_LEVELS):
        for each in level:
            if isinstance(each, dict) and not all(isinstance(key, str) for key in each):
                raise PydanticCustomError("wrong_value", "the keys of an object must be text")
            texts = (each, *each) if isinstance(each, dict) else (each,)
            if any(isinstance(text, str) and _SURROGATE.search(text) for text in texts):
                raise PydanticCustomError("wrong_value", "a text contains half a character (a lone surrogate)")
            if isinstance(each, float) and not math.isfinite(each):
                raise PydanticCustomError("wrong_value", "the number is not finite")
            if not isinstance(each, dict | list | str | int | float | None):
                raise PydanticCustomError("wrong_value", "expected JSON values")
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return value
    raise PydanticCustomError(
        "wrong_value", "lists and objects are nested in more than {most} levels", {"most": MOST_LEVELS}
    )


Struct: TypeAlias = Annotated[JsonObject, BeforeValidator(_struct)]
Level: TypeAlias = Annotated[Int32, Field(ge=0, le=4)]
Share: TypeAlias = Annotated[Float, Field(ge=0, le=1)]
Turns: TypeAlias = Annotated[Int32, Field(ge=0, le=MOST_TURNS)]


class Proto(Wire):
    """A message: read in camelCase or snake_case, written in camelCase without what is absent.

    `oneofs`: of which fields at most one may be given; `required`: which must be given and not be empty.
    """

    model_config = ConfigDict(defer_build=True)  # whoever has no CES files does not pay for 80 models

    oneofs: ClassVar[dict[str, tuple[str, ...]]] = {}
    required: ClassVar[tuple[str, ...]] = ()

    def json(self) -> JsonObject:  # type: ignore[override]  # pydantic's own is deprecated
        """As protobuf's JSON: what has the value of what is absent is left out."""
        dumped: JsonObject = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return dumped


class Result(Proto):
    """A message that nobody but a run writes: all of its fields are output only."""


def comparable(message: Proto) -> JsonObject:
    """As protobuf's JSON, without what the platform alone writes."""
    made: JsonObject = {}
    written = message.json()
    for name in type(message).model_fields:
        key = key_of(type(message), name)
        if key not in written or handling_of(type(message), name) is Handling.OUTPUT:
            continue
        value = getattr(message, name)
        if isinstance(value, Proto):
            made[key] = comparable(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Proto):
            made[key] = [comparable(each) for each in value]
        else:
            made[key] = written[key]
    return made


def given_of(message: Proto) -> str:
    """Which field of its oneofs a message has; "" for none."""
    names = (name for group in type(message).oneofs.values() for name in group)
    return next((name for name in names if getattr(message, name) is not None), "")


@functools.cache
def fields_of(shape: type[Proto]) -> dict[str, str]:
    """The field that each spelling of a key names: `displayName` and `display_name`."""
    spelled = (
        (spelling, name) for name, field in shape.model_fields.items() for spelling in (name, field.alias or name)
    )
    return dict(spelled)


def key_of(shape: type[Proto], field: str) -> str:
    """A field's key in protobuf's JSON: `displayName`."""
    return shape.model_fields[field].alias or field


NOT_RUN_VALUES: Final = {"EvaluationChannel": ("AUDIO",), "SemanticSimilarityChannel": ("AUDIO",)}
"""Values of enums that are kept, and with which an evaluation is not run."""


def enum_in(shape: type[Proto], field: str) -> type[ProtoEnum] | None:
    """The enum of a field; None where it has none."""
    found = shape.model_fields[field].annotation
    return found if isinstance(found, type) and issubclass(found, ProtoEnum) else None


@functools.cache
def message_in(shape: type[Proto], field: str) -> type[Proto] | None:
    """The message that a field holds, itself, in a list or in a map; None for a scalar."""
    pending = [shape.model_fields[field].annotation]
    while pending:
        found = pending.pop()
        if isinstance(found, type) and issubclass(found, Proto):
            return found
        pending.extend(get_args(found))
    return None


def is_map(shape: type[Proto], field: str) -> bool:
    """Whether a field is a map of messages."""
    return get_origin(shape.model_fields[field].annotation) is dict


def is_repeated(shape: type[Proto], field: str) -> bool:
    """Whether a field is a list or a map."""
    return get_origin(shape.model_fields[field].annotation) in (tuple, dict) and not is_struct(shape, field)


def is_struct(shape: type[Proto], field: str) -> bool:
    """Whether a field is an object of any JSON."""
    return get_origin(shape.model_fields[field].annotation) is dict and message_in(shape, field) is None


def handling_of(shape: type[Proto], field: str) -> Handling:
    """What becomes of a field."""
    rules = [each.handling for each in shape.model_fields[field].metadata if isinstance(each, Rule)]
    return rules[0] if rules else Handling.OUTPUT if issubclass(shape, Result) else Handling.READ


# --- enums ----------------------------------------------------------------------------------------


class AudioEncoding(ProtoEnum):
    """AudioEncoding."""

    AUDIO_ENCODING_UNSPECIFIED = 0
    LINEAR16 = 1
    MULAW = 2
    ALAW = 3


class BackgroundEnvironment(ProtoEnum):
    """EvaluationPersona.SpeechConfig.BackgroundEnvironment."""

    BACKGROUND_ENVIRONMENT_UNSPECIFIED = 0
    CALL_CENTER = 3
    TRAFFIC = 4
    KIDS_NOISE = 5
    CAFE = 6


class ComparisonType(ProtoEnum):
    """EvaluationMetricsConfig.ComparisonType."""

    COMPARISON_TYPE_UNSPECIFIED = 0
    EQUALS = 1
    CONTAINS = 2
    SEMANTIC_SIMILARITY = 3


class ErrorType(ProtoEnum):
    """EvaluationErrorInfo.ErrorType."""

    ERROR_TYPE_UNSPECIFIED = 0
    RUNTIME_FAILURE = 1
    CONVERSATION_RETRIEVAL_FAILURE = 2
    METRIC_CALCULATION_FAILURE = 3
    EVALUATION_UPDATE_FAILURE = 4
    QUOTA_EXHAUSTED = 5
    USER_SIMULATION_FAILURE = 6


class EvaluationChannel(ProtoEnum):
    """EvaluationConfig.EvaluationChannel."""

    EVALUATION_CHANNEL_UNSPECIFIED = 0
    TEXT = 1
    AUDIO = 2


class EvaluationRunCachingMode(ProtoEnum):
    """EvaluationRunCachingSettings.EvaluationRunCachingMode."""

    EVALUATION_RUN_CACHING_MODE_UNSPECIFIED = 0
    FORCE_RUN = 1
    SKIP_IF_UNCHANGED = 2


class EvaluationRunState(ProtoEnum):
    """EvaluationRun.EvaluationRunState."""

    EVALUATION_RUN_STATE_UNSPECIFIED = 0
    RUNNING = 1
    COMPLETED = 2
    ERROR = 3
    CANCELLED = 4
    QUEUED = 5


class EvaluationToolCallBehaviour(ProtoEnum):
    """EvaluationToolCallBehaviour."""

    EVALUATION_TOOL_CALL_BEHAVIOUR_UNSPECIFIED = 0
    REAL = 1
    FAKE = 2


class EvaluationType(ProtoEnum):
    """EvaluationRun.EvaluationType."""

    EVALUATION_TYPE_UNSPECIFIED = 0
    GOLDEN = 1
    SCENARIO = 2
    MIXED = 3


class ExecutionState(ProtoEnum):
    """EvaluationResult.ExecutionState."""

    EXECUTION_STATE_UNSPECIFIED = 0
    RUNNING = 1
    COMPLETED = 2
    ERROR = 3
    CANCELLED = 4
    QUEUED = 5


class ExtraToolCallBehavior(ProtoEnum):
    """EvaluationMetricsThresholds.ToolMatchingSettings.ExtraToolCallBehavior."""

    EXTRA_TOOL_CALL_BEHAVIOR_UNSPECIFIED = 0
    FAIL = 1
    ALLOW = 2


class GoldenRunMethod(ProtoEnum):
    """GoldenRunMethod."""

    GOLDEN_RUN_METHOD_UNSPECIFIED = 0
    STABLE = 1
    NAIVE = 2


class HallucinationMetricBehavior(ProtoEnum):
    """EvaluationMetricsThresholds.HallucinationMetricBehavior."""

    HALLUCINATION_METRIC_BEHAVIOR_UNSPECIFIED = 0
    DISABLED = 1
    ENABLED = 2


class OptimizationStatus(ProtoEnum):
    """OptimizationConfig.OptimizationStatus."""

    OPTIMIZATION_STATUS_UNSPECIFIED = 0
    RUNNING = 1
    COMPLETED = 2
    ERROR = 3


class Outcome(ProtoEnum):
    """EvaluationResult.Outcome."""

    OUTCOME_UNSPECIFIED = 0
    PASS = 1
    FAIL = 2
    SKIPPED = 3


class ScenarioConversationInitiator(ProtoEnum):
    """EvaluationSettings.ScenarioConversationInitiator."""

    SCENARIO_CONVERSATION_INITIATOR_UNSPECIFIED = 0
    USER = 1
    AGENT = 2


class ScenarioExecutionMode(ProtoEnum):
    """EvaluationSettings.ScenarioExecutionMode."""

    SCENARIO_EXECUTION_MODE_UNSPECIFIED = 0
    QUALITY_OPTIMIZED = 1
    SPEED_OPTIMIZED = 2


class SemanticSimilarityChannel(ProtoEnum):
    """EvaluationMetricsThresholds.GoldenEvaluationMetricsThresholds.TurnLevelMetricsThresholds.SemanticSimilarityChannel."""

    SEMANTIC_SIMILARITY_CHANNEL_UNSPECIFIED = 0
    TEXT = 1
    AUDIO = 2


class SpanType(ProtoEnum):
    """EvaluationResult.SpanLatency.Type."""

    TYPE_UNSPECIFIED = 0
    TOOL = 1
    USER_CALLBACK = 2
    GUARDRAIL = 3
    LLM = 4


class TaskCompletionBehavior(ProtoEnum):
    """Evaluation.Scenario.TaskCompletionBehavior."""

    TASK_COMPLETION_BEHAVIOR_UNSPECIFIED = 0
    TASK_SATISFIED = 1
    TASK_REJECTED = 2


class UserGoalBehavior(ProtoEnum):
    """Evaluation.Scenario.UserGoalBehavior."""

    USER_GOAL_BEHAVIOR_UNSPECIFIED = 0
    USER_GOAL_SATISFIED = 1
    USER_GOAL_REJECTED = 2
    USER_GOAL_IGNORED = 3


# --- messages ---------------------------------------------------------------------------------------


class ToolsetTool(Proto):
    """ToolsetTool."""

    required: ClassVar = ("toolset",)

    toolset: str = ""
    tool_id: str = ""


class _OfTool(Proto):
    oneofs: ClassVar = {"tool_identifier": ("tool", "toolset_tool")}

    tool: str | None = None
    toolset_tool: ToolsetTool | None = None
    id: str = ""
    display_name: Annotated[str, OUTPUT] = ""


class ToolResponse(_OfTool):
    """ToolResponse."""

    required: ClassVar = ("response",)

    response: Struct | None = None


class ToolResponses(Proto):
    """ToolResponses."""

    tool_responses: tuple[ToolResponse, ...] = ()


class _Data(Proto):
    required: ClassVar = ("mime_type", "data")

    mime_type: str = ""
    data: Base64 = ""


class Image(_Data):
    """Image."""


class Blob(_Data):
    """Blob."""


class Event(Proto):
    """Event."""

    required: ClassVar = ("event",)

    event: str = ""


class SessionInput(Proto):
    """SessionInput."""

    oneofs: ClassVar = {
        "input_type": ("text", "dtmf", "audio", "tool_responses", "image", "blob", "variables", "event")
    }

    text: str | None = None
    dtmf: Annotated[str | None, NOT_RUN] = None
    audio: Annotated[Base64 | None, NOT_RUN] = None
    tool_responses: ToolResponses | None = None
    image: Image | None = None
    blob: Blob | None = None
    variables: Struct | None = None
    event: Event | None = None
    will_continue: Annotated[Bool, NOT_RUN] = False


class AgentTransfer(Proto):
    """AgentTransfer."""

    required: ClassVar = ("target_agent",)

    target_agent: str = ""
    display_name: Annotated[str, OUTPUT] = ""


class ToolCall(_OfTool):
    """ToolCall."""

    args: Struct | None = None


class Chunk(Proto):
    """Chunk."""

    oneofs: ClassVar = {
        "data": (
            "text",
            "transcript",
            "blob",
            "payload",
            "image",
            "tool_call",
            "tool_response",
            "agent_transfer",
            "updated_variables",
            "default_variables",
        )
    }

    text: str | None = None
    transcript: Annotated[str | None, KEPT] = None
    blob: Blob | None = None
    payload: Struct | None = None
    image: Image | None = None
    tool_call: ToolCall | None = None
    tool_response: ToolResponse | None = None
    agent_transfer: AgentTransfer | None = None
    updated_variables: Struct | None = None
    default_variables: Annotated[Struct | None, KEPT] = None


class Message(Proto):
    """Message."""

    role: str = ""
    chunks: tuple[Chunk, ...] = ()
    event_time: Annotated[Timestamp | None, KEPT] = None


class ExpectationLevelMetricsThresholds(Proto):
    """EvaluationMetricsThresholds.GoldenEvaluationMetricsThresholds.ExpectationLevelMetricsThresholds."""

    tool_invocation_parameter_correctness_threshold: Share | None = None


class SemanticSimilarityMetricsConfig(Proto):
    """EvaluationMetricsConfig.SemanticSimilarityMetricsConfig."""

    enable_semantic_similarity_metrics: Bool = False


class HallucinationMetricsConfig(Proto):
    """EvaluationMetricsConfig.HallucinationMetricsConfig."""

    enable_hallucination_metrics: Bool = False


class GoldenExpectation(Proto):
    """Evaluation.GoldenExpectation."""

    oneofs: ClassVar = {
        "condition": (
            "tool_call",
            "tool_response",
            "agent_response",
            "agent_transfer",
            "updated_variables",
            "mock_tool_response",
            "no_tool_calls",
        )
    }

    tool_call: ToolCall | None = None
    tool_response: ToolResponse | None = None
    agent_response: Message | None = None
    agent_transfer: AgentTransfer | None = None
    updated_variables: Struct | None = None
    mock_tool_response: ToolResponse | None = None
    no_tool_calls: Bool | None = None
    note: str = ""
    skip_evaluation: Bool = False
    expectation_level_metrics_thresholds_override: ExpectationLevelMetricsThresholds | None = None
    agent_response_semantic_similarity_metrics_config_override: SemanticSimilarityMetricsConfig | None = None
    agent_response_hallucination_metrics_config_override: HallucinationMetricsConfig | None = None
    comparison_type: ComparisonType = ComparisonType(0)


class Step(Proto):
    """Evaluation.Step."""

    oneofs: ClassVar = {"step": ("user_input", "agent_transfer", "expectation")}

    user_input: SessionInput | None = None
    agent_transfer: AgentTransfer | None = None
    expectation: GoldenExpectation | None = None


class Span(Proto):
    """Span."""

    name: Annotated[str, KEPT] = ""
    start_time: Annotated[Timestamp | None, KEPT] = None
    end_time: Annotated[Timestamp | None, KEPT] = None
    duration: Annotated[Duration | None, KEPT] = None
    attributes: Annotated[Struct | None, KEPT] = None
    child_spans: Annotated[tuple[Span, ...], KEPT] = ()


class TurnLevelMetricsThresholds(Proto):
    """EvaluationMetricsThresholds.GoldenEvaluationMetricsThresholds.TurnLevelMetricsThresholds."""

    semantic_similarity_success_threshold: Level | None = None
    overall_tool_invocation_correctness_threshold: Share | None = None
    semantic_similarity_channel: SemanticSimilarityChannel = SemanticSimilarityChannel(0)


class GoldenTurn(Proto):
    """Evaluation.GoldenTurn."""

    required: ClassVar = ("steps",)

    steps: tuple[Step, ...] = ()
    root_span: Annotated[Span | None, KEPT] = None
    turn_level_metrics_thresholds_override: TurnLevelMetricsThresholds | None = None
    hallucination_metric_behavior_override: HallucinationMetricBehavior = HallucinationMetricBehavior(0)


class Golden(Proto):
    """Evaluation.Golden."""

    required: ClassVar = ("turns",)

    turns: Annotated[tuple[GoldenTurn, ...], Field(max_length=MOST_TURNS)] = ()
    evaluation_expectations: tuple[str, ...] = ()


class UserFact(Proto):
    """Evaluation.Scenario.UserFact."""

    required: ClassVar = ("name", "value")

    name: str = ""
    value: str = ""


class ToolExpectation(Proto):
    """Evaluation.ScenarioExpectation.ToolExpectation."""

    required: ClassVar = ("expected_tool_call",)

    expected_tool_call: ToolCall | None = None
    mock_tool_response: ToolResponse | None = None


class ScenarioExpectation(Proto):
    """Evaluation.ScenarioExpectation."""

    oneofs: ClassVar = {"expectation": ("tool_expectation", "agent_response")}

    tool_expectation: ToolExpectation | None = None
    agent_response: Message | None = None


class Scenario(Proto):
    """Evaluation.Scenario."""

    required: ClassVar = ("task",)

    task: str = ""
    user_facts: tuple[UserFact, ...] = ()
    max_turns: Turns = 0
    rubrics: tuple[str, ...] = ()
    scenario_expectations: tuple[ScenarioExpectation, ...] = ()
    variable_overrides: Struct | None = None
    task_completion_behavior: TaskCompletionBehavior = TaskCompletionBehavior(0)
    user_goal_behavior: UserGoalBehavior = UserGoalBehavior(0)
    evaluation_expectations: tuple[str, ...] = ()
    scenario_execution_mode: Annotated[ScenarioExecutionMode, KEPT] = ScenarioExecutionMode(0)


class ToolMetrics(Result):
    """AggregatedMetrics.ToolMetrics."""

    tool: str = ""
    pass_count: Int32 = 0
    fail_count: Int32 = 0


class _Mean(Result):
    score: Float = 0.0


class SemanticSimilarityMetrics(_Mean):
    """AggregatedMetrics.SemanticSimilarityMetrics."""


class HallucinationMetrics(_Mean):
    """AggregatedMetrics.HallucinationMetrics."""


class ToolCallLatencyMetrics(Result):
    """AggregatedMetrics.ToolCallLatencyMetrics."""

    tool: str = ""
    average_latency: Duration | None = None


class TurnLatencyMetrics(Result):
    """AggregatedMetrics.TurnLatencyMetrics."""

    average_latency: Duration | None = None


class _Metrics(Result):
    tool_metrics: tuple[ToolMetrics, ...] = ()
    semantic_similarity_metrics: tuple[SemanticSimilarityMetrics, ...] = ()
    hallucination_metrics: tuple[HallucinationMetrics, ...] = ()
    tool_call_latency_metrics: tuple[ToolCallLatencyMetrics, ...] = ()
    turn_latency_metrics: tuple[TurnLatencyMetrics, ...] = ()


class MetricsByTurn(_Metrics):
    """AggregatedMetrics.MetricsByTurn."""

    turn_index: Int32 = 0


class MetricsByAppVersion(_Metrics):
    """AggregatedMetrics.MetricsByAppVersion."""

    app_version_id: str = ""
    pass_count: Int32 = 0
    fail_count: Int32 = 0
    metrics_by_turn: tuple[MetricsByTurn, ...] = ()


class AggregatedMetrics(Result):
    """AggregatedMetrics."""

    metrics_by_app_version: tuple[MetricsByAppVersion, ...] = ()


class _Judged(Result):
    score: Int32 | None = None
    label: str = ""
    explanation: str = ""


class SemanticSimilarityResult(_Judged):
    """EvaluationResult.SemanticSimilarityResult."""

    outcome: Outcome = Outcome(0)


class ToolInvocationResult(Result):
    """EvaluationResult.GoldenExpectationOutcome.ToolInvocationResult."""

    parameter_correctness_score: Float | None = None
    outcome: Outcome = Outcome(0)
    explanation: str = ""


class GoldenExpectationOutcome(Result):
    """EvaluationResult.GoldenExpectationOutcome."""

    oneofs: ClassVar = {
        "result": (
            "observed_tool_call",
            "observed_tool_response",
            "observed_agent_response",
            "observed_agent_transfer",
            "observed_payload",
        )
    }

    observed_tool_call: ToolCall | None = None
    observed_tool_response: ToolResponse | None = None
    observed_agent_response: Message | None = None
    observed_agent_transfer: AgentTransfer | None = None
    observed_payload: Struct | None = None
    expectation: GoldenExpectation | None = None
    outcome: Outcome = Outcome(0)
    semantic_similarity_result: SemanticSimilarityResult | None = None
    tool_invocation_result: ToolInvocationResult | None = None


class HallucinationResult(_Judged):
    """EvaluationResult.HallucinationResult."""


class _Latency(Result):
    display_name: str = ""
    start_time: Timestamp | None = None
    end_time: Timestamp | None = None
    execution_latency: Duration | None = None


class ToolCallLatency(_Latency):
    """EvaluationResult.ToolCallLatency."""

    tool: str = ""


class OverallToolInvocationResult(Result):
    """EvaluationResult.OverallToolInvocationResult."""

    tool_invocation_score: Float | None = None
    outcome: Outcome = Outcome(0)


class EvaluationErrorInfo(Result):
    """EvaluationErrorInfo."""

    error_type: ErrorType = ErrorType(0)
    error_message: str = ""
    session_id: str = ""
    user_facing_error_message: str = ""


class SpanLatency(_Latency):
    """EvaluationResult.SpanLatency."""

    oneofs: ClassVar = {"identifier": ("resource", "toolset", "model", "callback")}

    resource: str | None = None
    toolset: ToolsetTool | None = None
    model: str | None = None
    callback: str | None = None
    type: SpanType = SpanType(0)


class TurnReplayResult(Result):
    """EvaluationResult.GoldenResult.TurnReplayResult."""

    conversation: str = ""
    expectation_outcome: tuple[GoldenExpectationOutcome, ...] = ()
    hallucination_result: HallucinationResult | None = None
    tool_invocation_score: Float = 0.0
    tool_ordered_invocation_score: Float | None = None
    turn_latency: Duration | None = None
    tool_call_latencies: tuple[ToolCallLatency, ...] = ()
    semantic_similarity_result: SemanticSimilarityResult | None = None
    overall_tool_invocation_result: OverallToolInvocationResult | None = None
    error_info: EvaluationErrorInfo | None = None
    span_latencies: tuple[SpanLatency, ...] = ()


class EvaluationExpectationResult(Result):
    """EvaluationResult.EvaluationExpectationResult."""

    evaluation_expectation: str = ""
    prompt: str = ""
    outcome: Outcome = Outcome(0)
    explanation: str = ""


class GoldenResult(Result):
    """EvaluationResult.GoldenResult."""

    turn_replay_results: tuple[TurnReplayResult, ...] = ()
    evaluation_expectation_results: tuple[EvaluationExpectationResult, ...] = ()


class ObservedToolCall(Result):
    """EvaluationResult.ScenarioExpectationOutcome.ObservedToolCall."""

    tool_call: ToolCall | None = None
    tool_response: ToolResponse | None = None


class ScenarioExpectationOutcome(Result):
    """EvaluationResult.ScenarioExpectationOutcome."""

    oneofs: ClassVar = {"result": ("observed_tool_call", "observed_agent_response")}

    observed_tool_call: ObservedToolCall | None = None
    observed_agent_response: Message | None = None
    expectation: ScenarioExpectation | None = None
    outcome: Outcome = Outcome(0)


class ScenarioRubricOutcome(Result):
    """EvaluationResult.ScenarioRubricOutcome."""

    rubric: str = ""
    score: Float | None = None
    score_explanation: str = ""


class TaskCompletionResult(_Judged):
    """EvaluationResult.TaskCompletionResult."""


class UserGoalSatisfactionResult(_Judged):
    """EvaluationResult.UserGoalSatisfactionResult."""


class ScenarioResult(Result):
    """EvaluationResult.ScenarioResult."""

    conversation: str = ""
    task: str = ""
    user_facts: tuple[UserFact, ...] = ()
    expectation_outcomes: tuple[ScenarioExpectationOutcome, ...] = ()
    rubric_outcomes: tuple[ScenarioRubricOutcome, ...] = ()
    hallucination_result: tuple[HallucinationResult, ...] = ()
    task_completion_result: TaskCompletionResult | None = None
    tool_call_latencies: tuple[ToolCallLatency, ...] = ()
    user_goal_satisfaction_result: UserGoalSatisfactionResult | None = None
    all_expectations_satisfied: Bool | None = None
    task_completed: Bool | None = None
    span_latencies: tuple[SpanLatency, ...] = ()
    evaluation_expectation_results: tuple[EvaluationExpectationResult, ...] = ()


class SpeechConfig(Proto):
    """EvaluationPersona.SpeechConfig."""

    speaking_rate: Annotated[Float, KEPT] = 0.0
    environment: Annotated[BackgroundEnvironment, KEPT] = BackgroundEnvironment(0)
    voice_id: Annotated[str, KEPT] = ""


class EvaluationPersona(Proto):
    """EvaluationPersona."""

    required: ClassVar = ("display_name", "personality")

    name: str = ""
    description: str = ""
    display_name: str = ""
    personality: str = ""
    speech_config: Annotated[SpeechConfig | None, KEPT] = None


class ToolMatchingSettings(Proto):
    """EvaluationMetricsThresholds.ToolMatchingSettings."""

    extra_tool_call_behavior: ExtraToolCallBehavior = ExtraToolCallBehavior(0)


class GoldenEvaluationMetricsThresholds(Proto):
    """EvaluationMetricsThresholds.GoldenEvaluationMetricsThresholds."""

    turn_level_metrics_thresholds: TurnLevelMetricsThresholds | None = None
    expectation_level_metrics_thresholds: ExpectationLevelMetricsThresholds | None = None
    tool_matching_settings: ToolMatchingSettings | None = None


class EvaluationMetricsThresholds(Proto):
    """EvaluationMetricsThresholds."""

    golden_evaluation_metrics_thresholds: GoldenEvaluationMetricsThresholds | None = None
    hallucination_metric_behavior: HallucinationMetricBehavior = HallucinationMetricBehavior(0)
    golden_hallucination_metric_behavior: HallucinationMetricBehavior = HallucinationMetricBehavior(0)
    scenario_hallucination_metric_behavior: HallucinationMetricBehavior = HallucinationMetricBehavior(0)


class OutputAudioConfig(Proto):
    """OutputAudioConfig."""

    required: ClassVar = ("audio_encoding", "sample_rate_hertz")

    audio_encoding: Annotated[AudioEncoding, KEPT] = AudioEncoding(0)
    sample_rate_hertz: Annotated[Int32, KEPT] = 0


class InputAudioConfig(OutputAudioConfig):
    """InputAudioConfig."""

    noise_suppression_level: Annotated[str, KEPT] = ""


class EvaluationConfig(Proto):
    """EvaluationConfig."""

    input_audio_config: Annotated[InputAudioConfig | None, KEPT] = None
    output_audio_config: Annotated[OutputAudioConfig | None, KEPT] = None
    evaluation_channel: EvaluationChannel = EvaluationChannel(0)
    tool_call_behaviour: EvaluationToolCallBehaviour = EvaluationToolCallBehaviour(0)


class _Ran(Result):
    name: str = ""
    display_name: str = ""
    create_time: Timestamp | None = None
    initiated_by: str = ""
    app_version: str = ""
    app_version_display_name: str = ""
    changelog: str = ""
    changelog_create_time: Timestamp | None = None
    config: EvaluationConfig | None = None
    error: Struct | None = None
    error_info: EvaluationErrorInfo | None = None
    golden_run_method: GoldenRunMethod = GoldenRunMethod(0)


class EvaluationResult(_Ran):
    """EvaluationResult."""

    oneofs: ClassVar = {"result": ("golden_result", "scenario_result")}

    golden_result: GoldenResult | None = None
    scenario_result: ScenarioResult | None = None
    evaluation_status: Outcome = Outcome(0)
    evaluation_run: str = ""
    persona: EvaluationPersona | None = None
    execution_state: ExecutionState = ExecutionState(0)
    evaluation_metrics_thresholds: EvaluationMetricsThresholds | None = None


class ToolCorrectnessMetricsConfig(Proto):
    """EvaluationMetricsConfig.ToolCorrectnessMetricsConfig."""

    enable_tool_correctness_metrics: Bool = False


class GoldenMetricsConfig(Proto):
    """EvaluationMetricsConfig.GoldenMetricsConfig."""

    semantic_similarity_metrics_config: SemanticSimilarityMetricsConfig | None = None
    tool_correctness_metrics_config: ToolCorrectnessMetricsConfig | None = None
    step_tool_correctness_metrics_config: ToolCorrectnessMetricsConfig | None = None


class UserGoalMetMetricsConfig(Proto):
    """EvaluationMetricsConfig.UserGoalMetMetricsConfig."""

    enable_user_goal_met_metrics: Bool = False


class ExpectationsMetMetricsConfig(Proto):
    """EvaluationMetricsConfig.ExpectationsMetMetricsConfig."""

    enable_expectations_met_metrics: Bool = False


class ScenarioMetricsConfig(Proto):
    """EvaluationMetricsConfig.ScenarioMetricsConfig."""

    user_goal_met_metrics_config: UserGoalMetMetricsConfig | None = None
    expectations_met_metrics_config: ExpectationsMetMetricsConfig | None = None


class EvaluationMetricsConfig(Proto):
    """EvaluationMetricsConfig."""

    golden_metrics_config: GoldenMetricsConfig | None = None
    scenario_metrics_config: ScenarioMetricsConfig | None = None


class _Stored(Proto):
    required: ClassVar = ("display_name",)

    name: str = ""
    display_name: str = ""
    create_time: Annotated[Timestamp | None, OUTPUT] = None
    update_time: Annotated[Timestamp | None, OUTPUT] = None
    etag: Annotated[str, OUTPUT] = ""


class _Authored(_Stored):
    created_by: Annotated[str, OUTPUT] = ""
    last_updated_by: Annotated[str, OUTPUT] = ""
    aggregated_metrics: Annotated[AggregatedMetrics | None, OUTPUT] = None


class Evaluation(_Authored):
    """Evaluation."""

    oneofs: ClassVar = {"inputs": ("golden", "scenario")}

    description: str = ""
    tags: tuple[str, ...] = ()
    golden: Golden | None = None
    scenario: Scenario | None = None
    evaluation_datasets: Annotated[tuple[str, ...], OUTPUT] = ()
    evaluation_runs: Annotated[tuple[str, ...], OUTPUT] = ()
    last_completed_result: Annotated[EvaluationResult | None, OUTPUT] = None
    invalid: Annotated[Bool, OUTPUT] = False
    last_ten_results: Annotated[tuple[EvaluationResult, ...], OUTPUT] = ()
    evaluation_metrics_threshold_override: EvaluationMetricsThresholds | None = None
    evaluation_metrics_config_override: EvaluationMetricsConfig | None = None


class LlmCriteria(Proto):
    """EvaluationExpectation.LlmCriteria."""

    required: ClassVar = ("prompt",)

    prompt: str = ""


class EvaluationExpectation(_Stored):
    """EvaluationExpectation."""

    oneofs: ClassVar = {"criteria": ("llm_criteria",)}

    llm_criteria: LlmCriteria | None = None
    tags: tuple[str, ...] = ()


class EvaluationDataset(_Authored):
    """EvaluationDataset."""

    evaluations: tuple[str, ...] = ()


class EvaluationRunCachingSettings(Proto):
    """EvaluationRunCachingSettings."""

    run_caching_mode: Annotated[EvaluationRunCachingMode, KEPT] = EvaluationRunCachingMode(0)


class EvaluationSettings(Proto):
    """EvaluationSettings."""

    scenario_conversation_initiator: ScenarioConversationInitiator = ScenarioConversationInitiator(0)
    golden_run_method: GoldenRunMethod = GoldenRunMethod(0)
    golden_evaluation_tool_call_behaviour: EvaluationToolCallBehaviour = EvaluationToolCallBehaviour(0)
    scenario_evaluation_tool_call_behaviour: EvaluationToolCallBehaviour = EvaluationToolCallBehaviour(0)
    metrics_config: EvaluationMetricsConfig | None = None
    scenario_execution_mode: Annotated[ScenarioExecutionMode, KEPT] = ScenarioExecutionMode(0)
    evaluation_run_caching_settings: Annotated[EvaluationRunCachingSettings | None, KEPT] = None


class EvaluationRunSummary(Result):
    """EvaluationRun.EvaluationRunSummary."""

    passed_count: Int32 = 0
    failed_count: Int32 = 0
    error_count: Int32 = 0


class Progress(EvaluationRunSummary):
    """EvaluationRun.Progress."""

    total_count: Int32 = 0
    completed_count: Int32 = 0
    cancelled_count: Int32 = 0


class LatencyMetrics(Result):
    """LatencyReport.LatencyMetrics."""

    p50_latency: Duration | None = None
    p90_latency: Duration | None = None
    p99_latency: Duration | None = None
    call_count: Int32 = 0


class ToolLatency(Result):
    """LatencyReport.ToolLatency."""

    oneofs: ClassVar = {"tool_identifier": ("tool", "toolset_tool")}

    tool: str | None = None
    toolset_tool: ToolsetTool | None = None
    tool_display_name: str = ""
    latency_metrics: LatencyMetrics | None = None


class CallbackLatency(Result):
    """LatencyReport.CallbackLatency."""

    stage: str = ""
    latency_metrics: LatencyMetrics | None = None


class GuardrailLatency(Result):
    """LatencyReport.GuardrailLatency."""

    guardrail: str = ""
    guardrail_display_name: str = ""
    latency_metrics: LatencyMetrics | None = None


class LlmCallLatency(Result):
    """LatencyReport.LlmCallLatency."""

    model: str = ""
    latency_metrics: LatencyMetrics | None = None


class LatencyReport(Result):
    """LatencyReport."""

    tool_latencies: tuple[ToolLatency, ...] = ()
    callback_latencies: tuple[CallbackLatency, ...] = ()
    guardrail_latencies: tuple[GuardrailLatency, ...] = ()
    llm_call_latencies: tuple[LlmCallLatency, ...] = ()
    session_count: Int32 = 0


class PersonaRunConfig(Result):
    """PersonaRunConfig."""

    persona: str = ""
    task_count: Int32 = 0


class OptimizationConfig(Result):
    """OptimizationConfig."""

    generate_loss_report: Annotated[Bool, KEPT] = False
    assistant_session: Annotated[str, KEPT] = ""
    report_summary: Annotated[str, KEPT] = ""
    should_suggest_fix: Annotated[Bool, KEPT] = False
    status: Annotated[OptimizationStatus, KEPT] = OptimizationStatus(0)
    error_message: Annotated[str, KEPT] = ""
    loss_report: Annotated[Struct | None, KEPT] = None


class EvaluationRun(_Ran):
    """EvaluationRun."""

    evaluation_results: tuple[str, ...] = ()
    evaluations: tuple[str, ...] = ()
    evaluation_dataset: str = ""
    evaluation_type: EvaluationType = EvaluationType(0)
    state: EvaluationRunState = EvaluationRunState(0)
    progress: Progress | None = None
    evaluation_run_summaries: dict[str, EvaluationRunSummary] = Field(default_factory=dict)
    latency_report: LatencyReport | None = None
    run_count: Int32 = 0
    persona_run_configs: tuple[PersonaRunConfig, ...] = ()
    optimization_config: OptimizationConfig | None = None
    scheduled_evaluation_run: str = ""
    operation: str = ""
