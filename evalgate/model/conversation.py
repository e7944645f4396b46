"""Conversations: contents, events and invocations (turns), both expected and actual."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from evalgate.values import Json, frozen_dataclass


@frozen_dataclass
class Text:
    """A piece of text."""

    text: str
    thought: bool = False
    """True for a model's reasoning, which is not part of an answer."""


@frozen_dataclass
class ToolCall:
    """A call of a tool. As in ADK, `args` None (absent) differs from an empty mapping."""

    name: str
    args: Json | None = None
    """None if they were not recorded."""
    id: str | None = None
    """It pairs a call with its response."""

    @property
    def arguments(self) -> Json:
        """Its arguments; empty if they are absent."""
        return self.args or {}


@frozen_dataclass
class ToolResponse:
    """The response of a tool."""

    name: str
    response: Json | None = None
    """None if it was not recorded."""
    id: str | None = None
    """That of its call."""


@frozen_dataclass
class Attachment:
    """Any other part (inline data, file data, executable code, ...), as its original JSON."""

    data: Json
    """The part as ADK writes it."""


Part: TypeAlias = Text | ToolCall | ToolResponse | Attachment
"""What a message consists of."""


@frozen_dataclass
class Content:
    """One message: a role and its parts in order."""

    parts: tuple[Part, ...] = ()
    role: str | None = None
    """`user` or `model`."""

    @classmethod
    def of(cls, text: str, role: str) -> Content:
        """A message that is one text."""
        return cls(parts=(Text(text=text),), role=role)

    def text(self, *, with_thoughts: bool = False) -> str:
        """Its non-empty texts, one per line; thoughts only on request."""
        return "\n".join(
            part.text
            for part in self.parts
            if isinstance(part, Text) and part.text and (with_thoughts or not part.thought)
        )


@frozen_dataclass
class Usage:
    """Tokens that one model call reported; None if it did not report them."""

    prompt_tokens: int | None = None
    """The cached ones included."""
    cached_tokens: int | None = None
    """Part of the prompt's."""
    candidates_tokens: int | None = None
    """Of the answer, without thoughts."""
    thoughts_tokens: int | None = None
    """The model's reasoning, which is billed as output."""
    tool_use_prompt_tokens: int | None = None
    """Results of the model's own tools that it read."""
    total_tokens: int | None = None
    """As the model counts; it need not be the sum of the others."""


@frozen_dataclass
class Event:
    """One step of an agent within an invocation."""

    author: str
    """The agent, or `user`."""
    content: Content | None = None
    """None for a step without a message, such as a change of the state."""
    usage: Usage | None = None
    """The tokens of the model's response."""
    model_version: str | None = None
    """As the provider reports it, such as `gemini-2.5-flash`; None if unknown."""
    grounding: Json | None = None
    """The sources of an answer, as the model returned them."""
    at: float | None = field(default=None, compare=False)
    """Seconds since it began, if known."""
    error_code: str = ""
    """Why a model returned no content."""
    error_message: str = ""
    """The same in words; may be empty although there is a code."""

    @property
    def error(self) -> str:
        """The error, such as `SAFETY: blocked`; "" if there is none."""
        return f"{self.error_code}: {self.error_message}" if self.error_message else self.error_code


def events_of(calls: Sequence[ToolCall]) -> tuple[Event, ...]:
    """The events of an agent that only made these calls; none without calls."""
    content = Content(parts=tuple(calls), role="model")
    return (Event(author="agent", content=content),) if calls else ()


@frozen_dataclass
class Rubric:
    """A property that a judge checks; `type` is ADK's FINAL_RESPONSE_QUALITY, TOOL_USE_QUALITY,
    ..."""

    rubric_id: str
    text: str
    """The property, as the judge reads it."""
    description: str | None = None
    type: str | None = None
    """None applies to every criterion with rubrics."""


@frozen_dataclass
class AgentDetails:
    """Instructions and tools that one agent of the app had when it ran.

    A declaration is google.genai's Tool as JSON, or any value that the agent reported: ADK stores
    any."""

    name: str
    instructions: str = ""
    """As they were sent to the model; "" if unknown."""
    tool_declarations: tuple[Any, ...] = ()
    """As they were sent to the model."""


MOST_SECONDS = 1e9
"""About thirty years."""
Seconds: TypeAlias = Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False)]
"""A duration in a results file."""


@frozen_dataclass
class CallTime:
    """The duration of one call of a model or a tool, in seconds."""

    kind: Literal["model", "tool"]
    name: str = ""
    """Of the model or of the tool."""
    at: Seconds
    """Seconds since the invocation began."""
    seconds: Seconds
    """How long it took."""


@frozen_dataclass
class Timings:
    """Seconds of wall time of one invocation. Overlapping model and tool intervals are merged,
    never counted twice."""

    total_s: float
    model_s: float | None = None
    """The part in which a model was asked; None if unknown."""
    tool_s: float | None = None
    """The part in which a tool ran; None if unknown."""
    calls: tuple[CallTime, ...] = field(default=(), compare=False)
    """Each interval, if the agent's worker reports it."""


@frozen_dataclass
class Invocation:
    """One turn: the user's message, the agent's steps, and its answer."""

    user_content: Content
    final_response: Content | None = None
    """None if the agent gave no answer."""
    events: tuple[Event, ...] | None = None
    """None if no steps were recorded."""
    itemized: bool = True
    """False if only calls, responses and texts were recorded, by kind (ADK's IntermediateData), so
    that the order between kinds and the usage are unknown."""
    invocation_id: str = ""
    """As ADK or the file names the turn; "" if it has no name."""
    rubrics: tuple[Rubric, ...] = ()
    """Rubrics of this turn."""
    agents: tuple[AgentDetails, ...] = ()
    """The agents that took part, if known."""
    timings: Timings | None = None
    """None if nothing was timed."""
    trace: tuple[Json, ...] = field(default=(), compare=False)
    """The worker's recording on request (worker/trace.py), for readers."""
    model_calls: tuple[tuple[Usage, str], ...] = field(default=(), compare=False)
    """Tokens and model of the models' responses, before the agent made events of them; empty if
    unknown."""
    state: Json | None = None
    """The session state at the end of the turn; None if it was not requested."""

    @property
    def steps(self) -> tuple[Event, ...]:
        """Its events; empty if none were recorded."""
        return self.events or ()

    @property
    def stop(self) -> Event | None:
        """The event with the model's error instead of an answer; None if the agent answered or no
        model reported an error."""
        if self.final_response is not None and self.final_response.parts:
            return None
        return next((event for event in reversed(self.steps) if event.error_code), None)

    @property
    def event_calls(self) -> tuple[tuple[Usage, str], ...]:
        """Model calls that its events report, as `model_calls`."""
        return tuple(
            (event.usage, event.model_version or "")
            for event in self.steps
            if event.usage is not None
        )

    def parts(self) -> Iterator[Part]:
        """All parts of all events, in order."""
        for event in self.steps:
            if event.content is not None:
                yield from event.content.parts

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Every tool call in order, of all agents."""
        return tuple(part for part in self.parts() if isinstance(part, ToolCall))

    @property
    def tool_responses(self) -> tuple[ToolResponse, ...]:
        """Every tool response in order, of all agents."""
        return tuple(part for part in self.parts() if isinstance(part, ToolResponse))
