"""An MCP server with one tool."""

import os
from pathlib import Path

from mcp.server.fastmcp import FastMCP

server = FastMCP("sea")


@server.tool()
def sea_level(harbour: str) -> str:
    """Metres above zero."""
    with Path(os.environ["TRACE"]).open("a") as file:
        file.write(f"sea_level {harbour}\n")
    return f"{harbour}: 0.4"


server.run()
