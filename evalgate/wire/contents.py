"""google.genai's Content and Part as they stand in evaluation files, sessions and protocol messages."""

from __future__ import annotations

from sys import intern
from typing import Any

from pydantic import Field

from evalgate.model import Attachment, Content, Part, Text, ToolCall, ToolResponse
from evalgate.wire.shapes import Wire

_ATTACHED = {"inline_data", "file_data", "executable_code", "code_execution_result", "tool_call", "tool_response"}


class FunctionCallWire(Wire):
    """google.genai FunctionCall."""

    id: str | None = None
    name: str | None = None
    args: dict[str, Any] | None = None
    partial_args: list[Any] | None = None
    will_continue: bool | None = None

    def noun(self) -> ToolCall:
        """The call; a nameless one keeps an empty name."""
        return ToolCall(name=intern(self.name or ""), args=self.args, id=self.id)


class FunctionResponseWire(Wire):
    """google.genai FunctionResponse."""

    id: str | None = None
    name: str | None = None
    response: dict[str, Any] | None = None
    parts: list[Any] | None = None
    scheduling: str | None = None
    will_continue: bool | None = None

    def noun(self) -> ToolResponse:
        """The response; a nameless one keeps an empty name."""
        return ToolResponse(name=intern(self.name or ""), response=self.response, id=self.id)


class PartWire(Wire):
    """google.genai Part, of which only text, calls and responses are read further.

    It is meant to hold one kind of content, and google.genai takes several; ADK reads each of them.
    """

    text: str | None = None
    thought: bool | None = None
    function_call: FunctionCallWire | None = None
    function_response: FunctionResponseWire | None = None
    inline_data: dict[str, Any] | None = None
    file_data: dict[str, Any] | None = None
    executable_code: dict[str, Any] | None = None
    code_execution_result: dict[str, Any] | None = None
    thought_signature: str | None = None
    video_metadata: dict[str, Any] | None = None
    media_resolution: Any = None
    tool_call: dict[str, Any] | None = None
    tool_response: dict[str, Any] | None = None
    part_metadata: dict[str, Any] | None = None
    audio_transcription: Any = None
    media_processing: Any = None
    speech_metadata: Any = None

    def nouns(self) -> tuple[Part, ...]:
        """One part for each kind of content: a text, a call, a response, and an attachment for all others."""
        found: list[Part] = []
        if self.text is not None:
            found.append(Text(text=self.text, thought=bool(self.thought)))
        if self.function_call is not None:
            found.append(self.function_call.noun())
        if self.function_response is not None:
            found.append(self.function_response.noun())
        if not found:
            return (Attachment(data=self.model_dump(mode="json", exclude_none=True)),)
        if any(getattr(self, name) is not None for name in _ATTACHED):
            found.append(Attachment(data=self.model_dump(mode="json", exclude_none=True, include=_ATTACHED)))
        return tuple(found)


class ContentWire(Wire):
    """google.genai Content."""

    role: str | None = None
    parts: list[PartWire] | None = Field(default=None)

    def noun(self) -> Content:
        """The content; no parts and an empty list of parts are the same."""
        role = intern(self.role) if self.role else self.role
        return Content(parts=tuple(noun for part in self.parts or () for noun in part.nouns()), role=role)
