"""Agents of Pydantic AI."""

from dataclasses import dataclass, field

import script
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

ANSWERS = ("tool-return", "retry-prompt")


def reply(messages, info):
    parts = [part for message in messages for part in message.parts]
    last = max(index for index, part in enumerate(parts) if isinstance(part, UserPromptPart))
    answered = sum(part.part_kind in ANSWERS for part in parts[last:])
    verb, name, args = script.step(parts[last].content, answered)
    if name == "(turns)":
        name = f"turn {sum(isinstance(part, UserPromptPart) for part in parts)}"
    said = ToolCallPart(name, args, f"id-{len(parts)}") if verb == "call" else TextPart(name)
    return ModelResponse(
        parts=[said], usage=RequestUsage(input_tokens=10, output_tokens=2), model_name="scripted-1"
    )


model = FunctionModel(reply, model_name="scripted-1")
agent = Agent(
    model, instructions="Follow the script.", tools=[*script.TOOLS], deps_type=dict, name="clerk"
)


@agent.tool
def remember(ctx: RunContext[dict], word: str) -> str:
    """Keeps a word."""
    ctx.deps.setdefault("words", []).append(word)
    return f"kept {len(ctx.deps['words'])}"


@dataclass
class Desk:
    user: str
    words: list = field(default_factory=list)


typed = Agent(model, deps_type=Desk)


@typed.tool
def whose(ctx: RunContext[Desk]) -> str:
    """The user's name."""
    return ctx.deps.user


class City(BaseModel):
    name: str


structured = Agent(model, output_type=City, tools=[script.weather])


def make():
    return agent


def words():
    return {"words": ["first"]}


not_an_agent = 3
