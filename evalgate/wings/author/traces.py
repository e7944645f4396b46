"""Conversations in OpenTelemetry traces: OTLP as JSON, and spans of the Python SDK.

Reads three vocabularies, even mixed in one span: OpenTelemetry's for generative AI (`gen_ai.*`),
OpenInference's, and google-adk's (`gcp.vertex.agent.*`).
https://opentelemetry.io/docs/specs/semconv/gen-ai/ and
https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from evalgate.formats import adk_shapes
from evalgate.formats.adk_shapes import StepEvent
from evalgate.formats.base import Format
from evalgate.formats.json_source import Problems, Spot
from evalgate.model import Content, Invocation, Part, Text, ToolCall, ToolResponse, Transcript
from evalgate.model.shapes import to_fields, to_snake
from evalgate.values import Json, JsonObject, elements, grouped, member

_SESSION_ATTRIBUTES = ("session.id", "gen_ai.conversation.id", "gcp.vertex.agent.session_id")
_KINDS = {
    "execute_tool": "tool",
    "TOOL": "tool",
    **dict.fromkeys(("chat", "generate_content", "text_completion", "LLM"), "model"),
    **dict.fromkeys(("invoke_agent", "invoke_workflow", "AGENT", "CHAIN"), "agent"),
}
# google-adk's span around parallel calls; each call has its own span, too
_MERGED_TOOLS = "(merged tools)"
_CAPTURE_HINT = (
    "The spans were recorded without their content. google-adk 2 records it with "
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY and "
    "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental."
)


_TIMES_HINT = (
    "Record spans with their start times, one for each call of a model, as google-adk itself does."
)


class _OrderUnknown(Exception):  # noqa: N818 - it says what is the matter
    """The reason why the order of calls is unknown."""


@dataclass(kw_only=True, eq=False)
class Span:
    """A span."""

    trace: str
    """The id of its trace."""
    id: str
    parent: str
    """The id of the span around it; "" at the root."""
    name: str
    start: float
    """Seconds since 1970; 0.0 if it is unknown."""
    attributes: JsonObject
    children: list[Span] = field(default_factory=list)
    """In order of time, once all spans are linked."""
    author: str = "agent"
    """The nearest outer agent."""

    def kind(self) -> str:
        """`tool`, `model`, `agent` or, for other spans, ""."""
        attributes = self.attributes
        kind_name = attributes.get("openinference.span.kind") or attributes.get(
            "gen_ai.operation.name"
        )
        if self.name == "call_llm" or any(
            name.startswith("llm.output_messages.") for name in attributes
        ):
            return "model"
        if self.name.partition(" ")[0] in ("invocation", "agent_run"):
            return "agent"
        if attributes.get("gen_ai.tool.name") == _MERGED_TOOLS:
            return ""
        return _KINDS.get(str(kind_name), "")

    def first(self, *names: str) -> Any:
        """The first present attribute of these names, parsed if it is JSON."""
        return next(
            (_parse_json(self.attributes[name]) for name in names if name in self.attributes), None
        )

    @functools.cached_property
    def answer(self) -> list[Part]:
        """The parts of a model's answer: texts and calls."""
        response = member(self.first("gcp.vertex.agent.llm_response"), "content")
        messages = _messages(self.first("gen_ai.output.messages"), response)
        return _parts(messages) or _parts(_flat_messages(self, "output"))

    @property
    def calls(self) -> list[ToolCall]:
        """The calls in a model's answer."""
        return _calls(self.answer)

    @functools.cached_property
    def call_and_response(self) -> tuple[ToolCall, ToolResponse]:
        """The call and the response of a tool."""
        name = self.first("gen_ai.tool.name", "tool.name") or self.name.removeprefix(
            "execute_tool "
        )
        call_id = self.first("gen_ai.tool.call.id", "tool_call.id", "tool.id")
        args = self.first(
            "gen_ai.tool.call.arguments",
            "gcp.vertex.agent.tool_call_args",
            "tool_call.function.arguments",
        )
        output = self.first(
            "gen_ai.tool.call.result", "gcp.vertex.agent.tool_response", "output.value"
        )
        if (
            isinstance(output, dict)
            and output.keys() <= {"id", "name", "response"}
            and "response" in output
        ):
            output = output["response"]  # google.genai's FunctionResponse
        response = output if isinstance(output, dict) or output is None else {"result": output}
        call = _call(name, _tool_input(self) if args is None else args, call_id)
        return call, ToolResponse(name=call.name, response=response, id=call.id)

    @property
    def tools(self) -> list[Span]:
        """The spans of tools inside, in order of time."""
        tools = (span for span in _walk(self) if span.kind() == "tool")
        return sorted(tools, key=lambda span: span.start)


