"""The tools over stdio, or over HTTP on the loopback interface for requests with the token."""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import platformdirs
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from evalgate import __version__
from evalgate.errors import ConfigError
from evalgate.system import loopback
from evalgate.system.loopback import HOST, Guard
from evalgate.text import plain
from evalgate.values import digest_of
from evalgate.wings.ces.edit import Refused
from .resources import ServerResources
from .tools import Tool, ToolAnswer, error_of, tools


def server_of(resources: ServerResources) -> Server[Any]:
    """The server, on any transport."""
    table = tools(resources)

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:  # noqa: ARG001 - the SDK's signature
        described_tools = [
            types.Tool(
                name=tool.name,
                description=tool.description,
                input_schema=tool.takes,
                output_schema=tool.gives,
                annotations=types.ToolAnnotations(
                    read_only_hint=tool.kind == "read",
                    destructive_hint=tool.kind == "delete",
                    idempotent_hint=tool.kind == "read",
                    open_world_hint=tool.kind == "run",
                ),
            )
            for tool in table.values()
        ]
        return types.ListToolsResult(tools=described_tools)

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        answer = await anyio.to_thread.run_sync(_called, table, params)
        if isinstance(answer, types.CallToolResult):
            return answer
        operation = answer.awaited
        if operation is not None:
            last_progress = (-1, "")
            while not operation.over.is_set():
                line = operation.lines[-1] if operation.lines else operation.state
                progress = (operation.done, line)
                if progress != last_progress:
                    last_progress = progress
                    await context.session.report_progress(
                        operation.done, operation.total or None, line
                    )
                await anyio.sleep(0.1)
            answer = ToolAnswer(content=operation.json())
        content: list[types.ContentBlock] = [
            _text(json.dumps(answer.content, ensure_ascii=False)),
            *map(_text, answer.notes),
        ]
        return types.CallToolResult(
            content=content, structured_content=answer.content, _meta=answer.meta or None
        )

    instructions = (
        "CES evaluations and ADK evaluation sets of a repository. Read before you write, pass etag and mask, "
        "preview first."
    )
    return Server(
        "evalgate",
        version=__version__,
        instructions=instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _called(
    table: dict[str, Tool], params: types.CallToolRequestParams
) -> ToolAnswer | types.CallToolResult:
    tool = table.get(params.name)
    try:
        if tool is None:
            raise Refused("UNIMPLEMENTED", f"there is no tool {params.name[:100]!r}")
        return tool.answer(dict(params.arguments or {}))
    except Refused as refused:
        error = error_of(refused)
        texts = [f"{refused.code}: {refused.message}", json.dumps(error, ensure_ascii=False)]
        return types.CallToolResult(
            content=[_text(text) for text in texts], structured_content=error, is_error=True
        )
    # half a character, NUL in a path, too many nested values
    except (ValueError, RecursionError) as problem:
        message = f"INVALID_ARGUMENT: {type(problem).__name__}: {problem}"[:500]
    except OSError as problem:
        message = f"FAILED_PRECONDITION: {problem.strerror or problem}"
    return types.CallToolResult(content=[_text(message)], is_error=True)


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text.encode("utf-8", "backslashreplace").decode())


def run_stdio(resources: ServerResources) -> None:
    """Serve the client that started this process, until it disconnects."""

    async def serve() -> None:
        server = server_of(resources)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(serve)


_TOKEN = re.compile(r"[A-Za-z0-9_-]{32}")


def kept_token(path: Path) -> str:
    """The token in a file, which is made if it is missing. Raises ConfigError if others than its
    owner may read it, or it has no token."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        beside = path.with_name(f".{secrets.token_hex(8)}")
        with os.fdopen(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(loopback.new_token())
        with suppress(FileExistsError):  # made by another process meanwhile
            os.link(beside, path)
        beside.unlink()
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), errors="replace") as file:
        about = os.fstat(file.fileno())
        token = file.read(1000)
    if about.st_mode & 0o077 or about.st_uid != os.geteuid() or not _TOKEN.fullmatch(token):
        raise ConfigError(
            f"{path} is no token that only its owner may read", hint="Delete it: it is made again."
        )
    return token


def run_http(resources: ServerResources, *, port: int) -> None:
    """Serve the tools under /mcp on the loopback interface until interrupted, for requests from
    this machine that carry the token. The token of a root is created once, outside of the root;
    standard error names its file."""
    digest = digest_of(str(resources.root), 16)
    path = Path(platformdirs.user_data_dir("evalgate")) / f"mcp/{digest}.token"
    token = kept_token(path)
    address = f"http://{HOST}:{port}/mcp"
    header_text = f"Authorization: Bearer, and the token in {path}"
    sys.stderr.write(plain.visible(f"{address}\n{header_text}\n"))
    sys.stderr.flush()
    # the guard decides which requests are answered
    inner = server_of(resources).streamable_http_app(
        host=HOST,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    guard = Guard(inner, port=port, token=token)
    uvicorn.run(guard, host=HOST, port=port, log_level="warning")
