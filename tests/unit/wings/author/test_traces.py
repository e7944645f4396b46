"""OpenTelemetry traces as conversations. tests/data/spans: one agent, asked twice, as real
instrumentation wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from evalgate.errors import Severity
from evalgate.formats.recordings import RecordingReading, parse_recordings
from evalgate.model import Content, Text
from evalgate.wings.author import traces as spans

DATA = Path(__file__).parents[3] / "data/spans"
WITH_CONTENT = ("adk-1.18.otlp.json", "adk-2.13.spans.jsonl", "openinference.otlp.json")


def spoken(content: Content | None) -> str:
    return "".join(
        part.text for part in (content.parts if content else ()) if isinstance(part, Text)
    )


def summary(reading: RecordingReading) -> list[Any]:
    """Per session: its name, and per turn what was said, called, returned and answered."""
    return [
        (
            each.case_id,
            [
                (
                    spoken(turn.user_content),
                    [(call.name, call.args) for call in turn.tool_calls],
                    [given.response for given in turn.tool_responses],
                    spoken(turn.final_response),
                )
                for turn in each.transcript.invocations
            ],
        )
        for each in reading.recordings
    ]


DESK = [
    (
        "s-1",
        [
            (
                "Where is my order 42?",
                [("look_up", {"order": 42})],
                [{"state": "packed", "ships": "Monday"}],
                "Order 42 ships on Monday.",
            ),
            ("Thanks!", [], [], "You are welcome."),
        ],
    )
]


@pytest.mark.parametrize("name", WITH_CONTENT)
def test_real_traces_are_read_alike(name: str) -> None:
    reading = parse_recordings((DATA / name).read_text(), file=name)
    assert summary(reading) == DESK
    assert not reading.problems
    (first, _) = reading.recordings[0].transcript.invocations
    assert {event.author for event in first.events or ()} <= {"desk", "agent"}


@pytest.mark.parametrize(
    "arrange",
    [
        lambda spans: "".join(json.dumps(span) + "\n" for span in reversed(spans)),  # in any order
        json.dumps,  # as a list
        # as the console exporter prints them
        lambda spans: "\n".join(json.dumps(span, indent=4) for span in spans),
        lambda spans: json.dumps(spans + spans),  # a span that was exported twice
    ],
)
def test_spans_in_any_arrangement(arrange: Any) -> None:
    spans = [json.loads(line) for line in (DATA / "adk-2.13.spans.jsonl").read_text().splitlines()]
    assert summary(parse_recordings(arrange(spans), file="t.json")) == DESK


def test_traces_one_a_line() -> None:
    """As the Collector's file exporter writes them: a session goes on in the next line."""
    whole = json.loads((DATA / "adk-1.18.otlp.json").read_text())
    scope = whole["resourceSpans"][0]["scopeSpans"][0]
    traces = {span["traceId"] for span in scope["spans"]}
    lines = [
        json.dumps(
            {
                "resourceSpans": [
                    {
                        "scopeSpans": [
                            {"spans": [s for s in scope["spans"] if s["traceId"] == trace]}
                        ]
                    }
                ]
            }
        )
        for trace in sorted(traces)
    ]
    assert len(lines) == 2
    assert summary(parse_recordings("\n".join(lines), file="t.jsonl")) == DESK


def test_spans_without_content_say_what_to_set() -> None:
    reading = parse_recordings(
        (DATA / "adk-2.13-without-content.spans.jsonl").read_text(), file="t.jsonl"
    )
    assert not reading.recordings
    told = [
        problem
        for problem in reading.problems
        if "says nothing of what the user said" in problem.message
    ]
    assert len(told) == 1
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in (told[0].hint or "")
    assert any(problem.severity is Severity.ERROR for problem in reading.problems)