def is_trace(raw: Any) -> bool:
    """True if a JSON value is a trace, or one span of the SDK."""
    return isinstance(raw, dict) and (
        "resourceSpans" in raw or "resource_spans" in raw or _is_sdk_span(raw)
    )


def read_traces(raw: Sequence[Any], problems: Problems) -> list[tuple[str, Transcript]]:
    """The conversations of some traces in order of time, by the id of the session, else of the
    trace. A conversation without the user's messages is reported and left out."""
    spans = [span for trace_json in raw for span in _spans(trace_json)]
    spot = Spot(problems)
    sessions: dict[str, list[Invocation]] = {}
    reported_names: set[str] = set()
    for turn_span in sorted(_turn_spans(spans), key=lambda span: span.start):
        inner_spans = list(_walk(turn_span))
        ids = (span.first(*_SESSION_ATTRIBUTES) for span in inner_spans)
        name = next((str(session) for session in ids if session is not None), turn_span.trace)
        try:
            turn = _turn(turn_span, inner_spans)
        except _OrderUnknown as problem:
            reported_names.add(name)
            message = f"session {name[:60]}: span {turn_span.name[:60]!r} does not tell in which order its calls were made"
            spot.warning("order-unknown", f"{message}: {problem}", _TIMES_HINT)
            continue
        if turn is not None:
            sessions.setdefault(name, []).append(turn)
        elif name not in reported_names:
            reported_names.add(name)
            message = f"session {name[:60]}: span {turn_span.name[:60]!r} says nothing of what the user said"
            spot.warning("nothing-recorded", message, _CAPTURE_HINT)
    return [
        (name, Transcript(invocations=tuple(turns)))
        for name, turns in sessions.items()
        if turns and name not in reported_names
    ]


# --- spans ---------------------------------------------------------------------------------------


def _is_sdk_span(raw: Json) -> bool:
    has_id = member(raw.get("context"), "span_id") is not None
    return has_id and isinstance(raw.get("attributes"), dict)


def _spans(raw: Json) -> Iterator[Span]:
    if _is_sdk_span(raw):
        yield _span({**raw, **raw["context"]}, raw["attributes"])
        return
    for resource in _objects(raw, "resource_spans"):
        for scope in _objects(resource, "scope_spans"):
            for span in _objects(scope, "spans"):
                yield _span(to_fields(span), _values(span, "attributes"))


def _span(fields: Json, attributes: JsonObject) -> Span:
    """A span of either shape: OTLP's keys, then the SDK's."""
    return Span(
        trace=str(fields.get("trace_id") or ""),
        id=str(fields.get("span_id") or ""),
        parent=str(fields.get("parent_span_id") or fields.get("parent_id") or ""),
        name=str(fields.get("name") or ""),
        start=_seconds(fields.get("start_time_unix_nano") or fields.get("start_time")),
        attributes=attributes,
    )


def _objects(raw: Any, key: str) -> list[JsonObject]:
    return [element for element in elements(to_fields(raw), key) if isinstance(element, dict)]


def _value(raw: Any, depth: int = 20) -> Any:
    """The Python value of OTLP's AnyValue."""
    if not isinstance(raw, dict) or len(raw) != 1 or depth == 0:
        return None
    name, value = next(iter(raw.items()))
    match to_snake(name):
        case "array_value":
            return [_value(element, depth - 1) for element in _objects(value, "values")]
        case "kvlist_value":
            return _values(value, "values", depth - 1)
        case "int_value" if isinstance(value, str):
            with suppress(ValueError):
                return int(value)
    return value


