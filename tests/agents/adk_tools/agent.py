"""Tools of every kind, each of which leaves a trace where it really runs; callbacks that note what
they see."""

import os
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from scripted_llm import ScriptedLlm


def trace(what):
    with Path(os.environ["TRACE"]).open("a") as file:
        file.write(what + "\n")


def weather(city: str, unit: str = "C") -> dict:
    """The weather."""
    trace(f"weather {city} {unit}")
    return {"city": city, "degrees": 21}


def book(seat: str, tool_context: ToolContext) -> str:
    """Books a seat, which the session's state keeps; answers with a text."""
    trace(f"book {seat}")
    tool_context.state["seats"] = [*tool_context.state.get("seats", []), seat]
    return f"{seat} is yours"


def read_seats(tool_context: ToolContext) -> dict:
    """What the state has."""
    return {"seats": tool_context.state.get("seats")}


def finish(tool_context: ToolContext) -> dict:
    """Ends the turn with its own answer."""
    trace("finish")
    tool_context.actions.skip_summarization = True
    return {"done": True}


class PaperError(Exception):
    """A fault of the agent's own."""


def print_ticket(copies: int) -> dict:
    """Raises."""
    trace(f"print_ticket {copies}")
    raise PaperError("no paper")


def lookup(key: str) -> dict:
    """Raises a KeyError."""
    raise KeyError(key)


def order(item: str) -> dict:
    """Takes long; says nothing yet."""
    trace(f"order {item}")
    return None if item == "nothing" else {"ticket": item}


def before(tool, args, tool_context):
    tool_context.state["seen_before"] = f"{tool.name} {sorted(args)}"
    if args.get("city") == "Nowhere":
        return {"city": "Nowhere", "degrees": "none: said the callback"}
    if args.get("city") == "paris":
        args["city"] = "Paris"
    return None


def after(tool, args, tool_context, tool_response):
    tool_context.state["seen_after"] = tool_response
    if isinstance(tool_response, dict) and tool_response.get("city") == "Loud":
        return {**tool_response, "shouted": True}
    return None


inner = LlmAgent(
    name="inner", description="Asks.", model=ScriptedLlm(), instruction="Ask.", tools=[weather]
)
helper = LlmAgent(
    name="helper",
    description="Helps.",
    model=ScriptedLlm(),
    instruction="Help.",
    tools=[weather, book],
)
root_agent = LlmAgent(
    name="root",
    model=ScriptedLlm(),
    instruction="Do as you are told.",
    tools=[
        weather, book, read_seats, finish, print_ticket, lookup, LongRunningFunctionTool(order), AgentTool(inner),
    ],
    sub_agents=[helper],
    before_tool_callback=before,
    after_tool_callback=after,
)  # fmt: skip
