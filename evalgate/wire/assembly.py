"""How the events of one turn become an invocation: which of them is the answer, and which are steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from evalgate.model import AgentDetails, Attachment, Content, Event, Invocation, Text, Timings, ToolCall, ToolResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvent(Event):
    """An event as an agent gave it; `final`: its text may be the answer."""

    final: bool = False


def assemble(
    user_content: Content,
    events: Sequence[StepEvent],
    *,
    invocation_id: str = "",
    agents: tuple[AgentDetails, ...] = (),
    timings: Timings | None = None,
) -> Invocation:
    """One turn as ADK's EvaluationGenerator would record it.

    The answer is the last final event with parts, one with text preferred. Steps are the events of anyone but the
    user that carry a text, call, response, inline data or grounding; the answer stays among them without its
    content (it would count twice), unless it also calls a tool.
    """
    own = [event for event in events if (event.author or "agent").lower() != "user"]
    answer = _answer(own)
    steps = tuple(
        _plain(event, keep_content=event is not answer or _has_calls(event)) for event in own if _is_step(event)
    )
    return Invocation(
        user_content=user_content,
        final_response=answer.content if answer else None,
        events=steps,
        invocation_id=invocation_id,
        agents=agents,
        timings=timings,
    )


def _answer(events: Sequence[StepEvent]) -> StepEvent | None:
    chosen: StepEvent | None = None
    for event in events:
        if not event.final or event.content is None or not event.content.parts:
            continue
        if chosen is None or not _has_text(chosen) or _has_text(event):
            chosen = event
    return chosen


def _has_text(event: Event) -> bool:
    parts = event.content.parts if event.content else ()
    return any(isinstance(part, Text) and part.text for part in parts)


def _has_calls(event: Event) -> bool:
    parts = event.content.parts if event.content else ()
    return any(isinstance(part, ToolCall) for part in parts)


def _is_step(event: Event) -> bool:
    if event.grounding is not None:
        return True
    for part in event.content.parts if event.content else ():
        match part:
            case Text():
                if part.text:
                    return True
            case ToolCall() | ToolResponse():
                return True
            case Attachment():
                if part.data.get("inline_data") or part.data.get("inlineData"):
                    return True
    return False


def _plain(event: StepEvent, *, keep_content: bool) -> Event:
    fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(Event)}
    if not keep_content:
        fields["content"] = None
    return Event(**fields)
