"""Agents of Strands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial, wraps
from typing import Any

from . import frameworks
from .frameworks import FrameworkSession, Message, Original


class Session(FrameworkSession):
    """The agent's own messages and state, both with their initial content."""

    def begin(self) -> None:
        """See FrameworkSession."""
        for name, value in self.state.items():
            self.agent.state.set(name, value)

    async def ask(self, text: str) -> Any:
        """The text of the last message, or the structured output."""
        result = await self.agent.invoke_async(text)
        if result.stop_reason == "interrupt":
            names = ", ".join(repr(interrupt.name) for interrupt in result.interrupts or ())
            raise RuntimeError(f"the run stopped for {names}, which nobody answers here")
        structured = getattr(result, "structured_output", None)
        return _text(result.message) if structured is None else structured

    def final_state(self) -> Any:
        """The agent's state."""
        return self.agent.state.get()


def _text(message: Any) -> str:
    """The texts of a message's blocks."""
    return "".join(block.get("text") or "" for block in message["content"])


async def _watch(
    session: FrameworkSession, registry: Any, run: Original, arguments: Message
) -> Any:
    """Report the events that the hooks of any agent get."""
    event = arguments["event"]
    kind = type(event).__name__
    if kind == "BeforeModelCallEvent":
        system = str(event.agent.system_prompt or "")
        session.model_begins(system, author=event.agent.name, key=id(registry))
    elif kind == "AfterModelCallEvent" and event.stop_response is not None:
        message = event.stop_response.message
        usage = (message.get("metadata") or {}).get("usage") or {}
        calls = [block["toolUse"] for block in message["content"] if "toolUse" in block]
        session.record_answer(
            id(registry),
            _text(message),
            frameworks.usage_of(
                usage.get("inputTokens"),
                usage.get("outputTokens"),
                cached_tokens=usage.get("cacheReadInputTokens"),
            ),
            model=(event.agent.model.get_config() or {}).get("model_id", ""),
            calls=[{"name": call["name"], "args": call["input"]} for call in calls],
        )
    elif kind == "BeforeToolCallEvent":
        call = event.tool_use
        session.tool_begins(call["name"], call["input"], call["toolUseId"])
    answer = await run()
    if kind == "AfterToolCallEvent":
        call = event.tool_use
        session.tool_ends(call["toolUseId"], call["name"], _response(event.result))
    return answer


def _response(result: Any) -> Any:
    """A tool's answer: its texts, or its one JSON object."""
    blocks = [block.get("json", block.get("text")) for block in result["content"]]
    answer = blocks[0] if len(blocks) == 1 else "\n".join(str(block) for block in blocks)
    return {"error": answer} if result["status"] == "error" else answer


def _wrap_events(original: Any) -> Any:
    """`stream` of a tool, which asks evalgate first if it decides on calls."""

    @wraps(original)
    async def stream(self: Any, tool_use: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """The tool's events, or one event with the answer of a rule or a cassette."""
        session = frameworks.CURRENT.get()
        original_stream = partial(original, self, tool_use, *args, **options)
        if session is None or session.tools is None:
            async for event in original_stream():
                yield event
            return
        events: list[Any] = []

        async def run() -> Any:
            """Runs the tool, keeps its events, and returns its response."""
            events.extend([event async for event in original_stream()])
            return _response(getattr(events[-1], "tool_result", events[-1]))

        kind = "agent" if self.tool_type == "agent" else "tool"
        arguments = frameworks.named_arguments(tool_use["input"])
        answer = await session.tools.ask(tool_use["name"], arguments, kind).settle(run)
        block = {"text": answer} if isinstance(answer, str) else {"json": answer}
        result_event = {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [block]}
        for event in events or [result_event]:
            yield event

    return stream


class Host(frameworks.FrameworkHost):
    """See frameworks.FrameworkHost."""

    package = "strands-agents"
    low = "1"
    high = "2"
    session = Session
    agent_classes = ("strands:Agent",)
    entrances = ("__call__", "invoke_async", "stream_async")
    is_exclusive = True

    _initial: tuple[list[Any], Message]
    """The messages and the state at the beginning."""

    def models(self) -> list[str]:
        """The agent's model. Those of Bedrock, the default, are named as LiteLLM names them."""
        model: Any = getattr(self._target, "model", None)
        if type(model).__name__ != "BedrockModel":
            return super().models()
        return [f"bedrock/{model.get_config()['model_id']}"]

    def prepare(self) -> None:
        """See FrameworkHost."""
        from strands.types.tools import AgentTool

        frameworks.intercept_all("strands.hooks:HookRegistry", invoke_callbacks_async=_watch)
        for tool_class in frameworks.subclasses_of(AgentTool):
            frameworks.replace_once(tool_class, "stream", _wrap_events)

    def share(self, agent: Any) -> None:
        """See FrameworkHost."""
        super().share(agent)
        self._initial = list(agent.messages), agent.state.get()

    async def begin_again(self, agent: Any) -> None:
        """Give the agent its first messages and state."""
        agent.messages[:], state = self._initial
        for name in agent.state.get():
            agent.state.delete(name)
        for name, value in state.items():
            agent.state.set(name, value)
