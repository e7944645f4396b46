"""Agents of the OpenAI Agents SDK."""

from __future__ import annotations

from typing import Any

from . import frameworks
from .frameworks import FrameworkSession

LOCAL = frozenset({"ComputerTool", "LocalShellTool", "ShellTool", "ApplyPatchTool", "CustomTool"})
"""Classes of tools that run here and that are no functions."""


class Session(FrameworkSession):
    """The items so far and the agent that spoke last; the session's state is the run's `context`,
    unless `context` names another object."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._items: list[Any] = []

    async def ask(self, text: str) -> Any:
        """The final output of a run."""
        from agents import RunConfig, Runner

        result = await Runner.run(
            self.agent,
            [*self._items, {"role": "user", "content": text}],
            context=self.context,
            hooks=_hooks(self),
            run_config=RunConfig(tracing_disabled=True),
        )
        waiting = [
            str(getattr(interruption, "name", "") or interruption.raw_item)
            for interruption in getattr(result, "interruptions", ())
        ]
        if waiting:
            raise RuntimeError(
                f"the run stopped for an approval of {', '.join(waiting)}, which nobody gives here"
            )
        self._items = result.to_input_list()
        self.agent = result.last_agent
        return result.final_output


def _hooks(session: Session) -> Any:
    from agents import RunHooks
    from agents.handoffs import Handoff

    class Hooks(RunHooks):  # type: ignore[misc]  # the SDK is not installed where types are checked
        """Reports models and handoffs; tools report themselves."""

        def __init__(self) -> None:
            self.calls: list[Any] = []

        async def on_llm_start(
            self,
            context: Any,  # noqa: ARG002 - the SDK's names
            agent: Any,
            system_prompt: Any,
            input_items: Any,  # noqa: ARG002 - the SDK's names
        ) -> None:
            session.model_begins("model", agent.name, system_prompt)

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:  # noqa: ARG002 - as above
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
                cached=getattr(usage.input_tokens_details, "cached_tokens", 0) or None,
                thoughts=getattr(usage.output_tokens_details, "reasoning_tokens", 0),
            )
            model = (
                agent.model if isinstance(agent.model, str) else getattr(agent.model, "model", "")
            )
            calls = [
                {"name": call.name, "args": frameworks.named_arguments(call.arguments)}
                for call in self.calls
            ]
            session.record_answer(
                "model", "\n".join(texts), counts, model=model, calls=calls, author=agent.name
            )

        async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:  # noqa: ARG002 - as above
            name = Handoff.default_tool_name(to_agent)
            call = next(
                (call for call in self.calls if call.name == name),
                self.calls[0] if self.calls else None,
            )
            if call is not None:
                session.tool_begins(
                    call.name, frameworks.named_arguments(call.arguments), call.call_id
                )

    return Hooks()


# --- tools ---


def tell_of_tools() -> None:
    """From now on, report every tool that an agent is about to choose from, and ask about it."""
    from agents.agent import AgentBase

    real = AgentBase.get_all_tools
    if hasattr(real, "tells"):
        return

    async def get_all_tools(self: Any, *args: Any, **options: Any) -> Any:
        tools = await real(self, *args, **options)
        session = frameworks.CURRENT.get()
        for tool in tools:
            if hasattr(tool, "on_invoke_tool") and type(tool).__name__ not in LOCAL:
                _guard(tool)
            elif session is not None and session.asked is not None and type(tool).__name__ in LOCAL:
                message = f"a {type(tool).__name__} of the agent {self.name!r} cannot be asked about before it runs"
                raise RuntimeError(f"{message}: run this agent with `tools: live`")
        return tools

    get_all_tools.tells = True  # type: ignore[attr-defined]  # marks it
    AgentBase.get_all_tools = get_all_tools


def _guard(tool: Any) -> None:
    real = tool.on_invoke_tool
    if hasattr(real, "tells"):
        return

    async def invoke(ctx: Any, arguments: str) -> Any:
        session = frameworks.CURRENT.get()
        if session is None:
            return await real(ctx, arguments)
        kind = "agent" if getattr(tool, "_is_agent_tool", False) else "tool"
        number = getattr(ctx, "tool_call_id", "")
        try:
            return await session.run_tool(
                tool.name,
                frameworks.named_arguments(arguments),
                lambda: real(ctx, arguments),
                number=number,
                kind=kind,
            )
        except Exception as error:
            answer = (
                await _error_answer(tool, ctx, error)
                if getattr(error, "simulated_tool_error", False)
                else None
            )
            if answer is None:
                raise
            return answer

    invoke.tells = True  # type: ignore[attr-defined]  # marks it
    tool.on_invoke_tool = invoke


async def _error_answer(tool: Any, ctx: Any, error: Exception) -> Any:
    """The agent's message for an error of a rule, as for one of the tool's own; None if it is
    raised."""
    import agents.tool

    handle = getattr(agents.tool, "maybe_invoke_function_tool_failure_error_function", None)
    return None if handle is None else await handle(function_tool=tool, context=ctx, error=error)


class Host(frameworks.FrameworkHost):
    """See frameworks.FrameworkHost."""

    package = "openai-agents"
    low = "0.10"
    high = "1"
    session = Session

    def is_agent(self, candidate: Any) -> bool:
        """An Agent."""
        from agents import Agent

        return isinstance(candidate, Agent)

    def context_class(self, agent: Any) -> Any:
        """`Context` of an agent that is made by `Agent[Context](...)`."""
        return next(iter(getattr(getattr(agent, "__orig_class__", None), "__args__", ())), None)

    def prepare(self) -> None:
        """See FrameworkHost."""
        tell_of_tools()

    def models(self) -> list[str]:
        """Empty if the agent's code itself sets the key or client of all models."""
        from agents.models import _openai_shared

        has_own = (
            _openai_shared.get_default_openai_client() or _openai_shared.get_default_openai_key()
        )
        return [] if has_own else super().models()
