"""Agents of LlamaIndex."""

import script
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import ToolSelection
from llama_index.core.workflow import Context


class Scripted(FunctionCallingLLM):
    @property
    def metadata(self):
        return LLMMetadata(is_function_calling_model=True, model_name="scripted-1")

    def _prepare_chat_with_tools(self, tools, chat_history=None, user_msg=None, **_):
        return {"messages": [*(chat_history or []), *([user_msg] if user_msg else [])]}

    def get_tool_calls_from_response(self, response, **_):
        calls = response.message.additional_kwargs.get("calls", ())
        return [
            ToolSelection(tool_id=number, tool_name=name, tool_kwargs=args)
            for number, name, args in calls
        ]

    async def achat(self, messages, **_):
        asked = [index for index, each in enumerate(messages) if each.role.value == "user"]
        answered = sum(each.role.value == "tool" for each in messages[asked[-1] :])
        text = messages[asked[-1]].content.split("Current message:\n")[-1]
        verb, name, args = script.step(text, answered)
        name = f"turn {len(asked)}" if name == "(turns)" else name
        calls = [(f"id-{len(messages)}", name, args)] if verb == "call" else []
        message = ChatMessage(
            role="assistant",
            content="" if calls else name,
            additional_kwargs={"calls": calls} if calls else {},
        )
        usage = {"prompt_tokens": 10, "completion_tokens": 2}
        return ChatResponse(message=message, raw={"model": "scripted-1", "usage": usage})

    async def astream_chat(self, messages, **_):
        response = await self.achat(messages)

        async def stream():
            yield response

        return stream()

    def chat(self, *_, **__):
        raise NotImplementedError

    stream_chat = complete = stream_complete = acomplete = astream_complete = chat


async def remember(ctx: Context, word: str) -> str:
    """Keeps a word."""
    async with ctx.store.edit_state() as state:
        words = [*state["state"].get("words", []), word]
        state["state"]["words"] = words
    return f"kept {len(words)}"


def make():
    return FunctionAgent(
        name="desk",
        description="Follows the script.",
        llm=Scripted(),
        tools=[*script.TOOLS, remember],
        system_prompt="Follow the script.",
    )


agent = make()
clerk = FunctionAgent(name="clerk", description="A clerk.", llm=Scripted(), system_prompt="Be it.")
team = AgentWorkflow(agents=[make(), clerk], root_agent="desk")
not_an_agent = 3
