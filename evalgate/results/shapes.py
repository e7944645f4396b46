"""The serialized form of the nouns, made from the nouns themselves, and the few places that need
another form in JSON.

A noun is written by its own fields, defaults left out. Conversations have ADK's form
(`wire.invocations`), so that they can be pasted into an evaluation file; the agents' instructions
are in a separate table."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticSerializationError, to_json

from evalgate.formats import adk_shapes
from evalgate.formats.adk_shapes import AgentDetailsWire, AppDetailsWire, EventWire, InvocationWire
from evalgate.model import (
    AgentDetails,
    AgentFailure,
    CallTime,
    Ending,
    Event,
    FailureKind,
    Grade,
    Invocation,
    NotEvaluated,
    Outcome,
    Score,
    Transcript,
)
from evalgate.values import Json, JsonObject

Noun = TypeVar("Noun")
AgentsTable: TypeAlias = dict[str, tuple[AgentDetails, ...]]
Address: TypeAlias = Callable[[Any], str]
Places: TypeAlias = list[list[str | int]]

CONFIG: Final = ConfigDict(
    extra="forbid", frozen=True, protected_namespaces=(), ser_json_inf_nan="strings"
)
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
NOT_FINITE: Final = (
    "Paths of texts (`NaN`, `Infinity`, `-Infinity`) for numbers that JSON does not have."
)
NAMES: Final = ("NaN", "Infinity", "-Infinity")
"""How numbers are written that JSON has not: pydantic's words, which every float is read from."""
MOST_STEPS: Final = 100_000
"""Of all paths together that are kept for one value."""
_MARKS: Final = (b'"NaN"', b'Infinity"')


class Entry(BaseModel):
    """A part of one of our files; unknown keys are refused, since every layout has its version."""

    model_config = CONFIG


def entry(
    name: str, noun: type, *, doc: str, without: Collection[str] = (), **more: Any
) -> type[Entry]:
    """The fields of a noun except those in `without`; `more` adds fields, or replaces some of
    them."""
    hints = typing.get_type_hints(noun, include_extras=True)
    fields = {
        field.name: (hints[field.name], _default(field, hints[field.name]))
        for field in dataclasses.fields(noun)
        if field.name not in without
    }
    model: type[Entry] = create_model(
        name, __base__=Entry, __doc__=doc, __module__=__name__, **(fields | more)
    )
    return model


def _default(field: dataclasses.Field[Any], hint: Any) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return Field(default_factory=field.default_factory)
    if field.default is not dataclasses.MISSING:
        return field.default
    return None if type(None) in typing.get_args(hint) else ...  # there are no nulls in our files


def written(shape: type[Entry], noun: Any, **more: Any) -> JsonObject:
    """A noun as JSON-ready values in this shape, without defaults; `more`: fields that are not the
    noun's."""
    values = {
        name: more[name] if name in more else getattr(noun, name) for name in shape.model_fields
    }
    return shape.model_construct(**values).model_dump(mode="json", exclude_defaults=True)


def restored(noun: type[Noun], read: Entry, **more: Any) -> Noun:
    """The noun that was written; `more`: fields that stand elsewhere."""
    names = {field.name for field in dataclasses.fields(noun)} & type(read).model_fields.keys()  # type: ignore[arg-type]
    return noun(**{name: getattr(read, name) for name in names} | more)


