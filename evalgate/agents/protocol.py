"""The messages of the agent protocol, version 1 (docs/agent-protocol.md): those that evalgate
writes and those that it reads."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from evalgate.formats import FORMATS, Dialect, adk_shapes
from evalgate.formats.adk_shapes import AgentDetailsWire, EventWire, StepEvent, UsageWire
from evalgate.model import (
    AgentDescription,
    CallTime,
    Content,
    CriterionUse,
    FailureKind,
    Finding,
    Grade,
    Invocation,
    NotEvaluated,
    Reason,
    Score,
    SessionInput,
    Timings,
    TrialView,
    not_evaluated,
)
from evalgate.model.conversation import Seconds as Duration
from evalgate.model.shapes import Seconds
from evalgate.values import Json, JsonObject, Redactor
from evalgate.worker.pipe import present
from .base import CallAnswer, CallKind, Surroundings, ToolReply

PROTOCOL = 1


class ProtocolError(ValueError):
    """An invalid line of the protocol, with the reason."""


class WorkerWire(BaseModel):
    """A message of the worker; unknown keys are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


class SessionWire(WorkerWire):
    """A message of one session."""

    session: str


class TurnTimings(WorkerWire):
    """Wall times of a turn."""

    total_s: Duration
    model_s: Seconds = None
    """Seconds in which a model was asked; None: unknown."""
    tool_s: Seconds = None
    """Further seconds in which a tool ran; None: unknown."""
    calls: list[CallTime] = Field(default_factory=list)

    def to_model(self, *, with_calls: bool) -> Timings:
        """The timings as a value; `with_calls`: each interval, too."""
        return Timings(
            total_s=self.total_s,
            model_s=self.model_s,
            tool_s=self.tool_s,
            calls=tuple(self.calls) if with_calls else (),
        )


class ModelCallWire(WorkerWire):
    """The token usage in a model's response."""

    usage_metadata: UsageWire
    model_version: str = ""


class TurnEnd(SessionWire):
    """The turn has ended."""

    type: Literal["turn_end"]
    timings: TurnTimings | None = None
    agents: list[AgentDetailsWire] = Field(default_factory=list)
    """Instructions and tools of the agents that called a model."""
    model_calls: list[ModelCallWire] = Field(default_factory=list)
    invocation_id: str = ""
    state: JsonObject | None = None
    """The session's state, if `start` asked for it or the turn is live."""


class Ready(WorkerWire):
    """Answer to hello."""

    type: Literal["ready"]
    protocol: int
    about: dict[str, str] = Field(default_factory=dict)
    """Framework, versions and interpreter."""
    sessions: int = Field(default=1, ge=1)
    """The most conversations at once."""
    tools: bool = False
    """The worker asks before it runs a tool."""
    description: Any = None
    """See `description_of`."""
    surroundings: Surroundings | None = None
    history: bool = False
    """It accepts `history` in `start`, and `state` and `agent` in `turn`."""


class Fatal(WorkerWire):
    """The worker cannot continue and exits after this message."""

    type: Literal["fatal"]
    kind: str = FailureKind.START.value
    message: str
    detail: str = ""


class Started(SessionWire):
    """Answer to start."""

    type: Literal["started"]


class EventMessage(EventWire):
    """One step of the agent."""

    type: Literal["event"]
    session: str
    author: str = ""
    final: bool = False
    """It is an answer to the user."""
    partial: bool = False
    """A piece of a text that a later step holds completely."""
    at: Seconds = None
    """Since the start of the turn; None: unknown."""

    def step(self) -> StepEvent:
        """The step as a value."""
        return StepEvent(**self.fields(), at=self.at, final=self.final)


class TraceMessage(SessionWire):
    """A part of the turn's trace."""

    type: Literal["trace"]
    number: int = Field(ge=0)
    """Of the entry, counted from 0."""
    entry: JsonObject
    """Fields that are new, or replace those that were sent before."""


class ArtifactMessage(SessionWire):
    """A file that the agent saved in a live turn."""

    type: Literal["artifact"]
    name: str
    version: int = 0
    part: JsonObject | None = None
    """google.genai's Part; None if it is too large."""


