"""Agents of Pydantic AI."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from . import frameworks
from .frameworks import FrameworkSession, Message, Original

RUNNING: ContextVar[Any] = ContextVar("evalgate_tool_call", default=None)
"""The messages' identity and the id of the running tool call, to recognize toolsets that wrap
others."""


class Session(FrameworkSession):
    """The messages so far. Tools get the session's state as `deps`, unless `context` names another
    object."""

    def begin(self) -> None:
        """See FrameworkSession."""
        self._history: list[Any] = []
        self.calls: dict[str, tuple[str, Message]] = {}
        self._model = ""

    async def ask(self, text: str) -> Any:
        """The output of a run."""
        from pydantic_ai import Agent

        author = self.agent.name or "agent"
        async with self.agent.iter(text, deps=self.context, message_history=self._history) as run:
            async for node in run:
                if Agent.is_model_request_node(node):
                    self.model_begins(author=author, key="model")
                elif Agent.is_call_tools_node(node):
                    self._record_response(node.model_response)
                    async with node.stream(run.ctx) as events:
                        async for event in events:
                            self._report_event(event)
        usage = run.usage() if callable(run.usage) else run.usage
        counts = frameworks.usage_of(usage.input_tokens, usage.output_tokens)
        if counts:  # includes agents in tools, if the tools pass the usage on
            self.watch.usage["run"] = {"usage_metadata": counts, "model_version": self._model}
        if run.result is None:
            raise RuntimeError("the agent ended without a result")
        self._history = run.result.all_messages()
        for message in self._history:
            if message.kind == "request":
                prompts = [
                    part.content for part in message.parts if part.part_kind == "system-prompt"
                ]
                texts = [*prompts, getattr(message, "instructions", None)]
                self.note_instructions(author, texts)
        output = run.result.output
        if type(output).__name__ == "DeferredToolRequests":
            pending_tools = ", ".join(
                repr(call.tool_name) for call in [*output.calls, *output.approvals]
            )
            raise RuntimeError(
                f"the run stopped for {pending_tools}, which somebody else has to run or to approve"
            )
        return output

    def _record_response(self, response: Any) -> None:
        """Report a model's response: texts, calls, tokens."""
        texts = [part.content for part in response.parts if part.part_kind == "text"]
        calls = [
            {"name": part.tool_name, "args": part.args_as_dict()}
            for part in response.parts
            if part.part_kind == "tool-call"
        ]
        usage = response.usage
        counts = frameworks.usage_of(
            usage.input_tokens,
            usage.output_tokens,
            cached_tokens=usage.cache_read_tokens or None,
            thought_tokens=(usage.details or {}).get("reasoning_tokens"),
        )
        self._model = response.model_name or self._model
        self.record_answer(
            "model", "\n".join(texts), counts, model=response.model_name, calls=calls
        )

    def _report_event(self, event: Any) -> None:
        """Report tool calls and their results. Refused calls (a missing tool, invalid arguments)
        are reported, too."""
        if event.event_kind == "function_tool_call":
            part = event.part
            self.calls[part.tool_call_id] = part.tool_name, part.args_as_dict()
            self.tool_begins(*self.calls[part.tool_call_id], part.tool_call_id)
        elif event.event_kind == "function_tool_result":
            part = getattr(event, "part", None) or event.result
            name = part.tool_name or self.calls.get(part.tool_call_id, ("", {}))[0]
            is_refused = part.part_kind == "retry-prompt"
            answer = {"error": part.model_response()} if is_refused else part.content
            self.tool_ends(part.tool_call_id, name, answer)


async def _call_tool(session: Session, _: Any, run: Original, arguments: Message) -> Any:
    """Ask evalgate about a tool call if it decides on calls; output tools, which end a run, always
    run."""
    __, name, tool_args, ctx, tool = arguments.values()
    # an agent in a tool has its own messages
    call_key = (id(ctx.messages), ctx.tool_call_id)
    is_output = getattr(tool.tool_def, "kind", "function") == "output"
    if session.tools is None or is_output or RUNNING.get() == call_key:
        return await run()
    with frameworks.bound(RUNNING, call_key):
        # the model's arguments
        _, args = session.calls.get(ctx.tool_call_id or "", (name, tool_args))
        return await session.tools.ask(name, args).settle(run)


class Host(frameworks.FrameworkHost):
    """See frameworks.FrameworkHost."""

    package = "pydantic-ai-slim"
    low = "1"
    high = "3"
    session = Session
    agent_classes = ("pydantic_ai.agent:AbstractAgent",)
    entrances = ("run", "run_sync", "run_stream", "iter")

    def context_class(self, agent: Any) -> Any:
        """The `deps_type`."""
        return getattr(agent, "deps_type", None)

    def prepare(self) -> None:
        """Ask about every tool of every toolset. If one calls another, only the first is asked
        about."""
        frameworks.intercept_all("pydantic_ai.toolsets:AbstractToolset", call_tool=_call_tool)
