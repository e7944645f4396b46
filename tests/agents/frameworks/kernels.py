"""Agents of Semantic Kernel."""

import json

import script
from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.connectors.ai.completion_usage import CompletionUsage
from semantic_kernel.connectors.ai.function_calling_utils import (
    update_settings_from_function_call_configuration,
)
from semantic_kernel.connectors.ai.open_ai import OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import ChatMessageContent, FunctionCallContent, TextContent
from semantic_kernel.functions import kernel_function


class Scripted(ChatCompletionClientBase):
    SUPPORTS_FUNCTION_CALLING = True

    def get_prompt_execution_settings_class(self):
        return OpenAIChatPromptExecutionSettings

    def _update_function_choice_settings_callback(self):
        return update_settings_from_function_call_configuration

    def _reset_function_choice_settings(self, settings):
        settings.tools = None

    async def _inner_get_chat_message_contents(self, chat_history, settings):
        messages = chat_history.messages
        asked = [index for index, message in enumerate(messages) if message.role == "user"]
        answered = sum(message.role == "tool" for message in messages[asked[-1] :])
        verb, name, args = script.step(messages[asked[-1]].content, answered)
        name = f"turn {len(asked)}" if name == "(turns)" else name
        said = TextContent(text=name)
        if verb == "call":
            said = FunctionCallContent(
                id=f"id-{len(messages)}", name=f"desk-{name}", arguments=json.dumps(args)
            )
        usage = CompletionUsage(prompt_tokens=10, completion_tokens=2)
        return [
            ChatMessageContent(
                role="assistant",
                items=[said],
                ai_model_id=self.ai_model_id,
                metadata={"usage": usage},
                finish_reason="tool_calls" if verb == "call" else "stop",
            )
        ]


class Desk:
    weather = staticmethod(kernel_function(script.weather))
    broken = staticmethod(kernel_function(script.broken))


def make():
    return ChatCompletionAgent(
        service=Scripted(ai_model_id="scripted-1"),
        name="desk",
        instructions="Follow the script.",
        plugins=[],
    )


def make_with_tools():
    made = make()
    made.kernel.add_plugin(Desk(), plugin_name="desk")
    return made


agent = make_with_tools()

kernel = Kernel()
kernel.add_service(Scripted(ai_model_id="scripted-1"))
kernel.add_plugin(Desk(), plugin_name="desk")
