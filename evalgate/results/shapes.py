"""The JSON form of the nouns, derived from their classes, with the few exceptions.

A noun is written by its own fields, without defaults. Conversations have ADK's form
(`formats.adk_shapes`), so that they can be pasted into an evaluation file; the agents' instructions
are in a separate table."""

from __future__ import annotations

import dataclasses
import functools
import json
import typing
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    Tag,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticSerializationError, to_json

from evalgate.formats import adk_shapes, fingerprints, json_source
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
from evalgate.values import JsonObject, Sentence, without

Noun = TypeVar("Noun")
"""A class of `evalgate.model`."""
AgentsTable: TypeAlias = dict[str, tuple[AgentDetails, ...]]
"""By the address that outcomes refer to."""

CONFIG = ConfigDict(
    extra="forbid",
    frozen=True,
    protected_namespaces=(),
    ser_json_inf_nan="strings",
)
"""Of everything that we write: unknown keys are refused, and infinity is a text, as JSON has
none."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""Of the JSON schemas of our files."""


def described(text: str, default: Any = ...) -> Any:
    """A field of a part of our files, with its description for the schema."""
    return Field(default=default, description=text)


class Entry(BaseModel):
    """A part of one of our files. Unknown keys are refused, since every layout has its own
    version."""

    model_config = CONFIG


def fields_of(
    noun: type, *, without: Collection[str] = (), name: str = ""
) -> Callable[[type[Entry]], type[Entry]]:
    """Put the fields of a noun, except those in `without`, before those of the decorated model,
    which may replace some. `name`: of the model in the schema."""
    hints = typing.get_type_hints(noun, include_extras=True)
    fields: JsonObject = {}
    for field in dataclasses.fields(noun):
        hint = hints[field.name]
        # our files contain no nulls
        default: Any = None if type(None) in typing.get_args(hint) else ...
        if field.default_factory is not dataclasses.MISSING:
            default = Field(default_factory=field.default_factory)
        elif field.default is not dataclasses.MISSING:
            default = field.default
        if field.name not in without:
            fields[field.name] = (hint, default)

    def add(model: type[Entry]) -> type[Entry]:
        """The model with the noun's fields before its own."""
        own_fields = {key: (field.annotation, field) for key, field in model.model_fields.items()}
        return create_model(
            name or model.__name__,
            __base__=Entry,
            __doc__=model.__doc__,
            __module__=__name__,
            **(fields | own_fields),
        )

    return add


def entry_of(shape: type[Entry], noun: Any, **extra_fields: Any) -> Entry:
    """A noun in this shape; `extra_fields`: fields that the noun does not have, or others."""
    fields = {
        name: extra_fields[name] if name in extra_fields else getattr(noun, name)
        for name in shape.model_fields
    }
    return shape.model_construct(**fields)


def written(entry: Entry) -> JsonObject:
    """An entry as JSON-ready values, without defaults."""
    return entry.model_dump(mode="json", exclude_defaults=True)


def restored(noun: type[Noun], entry: Entry, **extra_fields: Any) -> Noun:
    """The noun of an entry; `extra_fields`: fields that the entry does not have."""
    names = _shared_fields(noun, type(entry))  # type: ignore[arg-type]
    return noun(**{name: getattr(entry, name) for name in names} | extra_fields)


@functools.cache
def _shared_fields(noun: Any, shape: type[Entry]) -> Collection[str]:
    """The names of the fields that both have."""
    return {field.name for field in dataclasses.fields(noun)} & shape.model_fields.keys()


def encode(document: Any) -> bytes:
    """Compact, strict JSON without a line end, for values that were read from JSON.

    JSON has no NaN and no Infinity (RFC 8259): they become the texts `NaN`, `Infinity` and
    `-Infinity`, which pydantic reads as floats where the layout has some."""
    try:
        return to_json(document, inf_nan_mode="strings", fallback=_text_of)
    except PydanticSerializationError:
        # lone surrogates occur in agents' answers: they survive escaped, but not in UTF-8; or
        # values are very deep
        text = json.dumps(document, ensure_ascii=True, separators=(",", ":"), default=_text_of)
        if "NaN" in text or "Infinity" in text:
            strict_document = json.loads(text, parse_constant=str)
            text = json.dumps(
                strict_document, ensure_ascii=True, separators=(",", ":"), allow_nan=False
            )
        return text.encode()


