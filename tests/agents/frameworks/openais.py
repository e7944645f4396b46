"""Agents of the OpenAI Agents SDK."""

import json
from dataclasses import dataclass

import script
from agents import Agent, Model, ModelResponse, RunContextWrapper, Usage, function_tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)


class Scripted(Model):
    model = "scripted-1"

    async def get_response(self, system_instructions, input, *_, **__):  # noqa: A002 - the SDK's name
        last = max(index for index, item in enumerate(input) if item.get("role") == "user")
        answered = sum(item.get("type") == "function_call_output" for item in input[last:])
        verb, name, args = script.step(input[last]["content"], answered)
        if name == "(turns)":
            name = f"turn {sum(item.get('role') == 'user' for item in input)}"
        number = f"id-{len(input)}"
        if verb == "call":
            said = ResponseFunctionToolCall(
                arguments=json.dumps(args),
                call_id=number,
                name=name,
                type="function_call",
                id=number,
            )
        else:
            text = ResponseOutputText(text=name, type="output_text", annotations=[])
            said = ResponseOutputMessage(
                id=number, content=[text], role="assistant", status="completed", type="message"
            )
        usage = Usage(requests=1, input_tokens=10, output_tokens=2, total_tokens=12)
        return ModelResponse(output=[said], usage=usage, response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


@function_tool
def remember(ctx: RunContextWrapper[dict], word: str) -> str:
    """Keeps a word."""
    ctx.context.setdefault("words", []).append(word)
    return f"kept {len(ctx.context['words'])}"


@function_tool(failure_error_function=None)
def severe(what: str) -> str:
    """Raises what nobody handles."""
    raise ValueError(what)


@function_tool(needs_approval=True)
def approved(what: str) -> str:
    """Needs an approval."""
    return what


clerk = Agent(name="clerk", instructions="Be the clerk.", model=Scripted())
agent = Agent(
    name="desk",
    instructions="Follow the script.",
    model=Scripted(),
    tools=[*map(function_tool, script.TOOLS), remember, severe, approved],
    handoffs=[clerk],
)


@dataclass
class Desk:
    user: str


@function_tool
def whose(ctx: RunContextWrapper[Desk]) -> str:
    """The user's name."""
    return ctx.context.user


typed = Agent[Desk](name="typed", model=Scripted(), tools=[whose])


def make():
    return agent


def words():
    return {"words": ["first"]}


not_an_agent = 3
