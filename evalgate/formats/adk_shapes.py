"""ADK's shapes of cases, turns and events: read into evalgate's types, and written from them
without nulls and defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from sys import intern
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

from evalgate.model import (
    AgentDetails,
    Attachment,
    Case,
    Content,
    ConversationScenario,
    Event,
    Invocation,
    Part,
    Persona,
    PersonaBehavior,
    Rubric,
    SessionInput,
    Text,
    Timings,
    ToolCall,
    ToolResponse,
    Usage,
)
from evalgate.model.shapes import Count, Kept, KeptValue, Seconds, Wire
from evalgate.text import words
from evalgate.values import JsonObject, frozen_dataclass


@frozen_dataclass
class StepEvent(Event):
    """An event from an agent."""

    final: bool = False
    """True if its text may be the answer."""


def turn_of_steps(user_content: Content, events: Sequence[StepEvent], **fields: Any) -> Invocation:
    """One turn as ADK's EvaluationGenerator would record it. `fields`: further ones of the turn.

    The answer is the last final event with parts, preferably with text. Steps are the events of all
    authors except the user that have a text, call, response, inline data or grounding, or a model's
    error (whose tokens ADK does not count). The answer is among them without its content (which
    would count twice), unless it also calls a tool."""
    agent_events = [event for event in events if event.author.lower() != "user"]
    final_events = [
        event for event in agent_events if event.final and event.content and event.content.parts
    ]
    text_events = [
        event for event in final_events if event.content and event.content.text(with_thoughts=True)
    ]
    answer = next(reversed(text_events or final_events), None)
    steps = []
    for event in agent_events:
        parts = event.content.parts if event.content else ()
        if event.grounding is not None or any(map(_has_content, parts)):
            step = {field.name: getattr(event, field.name) for field in dataclasses.fields(Event)}
            if event is answer and not any(isinstance(part, ToolCall) for part in parts):
                step["content"] = None
            steps.append(Event(**step))
        elif event.error_code:
            steps.append(
                Event(
                    author=event.author,
                    error_code=event.error_code,
                    error_message=event.error_message,
                    at=event.at,
                )
            )
    return Invocation(
        user_content=user_content,
        final_response=answer.content if answer else None,
        events=tuple(steps),
        **fields,
    )


def _has_content(part: Part) -> bool:
    match part:
        case Text():
            return bool(part.text)
        case ToolCall() | ToolResponse():
            return True
        case Attachment():
            return bool(part.data.get("inline_data") or part.data.get("inlineData"))


class ToolCallWire(Wire):
    """google.genai FunctionCall."""

    id: str | None = None
    name: str | None = None
    args: JsonObject | None = None
    partial_args: list[Any] | None = None
    will_continue: bool | None = None

    def to_model(self) -> ToolCall:
        """The call; a call without a name has an empty name."""
        return ToolCall(name=intern(self.name or ""), args=self.args, id=self.id)


class ToolResponseWire(Wire):
    """google.genai FunctionResponse."""

    id: str | None = None
    name: str | None = None
    response: JsonObject | None = None
    parts: list[Any] | None = None
    scheduling: str | None = None
    will_continue: bool | None = None

    def to_model(self) -> ToolResponse:
        """The response; a response without a name has an empty name."""
        return ToolResponse(name=intern(self.name or ""), response=self.response, id=self.id)


class AttachmentWire(Wire):
    """Other contents of a google.genai Part than text, calls and responses, stored unchanged."""

    inline_data: Kept = None
    file_data: Kept = None
    executable_code: Kept = None
    code_execution_result: Kept = None
    tool_call: Kept = None
    tool_response: Kept = None


ATTACHMENTS = set(AttachmentWire.model_fields)


class PartDetailsWire(AttachmentWire):
    """Details of a google.genai Part about its content."""

    thought_signature: str | None = None
    video_metadata: Kept = None
    media_resolution: KeptValue = None
    part_metadata: Kept = None
    audio_transcription: KeptValue = None
    media_processing: KeptValue = None
    speech_metadata: KeptValue = None


class PartWire(PartDetailsWire):
    """google.genai Part; only its text, calls and responses are parsed.

    It should hold one kind of content, but google.genai accepts several, and ADK reads each of
    them."""

    text: str | None = None
    thought: bool | None = None
    function_call: ToolCallWire | None = None
    function_response: ToolResponseWire | None = None

    def contents(self) -> tuple[Part, ...]:
        """One part for each kind of content: a text, a call, a response, and an attachment for all
        others."""
        parts: list[Part] = []
        if self.text is not None:
            parts.append(Text(text=self.text, thought=bool(self.thought)))
        if self.function_call is not None:
            parts.append(self.function_call.to_model())
        if self.function_response is not None:
            parts.append(self.function_response.to_model())
        if not parts:
            return (Attachment(data=self.model_dump(mode="json", exclude_none=True)),)
        if any(getattr(self, name) is not None for name in ATTACHMENTS & self.model_fields_set):
            data = self.model_dump(mode="json", exclude_none=True, include=ATTACHMENTS)
            parts.append(Attachment(data=data))
        return tuple(parts)


class ContentWire(Wire):
    """google.genai Content."""

    role: str | None = None
    parts: list[PartWire] | None = None

    def to_model(self) -> Content:
        """The content; a missing and an empty list of parts are the same."""
        role = intern(self.role) if self.role else self.role
        return Content(
            parts=tuple(content for part in self.parts or () for content in part.contents()),
            role=role,
        )


STRICT = "as ADK"
"""Context of a validation that rejects everything that ADK rejects, even if its meaning is
clear."""


USAGE: Mapping[str, str] = {
    "prompt_token_count": "prompt_tokens",
    "cached_content_token_count": "cached_tokens",
    "candidates_token_count": "candidates_tokens",
    "thoughts_token_count": "thoughts_tokens",
    "tool_use_prompt_token_count": "tool_use_prompt_tokens",
    "total_token_count": "total_tokens",
}
"""google.genai's names of token counts, with evalgate's."""


class UsageWire(Wire):
    """google.genai usage metadata: counts are read, other fields (details by modality, traffic
    type) are dropped."""

    model_config = ConfigDict(extra="ignore")

    prompt_token_count: Count = None
    cached_content_token_count: Count = None
    candidates_token_count: Count = None
    thoughts_token_count: Count = None
    tool_use_prompt_token_count: Count = None
    total_token_count: Count = None

    def to_model(self) -> Usage:
        """The token counts; missing ones are None."""
        return Usage(**{name: getattr(self, adk_name) for adk_name, name in USAGE.items()})


class EventWire(Wire):
    """ADK's InvocationEvent. As in ADK, unknown keys are ignored here."""

    model_config = ConfigDict(extra="ignore")

    author: str
    content: ContentWire | None = None
    grounding_metadata: JsonObject | None = None
    usage_metadata: UsageWire | None = None
    model_version: str | None = None
    error_code: str | None = None
    error_message: str | None = None

    def to_model(self) -> Event:
        """The event as a value."""
        return Event(**self.fields())

    def fields(self) -> JsonObject:
        """The fields of the event."""
        return {
            "author": self.author,
            "content": self.content.to_model() if self.content else None,
            "usage": self.usage_metadata.to_model() if self.usage_metadata else None,
            "model_version": self.model_version,
            "grounding": self.grounding_metadata,
            "error_code": self.error_code or "",
            "error_message": self.error_message or "",
        }