def _text_of(sentence: Any) -> str:
    """A sentence as text; other values are no JSON."""
    if isinstance(sentence, Sentence):
        return str(sentence)
    raise TypeError(f"no JSON: {type(sentence).__name__}")


_WORDS = {
    "extra_forbidden": "unknown key",
    "unexpected_keyword_argument": "unknown key",
    "missing": "required key is missing",
    "missing_argument": "required key is missing",
    "missing_keyword_only_argument": "required key is missing",
}
"""Our words for Pydantic's types of errors."""


def first_fault(raw: Any, error: ValidationError) -> tuple[tuple[str | int, ...], str]:
    """The path of the first fault, as the file has it, and the fault in words."""
    fault = error.errors(include_url=False, include_input=False)[0]
    path, _ = json_source.fault_path(fault["loc"], raw)
    return path, _WORDS.get(fault["type"], fault["msg"])


# --- grades --------------------------------------------------------------------------------------


def _kind_of_grade(grade: Any) -> str:
    """The tag of a grade, or of its JSON."""
    has_reason = "reason" in grade if isinstance(grade, dict) else isinstance(grade, NotEvaluated)
    return "not_evaluated" if has_reason else "score"


AnyGrade: TypeAlias = Annotated[
    Annotated[Score, Tag("score")] | Annotated[NotEvaluated, Tag("not_evaluated")],
    Discriminator(_kind_of_grade),
]
"""A score, or why there is none: told apart by `reason`."""
_GRADE: TypeAdapter[Grade] = TypeAdapter(AnyGrade, config=CONFIG)
"""Reads and writes it."""


def grade_json(grade: Grade) -> JsonObject:
    """A grade as JSON-ready values."""
    fields: JsonObject = _GRADE.dump_python(grade, mode="json", exclude_defaults=True)
    return fields


def parse_grade(raw: Any) -> Grade:
    """A grade from its JSON. Raises pydantic.ValidationError."""
    return _GRADE.validate_python(raw)


# --- outcomes ------------------------------------------------------------------------------------


class OutcomeEntry(Entry):
    """The agent's conversation, or its failure. `agents`: for each invocation the address of its
    agents in the table."""

    kind: Literal["transcript"] | FailureKind
    invocations: list[InvocationWire] = Field(default_factory=list, description="Of a transcript.")
    final_state: JsonObject | None = None
    ended_by: Ending | None = described("How a conversation with a simulated user ended.", None)
    isolated: bool = described("Each turn ran in a separate session.", default=False)
    platform: JsonObject | None = described(
        "What the agent's platform said of a conversation that it led.", None
    )
    agents: list[str] = Field(default_factory=list)
    times: list[list[float]] = Field(
        default_factory=list,
        description="For each turn the times of its events, in seconds since its start.",
    )
    traces: list[list[JsonObject]] = Field(
        default_factory=list,
        description="The trace of each turn, with the failed one; only with `--trace`.",
    )
    calls: list[list[CallTime]] = Field(
        default_factory=list,
        description="CES evaluations: the time of each call of a model or a tool, by turn.",
    )
    states: list[JsonObject | None] = Field(
        default_factory=list,
        description="CES evaluations: the session's state at the end of each turn.",
    )
    model_calls: list[list[EventWire]] = Field(
        default_factory=list,
        description="For each turn the token counts of the models' responses, if its events report others.",
    )
    message: str = described("Of a failure.", "")
    turn: int | None = None
    detail: str = ""
    partial: list[InvocationWire] = Field(
        default_factory=list, description="The turns before the failure."
    )
    retry_after_s: float | None = None
    redacted: bool = described("Secrets were removed, so it is not scored again.", default=False)


_DEFAULTS = {
    name: field.default
    for name, field in OutcomeEntry.model_fields.items()
    if name not in ("invocations", "partial")
}
"""Of the fields that transcripts and failures have under the same name."""


class Described:
    """Marks JSON that is parsed later: only the schema describes it."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The shape schema."""
        adapter: TypeAdapter[Any] = TypeAdapter(self.shape)
        return handler(adapter.core_schema)


