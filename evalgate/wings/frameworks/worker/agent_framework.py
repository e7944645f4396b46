"""Agents of the Microsoft Agent Framework."""

from __future__ import annotations

from functools import partial
from typing import Any

from . import frameworks
from .frameworks import FrameworkSession, Message, Original


class Session(FrameworkSession):
    """A session of the agent. The conversation's state is part of its state."""

    def begin(self) -> None:
        """See FrameworkSession."""
        self._session = self.agent.create_session()
        self._session.state.update(self.state)

    async def ask(self, text: str) -> Any:
        """The text of a response, or its structured value."""
        response = await self.agent.run(text, session=self._session)
        contents = [content for message in response.messages for content in message.contents]
        calls = {
            content.call_id: content for content in contents if content.type == "function_call"
        }
        for content in contents:
            number = str(getattr(content, "call_id", ""))
            if content.type == "function_result" and number in calls:
                call = calls[number]
                error = str(content.result or content.exception)
                self.refuse(call.name, call.arguments, number, error)
        if approval_requests := response.user_input_requests:
            names = ", ".join(
                repr(getattr(request.function_call, "name", request.type))
                for request in approval_requests
            )
            raise RuntimeError(
                f"the run stopped for an approval of {names}, which nobody gives here"
            )
        return response.text if response.value is None else response.value

    def final_state(self) -> Any:
        """The session's state, without the conversation."""
        items = self._session.state.items()
        return {name: value for name, value in items if name not in ("messages", "in_memory")}


async def _ask_model(
    session: FrameworkSession, client: Any, run: Original, arguments: Message
) -> Any:
    """Report a call of a model: instructions, answer, tokens."""
    system = [message.text for message in arguments["messages"] if message.role == "system"]
    # a client of the agent's own may take its options otherwise
    instructions = (arguments.get("options") or {}).get("instructions") or ""
    key = session.model_begins(*system, instructions)
    response = await run()
    usage = response.usage_details or {}
    contents = (content for message in response.messages for content in message.contents)
    calls = (content for content in contents if content.type == "function_call")
    session.record_answer(
        key,
        response.text,
        frameworks.usage_of(usage.get("input_token_count"), usage.get("output_token_count")),
        model=getattr(response, "model", None) or getattr(client, "model", ""),
        calls=frameworks.model_calls(calls),
    )
    return response


async def _call_tool(
    session: FrameworkSession, tool: Any, run: Original, arguments: Message
) -> Any:
    """Run a tool and report it, or take the answer of a rule or a cassette."""
    from agent_framework import Content

    context = arguments.get("context")
    call_arguments = arguments.get("arguments") or getattr(context, "arguments", None) or {}
    args = (
        call_arguments.model_dump()
        if hasattr(call_arguments, "model_dump")
        else dict(call_arguments)
    )
    number = arguments.get("tool_call_id") or ""

    def read(answer: Any) -> Any:
        """The texts of an answer as one; the answer itself if it has other content."""
        contents = answer if isinstance(answer, list) else [answer]
        texts = [str(getattr(part, "text", "") or "") for part in contents]
        return "\n".join(texts) if all(texts) else answer

    def make(answer: Any) -> Any:
        """An answer as the framework's content."""
        return [Content.from_text(frameworks.answer_text(answer))]

    answer_call = partial(session.run_tool, tool.name, args, number=number)
    return await frameworks.settle(answer_call, run, read=read, make=make)


class Host(frameworks.FrameworkHost):
    """See frameworks.FrameworkHost."""

    package = "agent-framework-core"
    low = "1"
    high = "2"
    session = Session
    agent_classes = ("agent_framework:BaseAgent",)
    asker_classes = ("agent_framework:Workflow",)
    entrances = ("run", "run_stream")

    def agent_in(self, holder: Any) -> Any:
        """See FrameworkHost. A workflow makes an agent of itself."""
        from agent_framework import Workflow

        return holder.as_agent() if isinstance(holder, Workflow) else super().agent_in(holder)

    def prepare(self) -> None:
        """See FrameworkHost."""
        frameworks.intercept_all("agent_framework:BaseChatClient", _inner_get_response=_ask_model)
        frameworks.intercept_all("agent_framework:FunctionTool", invoke=_call_tool)