def encode(value: Any) -> bytes:
    """Compact, strict JSON without a line end, of values that came as JSON.

    JSON has no NaN and no Infinity (RFC 8259): they become the texts of `NAMES`.
    """
    try:
        return to_json(value, inf_nan_mode="strings")
    except PydanticSerializationError:
        # lone surrogates come in agents' answers: escaped they survive, in UTF-8 they cannot; or
        # very deep values
        text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
        if "NaN" in text or "Infinity" in text:
            document = json.loads(text, parse_constant=str)
            text = json.dumps(document, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
        return text.encode()


_WORDS: Final = {
    "extra_forbidden": "unknown key",
    "unexpected_keyword_argument": "unknown key",
    "missing": "required key is missing",
    "missing_argument": "required key is missing",
    "missing_keyword_only_argument": "required key is missing",
}


def first_fault(raw: Any, error: ValidationError) -> tuple[tuple[str | int, ...], str]:
    """The path of the first thing that does not fit, as the file has it, and what is the matter."""
    first = error.errors(include_url=False, include_input=False)[0]
    path: list[str | int] = []
    here: Any = raw
    steps: tuple[Any, ...] = first["loc"]
    for number, step in enumerate(steps, start=1):
        if (isinstance(here, dict) and step in here) or (
            isinstance(here, list) and isinstance(step, int) and step < len(here)
        ):
            here = here[step]
        elif number < len(steps):  # the name of one of several shapes
            continue
        path.append(step)
    return tuple(path), _WORDS.get(first["type"], first["msg"])


# --- grades --------------------------------------------------------------------------------------


def _kind_of_grade(value: Any) -> str:
    absent = "reason" in value if isinstance(value, dict) else isinstance(value, NotEvaluated)
    return "not_evaluated" if absent else "score"


AnyGrade: TypeAlias = Annotated[
    Annotated[Score, Tag("score")] | Annotated[NotEvaluated, Tag("not_evaluated")],
    Discriminator(_kind_of_grade),
]
_GRADE: Final[TypeAdapter[Grade]] = TypeAdapter(AnyGrade, config=CONFIG)


def grade_json(grade: Grade) -> JsonObject:
    """A grade as JSON-ready values."""
    fields: JsonObject = _GRADE.dump_python(grade, mode="json", exclude_defaults=True)
    return fields


def parse_grade(raw: Any) -> Grade:
    """A grade from its JSON. Raises pydantic.ValidationError."""
    return _GRADE.validate_python(raw)


# --- outcomes ------------------------------------------------------------------------------------


class OutcomeEntry(Entry):
    """What the agent did, or how it failed. `agents`: for each invocation the address of its agents
    in the table."""

    kind: Literal["transcript"] | FailureKind
    invocations: list[InvocationWire] = Field(default_factory=list, description="Of a transcript.")
    final_state: JsonObject | None = None
    ended_by: Ending | None = Field(
        default=None, description="How a conversation with a simulated user ended."
    )
    isolated: bool = Field(default=False, description="Each turn had a session of its own.")
    platform: JsonObject | None = Field(
        default=None, description="What the agent's platform said of a conversation that it led."
    )
    agents: list[str] = Field(default_factory=list)
    times: list[list[float]] = Field(
        default_factory=list,
        description="For each turn, when its events came: seconds since it began.",
    )
    traces: list[list[JsonObject]] = Field(
        default_factory=list,
        description="Of each turn, the one that failed too, what was recorded of it, where `--trace` asked for it.",
    )
    calls: list[list[CallTime]] = Field(
        default_factory=list,
        description="Of a CES evaluation: how long each call of a model or a tool took, by turn.",
    )
    states: list[JsonObject | None] = Field(
        default_factory=list,
        description="Of a CES evaluation: the session's state at the end of each turn.",
    )
    model_calls: list[list[EventWire]] = Field(
        default_factory=list,
        description="Of each turn what the models' answers said of their tokens, where its events say otherwise.",
    )
    message: str = Field(default="", description="Of a failure.")
    turn: int | None = None
    detail: str = ""
    partial: list[InvocationWire] = Field(
        default_factory=list, description="The turns before the failure."
    )
    retry_after_s: float | None = None
    not_finite: Places = Field(default_factory=list, description=NOT_FINITE)
    redacted: bool = Field(
        default=False, description="Secrets were taken out: not to be scored anew."
    )


class Described:
    """Marks JSON that is read later: only the schema tells what it is."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Whatever the annotated type is."""
        return handler(source)

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The shape schema."""
        adapter: TypeAdapter[Any] = TypeAdapter(self.shape)
        return handler(adapter.core_schema)


def outcome_json(outcome: Outcome, *, agents_seen: AgentsTable, address: Address) -> JsonObject:
    """An outcome as compact JSON-ready values.

    Agents' instructions are long and the same in almost every turn of a run: they are written once,
    in a table. Every invocation's agents are put into `agents_seen` under `address(agents)`, and
    the outcome refers to them."""
    fields: JsonObject
    failed: tuple[Json, ...] = ()
    if isinstance(outcome, Transcript):
        turns = outcome.invocations
        fields = {"kind": "transcript", "invocations": [_turn_json(turn) for turn in turns]}
        if outcome.final_state is not None:
            fields["final_state"] = dict(outcome.final_state)
        if outcome.platform is not None:
            fields["platform"] = dict(outcome.platform)
        if outcome.ended_by is not None:
            fields["ended_by"] = outcome.ended_by.value
        fields |= {name: True for name in ("isolated", "redacted") if getattr(outcome, name)}
        if any(turn.state is not None for turn in turns):
            fields["states"] = [None if turn.state is None else dict(turn.state) for turn in turns]
        if any(turn.agents for turn in turns):
            fields["agents"] = [_remember(turn.agents, agents_seen, address) for turn in turns]
    else:
        failure_fields = {
            name: getattr(outcome, name) for name in ("message", "turn", "detail", "retry_after_s")
        }
        fields = {"kind": outcome.kind.value} | {
            name: value for name, value in failure_fields.items() if value not in (None, "")
        }
        turns = outcome.partial
        failed = outcome.trace
        if turns:
            fields["partial"] = [_turn_json(turn) for turn in turns]
    fields |= _beside(turns, failed=failed)
    if may_be_not_finite(encode(fields)) and (places := not_finite_places(fields)):
        fields["not_finite"] = places
    return fields


def _beside(turns: Sequence[Invocation], *, failed: Sequence[Json]) -> JsonObject:
    """What a turn has beside its form as google-adk's: a list for each turn, where any of them has
    something; with the trace of one that `failed` after them."""
    lists: dict[str, list[list[Any]]] = {
        "times": [
            [event.at for event in turn.events or () if event.at is not None] for turn in turns
        ],
        "calls": [
            [dataclasses.asdict(call) for call in turn.timings.calls] if turn.timings else []
            for turn in turns
        ],
        "traces": [
            list(map(dict, trace))
            for trace in (*(turn.trace for turn in turns), *([failed] if failed else ()))
        ],
        "model_calls": [
            [
                adk_shapes.event_json(Event(author="", usage=usage, model_version=name))
                for usage, name in model_calls
            ]
            for model_calls in (
                () if turn.model_calls == turn.event_calls else turn.model_calls for turn in turns
            )
        ],
    }
    return {name: rows for name, rows in lists.items() if any(rows)}


def _with_beside(turn: Invocation, read: OutcomeEntry, at: int) -> Invocation:
    """The turn with what `_beside` wrote of it; a list that is too short says nothing of it."""
    lists: tuple[list[list[Any]], ...] = (read.times, read.calls, read.traces, read.model_calls)
    times, calls, trace, model_calls = (rows[at] if at < len(rows) else [] for rows in lists)
    if times:
        turn = _timed(turn, times)
    if calls and turn.timings:
        turn = dataclasses.replace(
            turn, timings=dataclasses.replace(turn.timings, calls=tuple(calls))
        )
    if not trace and not model_calls:
        return turn
    events = (event.noun() for event in model_calls)
    spent = tuple(
        (event.usage, event.model_version or "") for event in events if event.usage is not None
    )
    return dataclasses.replace(turn, trace=tuple(trace), model_calls=spent)


def parse_outcome(raw: JsonObject, *, agents_seen: AgentsTable) -> Outcome:
    """An outcome from its JSON and the table of agents. Raises pydantic.ValidationError."""
    if raw.get("not_finite"):
        raw = with_not_finite(raw, raw["not_finite"])
    read = OutcomeEntry.model_validate(raw)
    turns = tuple(
        turn.noun() for turn in (read.invocations if read.kind == "transcript" else read.partial)
    )
    turns = tuple(_with_beside(turn, read, at) for at, turn in enumerate(turns))
    if read.kind != "transcript":
        return AgentFailure(
            kind=FailureKind(read.kind),
            message=read.message,
            turn=read.turn,
            detail=read.detail,
            partial=turns,
            retry_after_s=read.retry_after_s,
            trace=tuple(*read.traces[len(turns) : len(turns) + 1]),
        )
    if read.agents:
        turns = tuple(
            dataclasses.replace(turn, agents=agents_seen.get(address, ()))
            for turn, address in zip(turns, read.agents, strict=False)
        )
    if read.states:
        pairs = zip(turns, read.states, strict=False)
        turns = tuple(
            turn if state is None else dataclasses.replace(turn, state=state)
            for turn, state in pairs
        )
    return Transcript(
        invocations=turns,
        final_state=read.final_state,
        ended_by=read.ended_by,
        isolated=read.isolated,
        redacted=read.redacted,
        platform=read.platform,
    )


def _timed(turn: Invocation, times: Sequence[float]) -> Invocation:
    """With the times of its events, where these are as many."""
    events = turn.events or ()
    if len(times) != len(events) or not events:
        return turn
    timed = tuple(
        dataclasses.replace(event, at=at) for event, at in zip(events, times, strict=True)
    )
    return dataclasses.replace(turn, events=timed)


def agents_json(agents: tuple[AgentDetails, ...]) -> list[JsonObject]:
    """The agents of an invocation as JSON-ready values."""
    return [adk_shapes.agent_json(agent) for agent in agents]


def parse_agents(raw: list[JsonObject]) -> tuple[AgentDetails, ...]:
    """The agents of an invocation from their JSON. Raises pydantic.ValidationError."""
    wires = [AgentDetailsWire.model_validate(agent) for agent in raw]
    return AppDetailsWire.model_construct(agent_details={wire.name: wire for wire in wires}).noun()


def _remember(agents: tuple[AgentDetails, ...], agents_seen: AgentsTable, address: Address) -> str:
    if not agents:
        return ""
    key = address(agents_json(agents))
    agents_seen.setdefault(key, agents)
    return key


def _turn_json(turn: Invocation) -> JsonObject:
    return adk_shapes.invocation_json(dataclasses.replace(turn, agents=()) if turn.agents else turn)


# --- numbers that JSON has not, in values that may be anything -----------------------------------


def may_be_not_finite(encoded: bytes) -> bool:
    """True if the encoding of a value may contain such a number; next to no work."""
    return any(mark in encoded for mark in _MARKS)


def not_finite_places(value: Any) -> Places:
    """Paths of the numbers in a JSON-ready value that are not finite; of absurdly many only the
    first."""
    paths: Places = []
    steps = 0
    waiting: list[tuple[Any, Any]] = [((), value)]  # a path is its last step and the path before it
    while waiting and steps < MOST_STEPS:  # no recursion: an agent's values are as deep as it likes
        chain, here = waiting.pop()
        if isinstance(here, float):
            if not math.isfinite(here):
                path: list[str | int] = []
                while chain:
                    step, chain = chain
                    path.append(step)
                paths.append(path[::-1])
                steps += len(path)
        elif isinstance(here, Mapping):
            waiting.extend(((key, chain), child) for key, child in here.items())
        elif isinstance(here, list | tuple):
            waiting.extend(((index, chain), child) for index, child in enumerate(here))
    return paths


def with_not_finite(value: JsonObject, at: Any) -> JsonObject:
    """`value` with the numbers back in the places `at`; a place that holds no such text (anybody
    may have written the file) stays as it is."""
    document: JsonObject = json.loads(json.dumps(value))
    for path in at if isinstance(at, list) else ():
        here: Any = document
        with contextlib.suppress(LookupError, TypeError):
            for step in path[:-1]:
                here = here[step]
            if here[path[-1]] in NAMES:
                here[path[-1]] = float(here[path[-1]])
    return document
