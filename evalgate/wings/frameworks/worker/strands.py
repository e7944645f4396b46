"""Agents of Strands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import wraps
from typing import Any

from evalgate.worker import pipe

from . import frameworks
from .frameworks import FrameworkSession, Message


class Session(FrameworkSession):
    """The agent's own messages and state: both begin as its code leaves them."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
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

    async def end(self) -> Message:
        """The agent's state."""
        return {"state": pipe.to_json(self.agent.state.get())}


def _text(message: Any) -> str:
    return "".join(block.get("text") or "" for block in message["content"])


async def _watch(
    session: FrameworkSession, registry: Any, run: Callable[[], Any], arguments: Message
) -> Any:
    """Report what hooks of any agent hear."""
    event = arguments["event"]
    kind = type(event).__name__
    if kind == "BeforeModelCallEvent":
        session.model_begins(id(registry), event.agent.name, str(event.agent.system_prompt or ""))
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
                cached=usage.get("cacheReadInputTokens"),
            ),
            model=(event.agent.model.get_config() or {}).get("model_id", ""),
            calls=[{"name": call["name"], "args": call["input"]} for call in calls],
            author=event.agent.name,
        )
    elif kind == "BeforeToolCallEvent":
        call = event.tool_use
        session.tool_begins(
            call["name"], frameworks.named_arguments(call["input"]), call["toolUseId"]
        )
    answer = await run()
    if kind == "AfterToolCallEvent" and (
        session.asked is None or event.tool_use["name"] in session.asked.asked_names
    ):
        session.tool_ends(
            event.tool_use["toolUseId"], event.tool_use["name"], _response(event.result)
        )
    return answer


def _response(result: Any) -> Any:
    """What a tool answers: its texts, or its one JSON object."""
    blocks = [block.get("json", block.get("text")) for block in result["content"]]
    answer = blocks[0] if len(blocks) == 1 else "\n".join(str(block) for block in blocks)
    return {"error": answer} if result["status"] == "error" else answer


def ask_before_tools() -> None:
    """From now on, ask about every tool."""
    from strands.types.tools import AgentTool

    for kind in frameworks.classes_below(AgentTool):
        real = vars(kind).get("stream")
        if real is not None and not hasattr(real, "asks"):
            kind.stream = _asking(real)


def _asking(real: Any) -> Any:
    @wraps(real)
    async def stream(self: Any, tool_use: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
        session = frameworks.CURRENT.get()
        events: list[Any] = []

        async def run() -> Any:
            events.extend([event async for event in real(self, tool_use, *args, **options)])
            return _response(getattr(events[-1], "tool_result", events[-1]))

        if session is None or session.asked is None:
            async for event in real(self, tool_use, *args, **options):
                yield event
            return
        kind = "agent" if self.tool_type == "agent" else "tool"
        arguments = frameworks.named_arguments(tool_use["input"])
        answer = await session.asked.ask(tool_use["name"], arguments, kind).settle(run)
        block = {"text": answer} if isinstance(answer, str) else {"json": answer}
        made = {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [block]}
        for event in events or [made]:
            yield event

    stream.asks = True  # type: ignore[attr-defined]  # marks it
    return stream


class Host(frameworks.FrameworkHost):
    """See frameworks.FrameworkHost."""

    package = "strands-agents"
    low = "1"
    high = "2"
    session = Session
    alone = True

    def __init__(self) -> None:
        super().__init__()
        self._messages: list[Any] | None = None
        self._state: Message = {}

    def is_agent(self, candidate: Any) -> bool:
        """An Agent."""
        from strands import Agent

        return isinstance(candidate, Agent)

    def prepare(self) -> None:
        """See FrameworkHost."""
        from strands.hooks import HookRegistry

        frameworks.intercept(HookRegistry, "invoke_callbacks_async", _watch)
        ask_before_tools()

    def take(self, agent: Any) -> None:
        """See FrameworkHost."""
        super().take(agent)
        self._messages = list(agent.messages)
        self._state = agent.state.get()

    async def open(self, start: Message, session_tools: Any) -> Any:
        """A fresh session; what the last one left in the agent is gone."""
        if self._messages is not None:
            self._found.messages[:] = self._messages
            for name in self._found.state.get():
                self._found.state.delete(name)
            for name, value in self._state.items():
                self._found.state.set(name, value)
        return await super().open(start, session_tools)
