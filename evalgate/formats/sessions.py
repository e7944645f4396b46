"""Events as ADK sessions and agents-cli traces store them, grouped into invocations by ADK's rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from evalgate.formats import adk_shapes, repair
from evalgate.formats.adk_shapes import ContentWire, StepEvent, UsageWire
from evalgate.formats.json_source import Path, Problems
from evalgate.model import Attachment, Content, Invocation, ToolCall, ToolResponse
from evalgate.model.shapes import Wire


class ActionsWire(Wire):
    """The one action of an event that decides whether it is final."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    skip_summarization: bool | None = None


class SessionEventWire(Wire):
    """ADK's Event, as far as evaluation reads it."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, protected_namespaces=()
    )

    author: str | None = None
    invocation_id: str | None = None
    content: ContentWire | None = None
    usage_metadata: UsageWire | None = None
    model_version: str | None = None
    grounding_metadata: dict[str, Any] | None = None
    partial: bool | None = None
    error_code: str | None = None
    long_running_tool_ids: list[str] | None = None
    actions: ActionsWire | None = None

    def noun(self) -> StepEvent:
        """The event, and whether ADK takes it for a final response."""
        content = self.content.noun() if self.content else None
        return StepEvent(
            author=self.author or "",
            content=content,
            usage=self.usage_metadata.noun() if self.usage_metadata else None,
            model_version=self.model_version,
            grounding=self.grounding_metadata,
            final=self._is_final(content),
        )

    def _is_final(self, content: Content | None) -> bool:
        if (self.actions is not None and self.actions.skip_summarization) or self.long_running_tool_ids:
            return True
        parts = content.parts if content else ()
        calls = any(isinstance(part, ToolCall) for part in parts)
        if self.partial or calls:
            return False
        if self.error_code:
            return True
        last = parts[-1] if parts else None
        ran_code = isinstance(last, Attachment) and last.data.get("code_execution_result") is not None
        return not ran_code and not any(isinstance(part, ToolResponse) for part in parts)


def read_event(raw: Any, *, path: Path, problems: Problems) -> SessionEventWire | None:
    """One stored event; None where it cannot be understood, which is then a problem."""
    try:
        return SessionEventWire.model_validate(raw)
    except ValidationError:
        repaired = _repaired(raw, path, problems)
    try:
        return SessionEventWire.model_validate(repaired)
    except ValidationError as error:
        problems.validation(error, repaired, path=path)
        return None


def _repaired(raw: Any, path: Path, problems: Problems) -> Any:
    if not isinstance(raw, dict) or raw.get("content") is None:
        return raw
    role = "user" if raw.get("author") == "user" else "model"
    return raw | {"content": repair.repair_content(raw["content"], (*path, "content"), problems, role=role)}


def turn_of(events: Sequence[SessionEventWire], *, invocation_id: str = "") -> Invocation:
    """One turn. The user's content is that of the user's last event; without one it is empty.

    Without a single event of the agent nothing is known of the steps.
    """
    steps = [event.noun() for event in events]
    asked = [step.content for step in steps if step.author.lower() == "user" and step.content is not None]
    user_content = asked[-1] if asked else Content()
    if all(step.author.lower() == "user" for step in steps):
        return Invocation(user_content=user_content, invocation_id=invocation_id)
    return adk_shapes.assemble(user_content, steps, invocation_id=invocation_id)


def turns_of(events: Sequence[SessionEventWire]) -> tuple[Invocation, ...]:
    """The turns of a session: events that share an invocation id, in the order of each id's first event."""
    groups: dict[str, list[SessionEventWire]] = {}
    for event in events:
        groups.setdefault(event.invocation_id or "", []).append(event)
    return tuple(turn_of(group, invocation_id=name) for name, group in groups.items())
