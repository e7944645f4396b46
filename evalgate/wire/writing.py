"""Nouns as JSON-ready values in ADK's shapes, without nulls and defaults: what the wire shapes read.

Plain dictionaries, not pydantic: a run writes each invocation several times (journal, fingerprints, results), and
building models only to dump them took most of its time.
"""

from __future__ import annotations

from typing import Any

from evalgate.model import (
    AgentDetails,
    Content,
    Event,
    Invocation,
    Part,
    Rubric,
    Text,
    Timings,
    ToolCall,
    ToolResponse,
    Usage,
)


def invocation_json(invocation: Invocation) -> dict[str, Any]:
    """ADK's Invocation; its steps in the form in which they were recorded: ADK's metrics tell the two apart."""
    written: dict[str, Any] = {"user_content": content_json(invocation.user_content)}
    if invocation.invocation_id:
        written["invocation_id"] = invocation.invocation_id
    if invocation.final_response is not None:
        written["final_response"] = content_json(invocation.final_response)
    if invocation.events is not None:
        write = _as_events if invocation.itemized else _by_kind
        written["intermediate_data"] = write(invocation.events)
    if invocation.timings is not None:
        written.update(_timings_json(invocation.timings))
    if invocation.rubrics:
        written["rubrics"] = [rubric_json(rubric) for rubric in invocation.rubrics]
    if invocation.agents:
        written["app_details"] = {"agent_details": {agent.name: agent_json(agent) for agent in invocation.agents}}
    return written


def content_json(content: Content) -> dict[str, Any]:
    """google.genai's Content."""
    parts = [part_json(part) for part in content.parts]
    return {"parts": parts} if content.role is None else {"role": content.role, "parts": parts}


def part_json(part: Part) -> dict[str, Any]:
    """google.genai's Part."""
    if isinstance(part, Text):
        return {"text": part.text, "thought": True} if part.thought else {"text": part.text}
    if isinstance(part, ToolCall):
        return {"function_call": _call_json(part)}
    if isinstance(part, ToolResponse):
        return {"function_response": _response_json(part)}
    return dict(part.data)


def event_json(event: Event) -> dict[str, Any]:
    """ADK's InvocationEvent."""
    written: dict[str, Any] = {"author": event.author}
    if event.content is not None:
        written["content"] = content_json(event.content)
    if event.grounding is not None:
        written["grounding_metadata"] = dict(event.grounding)
    if event.usage is not None:
        written["usage_metadata"] = _usage_json(event.usage)
    if event.model_version is not None:
        written["model_version"] = event.model_version
    return written


def rubric_json(rubric: Rubric) -> dict[str, Any]:
    """ADK's Rubric."""
    return _present(
        rubric_id=rubric.rubric_id,
        rubric_content={"text_property": rubric.text},
        description=rubric.description,
        type=rubric.type,
    )


def agent_json(agent: AgentDetails) -> dict[str, Any]:
    """ADK's AgentDetails."""
    written: dict[str, Any] = {"name": agent.name}
    if agent.instructions:
        written["instructions"] = agent.instructions
    if agent.tool_declarations:
        written["tool_declarations"] = list(agent.tool_declarations)
    return written


def _as_events(events: tuple[Event, ...]) -> dict[str, Any]:
    return {"invocation_events": [event_json(event) for event in events]}


def _by_kind(events: tuple[Event, ...]) -> dict[str, Any]:
    spoken = [(event.author, event.content.parts) for event in events if event.content is not None]
    parts = [part for _, own in spoken for part in own]
    texts = [
        [author, [part_json(part) for part in own]]
        for author, own in spoken
        if not any(isinstance(part, ToolCall | ToolResponse) for part in own)
    ]
    return _present(
        tool_uses=[_call_json(part) for part in parts if isinstance(part, ToolCall)] or None,
        tool_responses=[_response_json(part) for part in parts if isinstance(part, ToolResponse)] or None,
        intermediate_responses=texts or None,
    )


def _call_json(call: ToolCall) -> dict[str, Any]:
    return _present(id=call.id, name=call.name or None, args=None if call.args is None else dict(call.args))


def _response_json(response: ToolResponse) -> dict[str, Any]:
    said = None if response.response is None else dict(response.response)
    return _present(id=response.id, name=response.name or None, response=said)


def _usage_json(usage: Usage) -> dict[str, Any]:
    return _present(
        prompt_token_count=usage.prompt_tokens,
        cached_content_token_count=usage.cached_tokens,
        candidates_token_count=usage.candidates_tokens,
        thoughts_token_count=usage.thoughts_tokens,
        tool_use_prompt_token_count=usage.tool_use_prompt_tokens,
        total_token_count=usage.total_tokens,
    )


def _timings_json(timings: Timings) -> dict[str, Any]:
    return _present(duration=timings.total_s, model_duration=timings.model_s, tool_duration=timings.tool_s)


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
