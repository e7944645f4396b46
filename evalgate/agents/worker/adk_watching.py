"""Plugins that note what google-adk's events do not say, and make model requests patient."""

from __future__ import annotations

from typing import Any

from google.adk.plugins.base_plugin import BasePlugin

from .turn_watch import CURRENT


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
