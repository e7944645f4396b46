"""ADK's Invocation and what belongs to it, as written in evaluation files, results and protocol messages."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError, PydanticKnownError

from evalgate.model import (
    AgentDetails,
    Attachment,
    Content,
    Event,
    Invocation,
    Rubric,
    Text,
    Timings,
    Usage,
)
from evalgate.wire.contents import ContentWire, FunctionCallWire, FunctionResponseWire, PartWire
from evalgate.wire.numbers import Count, Seconds
from evalgate.wire.shapes import Wire

STRICT = "as ADK"
"""Context of a validation that refuses what ADK refuses, though nothing is unclear about it."""


class UsageWire(Wire):
    """google.genai usage metadata: the counts are read, the rest (details by modality, traffic type) is dropped."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, protected_namespaces=()
    )

    prompt_token_count: Count = None
    cached_content_token_count: Count = None
    candidates_token_count: Count = None
    thoughts_token_count: Count = None
    tool_use_prompt_token_count: Count = None
    total_token_count: Count = None

    def noun(self) -> Usage:
        """The token counts; absent stays None."""
        return Usage(
            prompt_tokens=self.prompt_token_count,
            cached_tokens=self.cached_content_token_count,
            candidates_tokens=self.candidates_token_count,
            thoughts_tokens=self.thoughts_token_count,
            tool_use_prompt_tokens=self.tool_use_prompt_token_count,
            total_tokens=self.total_token_count,
        )


class EventWire(Wire):
    """ADK's InvocationEvent; ADK ignores unknown keys here, and so do we."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, protected_namespaces=()
    )

    author: str
    content: ContentWire | None = None
    grounding_metadata: dict[str, Any] | None = None
    usage_metadata: UsageWire | None = None
    model_version: str | None = None

    def noun(self) -> Event:
        """The event."""
        return Event(
            author=self.author,
            content=self.content.noun() if self.content else None,
            usage=self.usage_metadata.noun() if self.usage_metadata else None,
            model_version=self.model_version,
            grounding=self.grounding_metadata,
        )


class IntermediateDataWire(Wire):
    """ADK's two ways to record the steps of a turn: by kind (IntermediateData) or as events (InvocationEvents)."""

    tool_uses: list[FunctionCallWire] | None = None
    tool_responses: list[FunctionResponseWire] | None = None
    intermediate_responses: list[tuple[str, list[PartWire]]] | None = None
    invocation_events: list[EventWire] | None = None

    @field_validator("tool_uses", "tool_responses", "intermediate_responses", "invocation_events", mode="before")
    @classmethod
    def _no_null(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None and info.context is STRICT:
            raise PydanticKnownError("list_type")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> IntermediateDataWire:
        if self.invocation_events is not None and (self.tool_uses or self.tool_responses):
            raise PydanticCustomError(
                "two_records", "the steps are given twice: as `invocation_events` and by kind (`tool_uses`, ...)"
            )
        return self

    @property
    def itemized(self) -> bool:
        """Whether the steps are events; ADK reads `{}` as the by-kind form."""
        return self.invocation_events is not None

    def events(self) -> tuple[Event, ...]:
        """The steps as events; the by-kind form gives calls, then responses, then texts."""
        if self.invocation_events is not None:
            return tuple(event.noun() for event in self.invocation_events)
        calls = tuple(call.noun() for call in self.tool_uses or ())
        responses = tuple(response.noun() for response in self.tool_responses or ())
        events = [Event(author="", content=Content(parts=parts)) for parts in (calls, responses) if parts]
        for author, parts in self.intermediate_responses or ():
            nouns = (noun for part in parts for noun in part.nouns())
            said = tuple(noun for noun in nouns if isinstance(noun, Text | Attachment))
            events.append(Event(author=author, content=Content(parts=said)))
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

    def noun(self) -> Rubric:
        """The rubric; a missing text is an empty one, which validation reports."""
        text = self.rubric_content.text_property or ""
        return Rubric(rubric_id=self.rubric_id, text=text, description=self.description, type=self.type)


class AgentDetailsWire(Wire):
    """ADK's AgentDetails: what one agent of the app was told and given."""

    name: str
    instructions: str = ""
    tool_declarations: list[Any] = Field(default_factory=list)


class AppDetailsWire(Wire):
    """ADK's AppDetails."""

    agent_details: dict[str, AgentDetailsWire] = Field(default_factory=dict)

    def noun(self) -> tuple[AgentDetails, ...]:
        """The agents in the order in which they were recorded."""
        return tuple(
            AgentDetails(
                name=agent.name,
                instructions=agent.instructions,
                tool_declarations=tuple(agent.tool_declarations),
            )
            for agent in self.agent_details.values()
        )


class InvocationWire(Wire):
    """ADK's Invocation."""

    invocation_id: str = ""
    user_content: ContentWire
    final_response: ContentWire | None = None
    intermediate_data: IntermediateDataWire | None = None
    creation_timestamp: float = 0.0
    duration: Seconds = None
    model_duration: Seconds = None
    tool_duration: Seconds = None
    rubrics: list[RubricWire] | None = None
    app_details: AppDetailsWire | None = None

    def noun(self) -> Invocation:
        """The invocation; timings only where a duration was measured."""
        steps = self.intermediate_data
        timings = None
        if self.duration is not None:
            timings = Timings(total_s=self.duration, model_s=self.model_duration, tool_s=self.tool_duration)
        return Invocation(
            user_content=self.user_content.noun(),
            final_response=self.final_response.noun() if self.final_response else None,
            events=steps.events() if steps is not None else None,
            itemized=steps is None or steps.itemized,
            invocation_id=self.invocation_id,
            rubrics=tuple(rubric.noun() for rubric in self.rubrics or ()),
            agents=self.app_details.noun() if self.app_details else (),
            timings=timings,
        )
