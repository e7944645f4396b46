"""Conversations with any HTTP endpoint, whose request and answer a small mapping describes."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from evalgate.model import Case, Content, Event, FailureKind, Invocation, Json, SessionInput, Text, Timings, ToolCall
from evalgate.sessions.endpoints import Line
from evalgate.web import placeholders
from evalgate.web.json_path import MISSING, JsonPath

PLACES = frozenset({"text", "session_id", "state", "user_id", "app_name", "messages", "turn"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointShape:
    """How to ask, and where in the answer things stand; None: the endpoint does not tell.

    `tool_name` and `tool_args` are looked up in each item of `tool_calls`.
    """

    method: str
    url: str
    request: Any
    text: JsonPath
    tool_calls: JsonPath | None
    tool_name: JsonPath
    tool_args: JsonPath
    session_id: JsonPath | None
    state: JsonPath | None


class MappedConversation:
    """One conversation. `{session_id}` is a new id until the endpoint names one of its own."""

    def __init__(self, line: Line, *, shape: EndpointShape, case: Case) -> None:
        self._line = line
        self._shape = shape
        session = case.session or SessionInput()
        self._final_state: Json | None = None
        self._messages: list[dict[str, str]] = []
        self._values: dict[str, Any] = {
            "session_id": session.session_id or f"evalgate-{uuid.uuid4().hex}",
            "user_id": session.user_id,
            "app_name": session.app_name,
            "state": dict(session.state),
        }

    def send(self, user_content: Content) -> Invocation:
        """Run one turn. Raises AgentFailed."""
        self._line.turn = len(self._line.done) + 1
        text = "\n".join(part.text for part in user_content.parts if isinstance(part, Text))
        self._messages.append({"role": "user", "content": text})
        values = self._values | {"text": text, "messages": list(self._messages), "turn": self._line.turn}
        began = time.monotonic()
        url = placeholders.fill(self._shape.url, {name: quote(str(value), safe="") for name, value in values.items()})
        body = None if self._shape.request is None else placeholders.fill(self._shape.request, values)
        answer = self._line.ask(self._shape.method, url, body)
        seconds = time.monotonic() - began
        said = self._said(answer)
        self._messages.append({"role": "assistant", "content": said})
        self._learn(answer)
        invocation = Invocation(
            user_content=user_content,
            final_response=Content(parts=(Text(text=said),), role="model") if said else None,
            events=self._events(answer),
            timings=Timings(total_s=seconds),
        )
        self._line.done.append(invocation)
        return invocation

    def finish(self) -> Json | None:
        """The state that the last answer told, if any."""
        return self._final_state

    def leave(self) -> None:
        """Nothing to end: the endpoint was told of no session."""

    def _said(self, answer: Any) -> str:
        found = self._shape.text.find(answer)
        if found is None:
            return ""
        if isinstance(found, list) and all(isinstance(item, str) for item in found):
            return "".join(found)
        if isinstance(found, bool | int | float):
            return str(found)
        if isinstance(found, str):
            return found
        raise self._unlike(self._shape.text, answer, "a text")

    def _events(self, answer: Any) -> tuple[Event, ...] | None:
        path = self._shape.tool_calls
        if path is None:
            return None  # nobody said where calls would stand: unknown, not none
        found = path.find(answer)
        if found is MISSING or found is None:
            return ()
        if not isinstance(found, list):
            raise self._unlike(path, answer, "a list of tool calls")
        calls = tuple(self._call(item) for item in found)
        return (Event(author="agent", content=Content(parts=calls, role="model")),) if calls else ()

    def _call(self, item: Any) -> ToolCall:
        name = item if isinstance(item, str) else self._shape.tool_name.find(item)
        args = self._shape.tool_args.find(item)
        if isinstance(args, str):  # as OpenAI's API writes them: JSON in a text
            args = _parsed(args)
        if not isinstance(name, str):
            raise self._unlike(self._shape.tool_name, item, "the name of a tool")
        if args is MISSING or args is None:
            return ToolCall(name=name)
        if not isinstance(args, dict):
            raise self._unlike(self._shape.tool_args, item, "the arguments of a tool, an object")
        return ToolCall(name=name, args=args)

    def _learn(self, answer: Any) -> None:
        if self._shape.session_id is not None:
            named = self._shape.session_id.find(answer)
            if isinstance(named, str | int) and not isinstance(named, bool):
                self._values["session_id"] = str(named)
        if self._shape.state is not None:
            state = self._shape.state.find(answer)
            if isinstance(state, dict):
                self._values["state"] = self._final_state = state

    def _unlike(self, path: JsonPath, value: Any, wanted: str) -> Exception:
        found = path.find(value)
        has = f"found {_described(value)}" if found is MISSING else f"found {_described(found)} there"
        return self._line.failed(FailureKind.PROTOCOL, f"expected {wanted} at {path.text} of the answer, {has}")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _described(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with {', '.join(repr(str(key)[:40]) for key in list(value)[:8]) or 'no keys'}"
    return json.dumps(value, ensure_ascii=False)[:120]
