"""The trace of a turn (`--trace`): events, model calls and tool calls, with times."""

from __future__ import annotations

import json
import time
from itertools import takewhile
from typing import Any

from . import server
from .pipe import Emit, Message, dump_model, present

TEXT = 20_000
"""Characters of one text."""
ROOM = 1_000_000
"""Characters of one turn. Later entries are only counted."""
LEVELS = 50
"""Of nested values; what is deeper becomes `...`."""
SECRET = frozenset({"requested_auth_configs"})
"""Actions that hold clients' secrets and users' tokens."""


class Recorder:
    """Reports the entries of a turn at once, so that a turn that fails has a trace, too.

    `send` gets messages of the protocol: an entry's number, in the order of their starts, and its
    new or replaced fields. `at`: seconds since the turn's start; `s`: duration in seconds."""

    def __init__(self, start_time: float, send: Emit) -> None:
        """`start_time`: the turn's, monotonic."""
        self._start_time = start_time
        self._send = send
        self._entry_count = 0
        """The number of the next entry."""
        self._free_characters = ROOM
        """What is left of ROOM."""
        self._sizes: dict[tuple[int, str], int] = {}
        """Characters by entry and field: a replaced field gives its room back."""
        self._left_out_count = 0
        """Entries for which no room was left."""
        self._open_calls: dict[Any, tuple[int, float, str, Any, Message | None]] = {}
        """By kind and key: the entry's number and start, the agent, its request, and its one
        before."""
        self._last_requests: dict[str, tuple[int, Message]] = {}
        """By agent: the number of the entry, and the request as it is known."""

    def event(self, event: Any, *, at: float) -> None:
        """Report an event of the agent. `at`: seconds since the turn's start."""
        actions = dump_model(event.actions) or {}
        shown_actions = {
            name: "***" if name in SECRET else value for name, value in actions.items() if value
        }
        fields = {
            "kind": "event",
            "at": at,
            "author": event.author,
            "id": event.id,
            "content": dump_model(event.content),
            "long_running_tool_ids": sorted(getattr(event, "long_running_tool_ids", None) or ()),
            "actions": shown_actions,
        }
        for name in ("branch", "error_code", "error_message"):
            fields[name] = getattr(event, name, None)
        self._add(present(**fields))

    def agents(self, root: Any) -> None:
        """Report the agents and their tools."""
        self._add({"kind": "agents", "root": tree(root)})

    def begin(self, kind: str, key: Any, *, agent: str, request: Any = None, **fields: Any) -> None:
        """Report the start of a model call or a tool call. Callbacks of the agent may still change
        the `request`."""
        entry = {"kind": kind, "agent": agent, **fields, "at": self._elapsed()}
        _, previous = self._last_requests.get(agent, (0, None))
        if request is not None:
            known_request = _request(request)
            entry["request"] = _changes(known_request, previous)
            self._last_requests[agent] = (self._entry_count, known_request)
        if (number := self._add(entry)) is not None:
            self._open_calls[kind, key] = (number, entry["at"], agent, request, previous)

    def end(self, kind: str, key: Any, *, response: Any = None, error: Any = None) -> None:
        """Report a chunk of the answer, the whole answer, or the error of a call."""
        if (kind, key) not in self._open_calls:
            return
        number, begun_at, agent, request, previous = self._open_calls[kind, key]
        fields: Message = {"s": round(self._elapsed() - begun_at, 3)}
        last_number, known_request = self._last_requests.get(agent, (None, None))
        # a later request of the agent does not build on it
        if request is not None and last_number == number:
            sent_request = _request(request)
            if sent_request != known_request:
                self._last_requests[agent] = (number, sent_request)
                fields["request"] = _changes(sent_request, previous)
        if response is not None:
            fields["response"] = dump_model(response)
        if error is not None:
            fields["error"] = f"{type(error).__name__}: {error}"
        self._report(number, fields)

    def _add(self, entry: Message) -> int | None:
        """Report an entry. Returns its number, or None if no room is left; then it is only
        counted."""
        number = self._entry_count
        if self._free_characters > 0 and not self._left_out_count:
            self._entry_count += 1
            self._report(number, entry)
            return number
        self._left_out_count += 1
        self._send(
            {
                "type": "trace",
                "number": number,
                "entry": {"kind": "left_out", "count": self._left_out_count},
            }
        )
        return None

    def _report(self, number: int, fields: Message) -> None:
        """Send fields of an entry, clipped to the room that is left."""
        clipped_fields = {}
        for name, value in fields.items():
            self._free_characters += self._sizes.get((number, name), 0)
            clipped_fields[name] = clip_values(value, self._free_characters)
            self._sizes[number, name] = len(json.dumps(clipped_fields[name]))
            self._free_characters -= self._sizes[number, name]
        self._send({"type": "trace", "number": number, "entry": clipped_fields})

    def _elapsed(self) -> float:
        """Seconds since the turn's start, to the millisecond."""
        return round(time.monotonic() - self._start_time, 3)


