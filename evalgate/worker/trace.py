"""What happened in a turn, recorded where `--trace` asks for it: events, model calls and tools, with times."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
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
    """The entries of a turn in the order in which they began; `at`, `s`: seconds since it began, and how long."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._entries: list[Message] = []
        self._open: dict[Any, tuple[Message, Any]] = {}

    def event(self, event: Any, *, at: float) -> None:
        """The agent said or did something."""
        told = {"kind": "event", "at": at, "author": event.author, "id": event.id, "content": dumped(event.content)}
        actions = {name: value for name, value in (dumped(event.actions) or {}).items() if value}
        actions = {name: "***" if name in SECRET else value for name, value in actions.items()}
        for name in ("branch", "error_code", "error_message"):
            told[name] = getattr(event, name, None)
        self._entries.append({name: value for name, value in {**told, "actions": actions}.items() if value})

    def agents(self, root: Any) -> None:
        """The agents and their tools."""
        self._entries.append({"kind": "agents", "root": tree(root)})

    def begin(self, kind: str, key: Any, *, request: Any = None, **fields: Any) -> None:
        """A model is asked, or a tool is called; `request` is looked at when it has answered, as it was sent then."""
        entry = {"kind": kind, **fields, "at": self._now()}
        self._entries.append(entry)
        self._open[kind, key] = (entry, request)

    def end(self, kind: str, key: Any, *, response: Any = None, error: Any = None) -> None:
        """It has answered, with a chunk or the whole; or raised."""
        entry, request = self._open.get((kind, key), (None, None))
        if entry is None:
            return
        entry["s"] = round(self._now() - entry["at"], 3)
        if request is not None and "request" not in entry:
            entry["request"] = _request(request)
        if response is not None:
            entry["response"] = dumped(response)
        if error is not None:
            entry["error"] = f"{type(error).__name__}: {error}"

    def finish(self) -> list[Message]:
        """What is told: of a request only what is new since the agent's last one; as much as there is room for."""
        for entry, request in self._open.values():
            if request is not None and "request" not in entry:
                entry["request"] = _request(request)
        found: list[Message] = []
        room = ROOM
        for at, entry in enumerate(_without_repetition(self._entries)):
            told = clipped(entry)
            room -= len(json.dumps(told, default=str))
            if room < 0:
                return [*found, {"kind": "left_out", "count": len(self._entries) - at}]
            found.append(told)
        return found

    def _now(self) -> float:
        return round(time.monotonic() - self._started, 3)


def dumped(value: Any) -> Any:
    """JSON-ready, as far as that goes: of what tools may put there, the nearest JSON is made when it is written."""
    if not hasattr(value, "model_dump"):
        return value
    try:
        return value.model_dump(mode="json", exclude_none=True)
    except Exception:
        return value.model_dump(mode="python", exclude_none=True)


def _request(request: Any) -> Message:
    """The model, what it is told and given, and the conversation; not where and with which headers it is asked."""
    config = getattr(request, "config", None)
    kept: Message = {}
    if config is not None:
        names = set(type(config).model_fields) - {"tools", "http_options"}
        kept = {name: dumped(value) for name in sorted(names) if (value := getattr(config, name)) is not None}
        if config.tools:
            kept["tools"] = [server.declaration(tool) for tool in config.tools]
    return {"model": request.model, "config": kept, "contents": [dumped(each) for each in request.contents or ()]}


def _without_repetition(entries: list[Message]) -> Iterator[Message]:
    """`same`: so many contents are those of the request before; what is not said at all is, too."""
    last: dict[Any, Message] = {}
    for entry in entries:
        request = entry.get("request")
        if request is None:
            yield entry
            continue
        before = last.get(entry["agent"], {})
        last[entry["agent"]] = request
        pairs = zip(before.get("contents", ()), request["contents"], strict=False)
        same = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
        same = min(len(before.get("contents", ())), len(request["contents"])) if same is None else same
        if not same:
            yield entry
            continue
        new = {name: request[name] for name in ("model", "config") if request[name] != before[name]}
        yield {**entry, "request": {**new, "same": same, "contents": request["contents"][same:]}}


def tree(agent: Any) -> Message:
    """An agent with its tools and those below it."""
    model = getattr(agent, "model", None)
    told = {
        "name": str(agent.name),
        "type": type(agent).__name__,
        "model": model if isinstance(model, str) else str(getattr(model, "model", "") or ""),
        "tools": [_name(tool) for tool in getattr(agent, "tools", None) or ()],
        "agents": [tree(child) for child in getattr(agent, "sub_agents", None) or ()],
    }
    return {name: value for name, value in told.items() if value}


def _name(tool: Any) -> str:
    return str(getattr(tool, "name", None) or getattr(tool, "__name__", None) or type(tool).__name__)


def clipped(value: Any) -> Any:
    """The same with its texts clipped; data of files by their size; as much as there is room for in all."""
    room = ROOM

    def told(value: Any, levels: int) -> Any:
        nonlocal room
        room -= 1 + (min(len(value), TEXT) if isinstance(value, str) else 0)
        if isinstance(value, str):
            return value if len(value) <= TEXT else f"{value[:TEXT]} ... {len(value) - TEXT} more characters"
        if isinstance(value, bytes):
            return f"{len(value)} bytes"
        if isinstance(value, (dict, list, tuple)) and (levels <= 0 or room <= 0):
            return "..."
        if isinstance(value, dict):
            data = value.get("data")
            if "mime_type" in value and isinstance(data, (str, bytes)):
                value = {**value, "data": f"{len(data)} characters of data"}
            return {str(name): told(each, levels - 1) for name, each in value.items() if room > 0}
        if isinstance(value, (list, tuple)):
            return [told(each, levels - 1) for each in value if room > 0]
        return value if value is None or isinstance(value, (bool, int, float)) else told(str(dumped(value)), levels)

    return told(value, LEVELS)