def test_real_spans_of_openinference_on_google_adk_2_keep_the_order_of_the_model() -> None:
    """Three calls of the model in one span; the first and the last ask for tools side by side."""
    text = (DATA / "openinference-adk-2.13.spans.jsonl").read_text()
    order = [("first", 1), ("second", 2), ("third", 3), ("first", 4), ("second", 5), ("third", 6)]
    spans = [json.loads(line) for line in text.splitlines()]
    # as it was recorded, and as if the tools had started the other way round
    tools = [span for span in spans if span["attributes"].get("openinference.span.kind") == "TOOL"]
    starts = [tool["start_time"] for tool in tools]
    for arranged in (starts, starts[::-1]):
        for tool, start in zip(tools, arranged, strict=True):
            tool["start_time"] = start
        reading = parse_recordings(json.dumps(spans), file="t.json")
        (turn,) = reading.recordings[0].transcript.invocations
        assert [(call.name, (call.args or {})["n"]) for call in turn.tool_calls] == order
        assert spoken(turn.final_response) == "done"


def span(name: str, start: int, parent: str = "", **attributes: Any) -> dict[str, Any]:
    said = {key.replace("__", "."): value for key, value in attributes.items()}
    return {
        "name": name,
        "context": {"trace_id": "t", "span_id": name},
        "parent_id": parent or None,
        "start_time": f"2026-01-01T00:00:{start:02}Z",
        "attributes": said,
    }


def asks(text: str) -> str:
    return json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])


def says(text: str) -> str:
    return json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": text}]}])


def calls(tool: str, *arguments: dict[str, Any]) -> str:
    parts = [{"type": "tool_call", "name": tool, "arguments": each} for each in arguments]
    return json.dumps([{"role": "assistant", "parts": parts}])


def flat(side: str, message: int, *numbers: int) -> dict[str, str]:
    """OpenInference's attributes of a message that calls `look` with these numbers."""
    prefix = f"llm.{side}_messages.{message}.message.tool_calls"
    attributes = {}
    for at, number in enumerate(numbers):
        attributes[f"{prefix}.{at}.tool_call.function.name"] = "look"
        attributes[f"{prefix}.{at}.tool_call.function.arguments"] = json.dumps({"n": number})
    return attributes


SCHEMA = json.dumps({"type": "object", "properties": {"city": {"type": "string"}}})
OPENINFERENCE_TOOL = {"openinference__span__kind": "TOOL", "tool__name": "look"}
CHAT = {"gen_ai__operation__name": "chat"}
TOOL = {"gen_ai__operation__name": "execute_tool"}