def _values(raw: Any, key: str, depth: int = 20) -> JsonObject:
    """The Python values of a list of OTLP's KeyValues."""
    return {str(pair.get("key")): _value(pair.get("value"), depth) for pair in _objects(raw, key)}


def _seconds(raw: Any) -> float:
    try:
        if isinstance(raw, int | float) or (isinstance(raw, str) and raw.isdecimal()):
            return int(raw) / 1e9
        return dt.datetime.fromisoformat(str(raw)).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _turn_spans(spans: Sequence[Span]) -> Iterator[Span]:
    """The spans of turns: the outermost agent spans, or model spans if there is no agent. Links all
    spans to their parents."""
    by_id = {(span.trace, span.id): span for span in spans}
    queue: list[Span] = []  # of the roots, whose parents are missing
    for span in by_id.values():
        parent = by_id.get((span.trace, span.parent))
        (queue if parent is None or parent is span else parent.children).append(span)
    for span in spans:
        span.children.sort(key=lambda child: child.start)
    while queue:
        span = queue.pop()
        if span.kind() in ("agent", "model"):
            yield span
        else:
            queue += span.children


def _walk(span: Span) -> Iterator[Span]:
    """A span and its inner spans, in order of time. Spans inside a tool are left out, because
    agents there do not talk to the user."""
    queue = [span]
    while queue:
        current_span = queue.pop()
        current_span.author = str(
            current_span.first("gen_ai.agent.name", "agent.name") or current_span.author
        )
        yield current_span
        if current_span.kind() == "tool":
            continue
        for child in reversed(current_span.children):
            child.author = current_span.author
            queue.append(child)


# --- a turn --------------------------------------------------------------------------------------


def _turn(turn_span: Span, inner_spans: Sequence[Span]) -> Invocation | None:
    models = [span for span in inner_spans if span.kind() == "model" and span.answer]
    nested = set[Span]()
    for span in models:
        if span not in nested:  # outer ones come first; each span is looked at once
            nested.update(inner for child in span.children for inner in _walk(child))
    # google-adk's span may contain its client's span for the same call
    model_spans = [span for span in models if span not in nested]
    question = next(filter(None, map(_user_text, [turn_span, *model_spans])), "")
    if not question:
        return None
    messages = _messages(turn_span.first("gen_ai.output.messages"))
    texts = (message.text() for message in reversed(messages))
    answer = next(filter(None, texts), "") or _last_text(turn_span.first("output.value"))
    for span in model_spans:
        _order_tools(span)
    steps = _steps(model_spans, turn_span.tools, answer=answer)
    if answer and not any(step.final for step in steps):
        steps.append(_step("agent", [Text(text=answer)], role="model", final=True))
    user_content = Content.of(question, "user")
    return adk_shapes.turn_of_steps(user_content, steps, invocation_id=turn_span.id)


def _order_tools(span: Span) -> None:
    """Give the tools inside a model's span their start times in the order of its calls.

    Parallel calls start in any order. A span around all calls of a model (OpenInference on
    google-adk 2) lists them in the model's last input. Without such a list, times stay."""
    tools = span.tools
    keys = list(map(_signature, _calls(_parts(_flat_messages(span, "input")))))
    last_keys = list(map(_signature, span.calls))
    # the messages may include the answer already
    if last_keys and keys[-len(last_keys) :] != last_keys:
        keys += last_keys
    keys = keys[-len(tools) :]
    starts = [tool.start for tool in tools]
    tools.sort(key=lambda tool: _signature(tool.call_and_response[0]))
    # calls of another agent are not listed: then only the times show the order
    if sorted(keys) == [_signature(tool.call_and_response[0]) for tool in tools]:
        for tool, (_, start) in zip(tools, sorted(zip(keys, starts, strict=True)), strict=True):
            tool.start = start


def _signature(call: ToolCall) -> str:
    return json.dumps([call.name, call.args], sort_keys=True)