def outcome_json(outcome: Outcome, *, agents_seen: AgentsTable) -> JsonObject:
    """An outcome as compact JSON-ready values.

    Agents' instructions are long and the same in almost every turn of a run: they are written once,
    in a table. Every invocation's agents are put into `agents_seen` under their digest, and the
    outcome refers to them."""
    # the layout has the names of the nouns; what has its default is left out
    fields: JsonObject = {"kind": "transcript"} | {
        name: content
        for name, default in _DEFAULTS.items()
        if (content := getattr(outcome, name, default)) != default
    }
    if isinstance(outcome, Transcript):
        name, turns, failed_traces = "invocations", outcome.invocations, []
    else:
        name, turns, failed_traces = "partial", outcome.partial, [*filter(None, [outcome.trace])]
    addresses = []
    for turn in turns:
        address = fingerprints.digest(agents_json(turn.agents)) if turn.agents else ""
        if address:
            agents_seen.setdefault(address, turn.agents)
        addresses.append(address)
    # the turns, and a list with an entry per turn for each thing that google-adk's form lacks
    lists: dict[str, Sequence[Any]] = {
        # their agents are in the table
        name: [without(adk_shapes.invocation_json(turn), ("app_details",)) for turn in turns],
        "states": [turn.state for turn in turns],
        "agents": addresses,
        "times": [[event.at for event in turn.steps if event.at is not None] for turn in turns],
        "calls": [
            [dataclasses.asdict(call) for call in turn.timings.calls] if turn.timings else []
            for turn in turns
        ],
        # that of a failed turn after the others
        "traces": [list(trace) for trace in (*(turn.trace for turn in turns), *failed_traces)],
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
    return fields | {
        name: rows for name, rows in lists.items() if any(row not in (None, "", []) for row in rows)
    }


def _with_lists(
    turn: Invocation, entry: OutcomeEntry, index: int, agents_seen: AgentsTable
) -> Invocation:
    """The turn with its data in the lists of its outcome; a list may be too short."""

    def row(rows: Sequence[Any]) -> Any:
        """The entry for this turn; None if the list is too short."""
        return rows[index] if index < len(rows) else None

    fields: JsonObject = {}
    events = turn.steps
    times = row(entry.times) or ()
    if len(times) == len(events) > 0:
        fields["events"] = tuple(
            dataclasses.replace(event, at=at) for event, at in zip(events, times, strict=True)
        )
    if row(entry.calls) and turn.timings:
        calls = tuple(row(entry.calls))
        fields["timings"] = dataclasses.replace(turn.timings, calls=calls)
    if row(entry.traces):
        fields["trace"] = tuple(row(entry.traces))
    if row(entry.model_calls):
        model_calls = [wire.to_model() for wire in row(entry.model_calls)]
        fields["model_calls"] = tuple(
            (event.usage, event.model_version or "")
            for event in model_calls
            if event.usage is not None
        )
    if row(entry.agents):
        fields["agents"] = agents_seen.get(row(entry.agents), ())
    if row(entry.states) is not None:
        fields["state"] = row(entry.states)
    return dataclasses.replace(turn, **fields) if fields else turn


def parse_outcome(raw: JsonObject, *, agents_seen: AgentsTable) -> Outcome:
    """An outcome from its JSON and the table of agents. Raises pydantic.ValidationError."""
    entry = OutcomeEntry.model_validate(raw)
    wires = entry.invocations if entry.kind == "transcript" else entry.partial
    turns = tuple(
        _with_lists(wire.to_model(), entry, index, agents_seen) for index, wire in enumerate(wires)
    )
    if entry.kind == "transcript":
        return restored(Transcript, entry, invocations=turns)
    trace = tuple(*entry.traces[len(turns) : len(turns) + 1])
    return restored(AgentFailure, entry, partial=turns, trace=trace)


def agents_json(agents: tuple[AgentDetails, ...]) -> list[JsonObject]:
    """The agents of an invocation as JSON-ready values."""
    return [adk_shapes.agent_json(agent) for agent in agents]


def parse_agents(raw: list[JsonObject]) -> tuple[AgentDetails, ...]:
    """The agents of an invocation from their JSON. Raises pydantic.ValidationError."""
    wires = [AgentDetailsWire.model_validate(agent) for agent in raw]
    return AppDetailsWire.model_construct(
        agent_details={wire.name: wire for wire in wires}
    ).to_model()
