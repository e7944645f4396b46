"""An agent to talk to: what it says comes word by word, a tool asks first, another draws."""

import base64

from google.adk.agents import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from scripted_llm import ScriptedLlm

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg=="


def weather(city: str) -> dict:
    """The weather."""
    return {"city": city, "degrees": 21}


def pay(amount: int, tool_context: ToolContext) -> dict:
    """Pays, once somebody has agreed."""
    tool_context.state["paid"] = amount
    return {"paid": amount}


def order(item: str) -> dict:
    """Takes days: somebody says later what came of it."""
    return {"ticket": item}


async def draw(name: str, tool_context: ToolContext) -> dict:
    """Saves a picture."""
    part = types.Part.from_bytes(data=base64.b64decode(PNG), mime_type="image/png")
    return {"version": await tool_context.save_artifact(name, part)}


inner = LlmAgent(
    name="inner", description="Asks.", model=ScriptedLlm(), instruction="Ask.", tools=[weather]
)
helper = LlmAgent(
    name="helper", description="Helps.", model=ScriptedLlm(), instruction="Help.", tools=[weather]
)
root_agent = LlmAgent(
    name="desk",
    model=ScriptedLlm(),
    instruction="Do as you are told.",
    tools=[
        weather,
        FunctionTool(pay, require_confirmation=True),
        LongRunningFunctionTool(order),
        draw,
        AgentTool(inner),
    ],
    sub_agents=[helper],
)