def _steps(models: Sequence[Span], tools: Sequence[Span], *, answer: str) -> list[StepEvent]:
    """The steps of models and tools, in order of time. Raises _OrderUnknown."""
    requests = [(span.start, call) for span in models for call in span.calls]
    requested = _called_tools(requests, tools)
    # a span around several tools covers several model calls; the tool spans have the calls and
    # their times
    wrappers = {span for span in models if len(span.tools) > 1}
    is_every_call_run = len(requested) == len(requests)
    if wrappers:
        requested = set()
    unrequested = [span for span in tools if span not in requested]
    if len(unrequested) > 1 and not all(span.start for span in unrequested):
        raise _OrderUnknown("its spans have no start times")
    for earlier, later in itertools.pairwise(unrequested):
        if earlier.start == later.start:
            raise _OrderUnknown(
                f"{earlier.name[:60]!r} and {later.name[:60]!r} started at the same time"
            )
    if wrappers and not is_every_call_run:
        raise _OrderUnknown("one span is several model calls, and has tool calls without a span")
    steps: list[StepEvent] = []
    for span in sorted([*models, *tools], key=lambda span: span.start):
        if span.kind() == "tool":
            call, response = span.call_and_response
            if span not in requested:
                steps.append(_step(span.author, [call], role="model"))
            steps.append(_step(span.author, [response], role="user"))
            continue
        parts = span.answer
        if span in wrappers:
            parts = [part for part in parts if not isinstance(part, ToolCall)]
        # one span for a whole conversation may hold the answer next to the call that led to it
        if span.calls:
            parts = [part for part in parts if not (isinstance(part, Text) and part.text == answer)]
        steps.append(_step(span.author, parts, role="model", final=not span.calls))
    return steps


def _called_tools(requests: Sequence[tuple[float, ToolCall]], tools: Sequence[Span]) -> set[Span]:
    """The tools whose calls a model requested. `requests`: with their times.

    A call matches a request by its id, else by its arguments, else by its tool, because a span may
    spell arguments differently. No request counts twice."""
    requested = set[Span]()
    matched_numbers = set[int]()
    for key in (lambda call: call.id, _signature, lambda call: call.name):
        open_requests = grouped(
            (key(call), (start, number))
            for number, (start, call) in enumerate(requests)
            if number not in matched_numbers
        )
        for tool in tools:
            call_key = key(tool.call_and_response[0])
            candidates = open_requests.get(call_key) if tool not in requested else None
            if candidates and call_key and candidates[0][0] <= tool.start:
                matched_numbers.add(candidates.pop(0)[1])
                requested.add(tool)
    return requested


def _step(author: str, parts: Sequence[Part], *, role: str, final: bool = False) -> StepEvent:
    return StepEvent(author=author, content=Content(parts=tuple(parts), role=role), final=final)


def _user_text(span: Span) -> str:
    """The user's last message before a span began, or "" if it is unknown."""
    contents = member(span.first("gcp.vertex.agent.llm_request"), "contents")
    messages = _messages(span.first("gen_ai.input.messages"), contents)
    messages += _flat_messages(span, "input")
    texts = (message.text() for message in reversed(messages) if message.role == "user")
    return next(filter(None, texts), "") or _last_text(span.first("input.value"))


def _tool_input(span: Span) -> Any:
    """The input of a tool in OpenInference.

    `tool.parameters` is the input in google-adk, Agno and Pydantic AI, and its schema in OpenAI's
    Agents SDK, CrewAI, LlamaIndex and smolagents."""
    span_input = span.first("input.value")
    if isinstance(span_input, dict):
        is_of_smolagents = span_input.keys() >= {"args", "kwargs", "sanitize_inputs_outputs"}
        return span_input["kwargs"] if is_of_smolagents and not span_input["args"] else span_input
    parameters = span.first("tool.parameters")
    is_schema = isinstance(parameters, dict) and (
        isinstance(parameters.get("properties"), dict)
        or all(isinstance(member(schema, "type"), str) for schema in parameters.values())
    )
    return span_input if parameters is None or is_schema else parameters


def _call(name: Any, args: Any, call_id: Any) -> ToolCall:
    arguments = _parse_json(args)
    if not isinstance(arguments, dict):
        arguments = {} if arguments in (None, "") else {"input": arguments}
    return ToolCall(name=str(name), args=arguments, id=str(call_id) if call_id else None)


