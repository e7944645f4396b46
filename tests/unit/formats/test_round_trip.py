"""Invocations keep their meaning on the way to the wire and back."""

from __future__ import annotations

import json

from hypothesis import given, settings, strategies as st

from evalgate.formats import adk_shapes
from evalgate.formats.adk_shapes import InvocationWire
from evalgate.model import (
    AgentDetails,
    Attachment,
    Content,
    Event,
    Invocation,
    Rubric,
    Text,
    Timings,
    ToolCall,
    ToolResponse,
    Usage,
)

words = st.text(max_size=8)
plain = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
)
objects = st.dictionaries(words, plain | st.lists(plain, max_size=2), max_size=5)
seconds = st.floats(0, 100)
counts = st.none() | st.integers(0, 9)

attachments = st.builds(
    lambda data: Attachment(data=data),
    st.sampled_from(
        [
            {"inline_data": {"mime_type": "image/png", "data": "AA=="}},
            {"file_data": {"file_uri": "gs://x"}},
            {"code_execution_result": {"outcome": "OUTCOME_OK"}},
        ]
    ),
)
parts = (
    st.builds(Text, text=words, thought=st.booleans())
    | st.builds(ToolCall, name=words, args=st.none() | objects, id=st.none() | words)
    | st.builds(ToolResponse, name=words, response=st.none() | objects, id=st.none() | words)
    | attachments
)
contents = st.builds(Content, parts=st.lists(parts, max_size=3).map(tuple), role=st.none() | words)
usages = st.builds(
    Usage, prompt_tokens=counts, total_tokens=counts, cached_tokens=counts, thoughts_tokens=counts
)
events = st.builds(
    Event,
    author=words,
    content=st.none() | contents,
    usage=st.none() | usages,
    model_version=st.none() | words,
    grounding=st.none() | objects,
)
rubrics = st.builds(
    Rubric, rubric_id=words, text=words, description=st.none() | words, type=st.none() | words
)
agents = st.builds(
    AgentDetails,
    name=words,
    instructions=words,
    tool_declarations=st.lists(objects | plain, max_size=2).map(tuple),
)
invocations = st.builds(
    Invocation,
    user_content=contents,
    final_response=st.none() | contents,
    events=st.none() | st.lists(events, max_size=3).map(tuple),
    invocation_id=words,
    rubrics=st.lists(rubrics, max_size=2).map(tuple),
    agents=st.lists(agents, max_size=2, unique_by=lambda agent: agent.name).map(tuple),
    timings=st.none()
    | st.builds(Timings, total_s=seconds, model_s=st.none() | seconds, tool_s=st.none() | seconds),
)


@settings(max_examples=40, deadline=None)
@given(invocations)
def test_model_to_wire_to_model(invocation):
    written = json.dumps(adk_shapes.invocation_json(invocation))
    assert InvocationWire.model_validate(json.loads(written)).to_model() == invocation


@settings(max_examples=40, deadline=None)
@given(invocations)
def test_both_spellings_are_one(invocation):
    wire = InvocationWire.model_validate(adk_shapes.invocation_json(invocation))
    snake = wire.model_dump(mode="json")
    camel = wire.model_dump(mode="json", by_alias=True)
    assert (
        InvocationWire.model_validate(snake).to_model()
        == InvocationWire.model_validate(camel).to_model()
    )
