"""Agents and teams of AutoGen's AgentChat."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from . import frameworks
from .frameworks import FrameworkSession, Message


class Session(FrameworkSession):
    """The agent's or team's own memory, which starts empty."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._is_first_turn = True
        self.reported_calls: set[str] = set()

    async def ask(self, text: str) -> Any:
        """The content of a run's last message."""
        from autogen_core import CancellationToken

        if self._is_first_turn and hasattr(self.agent, "on_reset"):
            await self.agent.on_reset(CancellationToken())
        elif self._is_first_turn:
            await self.agent.reset()
        self._is_first_turn = False
        messages = (await self.agent.run(task=text)).messages
        calls = {
            call.id: call
            for message in messages
            if type(message).__name__ == "ToolCallRequestEvent"
            for call in message.content
        }
        for message in messages:
            if type(message).__name__ == "ToolCallExecutionEvent":
                self._report_refusals(message.content, calls)
        answer = messages[-1].content
        return answer if isinstance(answer, str) or hasattr(answer, "model_dump") else str(answer)

    def _report_refusals(self, answers: Any, calls: Message) -> None:
        for answer in answers:
            is_error = getattr(answer, "is_error", False)  # since 0.4.8
            if is_error and answer.call_id in calls.keys() - self.reported_calls:
                args = frameworks.named_arguments(calls[answer.call_id].arguments)
                self.refuse(answer.name, args, answer.call_id, answer.content)


async def _ask_model(
    session: FrameworkSession, client: Any, run: Callable[[], Any], arguments: Message
) -> Any:
    system = [
        str(message.content)
        for message in arguments["messages"]
        if type(message).__name__ == "SystemMessage"
    ]
    key = object()
    session.model_begins(key, instructions="\n".join(system))
    answer = await run()
    is_text = isinstance(answer.content, str)
    calls = [
        {"name": call.name, "args": frameworks.named_arguments(call.arguments)}
        for call in (() if is_text else answer.content)
    ]
    usage = frameworks.usage_of(answer.usage.prompt_tokens, answer.usage.completion_tokens)
    model = getattr(client, "_create_args", {}).get("model", "")
    text = answer.content if is_text else getattr(answer, "thought", "") or ""
    session.record_answer(key, text, usage, model=model, calls=calls)
    return answer


async def _run_tool(
    session: FrameworkSession, tool: Any, run: Callable[[], Any], arguments: Message
) -> Any:
    kind = "agent" if tool.name.startswith("transfer_to_") else "tool"
    number = arguments.get("call_id") or ""
    if isinstance(session, Session):
        session.reported_calls.add(number)
    return await session.run_tool(tool.name, arguments["args"], run, number=number, kind=kind)


async def _call_tool(
    session: FrameworkSession, workbench: Any, run: Callable[[], Any], arguments: Message
) -> Any:
    """Run a tool of an MCP server, which has no object here."""
    from autogen_core.tools import StaticWorkbench, TextResultContent, ToolResult

    if isinstance(workbench, StaticWorkbench):
        return await run()
    name = arguments["name"]
    number = arguments.get("call_id") or ""
    if isinstance(session, Session):
        session.reported_calls.add(number)

    def read(result: Any) -> Any:
        return {"error": result.to_text()} if result.is_error else result.to_text()

    def make(answer: Any) -> Any:
        return ToolResult(
            name=name, result=[TextResultContent(content=frameworks.answer_text(answer))]
        )

    args = arguments.get("arguments") or {}
    answer_call = partial(session.run_tool, name, args, number=number)
    return await frameworks.settle(answer_call, run, read=read, make=make)


class Host(frameworks.FrameworkHost):
    """See frameworks.FrameworkHost."""

    package = "autogen-agentchat"
    low = "0.4.2"
    high = "1"
    session = Session
    is_exclusive = True

    entrances = ("run", "run_stream")

    def kinds(self) -> tuple[Any, ...]:
        """See FrameworkHost."""
        from autogen_agentchat import (  # noqa: F401 - defines subclasses
            agents,
            teams,
        )
        from autogen_agentchat.base import ChatAgent, Team

        return ChatAgent, Team

    def prepare(self) -> None:
        """See FrameworkHost."""
        from autogen_core import tools
        from autogen_core.models import ChatCompletionClient

        subclasses_of = frameworks.subclasses_of
        frameworks.intercept(subclasses_of(tools.BaseTool), run_json=_run_tool)
        frameworks.intercept(subclasses_of(ChatCompletionClient), create=_ask_model)
        if hasattr(tools, "Workbench"):  # since 0.5
            frameworks.intercept(subclasses_of(tools.Workbench), call_tool=_call_tool)
