"""Agents and agent workflows of LlamaIndex."""

from __future__ import annotations

from typing import Any

from evalgate.worker import pipe
from . import frameworks
from .frameworks import FrameworkSession, Message, Original


class Session(FrameworkSession):
    """A context of the workflow, and a memory. The session's state is the state in the context."""

    def begin(self) -> None:
        """See FrameworkSession."""
        from llama_index.core.memory import ChatMemoryBuffer
        from llama_index.core.workflow import Context

        self._workflow = Context(self.agent)
        agents = getattr(self.agent, "agents", {})
        first_agent = agents.get(getattr(self.agent, "root_agent", ""), self.agent)
        self._memory = ChatMemoryBuffer.from_defaults(llm=first_agent.llm)

    async def ask(self, text: str) -> Any:
        """The last answer, as text or structured."""
        if self.state:
            initial = {**self.agent.initial_state, **self.state}
            await self._store.set("state", initial)
            self.state = {}
        handler = self.agent.run(user_msg=text, ctx=self._workflow, memory=self._memory)
        async for event in handler.stream_events():
            self._report_event(event)
        output = await handler
        structured = getattr(output, "structured_response", None)
        return structured if structured is not None else str(output)

    @property
    def _store(self) -> Any:
        """The context's store, which a run replaces; the context itself in old versions."""
        return getattr(self._workflow, "store", self._workflow)

    async def end(self) -> Message:
        """The state of the context."""
        return {"state": pipe.to_json(await self._store.get("state", default=self.state))}

    def _report_event(self, event: Any) -> None:
        """Report an event of the workflow's stream: a model call, its answer, a tool call, its
        answer."""
        kind = type(event).__name__
        if kind == "AgentInput":
            system = [
                str(message.content)
                for message in event.input
                if getattr(message.role, "value", "") == "system"
            ]
            self.model_begins(*system, author=event.current_agent_name, key="model")
        elif kind == "AgentOutput":
            usage, model = _usage(event.raw)
            calls = [
                {"name": call.tool_name, "args": call.tool_kwargs} for call in event.tool_calls
            ]
            self.record_answer(
                "model", str(event.response.content or ""), usage, model=model, calls=calls
            )
        elif kind == "ToolCall":
            self.tool_begins(event.tool_name, event.tool_kwargs, event.tool_id)
        elif kind == "ToolCallResult":
            output = event.tool_output
            answer = {"error": output.content} if output.is_error else output.raw_output
            self.tool_ends(event.tool_id, event.tool_name, answer)


def _usage(raw: Any) -> tuple[Message | None, Any]:
    """The token counts and the model in a provider's own answer, under their usual names."""

    def read_field(parent: Any, *names: str) -> Any:
        """The first of these fields with a value, of a dict or an object."""
        fields = parent if isinstance(parent, dict) else getattr(parent, "__dict__", {})
        return next((fields[name] for name in names if fields.get(name)), None)

    usage = read_field(raw, "usage", "usage_metadata")
    prompt = read_field(usage, "prompt_tokens", "input_tokens", "prompt_token_count")
    answer = read_field(usage, "completion_tokens", "output_tokens", "candidates_token_count")
    return frameworks.usage_of(prompt, answer), read_field(raw, "model", "model_version")


async def _ask_first(
    session: FrameworkSession, tool: Any, run: Original, arguments: Message
) -> Any:
    """Ask evalgate about a tool call if it decides on calls; the stream reports the call itself."""
    from llama_index.core.tools import ToolOutput

    if session.tools is None:
        return await run()
    args = arguments.get("kwargs") or {"input": arguments.get("input")}
    context_name = getattr(tool, "ctx_param_name", None)
    args = {name: value for name, value in args.items() if name != context_name}
    name = tool.metadata.get_name()

    def make(answer: Any) -> Any:
        """An answer as the framework's output."""
        return ToolOutput(tool_name=name, content=str(answer), raw_input=args, raw_output=answer)

    call = session.tools.ask(name, args, "agent" if name == "handoff" else "tool")
    return await frameworks.settle(
        call.settle, run, read=lambda output: output.raw_output, make=make
    )


class Host(frameworks.FrameworkHost):
    """See frameworks.FrameworkHost."""

    package = "llama-index-core"
    low = "0.12.30"
    high = "0.15"
    session = Session
    agent_classes = (
        "llama_index.core.agent.workflow:AgentWorkflow",
        "llama_index.core.agent.workflow.base_agent:BaseWorkflowAgent",
    )
    asker_classes = ("llama_index.core.workflow:Workflow",)

    def prepare(self) -> None:
        """See FrameworkHost."""
        frameworks.intercept_all("llama_index.core.tools.types:AsyncBaseTool", acall=_ask_first)