@pytest.mark.parametrize(
    ("spans", "turns"),
    [
        # a model call alone, without an agent
        (
            [span("chat", 1, **CHAT, gen_ai__input__messages=asks("hi"), gen_ai__output__messages=says("hello"))],
            [("hi", [], [], "hello")],
        ),
        # a server around two turns
        (
            [
                span("POST /run", 0),
                span("a", 1, "POST /run", openinference__span__kind="AGENT", input__value="one", output__value="1"),
                span("b", 2, "POST /run", openinference__span__kind="AGENT", input__value="two", output__value="2"),
            ],
            [("one", [], [], "1"), ("two", [], [], "2")],
        ),
        # one model call with two spans: the outer one's, and that of the client
        (
            [
                span("a", 0, openinference__span__kind="AGENT", input__value="hi"),
                span("call_llm", 1, "a", gen_ai__output__messages=says("hello")),
                span("chat", 2, "call_llm", **CHAT, gen_ai__output__messages=says("hello")),
            ],
            [("hi", [], [], "hello")],
        ),
        # a tool that no model call announces; what it asks of agents of its own is not said to the
        # user
        (
            [
                span("a", 0, openinference__span__kind="CHAIN", input__value="hi", output__value="done"),
                span(
                    "t", 1, "a", **TOOL, gen_ai__tool__name="ask", gen_ai__tool__call__arguments='{"q": 1}',
                    gen_ai__tool__call__result="42",
                ),
                span("inner", 2, "t", **CHAT, gen_ai__output__messages=says("whispered")),
            ],
            [("hi", [("ask", {"q": 1})], [{"result": "42"}], "done")],
        ),
        # google-adk's span around calls side by side is none
        (
            [
                span("a", 0, openinference__span__kind="CHAIN", input__value="hi", output__value="done"),
                span("m", 1, "a", **TOOL, gen_ai__tool__name="(merged tools)"),
                span("t", 1, "a", **TOOL, gen_ai__tool__name="look", gcp__vertex__agent__tool_call_args="{}"),
            ],
            [("hi", [("look", {})], [None], "done")],
        ),
        # the schema of a tool beside what it was given, as OpenAI's Agents SDK and smolagents have
        # it, and AG2
        (
            [
                span("a", 0, openinference__span__kind="AGENT", input__value="hi", output__value="done"),
                span("t", 1, "a", **OPENINFERENCE_TOOL, tool__parameters=SCHEMA, input__value='{"city": "Oslo"}'),
                span(
                    "u", 2, "a", **OPENINFERENCE_TOOL, tool__parameters='{"city": {"type": "string"}}',
                    input__value='{"args": [], "sanitize_inputs_outputs": true, "kwargs": {"city": "Rome"}}',
                ),
                span("v", 3, "a", **OPENINFERENCE_TOOL, tool__parameters=SCHEMA, input__value="{'city': 'Bonn'}"),
                span(
                    "w", 4, "a", **OPENINFERENCE_TOOL, tool__parameters=SCHEMA,
                    tool_call__function__arguments='{"city": "Kiel"}',
                ),
                span("x", 5, "a", **OPENINFERENCE_TOOL, tool__parameters='{"city": "Lima"}', input__value="Lima"),
                span("y", 6, "a", **OPENINFERENCE_TOOL, tool__parameters=SCHEMA),
            ],
            [
                (
                    "hi",
                    [
                        ("look", {"city": "Oslo"}), ("look", {"city": "Rome"}), ("look", {"input": "{'city': 'Bonn'}"}),
                        ("look", {"city": "Kiel"}), ("look", {"city": "Lima"}), ("look", {}),
                    ],
                    [None] * 6,
                    "done",
                )
            ],
        ),
        # a tool that tells its arguments otherwise than the model asked; one that nobody asked for
        # is a call more
        (
            [
                span("a", 0, openinference__span__kind="AGENT", input__value="hi", output__value="done"),
                span("m", 1, "a", **CHAT, gen_ai__output__messages=calls("look", {"n": 1}, {"n": 2})),
                span("t", 2, "a", **TOOL, gen_ai__tool__name="look", gen_ai__tool__call__arguments='{"n": "1"}'),
                span("u", 3, "a", **TOOL, gen_ai__tool__name="look", gen_ai__tool__call__arguments='{"n": 1}'),
                span("v", 4, "a", **TOOL, gen_ai__tool__name="look", gen_ai__tool__call__arguments='{"n": 3}'),
            ],
            [("hi", [("look", {"n": 1}), ("look", {"n": 2}), ("look", {"n": 3})], [None] * 3, "done")],
        ),
        # one span for all calls of a model, which keeps what the last one asked for (OpenInference
        # on google-adk 2.13)
        (
            [
                span("a", 0, openinference__span__kind="AGENT", input__value="hi", output__value="done"),
                span("m", 1, "a", **CHAT, gen_ai__output__messages=calls("third", {})),
                span("t", 4, "m", **TOOL, gen_ai__tool__name="third"),
                span("u", 2, "m", **TOOL, gen_ai__tool__name="first"),
                span("v", 3, "m", **TOOL, gen_ai__tool__name="second"),
            ],
            [("hi", [("first", {}), ("second", {}), ("third", {})], [None] * 3, "done")],
        ),
        # the same, with calls that ran side by side and started in another order than the model's
        (
            [
                span("a", 0, openinference__span__kind="AGENT", input__value="hi", output__value="done"),
                span("m", 1, "a", openinference__span__kind="LLM", **flat("input", 0, 9), **flat("input", 1, 1, 2),
                     **flat("input", 2, 3, 1), **flat("output", 0, 3, 1)),
                *(
                    span(name, at, "m", **OPENINFERENCE_TOOL, tool__parameters=json.dumps({"n": n}))
                    for at, (name, n) in enumerate((("t", 2), ("u", 1), ("v", 1), ("w", 3)), 2)
                ),
            ],
            [("hi", [("look", {"n": n}) for n in (1, 2, 3, 1)], [None] * 4, "done")],
        ),
        # the messages are those before the last answer, and an earlier turn called the same tools
        (
            [
                span("a", 0, openinference__span__kind="AGENT", input__value="hi", output__value="done"),
                span("m", 1, "a", openinference__span__kind="LLM", **flat("input", 0, 1, 2), **flat("output", 0, 2, 1)),
                *(
                    span(name, at, "m", **OPENINFERENCE_TOOL, tool__parameters=json.dumps({"n": n}))
                    for at, (name, n) in enumerate((("t", 1), ("u", 2)), 2)
                ),
            ],
            [("hi", [("look", {"n": n}) for n in (2, 1)], [None] * 2, "done")],
        ),
        # calls that the messages do not list: the times tell
        (
            [
                span("a", 0, openinference__span__kind="AGENT", input__value="hi", output__value="done"),
                span("m", 1, "a", openinference__span__kind="LLM", **flat("output", 0, 1)),
                *(
                    span(name, at, "m", **OPENINFERENCE_TOOL, tool__parameters=json.dumps({"n": n}))
                    for at, (name, n) in enumerate((("t", 2), ("u", 1)), 2)
                ),
            ],
            [("hi", [("look", {"n": n}) for n in (2, 1)], [None] * 2, "done")],
        ),
        # messages as one JSON input
        (
            [
                span(
                    "a", 0, openinference__span__kind="CHAIN",
                    input__value=json.dumps({"messages": [{"role": "user", "content": "hi"}]}), output__value="ok",
                )
            ],
            [("hi", [], [], "ok")],
        ),
        # a model's thoughts are no answer
        (
            [
                span(
                    "chat", 1, **CHAT, gen_ai__input__messages=asks("hi"),
                    gen_ai__output__messages=json.dumps(
                        [{"role": "assistant", "parts": [
                            {"type": "reasoning", "content": "hm"}, {"type": "text", "content": "hello"},
                        ]}]
                    ),
                )
            ],
            [("hi", [], [], "hmhello")],
        ),
    ],
)  # fmt: skip
def test_turns(spans: list[dict[str, Any]], turns: list[Any]) -> None:
    (recorded,) = summary(parse_recordings(json.dumps(spans), file="t.json"))
    assert recorded == ("t", turns)


