"""Agents of the OpenAI Agents SDK."""

from __future__ import annotations

from typing import Any

from . import frameworks
from .frameworks import FrameworkSession

LOCAL_TOOLS = ("ComputerTool", "LocalShellTool", "ShellTool", "ApplyPatchTool", "CustomTool")
"""Classes of tools that run here and are no functions."""


class Session(FrameworkSession):
    """The items so far and the last speaker. The session's state is the run's `context`, unless
    `context` names another object."""

    _items: Any = ()
    """The conversation so far, as the SDK takes it for input."""

    async def ask(self, text: str) -> Any:
        """The final output of a run."""
        from agents import RunConfig, Runner

        result = await Runner.run(
            self.agent,
            [*self._items, {"role": "user", "content": text}],
            context=self.context,
            hooks=_watcher(self),
            run_config=RunConfig(tracing_disabled=True),
        )
        pending_names = ", ".join(
            str(getattr(interruption, "name", "") or interruption.raw_item)
            for interruption in getattr(result, "interruptions", ())
        )
        if pending_names:
            raise RuntimeError(
                f"the run stopped for an approval of {pending_names}, which nobody gives here"
            )
        self._items = result.to_input_list()
        self.agent = result.last_agent
        return result.final_output


def _watcher(session: Session) -> Any:
    """The hooks of a run, which report its models and handoffs."""
    from agents import RunHooks
    from agents.handoffs import Handoff

    class Watcher(RunHooks):  # type: ignore[misc]  # the SDK is not installed where types are checked
        """Reports models and handoffs. Tools report themselves."""

        def __init__(self) -> None:
            self.calls: list[Any] = []
            """Of the last model answer, to find the call of a handoff."""

        async def on_llm_start(
            self,
            context: Any,  # noqa: ARG002 - the SDK's names
            agent: Any,
            system_prompt: Any,
            input_items: Any,  # noqa: ARG002 - the SDK's names
        ) -> None:
            """The agent and its instructions."""
            session.model_begins(system_prompt, author=agent.name, key="model")

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:  # noqa: ARG002 - as above
            """The answer's texts, tokens, model and calls."""
            self.calls = [
                item for item in response.output if getattr(item, "type", "") == "function_call"
            ]
            texts = [
                part.text
                for item in response.output
                if getattr(item, "type", "") == "message"
                for part in item.content
                if getattr(part, "text", None)
            ]
            usage = response.usage
            counts = frameworks.usage_of(
                usage.input_tokens,
                usage.output_tokens,
                cached_tokens=getattr(usage.input_tokens_details, "cached_tokens", 0) or None,
                thought_tokens=getattr(usage.output_tokens_details, "reasoning_tokens", 0),
            )
            model = getattr(agent.model, "model", agent.model)
            calls = frameworks.model_calls(self.calls)
            session.record_answer("model", "\n".join(texts), counts, model=model, calls=calls)

        async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:  # noqa: ARG002 - as above
            """Reported as a tool call: by its usual name, else the first call of the answer."""
            name = Handoff.default_tool_name(to_agent)
            handoff_calls = [call for call in self.calls if call.name == name] or self.calls
            for call in handoff_calls[:1]:
                session.tool_begins(call.name, call.arguments, call.call_id)

    return Watcher()


# --- tools ---


def _report_tools(original: Any) -> Any:
    """`get_all_tools` of an agent, whose tools report themselves, and ask before they run."""

    async def get_all_tools(self: Any, *args: Any, **options: Any) -> Any:
        """The tools, each wrapped once. Raises RuntimeError for one that evalgate cannot decide
        on."""
        tools = await original(self, *args, **options)
        session = frameworks.CURRENT.get()
        for tool in tools:
            kind = type(tool).__name__
            if hasattr(tool, "on_invoke_tool") and kind not in LOCAL_TOOLS:
                frameworks.replace_once(tool, "on_invoke_tool", _guard, tool)
            elif kind in LOCAL_TOOLS and session is not None and session.tools is not None:
                message = (
                    f"a {kind} of the agent {self.name!r} cannot be asked about before it runs"
                )
                raise RuntimeError(f"{message}: run this agent with `tools: live`")
        return tools

    return get_all_tools


def _guard(original: Any, tool: Any) -> Any:
    """`on_invoke_tool` of a tool, which reports the call and asks evalgate first."""
    import agents.tool

    async def invoke(ctx: Any, arguments: str) -> Any:
        """Outside a conversation, the original."""
        session = frameworks.CURRENT.get()
        if session is None:
            return await original(ctx, arguments)
        kind = "agent" if getattr(tool, "_is_agent_tool", False) else "tool"
        number = getattr(ctx, "tool_call_id", "")
        try:
            return await session.run_tool(
                tool.name,
                frameworks.named_arguments(arguments),
                lambda: original(ctx, arguments),
                number=number,
                kind=kind,
            )
        except Exception as error:
            # a rule's error becomes the agent's message for it, as a tool's own error does
            handle = getattr(agents.tool, "maybe_invoke_function_tool_failure_error_function", None)
            if handle is None or not getattr(error, "simulated_tool_error", False):
                raise
            answer = await handle(function_tool=tool, context=ctx, error=error)
            if answer is None:
                raise
            return answer

    return invoke


class Host(frameworks.FrameworkHost):
    """See frameworks.FrameworkHost."""

    package = "openai-agents"
    low = "0.2"
    high = "1"
    session = Session
    agent_classes = ("agents:Agent",)
    asker_classes = ("agents:Runner",)
    entrances = ("run", "run_sync", "run_streamed")

    def context_class(self, agent: Any) -> Any:
        """`Context` of an agent from `Agent[Context](...)`."""
        return next(iter(getattr(getattr(agent, "__orig_class__", None), "__args__", ())), None)

    def prepare(self) -> None:
        """See FrameworkHost."""
        from agents.agent import AgentBase

        # the base class is that of realtime agents, too; in 0.2, each class has the method
        for agent_class in frameworks.subclasses_of(AgentBase):
            frameworks.replace_once(agent_class, "get_all_tools", _report_tools)

    def models(self) -> list[str]:
        """The agent's model; empty if the agent's code sets the key or client of all models."""
        from agents.models import _openai_shared

        has_client = (
            _openai_shared.get_default_openai_client() or _openai_shared.get_default_openai_key()
        )
        return [] if has_client else super().models()
