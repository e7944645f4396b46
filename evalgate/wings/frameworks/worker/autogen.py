"""Agents and teams of AutoGen's AgentChat."""

from __future__ import annotations

from functools import partial
from typing import Any

from . import frameworks
from .frameworks import FrameworkSession, Message, Original


class Session(FrameworkSession):
    """The agent's or team's own memory, which starts empty."""

    _is_first_turn = True
    """The first turn clears the memory."""

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
            is_answer = type(message).__name__ == "ToolCallExecutionEvent"
            for answer in message.content if is_answer else ():
                # since 0.4.8
                if getattr(answer, "is_error", False) and answer.call_id in calls:
                    args = calls[answer.call_id].arguments
                    self.refuse(answer.name, args, answer.call_id, answer.content)
        content = messages[-1].content
        is_whole = isinstance(content, str) or hasattr(content, "model_dump")
        return content if is_whole else str(content)


async def _ask_model(
    session: FrameworkSession, client: Any, run: Original, arguments: Message
) -> Any:
    """Report a call of a model: system messages, answer, tokens."""
    system = [
        str(message.content)
        for message in arguments["messages"]
        if type(message).__name__ == "SystemMessage"
    ]
    key = session.model_begins(*system)
    answer = await run()
    is_text = isinstance(answer.content, str)
    calls = frameworks.model_calls(() if is_text else answer.content)
    usage = frameworks.usage_of(answer.usage.prompt_tokens, answer.usage.completion_tokens)
    model = getattr(client, "_create_args", {}).get("model", "")
    text = answer.content if is_text else getattr(answer, "thought", "") or ""
    session.record_answer(key, text, usage, model=model, calls=calls)
    return answer


async def _run_tool(session: FrameworkSession, tool: Any, run: Original, arguments: Message) -> Any:
    """Run a tool and report it; a handoff is a tool, too, and counts as a call of an agent."""
    kind = "agent" if tool.name.startswith("transfer_to_") else "tool"
    number = arguments.get("call_id") or ""
    return await session.run_tool(tool.name, arguments["args"], run, number=number, kind=kind)


async def _call_tool(
    session: FrameworkSession, workbench: Any, run: Original, arguments: Message
) -> Any:
    """Run a tool of an MCP server, which has no object here."""
    from autogen_core.tools import StaticWorkbench, TextResultContent, ToolResult

    if isinstance(workbench, StaticWorkbench):
        return await run()
    name = arguments["name"]
    number = arguments.get("call_id") or ""

    def read(result: Any) -> Any:
        """The text of a result, as an error if it is one."""
        return {"error": result.to_text()} if result.is_error else result.to_text()

    def make(answer: Any) -> Any:
        """An answer as the framework's result."""
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
    # the last two have the modules that define subclasses
    agent_classes = (
        "autogen_agentchat.base:ChatAgent",
        "autogen_agentchat.base:Team",
        "autogen_agentchat.agents:AssistantAgent",
        "autogen_agentchat.teams:RoundRobinGroupChat",
    )
    is_exclusive = True

    entrances = ("run", "run_stream")

    def prepare(self) -> None:
        """See FrameworkHost."""
        from autogen_core import tools

        frameworks.intercept_all("autogen_core.tools:BaseTool", run_json=_run_tool)
        frameworks.intercept_all("autogen_core.models:ChatCompletionClient", create=_ask_model)
        if hasattr(tools, "Workbench"):  # since 0.5
            frameworks.intercept_all("autogen_core.tools:Workbench", call_tool=_call_tool)
