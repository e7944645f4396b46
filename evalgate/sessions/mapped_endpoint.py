"""Conversations with any HTTP endpoint, whose request and answer a small mapping describes."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from evalgate.model import Case, Content, Event, FailureKind, Invocation, Json, SessionInput, Text, Timings, ToolCall
from evalgate.sessions.endpoints import Line

if TYPE_CHECKING:  # only a mapped endpoint needs it
    from jmespath.parser import ParsedResult

PLACES = frozenset({"text", "session_id", "state", "user_id", "app_name", "messages", "turn"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointShape:
    """How to ask, and where in the answer things stand; None: the endpoint does not tell.

    `tool_name` and `tool_args` are looked up in each item of `tool_calls`.
    """

    method: str
    url: str
    request: Any
    text: ParsedResult
    tool_calls: ParsedResult | None
    tool_name: ParsedResult
    tool_args: ParsedResult
    session_id: ParsedResult | None
    state: ParsedResult | None


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
        url = fill(self._shape.url, {name: quote(str(value), safe="") for name, value in values.items()})
        body = None if self._shape.request is None else fill(self._shape.request, values)
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
        found = self._found(self._shape.text, answer)
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
        found = self._found(path, answer)
        if found is None:
            return ()
        if not isinstance(found, list):
            raise self._unlike(path, answer, "a list of tool calls")
        calls = tuple(self._call(item) for item in found)
        return (Event(author="agent", content=Content(parts=calls, role="model")),) if calls else ()

    def _call(self, item: Any) -> ToolCall:
        name = item if isinstance(item, str) else self._found(self._shape.tool_name, item)
        args = self._found(self._shape.tool_args, item)
        if isinstance(args, str):  # as OpenAI's API writes them: JSON in a text
            args = _parsed(args)
        if not isinstance(name, str):
            raise self._unlike(self._shape.tool_name, item, "the name of a tool")
        if args is None:
            return ToolCall(name=name)
        if not isinstance(args, dict):
            raise self._unlike(self._shape.tool_args, item, "the arguments of a tool, an object")
        return ToolCall(name=name, args=args)

    def _learn(self, answer: Any) -> None:
        if self._shape.session_id is not None:
            named = self._found(self._shape.session_id, answer)
            if isinstance(named, str | int) and not isinstance(named, bool):
                self._values["session_id"] = str(named)
        if self._shape.state is not None:
            state = self._found(self._shape.state, answer)
            if isinstance(state, dict):
                self._values["state"] = self._final_state = state

    def _found(self, path: ParsedResult, value: Any) -> Any:
        """What is at the path; None where that is null or nothing."""
        try:
            return path.search(value)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # of a function in it
            raise self._line.failed(FailureKind.PROTOCOL, f"{path.expression} of the answer: {error}") from None

    def _unlike(self, path: ParsedResult, value: Any, wanted: str) -> Exception:
        found = path.search(value)
        has = f"found {_described(value)}" if found is None else f"found {_described(found)} there"
        return self._line.failed(FailureKind.PROTOCOL, f"expected {wanted} at {path.expression} of the answer, {has}")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _described(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with {', '.join(repr(str(key)[:40]) for key in list(value)[:8]) or 'no keys'}"
    return json.dumps(value, ensure_ascii=False)[:120]


# --- paths and placeholders ---------------------------------------------------------------------------


def parse_path(text: str) -> ParsedResult:
    """Read a JMESPath expression. Raises ValueError that says where it stops making sense."""
    import jmespath  # noqa: PLC0415 - see above

    try:
        return jmespath.compile(text)
    except ValueError as error:
        said = str(error).splitlines()[0].rstrip(":. ")
        raise ValueError(f"{text!r} is not a JMESPath expression (like answer.parts[0].text): {said}") from None


_PLACE = re.compile(r"\{([a-z_]+)\}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def names_in(shape: Any) -> frozenset[str]:
    """Every `{name}` in the texts of a JSON shape."""
    match shape:
        case str():
            return frozenset(_PLACE.findall(shape))
        case dict():
            return frozenset[str]().union(*(names_in(key) | names_in(value) for key, value in shape.items()))
        case list() | tuple():
            return frozenset[str]().union(*(names_in(item) for item in shape))
        case _:
            return frozenset()


def fill(shape: Any, values: Mapping[str, Any]) -> Any:
    """The shape with its `{name}`s filled in; a text that is nothing but one becomes the value itself.

    Names that are not among `values` stay as they are: they may be JSON braces of the user's own.
    """
    match shape:
        case str():
            return _fill_text(shape, values)
        case dict():
            return {_worded(fill(key, values)): fill(value, values) for key, value in shape.items()}
        case list() | tuple():
            return [fill(item, values) for item in shape]
        case _:
            return shape


def _fill_text(text: str, values: Mapping[str, Any]) -> Any:
    whole = _PLACE.fullmatch(text)
    if whole and whole[1] in values:
        return values[whole[1]]
    return _PLACE.sub(lambda found: _worded(values[found[1]]) if found[1] in values else found[0], text)


def _worded(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def expand(text: str, environment: Mapping[str, str]) -> str:
    """The text with `${NAME}` replaced by the variable's value. Raises KeyError with the name of one that is absent."""
    return _VARIABLE.sub(lambda found: environment[found[1]], text)
