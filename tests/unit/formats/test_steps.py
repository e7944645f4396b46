"""Steps of a turn keep the form in which they were recorded: by kind or as events."""

import json
from typing import Any

import pytest

from evalgate.formats import adk_shapes
from evalgate.formats.adk_shapes import ContentWire, InvocationWire
from evalgate.model import Attachment, Text, ToolCall, ToolResponse

CALL = {"name": "t", "args": {"a": 1}, "id": "1"}
ANSWER = {"name": "t", "response": {"ok": True}}
BY_KIND = {
    "tool_uses": [CALL, {"name": "u"}],
    "tool_responses": [ANSWER],
    "intermediate_responses": [["helper", [{"text": "on it"}]]],
}
AS_EVENTS = {
    "invocation_events": [
        {
            "author": "a",
            "content": {"role": "model", "parts": [{"text": "on it"}, {"function_call": CALL}]},
        },
        {"author": "a", "model_version": "m", "usage_metadata": {"prompt_token_count": 3}},
    ]
}


@pytest.mark.parametrize(
    "steps", [None, {}, {"tool_uses": [CALL]}, BY_KIND, {"invocation_events": []}, AS_EVENTS]
)
def test_what_is_read_is_what_is_written(steps: Any) -> None:
    raw: dict[str, Any] = {"user_content": {"parts": [{"text": "hi"}]}}
    if steps is not None:
        raw["intermediate_data"] = steps
    turn = InvocationWire.model_validate(raw).to_model()
    written = adk_shapes.invocation_json(turn)
    assert json.loads(json.dumps(written)) == raw
    assert InvocationWire.model_validate(written).to_model() == turn


@pytest.mark.parametrize(
    ("part", "kinds"),
    [
        ({"text": "It is 7.", "function_call": CALL}, [Text, ToolCall]),
        ({"function_response": ANSWER, "function_call": CALL}, [ToolCall, ToolResponse]),
        (
            {"inline_data": {"mime_type": "image/png"}, "text": "see", "thought": True},
            [Text, Attachment],
        ),
        ({"text": "", "thought_signature": "AAAA"}, [Text]),
        ({"function_call": CALL, "thought_signature": "AAAA"}, [ToolCall]),
        ({"thought_signature": "AAAA"}, [Attachment]),
        ({}, [Attachment]),
    ],
)
def test_of_a_part_with_several_kinds_of_content_none_is_lost(part: Any, kinds: list[type]) -> None:
    """google.genai takes such a part, and ADK reads each of them."""
    said = ContentWire.model_validate({"parts": [part]}).to_model()
    assert [type(each) for each in said.parts] == kinds
    assert ContentWire.model_validate(adk_shapes.content_json(said)).to_model() == said
    assert [each.text for each in said.parts if isinstance(each, Text)] == (
        [part["text"]] if "text" in part else []
    )


def test_calls_among_intermediate_responses_are_no_tool_calls() -> None:
    steps = {
        "tool_uses": [CALL],
        "intermediate_responses": [["helper", [{"function_call": CALL}, {"text": "x"}]]],
    }
    turn = InvocationWire.model_validate(
        {"user_content": {}, "intermediate_data": steps}
    ).to_model()
    assert len(turn.tool_calls) == 1  # as ADK counts
