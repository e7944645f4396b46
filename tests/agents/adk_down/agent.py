"""An agent with something that is down: DOWN says what, and how it shows."""

import os

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.events import Event
from google.adk.tools.base_toolset import BaseToolset
from scripted_llm import ScriptedLlm

KIND = os.environ.get("DOWN", "toolset")
URL = "http://user:a-secret@127.0.0.1:9/mcp?token=a-secret"


class McpToolset(BaseToolset):
    """As google-adk's, without the package that it needs."""

    def __init__(self) -> None:
        super().__init__()
        self.url = URL

    async def get_tools(self, readonly_context=None):
        raise ConnectionError(f"no answer from {URL}")

    async def close(self) -> None:
        """Nothing is open."""


class RemoteA2aAgent(BaseAgent):
    """As google-adk's: what it cannot reach is an event without content."""

    async def _run_async_impl(self, ctx):
        yield Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            error_message="A2A request failed: connection refused",
        )


def tools() -> list:
    if KIND == "toolset":
        return [McpToolset()]
    if KIND == "command":
        from google.adk.tools.mcp_tool.mcp_toolset import McpToolset as Real, StdioConnectionParams
        from mcp import StdioServerParameters

        return [
            Real(
                connection_params=StdioConnectionParams(
                    server_params=StdioServerParameters(command="no-such")
                )
            )
        ]
    if KIND == "agent-tool":
        from google.adk.tools.agent_tool import AgentTool

        return [AgentTool(agent=RemoteA2aAgent(name="clerk"))]
    return []


root_agent = LlmAgent(
    name="desk",
    model=ScriptedLlm(),
    instruction="Do as you are told.",
    tools=tools(),
    sub_agents=[RemoteA2aAgent(name="clerk")] if KIND == "sub-agent" else [],
)
if KIND == "remote":
    root_agent = RemoteA2aAgent(name="clerk")