@pytest.mark.parametrize(
    ("spans", "why"),
    [
        # nobody can tell which came first
        (
            [
                span("first", 2, "a", **TOOL, gen_ai__tool__name="x"),
                span("second", 2, "a", **TOOL, gen_ai__tool__name="y"),
            ],
            "'first' and 'second' started at the same time",
        ),
        (
            [
                {**span(name, 2, "a", **TOOL, gen_ai__tool__name=name), "start_time": None}
                for name in ("first", "second")
            ],
            "its spans have no start times",
        ),
        (
            [
                span("m", 1, "a", **CHAT, gen_ai__output__messages=calls("third", {})),
                *(
                    span(name, at, "m", **TOOL, gen_ai__tool__name=name)
                    for at, name in ((2, "first"), (3, "second"))
                ),
            ],
            "has tool calls without a span",
        ),
    ],
)
def test_an_order_of_calls_that_nobody_can_know_is_refused(
    spans: list[dict[str, Any]], why: str
) -> None:
    top = span("a", 0, openinference__span__kind="AGENT", input__value="hi", output__value="done")
    reading = parse_recordings(json.dumps([top, *spans]), file="t.json")
    assert not reading.recordings
    told = next(problem for problem in reading.problems if problem.code == "order-unknown")
    assert "session t: span 'a' does not tell in which order its calls were made" in told.message
    assert why in told.message
    # a single call has no order
    assert (
        parse_recordings(json.dumps([top, spans[0]]), file="t.json").recordings
        or spans[0]["name"] == "m"
    )