class TurnFailed(SessionWire):
    """The turn, or the opening of the session, ended with an error; the session is dead."""

    type: Literal["turn_failed"]
    kind: str = FailureKind.RAISED.value
    message: str
    detail: str = ""
    """A traceback, or the like."""
    code: int | None = None
    """The HTTP status of the service that failed."""
    retry_after_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Seconds that the service asked to wait."""


class EndedMessage(SessionWire):
    """Answer to end."""

    type: Literal["ended"]
    state: JsonObject | None = None


class Stalled(SessionWire):
    """This session has kept the worker from all others."""

    type: Literal["stalled"]
    seconds: Duration
    """So far."""
    where: str = ""
    """The running code."""


class Resumed(WorkerWire):
    """The worker serves all its sessions again."""

    type: Literal["resumed"]


class InputsMessage(WorkerWire):
    """The questions that the worker asked about the checkout since its last report; see
    `evalgate.system.inputs`."""

    type: Literal["inputs"]
    questions: list[str] = Field(default_factory=list)
    opaque: bool = False
    """It started a child process, or loaded a library, that reports no questions."""


class MetricResult(WorkerWire):
    """Answer to metric."""

    type: Literal["metric_result"]
    id: str
    score: float | None = None
    status: str | None = None
    """`passed`, `failed`, `not_evaluated`; None: the threshold decides."""
    turns: list[float | None] = Field(default_factory=list)
    """The score of each turn, if the metric has them."""
    error: str | None = None
    """The reason why there is no answer."""
    explanation: str = ""
    """The text that a metric of agents-cli returns with its score."""

    def grade(self, code: str) -> Grade:
        """The grade by the metric `code`. A metric that returns NOT_EVALUATED and no score
        abstains."""
        if self.error is not None:
            return failed_grade(code, self.error)
        score = self.score
        turns = tuple(self.turns)
        has_abstained = self.status == "not_evaluated"
        if score is None and has_abstained:
            return not_evaluated(Reason.ABSTAINED, "metric_abstained", code, turns=turns)
        is_finite = score is not None and math.isfinite(score)
        if score is None or has_abstained or not is_finite:
            return not_evaluated(
                Reason.CRITERION_FAILED, "metric_answer", code, score, is_finite, turns=turns
            )
        return Score(
            value=score,
            turns=turns,
            findings=(Finding(text=self.explanation),) if self.explanation else (),
            passed=None if self.status is None else self.status == "passed",
        )


def failed_grade(code: str, message: str, reason: Reason = Reason.CRITERION_FAILED) -> NotEvaluated:
    """The grade of a metric that gave no answer."""
    return not_evaluated(reason, "metric_failed", code, message)


class ToolCallMessage(SessionWire):
    """A tool is about to run, and waits for an answer."""

    type: Literal["tool_call"]
    call: str
    """The id of the call, unique in its session."""
    name: str
    args: JsonObject = Field(default_factory=dict)
    kind: CallKind = CallKind.TOOL


class ToolResultMessage(ToolReply, SessionWire):
    """The result of a call whose answer asked for a report."""

    type: Literal["tool_result"]
    call: str


InTurn = EventMessage | ToolCallMessage | ToolResultMessage | TraceMessage | ArtifactMessage
"""The messages that a worker may send any number of times during a turn."""
SessionMessage = Started | InTurn | TurnEnd | TurnFailed | EndedMessage
WorkerMessage = Ready | Fatal | SessionMessage | MetricResult | Stalled | Resumed | InputsMessage

_READER: TypeAdapter[WorkerMessage] = TypeAdapter(
    Annotated[WorkerMessage, Field(discriminator="type")]
)


def parse_worker_message(line: bytes) -> WorkerMessage:
    """One line as a message. Raises ProtocolError.

    Lone surrogates (half an emoji, cut by a streaming model) become `?`. Unknown keys of contents,
    as newer frameworks add them, are dropped: the protocol ignores unknown keys on both sides."""
    try:
        return _READER.validate_json(line)
    except ValidationError:
        raw = _json(line)
    for _ in range(2):
        try:
            return _READER.validate_python(raw)
        except ValidationError as error:
            unknown_paths = [
                detail["loc"][1:]
                for detail in error.errors()
                if detail["type"] == "extra_forbidden"
            ]
            if not unknown_paths or len(unknown_paths) < error.error_count():
                raise ProtocolError(_fault_text(error, raw)) from None
            for path in unknown_paths:
                parent = raw
                for step in path[:-1]:
                    parent = parent[step]
                del parent[path[-1]]
    raise ProtocolError("has content that cannot be read")


MOST_TEXT = 20_000
MOST_CHARACTERS = 400_000
MOST_ENTRIES = 2_000
MOST_LEVELS = 8
"""Limits of a description: characters of one text and of all texts, entries of one list or object,
and levels of nesting."""
_DESCRIPTION: TypeAdapter[AgentDescription] = TypeAdapter(AgentDescription)


def description_of(description: Any, *, redact: Redactor) -> AgentDescription | None:
    """The worker's description of the agent, without secrets and bounded. None if it is invalid: it
    is only for reports, so it never causes a failure."""
    characters_left = MOST_CHARACTERS

    def bounded(member_json: Any, level: int) -> Any:
        nonlocal characters_left
        if isinstance(member_json, str):
            text = redact(member_json)[: min(MOST_TEXT, characters_left)]
            characters_left -= len(text)
            return text
        if level and isinstance(member_json, dict):
            return {
                bounded(key, 0): bounded(member, level - 1)
                for key, member in list(member_json.items())[:MOST_ENTRIES]
            }
        if level and isinstance(member_json, list):
            return [bounded(member, level - 1) for member in member_json[:MOST_ENTRIES]]
        return None

    try:
        return _DESCRIPTION.validate_python(bounded(description, MOST_LEVELS))
    except ValidationError:
        return None


def failure_kind(word: str) -> FailureKind:
    """The failure kind that a worker names; unknown words are `raised`."""
    try:
        return FailureKind(word)
    except ValueError:
        return FailureKind.RAISED


def _json(line: bytes) -> Any:
    """A line as JSON, lone surrogates as `?`. Raises ProtocolError."""
    try:
        text = json.dumps(json.loads(line.decode("utf-8")), ensure_ascii=False)
        return json.loads(text.encode("utf-8", "replace"))
    except UnicodeDecodeError:
        raise ProtocolError("is not UTF-8") from None
    except (ValueError, RecursionError):
        raise ProtocolError("is not JSON") from None


def _fault_text(error: ValidationError, raw: Any) -> str:
    """The fault of a message, in words that follow "a line that"."""
    if not isinstance(raw, dict):
        return "is not a JSON object"
    first_error = error.errors()[0]
    if first_error["type"] == "union_tag_invalid":
        return f"has an unknown type {str(raw.get('type'))[:80]!r}"
    if first_error["type"] == "union_tag_not_found":
        return "has no type"
    path = ".".join(str(step) for step in first_error["loc"][1:])
    return f"is not a valid {str(raw.get('type'))!r}: {path}: {first_error['msg']}"


# --- the messages of evalgate
# -----------------------------------------------------------------------


def render_line(message: Json) -> bytes:
    """One message as a line. Characters without UTF-8 become question marks."""
    text = json.dumps(
        message, ensure_ascii=False, separators=(",", ":"), allow_nan=True, default=str
    )
    return text.encode("utf-8", "replace") + b"\n"


def hello(options: Json, *, tools: str = "", inputs: str = "") -> JsonObject:
    """The first message. `tools`: the mode in which the worker asks before tools run; "" if they
    just run. `inputs`: the top of the checkout whose inputs are reported; "" if they are not."""
    more = present(inputs=inputs, tools=tools)
    return {"type": "hello", "protocol": PROTOCOL, "options": dict(options), **more}


def start(
    session: str,
    session_input: SessionInput,
    state: Json,
    *,
    seed: int,
    history: Sequence[Invocation] = (),
    states: bool = False,
) -> JsonObject:
    """Open a session with this state, after the turns of `history`. `states`: report the state at
    the end of each turn."""
    turns = [adk_shapes.invocation_json(invocation) for invocation in history]
    return {
        **present(states=states, history=turns),
        "type": "start",
        "session": session,
        "app_name": session_input.app_name,
        "user_id": session_input.user_id,
        "session_id": session_input.session_id,
        "state": dict(state),
        "seed": seed,
    }


def turn(
    session: str,
    content: Content,
    *,
    state: Json | None = None,
    agent: str = "",
    is_live: bool = False,
) -> JsonObject:
    """A message of the user. `state`: session variables that are set before the turn; `agent`: the
    agent that takes the turn; `is_live`: somebody watches the turn."""
    return {
        "type": "turn",
        "session": session,
        "content": adk_shapes.content_json(content),
        **present(state=dict(state or {}), live=is_live, agent=agent),
    }


def tool_response(session: str, *, call: str, answer: CallAnswer) -> JsonObject:
    """The answer to a tool_call."""
    return {"type": "tool_response", "session": session, "call": call, **answer.outcome()}


def metric(number: str, *, code: str, use: CriterionUse, evidence: TrialView) -> JsonObject:
    """Grade the trial with the repository's own metric."""
    message = {"type": "metric", "id": number, "code": code}
    if use.options.get("takes") == "instance":
        return {
            **message,
            "metric": dict(use.options),
            "instance": FORMATS[Dialect.AGENTS_CLI].instance(evidence),
        }
    expected = evidence.expected
    scenario = evidence.case.scenario
    criterion = {} if use.threshold is None else {"threshold": use.threshold}
    turns = []
    # ADK gives metrics the rubrics of the case and of the expected turn
    for index, turn in enumerate(evidence.actual):
        expected_rubrics = expected[index].rubrics if expected and index < len(expected) else ()
        rubrics = {
            rubric.rubric_id: adk_shapes.rubric_json(rubric)
            for rubric in (*turn.rubrics, *evidence.case.rubrics, *expected_rubrics)
        }
        turns.append(adk_shapes.invocation_json(turn) | present(rubrics=[*rubrics.values()]))
    return {
        **message,
        "metric": {
            "metric_name": use.metric or use.name,
            "threshold": use.threshold,
            "criterion": {**criterion, **use.options},
        },
        "actual": turns,
        "expected": None
        if expected is None
        else [adk_shapes.invocation_json(turn) for turn in expected],
        "scenario": None if scenario is None else adk_shapes.scenario_json(scenario),
    }
