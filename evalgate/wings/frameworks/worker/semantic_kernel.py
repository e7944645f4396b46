"""Agents of Semantic Kernel."""

from __future__ import annotations

from functools import partial
from typing import Any

from . import frameworks
from .frameworks import FrameworkSession, Message, Original


class Session(FrameworkSession):
    """A thread of the agent. The session's state is the kernel's arguments."""

    _thread: Any = None
    """None before the first response, which begins one."""

    async def ask(self, text: str) -> Any:
        """The content of a response."""
        from semantic_kernel.functions import KernelArguments

        options = {"arguments": KernelArguments(**self.state)} if self.state else {}
        response = await self.agent.get_response(messages=text, thread=self._thread, **options)
        self._thread = response.thread
        return str(response.message.content)


async def _ask_model(
    session: FrameworkSession, service: Any, run: Original, arguments: Message
) -> Any:
    """Report a call of a chat service: system messages, the first answer, tokens."""
    messages = arguments["chat_history"].messages
    system = [message.content for message in messages if message.role in ("system", "developer")]
    key = session.model_begins(*system)
    answers = await run()
    usage = answers[0].metadata.get("usage")
    calls = [part for part in answers[0].items if type(part).__name__ == "FunctionCallContent"]
    session.record_answer(
        key,
        str(answers[0].content or ""),
        frameworks.usage_of(
            getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
        ),
        model=answers[0].ai_model_id or service.ai_model_id,
        calls=frameworks.model_calls(calls),
    )
    return answers


async def _call_function(
    session: FrameworkSession, kernel: Any, run: Original, arguments: Message
) -> Any:
    """Run a function that a model calls. Its answer goes to the history."""
    from semantic_kernel.contents import FunctionResultContent

    call = arguments["function_call"]
    history = arguments["chat_history"]
    args = frameworks.named_arguments(call.arguments)
    count = len(history.messages)

    def read(_: Any) -> Any:
        """The function's answer, which the call adds to the history."""
        answers = [part for message in history.messages[count:] for part in message.items]
        return getattr(answers[-1], "result", None) if answers else None

    def make(answer: Any) -> None:
        """Add an answer to the history in the function's place."""
        content = FunctionResultContent.from_function_call_content_and_result(call, answer)
        history.add_message(message=content.to_chat_message_content())

    if call.name not in {
        metadata.fully_qualified_name for metadata in kernel.get_full_list_of_function_metadata()
    }:
        number = session.tool_begins(call.name, args, call.id)
        result = await run()
        session.tool_ends(number, call.name, {"error": str(read(result))})
        return result
    try:
        answer_call = partial(session.run_tool, call.name, args, number=call.id or "")
        return await frameworks.settle(answer_call, run, read=read, make=make)
    except Exception as error:
        if not getattr(error, "simulated_tool_error", False):
            raise
        return make(f"Error: {error}")


class Host(frameworks.FrameworkHost):
    """See frameworks.FrameworkHost."""

    package = "semantic-kernel"
    low = "1.29"
    high = "2"
    session = Session
    # the second one is a subclass
    agent_classes = (
        "semantic_kernel.agents:Agent",
        "semantic_kernel.agents:ChatCompletionAgent",
    )
    asker_classes = (  # before 1.30 there was none
        "semantic_kernel.agents.orchestration.orchestration_base:OrchestrationBase",
    )
    entrances = ("get_response", "invoke", "invoke_stream")

    def agent_in(self, holder: Any) -> Any:
        """See FrameworkHost. A kernel alone becomes an agent with its service and its functions."""
        from semantic_kernel import Kernel
        from semantic_kernel.agents import ChatCompletionAgent
        from semantic_kernel.connectors.ai import FunctionChoiceBehavior

        if not isinstance(holder, Kernel):
            return super().agent_in(holder)
        choice = FunctionChoiceBehavior.Auto()
        return ChatCompletionAgent(kernel=holder, function_choice_behavior=choice)

    def prepare(self) -> None:
        """See FrameworkHost."""
        frameworks.intercept_all(
            "semantic_kernel.connectors.ai.chat_completion_client_base:ChatCompletionClientBase",
            _inner_get_chat_message_contents=_ask_model,
        )
        frameworks.intercept_all("semantic_kernel:Kernel", invoke_function_call=_call_function)
