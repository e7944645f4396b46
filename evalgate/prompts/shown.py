"""How evidence reads in a prompt: JSON where boundaries matter, so that no text can pass for its neighbour."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evalgate.model import AgentDetails, Attachment, Content, Event, Invocation, Part, Text, ToolCall, ToolResponse


def as_json(value: Any) -> str:
    """Readable JSON, letters of every script as they are."""
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)


def text_of(content: Content | None, *, with_thoughts: bool = False) -> str:
    """The texts of a message, one a line, with a word for everything that is not text; thoughts only if asked for."""
    return _texts(content.parts if content else (), with_thoughts=with_thoughts, with_attachments=True)


def answer(invocation: Invocation, *, intermediate: bool = False, with_thoughts: bool = False) -> str:
    """The final response as text, with the texts said on the way to it put before where `intermediate`."""
    final = invocation.final_response.parts if invocation.final_response else ()
    groups: list[tuple[Part, ...]] = [final]
    if intermediate:
        groups = [event.content.parts for event in invocation.events or () if event.content] + groups
    texts = (_texts(parts, with_thoughts=with_thoughts, with_attachments=False) for parts in groups)
    return "\n".join(text for text in texts if text)


def instructions(invocation: Invocation) -> str:
    """What each agent was told, by name."""
    told = {agent.name: agent.instructions for agent in invocation.agents if agent.instructions}
    return as_json(told) if told else ""


def tools(invocations: Iterable[Invocation]) -> str:
    """The tools that each agent had, by its name."""
    had = {
        agent.name: declared(agent)
        for invocation in invocations
        for agent in invocation.agents
        if agent.tool_declarations
    }
    return as_json(had) if had else ""


def declared(agent: AgentDetails) -> list[Any]:
    """The tools of an agent as JSON; one that is declared by its name alone is that name."""
    return [dict(tool) if isinstance(tool, Mapping) else tool for tool in agent.tool_declarations]


def steps(invocation: Invocation) -> str:
    """Every tool call in order, with its response."""
    responses = list(invocation.tool_responses)
    shown = []
    for number, call in enumerate(invocation.tool_calls):
        response = _response_to(call, responses)
        if response is not None:
            responses.remove(response)
        shown.append(
            {"step": number, "tool": call.name, "args": call.args, "response": response.response if response else None}
        )
    return as_json(shown) if shown else ""


def grounding(events: Sequence[Event]) -> str:
    """What model-internal tools, as a search, reported of their sources."""
    found = [
        {"step": number, "author": event.author, "grounding": event.grounding}
        for number, event in enumerate(events)
        if event.grounding
    ]
    return as_json(found) if found else ""


def entries(events: Sequence[Event], *, with_thoughts: bool = False) -> list[dict[str, Any]]:
    """Events as JSON: who said what, called what, and got what back."""
    shown = []
    for event in events:
        for part in event.content.parts if event.content else ():
            entry = _entry(part, with_thoughts=with_thoughts)
            if entry:
                shown.append({"by": event.author or "agent", **entry})
    return shown


def dialogue(invocations: Sequence[Invocation], *, with_thoughts: bool = False) -> str:
    """The whole conversation, turn by turn."""
    turns = []
    for number, invocation in enumerate(invocations, start=1):
        turns.append(
            {
                "turn": number,
                "user": text_of(invocation.user_content),
                "agent_steps": entries(invocation.events or (), with_thoughts=with_thoughts),
                "agent_answer": answer(invocation, with_thoughts=with_thoughts),
            }
        )
    return as_json(turns)


def _texts(parts: Iterable[Part], *, with_thoughts: bool, with_attachments: bool) -> str:
    found = []
    for part in parts:
        if isinstance(part, Text) and part.text and (with_thoughts or not part.thought):
            found.append(part.text)
        elif isinstance(part, Attachment) and with_attachments:
            found.append(f"[{_named(part)}]")
    return "\n".join(found)


def _entry(part: Part, *, with_thoughts: bool) -> dict[str, Any] | None:
    match part:
        case Text():
            return {"text": part.text} if part.text and (with_thoughts or not part.thought) else None
        case ToolCall():
            return {"tool_call": part.name, "args": part.args}
        case ToolResponse():
            return {"tool_output": part.name, "response": part.response}
        case Attachment():
            return {"attachment": _named(part)}


def _named(part: Attachment) -> str:
    kind = next(iter(part.data), "part")
    inner = part.data.get(kind)
    mime = inner.get("mime_type") if isinstance(inner, dict) else None
    return f"{kind}, {mime}" if mime else kind


def _response_to(call: ToolCall, responses: Sequence[ToolResponse]) -> ToolResponse | None:
    """By the call's id where it has one, else the next response of the tool's name."""
    if call.id is not None:
        return next((each for each in responses if each.id == call.id), None)
    return next((each for each in responses if each.id is None and each.name == call.name), None)
