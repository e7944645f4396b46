"""A local MCP server with one tool."""

from mcp.server.fastmcp import FastMCP

SERVER = FastMCP("sums")


@SERVER.tool()
def double(number: int) -> int:
    """Doubles."""
    return number * 2


SERVER.run()
