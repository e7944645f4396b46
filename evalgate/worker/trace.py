"""What happened in a turn, recorded where `--trace` asks for it: events, model calls and tools,
with times."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import server

Message = dict[str, Any]

TEXT = 20_000
"""Characters of one text."""
ROOM = 1_000_000
"""Characters of one turn; what comes after is counted."""
LEVELS = 50
SECRET = frozenset({"requested_auth_configs"})
"""Actions that hold clients' secrets and tokens of users."""


class Recorder:
    """Reports the entries of a turn as they come, so that those of a turn that fails, or dies, are
    known as well.

    `tell` gets messages of the protocol: the number of an entry, in the order in which they began,
    and its new or replaced fields. `at`, `s`: seconds since the turn began, and the duration."""

    def __init__(self, started: float, tell: Callable[[Message], None]) -> None:
        self._started = started
        self._tell = tell
        self._entries = 0
        self._room = ROOM
        self._sizes: dict[tuple[int, str], int] = {}
        self._left_out = 0
        self._open: dict[Any, tuple[int, float, str, Any, LastRequest | None]] = {}
        self._asked: dict[str, LastRequest] = {}

    def event(self, event: Any, *, at: float) -> None:
        """The agent said or did something."""
        fields = {
            "kind": "event",
            "at": at,
            "author": event.author,
            "id": event.id,
            "content": dumped(event.content),
        }
        actions = {name: value for name, value in (dumped(event.actions) or {}).items() if value}
        actions = {name: "***" if name in SECRET else value for name, value in actions.items()}
        for name in ("branch", "error_code", "error_message"):
            fields[name] = getattr(event, name, None)
        fields["long_running_tool_ids"] = sorted(
            getattr(event, "long_running_tool_ids", None) or ()
        )
        self._add({name: value for name, value in {**fields, "actions": actions}.items() if value})

    def agents(self, root: Any) -> None:
        """The agents and their tools."""
        self._add({"kind": "agents", "root": tree(root)})

    def begin(self, kind: str, key: Any, *, agent: str, request: Any = None, **fields: Any) -> None:
        """A model is asked, or a tool is called; callbacks of the agent may still change the
        `request`."""
        entry = {"kind": kind, "agent": agent, **fields, "at": self._elapsed()}
        previous_record = self._asked.get(agent)
        if request is not None:
            current_request = _request(request)
            entry["request"] = _new(
                current_request,
                previous_record.last if previous_record else None,
                previous_record.first if previous_record else None,
            )
            self._asked[agent] = LastRequest(
                self._entries, request=entry["request"], first=current_request, last=current_request
            )
        if (number := self._add(entry)) is not None:
            self._open[kind, key] = (number, entry["at"], agent, request, previous_record)

    def end(self, kind: str, key: Any, *, response: Any = None, error: Any = None) -> None:
        """It has answered, with a chunk or the whole; or raised."""
        if (kind, key) not in self._open:
            return
        number, at, agent, request, previous_record = self._open[kind, key]
        fields: Message = {"s": round(self._elapsed() - at, 3)}
        record = self._asked.get(agent)
        # no later request uses it
        if request is not None and record is not None and record.number == number:
            record.last = _request(request)
            new = _new(record.last, previous_record.last if previous_record else None)
            if new != record.request:
                fields["request"] = record.request = new
        if response is not None:
            fields["response"] = dumped(response)
        if error is not None:
            fields["error"] = f"{type(error).__name__}: {error}"
        self._say(number, fields)

    def _add(self, entry: Message) -> int | None:
        """Report an entry; returns its number, None if no room is left: it is counted."""
        number = self._entries
        if self._room > 0 and not self._left_out:
            self._entries += 1
            self._say(number, entry)
            return number
        self._left_out += 1
        self._tell(
            {
                "type": "trace",
                "number": number,
                "entry": {"kind": "left_out", "count": self._left_out},
            }
        )
        return None

    def _say(self, number: int, fields: Message) -> None:
        clipped_fields = {}
        for name, value in fields.items():
            self._room += self._sizes.get((number, name), 0)
            clipped_fields[name] = clipped(value, self._room)
            self._sizes[number, name] = len(json.dumps(clipped_fields[name]))
            self._room -= self._sizes[number, name]
        self._tell({"type": "trace", "number": number, "entry": clipped_fields})

    def _elapsed(self) -> float:
        return round(time.monotonic() - self._started, 3)


@dataclass
class LastRequest:
    """An agent's last request: the number of its entry, the reported part, its first form and the
    sent form."""

    number: int
    request: Message
    first: Message
    last: Message


def dumped(value: Any) -> Any:
    """JSON-ready, as far as that goes: of what tools may put there, the nearest JSON is made when
    it is written."""
    if not hasattr(value, "model_dump"):
        return value
    try:
        return value.model_dump(mode="json", exclude_none=True)
    except Exception:
        return value.model_dump(mode="python", exclude_none=True)


def _request(request: Any) -> Message:
    """The model, its instructions and settings, and the conversation; not the address and
    headers."""
    config = getattr(request, "config", None)
    settings: Message = {}
    if config is not None:
        names = set(type(config).model_fields) - {"tools", "http_options"}
        settings = {
            name: dumped(value)
            for name in sorted(names)
            if (value := getattr(config, name)) is not None
        }
        if config.tools:
            settings["tools"] = [server.declaration(tool) for tool in config.tools]
    return {
        "model": request.model,
        "config": settings,
        "contents": [dumped(content) for content in request.contents or ()],
    }


def _new(
    request: Message, previous_request: Message | None, config_before: Message | None = None
) -> Message:
    """What is new in a request since the one before of the same agent. `same`: so many contents are
    those of that one; what is not said at all is, too. `config_before`: what that one was when it
    was as young as this one."""
    if previous_request is None:
        return request
    pairs = zip(previous_request["contents"], request["contents"], strict=False)
    same = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
    same = (
        min(len(previous_request["contents"]), len(request["contents"])) if same is None else same
    )
    if not same:
        return request
    config_request = config_before or previous_request
    new = {
        name: request[name] for name in ("model", "config") if request[name] != config_request[name]
    }
    return {**new, "same": same, "contents": request["contents"][same:]}


def tree(agent: Any) -> Message:
    """An agent with its tools and those below it."""
    model = getattr(agent, "model", None)
    fields = {
        "name": str(agent.name),
        "type": type(agent).__name__,
        "model": model if isinstance(model, str) else str(getattr(model, "model", "") or ""),
        "tools": [_name(tool) for tool in getattr(agent, "tools", None) or ()],
        "agents": [tree(child) for child in getattr(agent, "sub_agents", None) or ()],
    }
    return {name: value for name, value in fields.items() if value}


def _name(tool: Any) -> str:
    return str(
        getattr(tool, "name", None) or getattr(tool, "__name__", None) or type(tool).__name__
    )


def clipped(value: Any, room: int = ROOM) -> Any:
    """The same with its texts clipped; data of files by their size; as much as there is room for in
    all."""

    def clip(value: Any, levels: int) -> Any:
        nonlocal room
        room -= 2 + (min(len(value), TEXT) if isinstance(value, str) else 0)
        if isinstance(value, str):
            return (
                value
                if len(value) <= TEXT
                else f"{value[:TEXT]} ... {len(value) - TEXT} more characters"
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
            else clip(str(dumped(value)), levels)
        )

    return clip(value, LEVELS)
