"""Agents of the Microsoft Agent Framework."""

import script
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)


class Scripted(FunctionInvocationLayer, BaseChatClient):
    model = "scripted-1"

    async def _inner_get_response(self, *, messages, stream, options, **_):
        asked = [index for index, message in enumerate(messages) if message.role == "user"]
        answered = sum(message.role == "tool" for message in messages[asked[-1] :])
        verb, name, args = script.step(messages[asked[-1]].text, answered)
        name = f"turn {len(asked)}" if name == "(turns)" else name
        said = Content.from_text(name)
        if verb == "call":
            said = Content.from_function_call(f"id-{len(messages)}", name, arguments=args)
        usage = {"input_token_count": 10, "output_token_count": 2}
        return ChatResponse(messages=[Message("assistant", [said])], usage_details=usage)


@tool(approval_mode="always_require")
def approved(what: str) -> str:
    """Needs an approval."""
    return what


def make():
    return Agent(
        client=Scripted(),
        name="desk",
        instructions="Follow the script.",
        tools=[*script.TOOLS, approved],
    )


agent = make()
not_an_agent = 3