def _parts(messages: Iterable[Content]) -> list[Part]:
    return [part for message in messages for part in message.parts]


def _calls(parts: Iterable[Part]) -> list[ToolCall]:
    return [part for part in parts if isinstance(part, ToolCall)]


def _messages(*raw: Any) -> list[Content]:
    """The messages of an attribute, or of several."""
    return [_content(message) for listed in raw for message in _as_list(listed)]


def _content(raw: Any) -> Content:
    """A message in one of three shapes: `gen_ai`'s ({role, parts: [{type}]}), google.genai's
    ({role, parts}), or {role, content}."""
    fields = _snake_fields(raw, "content")
    parts: list[Part] = []
    for raw_part in [*_as_list(fields.get("parts")), *_as_list(fields.get("content"))]:
        part = _snake_fields(raw_part, "text")
        call_fields = part if part.get("type") == "tool_call" else part.get("function_call")
        if isinstance(call_fields, dict):
            parts.append(
                _call(
                    call_fields.get("name"),
                    call_fields.get("args", call_fields.get("arguments")),
                    call_fields.get("id"),
                )
            )
        elif isinstance(text := part.get("text", part.get("content")), str):
            parts.append(
                Text(
                    text=text, thought=bool(part.get("thought")) or part.get("type") == "reasoning"
                )
            )
    return Content(parts=tuple(parts), role=str(fields.get("role") or ""))


def _snake_fields(raw: Any, key: str) -> JsonObject:
    """The fields of an object, in snake_case; any other value as the field `key`."""
    return to_fields(raw) if isinstance(raw, dict) else {key: raw}


def _last_text(raw: Any, depth: int = 8) -> str:
    """The last text in a span's input or output, if its shape is known."""
    if isinstance(raw, str) or depth == 0:
        return raw if isinstance(raw, str) else ""
    if isinstance(raw, list):
        return next(
            (text for element in reversed(raw) if (text := _last_text(element, depth - 1))), ""
        )
    fields = to_fields(raw)
    for key in ("new_message", "messages", "contents", "content", "parts", "text"):
        if key in fields and (text := _last_text(fields[key], depth - 1)):
            return text
    text_fields = [value for value in fields.values() if isinstance(value, str)]
    return text_fields[0] if len(text_fields) == len(fields) == 1 else ""


# --- JSON in attributes --------------------------------------------------------------------------


def _parse_json(raw: Any) -> Any:
    """An attribute's value. JSON in a text is parsed, other texts stay."""
    if isinstance(raw, str) and raw.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            return raw
    return raw


def _flat(attributes: Json, prefix: str) -> list[JsonObject]:
    """The elements of OpenInference's lists: `prefix.0.a`, `prefix.0.b`, `prefix.1.a` are two."""
    numbered: dict[int, JsonObject] = {}
    for name, value in attributes.items():
        number = re.match(r"(\d{1,6})\.", name[len(prefix) :]) if name.startswith(prefix) else None
        if number:
            numbered.setdefault(int(number[1]), {})[name[len(prefix) + number.end() :]] = value
    return [numbered[index] for index in sorted(numbered)]


def _flat_messages(span: Span, side: str) -> list[Content]:
    """The messages of OpenInference; `side`: input or output."""
    messages = []
    for message in _flat(span.attributes, f"llm.{side}_messages."):
        contents = _flat(message, "message.contents.")
        texts = [part.get("message_content.text") for part in contents]
        text = "\n".join(map(str, filter(None, [message.get("message.content"), *texts])))
        parts: list[Part] = [Text(text=text)] if text else []
        parts += [
            _call(
                call.get("tool_call.function.name"),
                call.get("tool_call.function.arguments"),
                call.get("tool_call.id"),
            )
            for call in _flat(message, "message.tool_calls.")
        ]
        messages.append(Content(parts=tuple(parts), role=message.get("message.role")))
    return messages


def _as_list(raw: Any) -> list[Any]:
    return raw if isinstance(raw, list) else [] if raw is None else [raw]


class Traces(Format):
    """Traces of OpenTelemetry."""

    name = "traces"
    is_trace = staticmethod(is_trace)
    read_traces = staticmethod(read_traces)


FORMAT = Traces()
