"""Notes of one turn: when models and tools were busy, what each agent was told and given."""

from __future__ import annotations

import inspect
import time
from contextvars import ContextVar
from typing import Any

Interval = tuple[float, float]


class TurnWatch:
    """Notes of one turn, made while it runs; also reached from the tasks that the turn starts."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.requests: dict[str, Any] = {}
        self._open: dict[tuple[str, Any], float] = {}
        self._models: dict[Any, Interval] = {}
        self._tools: list[Interval] = []

    def model_begins(self, key: Any, agent: str, request: Any) -> None:
        """An agent is about to ask its model; only its first request of the turn is kept."""
        self.requests.setdefault(agent, request)
        self._open["model", key] = time.monotonic()

    def model_answers(self, key: Any) -> None:
        """A chunk of the model's answer is there."""
        begun = self._open.get(("model", key))
        if begun is not None:
            self._models[key, begun] = (begun, time.monotonic())

    def tool_begins(self, key: Any) -> None:
        """A tool is about to run."""
        self._open["tool", key] = time.monotonic()

    def tool_ends(self, key: Any) -> None:
        """A tool has answered, or raised."""
        begun = self._open.pop(("tool", key), None)
        if begun is not None:
            self._tools.append((begun, time.monotonic()))

    def timings(self) -> dict[str, float]:
        """Wall seconds to the millisecond, as ADK has them: overlaps count once, and as the model's before a tool's."""
        models = list(self._models.values())
        model_s = union(models)
        return {
            "total_s": round(time.monotonic() - self.started, 3),
            "model_s": round(model_s, 3),
            "tool_s": round(union(models + self._tools) - model_s, 3),
        }

    def agents(self, authors: list[str]) -> list[dict[str, Any]]:
        """Instructions and tools of the agents among `authors` that asked a model, in that order."""
        found = []
        for author in dict.fromkeys(authors):
            request = self.requests.get(author)
            if request is not None:
                found.append(_details(author, request.config))
        return found


def union(intervals: list[Interval]) -> float:
    """Seconds covered by at least one interval."""
    total, counted_to = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, counted_to))
        counted_to = max(counted_to, end)
    return total


def _details(name: str, config: Any) -> dict[str, Any]:
    instructions = getattr(config, "system_instruction", None)
    tools = getattr(config, "tools", None) or []
    details: dict[str, Any] = {"name": name}
    if instructions:
        details["instructions"] = instructions if isinstance(instructions, str) else str(instructions)
    if tools:
        details["tool_declarations"] = [_declaration(tool) for tool in tools]
    return details


def _declaration(tool: Any) -> dict[str, Any]:
    """google.genai's Tool as JSON, also for a function or a client that the model's library would turn into one."""
    if hasattr(tool, "model_dump"):
        dumped: dict[str, Any] = tool.model_dump(mode="json", exclude_none=True)
        return dumped
    if isinstance(tool, dict):
        return tool
    told = {"name": str(getattr(tool, "__name__", None) or type(tool).__name__)}
    description = inspect.getdoc(tool) if callable(tool) else None
    return {"function_declarations": [{**told, "description": description} if description else told]}


CURRENT: ContextVar[TurnWatch | None] = ContextVar("evalgate_turn", default=None)
"""The turn that the running task works for."""