ODD: list[dict[str, Any]] = [  # what stands in a span of OTLP
    {"startTimeUnixNano": float("nan")},
    {"startTimeUnixNano": float("inf")},
    {"startTimeUnixNano": "\u00b2"},  # a digit, and no number
    {"startTimeUnixNano": "9" * 400},  # no float
    {"startTimeUnixNano": "9" * 5000},  # more than Python converts
    {"attributes": [{"key": "x", "value": {"intValue": "\u00b2"}}]},
    {"attributes": [{"key": "x", "value": {"intValue": "--5"}}]},
    {"attributes": [{"key": "x", "value": {"intValue": "9" * 5000}}]},
]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_numbers_that_are_none_are_left_out(odd: dict[str, Any]) -> None:
    said = [
        {"key": key, "value": {"stringValue": value}}
        for key, value in (
            ("gen_ai.operation.name", "invoke_agent"),
            ("input.value", "hi"),
            ("output.value", "hello"),
        )
    ]
    whole = {
        "traceId": "t",
        "spanId": "a",
        **odd,
        "attributes": [*said, *odd.get("attributes", ())],
    }
    reading = parse_recordings(
        json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [whole]}]}]}), file="t.json"
    )
    assert summary(reading) == [("t", [("hi", [], [], "hello")])]


def nested(count: int) -> list[dict[str, Any]]:
    """Model calls, each within the one before."""
    talks = {"gen_ai__input__messages": asks("hi"), "gen_ai__output__messages": says("hello")}
    return [span(f"m{at}", 1, f"m{at - 1}", **CHAT, **talks) for at in range(count)]


def test_reading_takes_time_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in spans that are looked at: a clock would measure the machine."""
    counted = [0, 0]
    for at, count in enumerate((100, 400)):
        with monkeypatch.context() as patch:
            kind = spans.Span.kind

            def told(self: spans.Span, *, at: int = at, kind: Any = kind) -> str:
                counted[at] += 1
                return str(kind(self))

            patch.setattr(spans.Span, "kind", told)
            assert parse_recordings(json.dumps(nested(count)), file="t.json").recordings
    assert counted[1] < 5 * counted[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("{"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from([
    "gen_ai.operation.name", "openinference.span.kind", "gen_ai.input.messages", "gen_ai.output.messages",
    "input.value", "output.value", "llm.output_messages.0.message.tool_calls.0.tool_call.function.name", "session.id",
    "llm.input_messages.0.message.role", "gcp.vertex.agent.llm_request", "gen_ai.tool.call.arguments",
])  # fmt: skip


@settings(max_examples=100)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "name": st.sampled_from(["invocation", "call_llm", "x"]),
                "context": st.fixed_dictionaries(
                    {"trace_id": st.just("t"), "span_id": st.sampled_from("abc")}
                ),
                "parent_id": st.sampled_from([None, "a", "b", "c"]),
                "start_time": JSON,
                "attributes": st.dictionaries(
                    NAMES, JSON | st.sampled_from(["LLM", "TOOL", "AGENT", "chat"]), max_size=5
                ),
            }
        ),
        min_size=1,
        max_size=4,
    )
)
def test_nothing_in_a_span_is_believed(spans: list[Any]) -> None:
    """Whatever stands there, rings of parents among it: a reading, or problems."""
    reading = parse_recordings(json.dumps(spans), file="t.json")
    assert reading.recordings or reading.problems