class IntermediateDataWire(Wire):
    """ADK's two records of the steps of a turn: by kind (IntermediateData) or as events
    (InvocationEvents)."""

    tool_uses: list[ToolCallWire] | None = None
    tool_responses: list[ToolResponseWire] | None = None
    intermediate_responses: list[tuple[str, list[PartWire]]] | None = None
    invocation_events: list[EventWire] | None = None

    @field_validator(
        "tool_uses", "tool_responses", "intermediate_responses", "invocation_events", mode="before"
    )
    @classmethod
    def _no_null(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None and info.context is STRICT:
            raise PydanticKnownError("list_type")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> IntermediateDataWire:
        if self.invocation_events is not None and (self.tool_uses or self.tool_responses):
            raise PydanticCustomError(
                "two_records",
                "the steps are given twice: as `invocation_events` and by kind (`tool_uses`, ...)",
            )
        return self

    def events(self) -> tuple[Event, ...]:
        """The steps as events; the record by kind gives calls, then responses, then texts."""
        if self.invocation_events is not None:
            return tuple(event.to_model() for event in self.invocation_events)
        calls = tuple(call.to_model() for call in self.tool_uses or ())
        responses = tuple(response.to_model() for response in self.tool_responses or ())
        events = [
            Event(author="", content=Content(parts=parts)) for parts in (calls, responses) if parts
        ]
        for author, parts in self.intermediate_responses or ():
            contents = (content for part in parts for content in part.contents())
            spoken_parts = tuple(
                content for content in contents if isinstance(content, Text | Attachment)
            )
            events.append(Event(author=author, content=Content(parts=spoken_parts)))
        return tuple(events)


class RubricContentWire(Wire):
    """ADK's RubricContent."""

    text_property: str | None = None


class RubricWire(Wire):
    """ADK's Rubric."""

    rubric_id: str
    rubric_content: RubricContentWire
    description: str | None = None
    type: str | None = None

    def to_model(self) -> Rubric:
        """The rubric; a missing text is empty, which validation reports."""
        text = self.rubric_content.text_property or ""
        return Rubric(
            rubric_id=self.rubric_id, text=text, description=self.description, type=self.type
        )


class AgentDetailsWire(Wire):
    """ADK's AgentDetails: the instructions and tools of one agent."""

    name: str
    instructions: str = ""
    tool_declarations: list[Any] = Field(default_factory=list)

    def to_model(self) -> AgentDetails:
        """The agent as a value."""
        return AgentDetails(
            name=self.name,
            instructions=self.instructions,
            tool_declarations=tuple(self.tool_declarations),
        )


class AppDetailsWire(Wire):
    """ADK's AppDetails."""

    agent_details: dict[str, AgentDetailsWire] = Field(default_factory=dict)

    def to_model(self) -> tuple[AgentDetails, ...]:
        """The agents in the order of the record."""
        return tuple(agent.to_model() for agent in self.agent_details.values())


class TimingsWire(Wire):
    """The durations of a turn, as ADK writes them into an Invocation."""

    duration: Seconds = None
    model_duration: Seconds = None
    tool_duration: Seconds = None


class InvocationWire(TimingsWire):
    """ADK's Invocation."""

    invocation_id: str = ""
    user_content: ContentWire
    final_response: ContentWire | None = None
    intermediate_data: IntermediateDataWire | None = None
    creation_timestamp: float = 0.0
    rubrics: list[RubricWire] | None = None
    app_details: AppDetailsWire | None = None

    def to_model(self) -> Invocation:
        """The invocation. Like ADK, reads steps `{}` as the record by kind."""
        steps = self.intermediate_data
        timings = None
        if self.duration is not None:
            timings = Timings(
                total_s=self.duration, model_s=self.model_duration, tool_s=self.tool_duration
            )
        return Invocation(
            user_content=self.user_content.to_model(),
            final_response=self.final_response.to_model() if self.final_response else None,
            events=steps.events() if steps is not None else None,
            itemized=steps is None or steps.invocation_events is not None,
            invocation_id=self.invocation_id,
            rubrics=tuple(rubric.to_model() for rubric in self.rubrics or ()),
            agents=self.app_details.to_model() if self.app_details else (),
            timings=timings,
        )


class SessionEventWire(EventWire):
    """ADK's Event, with the fields that evaluation reads."""

    author: Annotated[str, BeforeValidator(lambda author: "" if author is None else author)] = ""
    invocation_id: str | None = None
    partial: bool | None = None
    long_running_tool_ids: list[str] | None = None
    actions: JsonObject | None = None

    def step(self) -> StepEvent:
        """The event as a step, which is a final response by ADK's rule."""
        fields = self.fields()
        return StepEvent(**fields, final=self._is_final(fields["content"]))

    def _is_final(self, content: Content | None) -> bool:
        actions = self.actions or {}
        if (
            actions.get("skip_summarization")
            or actions.get("skipSummarization")
            or self.long_running_tool_ids
        ):
            return True
        parts = content.parts if content else ()
        if self.partial or any(isinstance(part, ToolCall) for part in parts):
            return False
        if self.error_code:
            return True
        is_code_result = any(
            isinstance(part, Attachment) and part.data.get("code_execution_result") is not None
            for part in parts[-1:]
        )
        return not is_code_result and not any(isinstance(part, ToolResponse) for part in parts)


def turn_of(events: Sequence[SessionEventWire], *, invocation_id: str = "") -> Invocation:
    """One turn. Its user content is that of the last user event; empty if there is none.

    Without any event of the agent, the steps are unknown."""
    steps = [event.step() for event in events]
    user_steps = [step for step in steps if step.author.lower() == "user"]
    user_contents = [step.content for step in user_steps if step.content]
    user_content = user_contents[-1] if user_contents else Content()
    if len(user_steps) == len(steps):
        return Invocation(user_content=user_content, invocation_id=invocation_id)
    return turn_of_steps(user_content, steps, invocation_id=invocation_id)


def turns_of(events: Sequence[SessionEventWire]) -> tuple[Invocation, ...]:
    """The turns of a session: events with the same invocation id, in the order of each id's first
    event. For events without an id, each message of the user begins a turn."""
    groups: dict[tuple[str, int], list[SessionEventWire]] = {}
    unnamed_number = 0
    for event in events:
        name = event.invocation_id or ""
        is_question = event.author.lower() == "user" and event.content is not None
        if not name and is_question and (name, unnamed_number) in groups:
            unnamed_number += 1
        groups.setdefault((name, 0 if name else unnamed_number), []).append(event)
    return tuple(turn_of(group, invocation_id=name) for (name, _), group in groups.items())


BUILT_IN_PERSONAS = ("EXPERT", "NOVICE", "EVALUATOR")


class SessionInputWire(Wire):
    """ADK's SessionInput. Like ADK, ignores unknown keys."""

    model_config = ConfigDict(extra="ignore")

    app_name: str
    user_id: str
    session_id: str | None = None
    state: JsonObject = Field(default_factory=dict)

    def to_model(self) -> SessionInput:
        """The initial session of a case."""
        return SessionInput(
            app_name=intern(self.app_name),
            user_id=intern(self.user_id),
            session_id=self.session_id,
            state=self.state,
        )


class PersonaWire(Wire):
    """ADK's UserPersona."""

    model_config = ConfigDict(extra="ignore")

    id: str
    description: str
    behaviors: tuple[PersonaBehavior, ...]

    def to_model(self) -> Persona:
        """The persona as a value."""
        return Persona(persona_id=self.id, description=self.description, behaviors=self.behaviors)


class ScenarioWire(Wire):
    """ADK's ConversationScenario. A persona is the id of a built-in one, or an object."""

    starting_prompt: str
    conversation_plan: str
    user_persona: str | PersonaWire | None = None

    @field_validator("user_persona")
    @classmethod
    def _check_persona(cls, persona: str | PersonaWire | None) -> str | PersonaWire | None:
        if isinstance(persona, str) and persona not in BUILT_IN_PERSONAS:
            raise PydanticCustomError(
                "unknown_persona",
                "`{found}` is not a built-in persona; ADK has {known}",
                {
                    "found": persona[:60].encode("utf-8", "backslashreplace").decode(),
                    "known": words.listed(BUILT_IN_PERSONAS),
                    "near": words.nearest(persona, BUILT_IN_PERSONAS) or "",
                },
            )
        return persona

    def to_model(self) -> ConversationScenario:
        """The scenario as a value."""
        persona = self.user_persona
        return ConversationScenario(
            starting_prompt=self.starting_prompt,
            conversation_plan=self.conversation_plan,
            persona=Persona(persona_id=persona)
            if isinstance(persona, str)
            else persona.to_model()
            if persona
            else None,
        )


class EvalCaseWire(Wire):
    """ADK's EvalCase. Like ADK, ignores unknown keys."""

    model_config = ConfigDict(extra="ignore")

    eval_id: str
    conversation: list[InvocationWire] | None = None
    conversation_scenario: ScenarioWire | None = None
    session_input: SessionInputWire | None = None
    creation_timestamp: float = 0.0
    rubrics: list[RubricWire] | None = None
    final_session_state: JsonObject | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> EvalCaseWire:
        if self.conversation is None and self.conversation_scenario is None:
            raise PydanticCustomError(
                "no_conversation",
                "the case has neither a `conversation` nor a `conversation_scenario`",
            )
        if self.conversation is not None and self.conversation_scenario is not None:
            raise PydanticCustomError(
                "two_conversations",
                "the case has both a `conversation` and a `conversation_scenario`; ADK takes one",
            )
        return self

    def to_model(self, **facts: Any) -> Case:
        """The case, with further facts (`place`, `extras`). An empty `final_session_state` expects
        nothing, because ADK writes one into every case."""
        turns = self.conversation
        return Case(
            case_id=self.eval_id,
            conversation=tuple(turn.to_model() for turn in turns) if turns is not None else None,
            scenario=self.conversation_scenario.to_model() if self.conversation_scenario else None,
            session=self.session_input.to_model() if self.session_input else None,
            rubrics=tuple(rubric.to_model() for rubric in self.rubrics or ()),
            expects_state=self.final_session_state or None,
            **facts,
        )


def invocation_json(invocation: Invocation) -> JsonObject:
    """ADK's Invocation. Steps keep their recorded form, because ADK's metrics distinguish the
    two."""
    steps = None
    timings = invocation.timings
    if invocation.events is not None:
        steps = (
            {"invocation_events": [event_json(event) for event in invocation.events]}
            if invocation.itemized
            else _by_kind(invocation.events)
        )
    agents = {agent.name: agent_json(agent) for agent in invocation.agents}
    return _present_fields(
        user_content=content_json(invocation.user_content),
        invocation_id=invocation.invocation_id or None,
        final_response=invocation.final_response and content_json(invocation.final_response),
        intermediate_data=steps,
        duration=timings and timings.total_s,
        model_duration=timings and timings.model_s,
        tool_duration=timings and timings.tool_s,
        rubrics=[rubric_json(rubric) for rubric in invocation.rubrics] or None,
        app_details={"agent_details": agents} if agents else None,
    )


def content_json(content: Content) -> JsonObject:
    """google.genai's Content."""
    return _present_fields(role=content.role, parts=[part_json(part) for part in content.parts])


def part_json(part: Part) -> JsonObject:
    """google.genai's Part."""
    match part:
        case Text():
            return {"text": part.text, "thought": True} if part.thought else {"text": part.text}
        case ToolCall():
            return {"function_call": _call_json(part)}
        case ToolResponse():
            return {"function_response": _response_json(part)}
        case Attachment():
            return dict(part.data)


def event_json(event: Event) -> JsonObject:
    """ADK's InvocationEvent."""
    usage = event.usage
    return _present_fields(
        author=event.author,
        content=event.content and content_json(event.content),
        grounding_metadata=event.grounding,
        usage_metadata=usage
        and _present_fields(**{adk_name: getattr(usage, name) for adk_name, name in USAGE.items()}),
        model_version=event.model_version,
        error_code=event.error_code or None,
        error_message=event.error_message or None,
    )


def rubric_json(rubric: Rubric) -> JsonObject:
    """ADK's Rubric."""
    return _present_fields(
        rubric_id=rubric.rubric_id,
        rubric_content={"text_property": rubric.text},
        description=rubric.description,
        type=rubric.type,
    )


def agent_json(agent: AgentDetails) -> JsonObject:
    """ADK's AgentDetails."""
    return _present_fields(
        name=agent.name,
        instructions=agent.instructions or None,
        tool_declarations=list(agent.tool_declarations) or None,
    )


def _by_kind(events: tuple[Event, ...]) -> JsonObject:
    content_events = [
        (event.author, event.content.parts) for event in events if event.content is not None
    ]
    parts = [part for _, spoken_parts in content_events for part in spoken_parts]
    texts = [
        [author, [part_json(part) for part in spoken_parts]]
        for author, spoken_parts in content_events
        if not any(isinstance(part, ToolCall | ToolResponse) for part in spoken_parts)
    ]
    return _present_fields(
        tool_uses=[_call_json(part) for part in parts if isinstance(part, ToolCall)] or None,
        tool_responses=[_response_json(part) for part in parts if isinstance(part, ToolResponse)]
        or None,
        intermediate_responses=texts or None,
    )


def _call_json(call: ToolCall) -> JsonObject:
    return _present_fields(id=call.id, name=call.name or None, args=call.args)


def _response_json(response: ToolResponse) -> JsonObject:
    return _present_fields(id=response.id, name=response.name or None, response=response.response)


def _present_fields(**values: Any) -> JsonObject:
    return {name: value for name, value in values.items() if value is not None}


def case_json(case: Case) -> JsonObject:
    """ADK's EvalCase, as `EvalCaseWire` reads it, with everything that a criterion or an agent may
    see."""
    fields: JsonObject = {"eval_id": case.case_id}
    if case.conversation is not None:
        fields["conversation"] = [invocation_json(turn) for turn in case.conversation]
    return fields | case_fields_json(case)


def case_fields_json(case: Case) -> JsonObject:
    """The fields of ADK's EvalCase except its name and its conversation."""
    return _present_fields(
        conversation_scenario=case.scenario and scenario_json(case.scenario),
        session_input=case.session
        and _present_fields(
            app_name=case.session.app_name,
            user_id=case.session.user_id,
            session_id=case.session.session_id,
            state=case.session.state or None,
        ),
        rubrics=[rubric_json(rubric) for rubric in case.rubrics] or None,
        final_session_state=case.expects_state or None,
    )


def scenario_json(scenario: ConversationScenario) -> JsonObject:
    """ADK's ConversationScenario; a built-in persona is its id."""
    persona = scenario.persona
    user_persona: Any = persona and persona.persona_id
    if persona and (persona.description or persona.behaviors):
        behaviors = [dataclasses.asdict(behavior) for behavior in persona.behaviors]
        user_persona = {
            "id": user_persona,
            "description": persona.description,
            "behaviors": behaviors,
        }
    return _present_fields(
        starting_prompt=scenario.starting_prompt,
        conversation_plan=scenario.conversation_plan,
        user_persona=user_persona,
    )
