"""What google-adk's events do not say: when models and tools were busy, what each agent was told and given."""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import Any

from google.adk.plugins.base_plugin import BasePlugin

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


def _declaration(tool: Any) -> Any:
    if hasattr(tool, "model_dump"):
        return tool.model_dump(mode="json", exclude_none=True)
    return tool if isinstance(tool, dict) else repr(tool)


CURRENT: ContextVar[TurnWatch | None] = ContextVar("evalgate_turn", default=None)
"""The turn that the running task works for."""


class Opening(BasePlugin):  # type: ignore[misc]  # google-adk is not installed where types are checked
    """Last of all plugins: notes that a model or a tool is about to be called, and asks the client to retry."""

    def __init__(self, retry_options: Any) -> None:
        super().__init__(name="evalgate_opening")
        self._retry_options = retry_options

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """See BasePlugin."""
        if self._retry_options is not None:
            _ask_for_retries(llm_request, self._retry_options)
        watch = CURRENT.get()
        if watch is not None:
            watch.model_begins(_key(callback_context), callback_context.agent_name, llm_request)

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> None:  # noqa: ARG002 - the interface's signature
        """See BasePlugin."""
        watch = CURRENT.get()
        if watch is not None:
            watch.tool_begins((_key(tool_context), tool_context.function_call_id))


class Closing(BasePlugin):  # type: ignore[misc]  # as above
    """First of all plugins: notes that a model or a tool has answered, whatever others make of the answer."""

    def __init__(self) -> None:
        super().__init__(name="evalgate_closing")

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:  # noqa: ARG002 - the interface's signature
        """See BasePlugin."""
        watch = CURRENT.get()
        if watch is not None:
            watch.model_answers(_key(callback_context))

    async def on_model_error_callback(self, *, callback_context: Any, llm_request: Any, error: Any) -> None:  # noqa: ARG002 - as above
        """See BasePlugin."""
        watch = CURRENT.get()
        if watch is not None:
            watch.model_answers(_key(callback_context))

    async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:  # noqa: ARG002 - as above
        """See BasePlugin."""
        watch = CURRENT.get()
        if watch is not None:
            watch.tool_ends((_key(tool_context), tool_context.function_call_id))

    async def on_tool_error_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, error: Any) -> None:  # noqa: ARG002 - as above
        """See BasePlugin."""
        watch = CURRENT.get()
        if watch is not None:
            watch.tool_ends((_key(tool_context), tool_context.function_call_id))


def _key(context: Any) -> tuple[str, str]:
    return context.invocation_id, context.agent_name


def retry_options() -> Any:
    """What ADK's evaluation puts on model requests; None where google-genai is too old to know of it."""
    from google.genai import types

    kind = getattr(types, "HttpRetryOptions", None)
    if kind is None:
        return None
    codes = [408, 429, 500, 502, 503, 504]
    return kind(attempts=7, initial_delay=5.0, max_delay=120.0, exp_base=2.0, http_status_codes=codes)


def _ask_for_retries(request: Any, options: Any) -> None:
    from google.genai import types

    request.config = request.config or types.GenerateContentConfig()
    request.config.http_options = request.config.http_options or types.HttpOptions()
    if request.config.http_options.retry_options is None:
        request.config.http_options.retry_options = options
