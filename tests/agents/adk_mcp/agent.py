"""An agent whose tools are those of an MCP server, started with MCP_COMMAND."""

import os
import sys
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset, StdioConnectionParams
from mcp import StdioServerParameters
from scripted_llm import ScriptedLlm

SERVER = str(Path(__file__).parent / "server.py")

root_agent = LlmAgent(
    name="sea",
    model=ScriptedLlm(),
    instruction="Do as you are told.",
    tools=[
        McpToolset(
            connection_params=StdioConnectionParams(
                server_params=StdioServerParameters(
                    command=os.environ.get("MCP_COMMAND", sys.executable),
                    args=[SERVER],
                    env={"TRACE": os.environ.get("TRACE", "")},
                ),
                timeout=20,
            )
        )
    ],
)
