"""The messages about an agent's tools: a worker asks before one runs, and tells what came of it."""

from __future__ import annotations

from typing import Any, Literal, assert_never

from pydantic import BaseModel, ConfigDict, Field

from evalgate.plugins import CallKind, Replied, RunTool, ToolAnswer, ToolError, ToolReply, Unmatched


class ToolCallSaid(BaseModel):
    """A tool is about to run, and waits for an answer. `call` names the call, once in its session."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Literal["tool_call"]
    session: str
    call: str
    name: str
    args: dict[str, Any] = Field(default_factory=dict)
    kind: CallKind = CallKind.TOOL


class ToolErrorWire(BaseModel):
    """What a tool raised."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: str = "RuntimeError"
    message: str = ""


class ToolResultSaid(BaseModel):
    """What came of a call that was to run and to be reported."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Literal["tool_result"]
    session: str
    call: str
    response: Any = None
    error: ToolErrorWire | None = None
    effects: dict[str, Any] | None = None

    def reply(self) -> ToolReply:
        """What came of it."""
        error = ToolError(type=self.error.type, message=self.error.message) if self.error else None
        return ToolReply(response=None if error else self.response, error=error, effects=self.effects)


def tool_response(session: str, *, call: str, answer: ToolAnswer) -> dict[str, Any]:
    """The answer to a tool_call."""
    message: dict[str, Any] = {"type": "tool_response", "session": session, "call": call}
    match answer:
        case RunTool():
            return {**message, "run": True, "report": answer.report}
        case Unmatched():
            return {**message, "refused": answer.message}
        case Replied(reply=reply):
            if reply.error is not None:
                message["error"] = {"type": reply.error.type, "message": reply.error.message}
            else:
                message["response"] = reply.response
            return {**message, "effects": dict(reply.effects)} if reply.effects else message
        case _:
            assert_never(answer)