def _request(request: Any) -> Message:
    """The model of a request, its instructions, its settings and the conversation, without the
    address and the headers."""
    config = getattr(request, "config", None)
    settings: Message = {}
    if config is not None:
        names = set(type(config).model_fields) - {"tools", "http_options"}
        settings = {
            name: dump_model(value)
            for name in sorted(names)
            if (value := getattr(config, name)) is not None
        }
        if config.tools:
            settings["tools"] = [server.declaration(tool) for tool in config.tools]
    return {
        "model": request.model,
        "config": settings,
        "contents": [dump_model(content) for content in request.contents or ()],
    }


def _changes(request: Message, previous_request: Message | None) -> Message:
    """What is new in a request since the one before of the same agent. `same`: so many contents are
    those of that one; what is not said at all is, too."""
    if previous_request is None:
        return request
    pairs = zip(previous_request["contents"], request["contents"])  # noqa: B905 - Python 3.9 has no `strict`
    same_pairs = takewhile(lambda pair: pair[0] == pair[1], pairs)
    shared_count = len(list(same_pairs))
    if not shared_count:
        return request
    changed_fields = {
        name: request[name]
        for name in ("model", "config")
        if request[name] != previous_request[name]
    }
    return {**changed_fields, "same": shared_count, "contents": request["contents"][shared_count:]}


def tree(agent: Any) -> Message:
    """An agent, its tools and its sub-agents."""
    model = getattr(agent, "model", None)
    tool_names = [
        getattr(tool, "name", None) or getattr(tool, "__name__", None) or type(tool).__name__
        for tool in getattr(agent, "tools", None) or ()
    ]
    fields = {
        "name": str(agent.name),
        "type": type(agent).__name__,
        "model": model if isinstance(model, str) else str(getattr(model, "model", "") or ""),
        "tools": list(map(str, tool_names)),
        "agents": [tree(child) for child in getattr(agent, "sub_agents", None) or ()],
    }
    return present(**fields)


def clip_values(value: Any, room: int = ROOM) -> Any:
    """The value with long texts clipped and file data replaced by its size, within `room`
    characters."""

    def clip(value: Any, levels: int) -> Any:
        """The value with as many levels; takes what it needs from `room`."""
        nonlocal room
        room -= 2 + (min(len(value), TEXT) if isinstance(value, str) else 0)
        if isinstance(value, str):
            omitted_count = len(value) - TEXT
            return (
                f"{value[:TEXT]} ... {omitted_count} more characters"
                if omitted_count > 0
                else value
            )
        if isinstance(value, bytes):
            return f"{len(value)} bytes"
        if isinstance(value, (dict, list, tuple)) and (levels <= 0 or room <= 0):
            return "..."
        if isinstance(value, dict):
            data = value.get("data")
            if "mime_type" in value and isinstance(data, (str, bytes)):
                value = {**value, "data": f"{len(data)} characters of data"}
            return {str(name): clip(field, levels - 1) for name, field in value.items() if room > 0}
        if isinstance(value, (list, tuple)):
            return [clip(element, levels - 1) for element in value if room > 0]
        return (
            value
            if value is None or isinstance(value, (bool, int, float))
            else clip(str(dump_model(value)), levels)
        )

    return clip(value, LEVELS)
