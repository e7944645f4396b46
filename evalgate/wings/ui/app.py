"""The live page and the requests that it makes, over HTTP on the loopback interface."""

from __future__ import annotations

import asyncio
import json
import math
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import uvicorn
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from evalgate.errors import ConfigError, EvalgateError
from evalgate.system.loopback import HOST, Guard
from evalgate.text import plain, words
from evalgate.values import Json, JsonObject, mapped_json
from .workspace import LATEST, Workspace

MOST_BYTES = 8 * 1024 * 1024
"""The longest body of one request."""
TELL_EVERY_S = 0.15
HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
NOTHING = "default-src 'none'; frame-ancestors 'none'"


READS: JsonObject = {
    "case": Workspace.case,
    "chat-trace": Workspace.trace,
    "chat-file": Workspace.chat_file,
}
CHANGES: JsonObject = {
    "run": Workspace.run,
    "rebuild": Workspace.rebuild,
    "stop": Workspace.stop,
    "accept": Workspace.accept,
    "decide": Workspace.decide,
    "edit": Workspace.edit,
    "delete": Workspace.delete,
    "chat-open": Workspace.open_chat,
    "chat-say": Workspace.say,
    "chat-save": Workspace.save_chat,
    "chat-end": Workspace.end_chat,
}
"""Actions that write a file or run an agent: all are refused if the page is read-only. The fields
of a request are the arguments of its method, whose signature checks them."""

FIELDS = TypeAdapter(JsonObject)
ACTIONS = {name: TypeAdapter(method) for name, method in (READS | CHANGES).items()}


class PageServer:
    """The answers to requests that the guard has allowed."""

    def __init__(self, space: Workspace, *, read_only: bool) -> None:
        self._space = space
        self._read_only = read_only

    async def page(self, request: Request) -> Response:
        """The page of a run alongside a base."""
        head, base = map(request.query_params.get, ("head", "base"))
        try:
            text, policy = await run_in_threadpool(self._space.page, head or LATEST, base)
        except EvalgateError as error:
            message = plain.visible(f"{_error_json(error)['error']}\n{error.hint}\n")
            return PlainTextResponse(message, status_code=500, headers=_headers(NOTHING))
        return HTMLResponse(text, headers=_headers(f"{policy}; frame-ancestors 'none'"))

    async def state(self, _: Request) -> Response:
        """The state of the workspace."""
        try:
            return _json(
                {**await run_in_threadpool(self._space.state), "readOnly": self._read_only}
            )
        except EvalgateError as error:
            return _json(_error_json(error), status=409)

    async def events(self, request: Request) -> Response:
        """The progress of a run and of the agent's turn, until the page disconnects."""
        return EventSourceResponse(self._progress(request), headers=_headers(NOTHING))

    async def _progress(self, request: Request) -> AsyncIterator[dict[str, str]]:
        serial = -1
        number = 0
        trials = 0
        chat_serial = -1
        while not await request.is_disconnected():
            if self._space.running.serial != serial:
                snapshot = self._space.running.snapshot(trials)
                if snapshot["number"] != number:  # another run: send all of its trials
                    snapshot = self._space.running.snapshot()
                serial = snapshot["serial"]
                number = snapshot["number"]
                trials = snapshot["next"]
                yield {"data": json.dumps(_finite(snapshot))}
            if (chat_state := self._space.live())["serial"] != chat_serial:
                chat_serial = chat_state["serial"]
                yield {"event": "chat", "data": json.dumps(_finite(chat_state))}
            await asyncio.sleep(TELL_EVERY_S)

    async def answer(self, request: Request) -> Response:
        """Run one of READS or CHANGES."""
        name = request.path_params["name"]
        action = ACTIONS.get(name)
        if action is None:
            return _json({"error": "there is no such request", "hint": ""}, status=404)
        if self._read_only and name in CHANGES:
            return _json(
                {"error": "nothing can be changed or run", "hint": "It was started --read-only."},
                status=403,
            )
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return _json({"error": "expected application/json", "hint": ""}, status=415)
        try:
            order = ArgsKwargs((self._space,), FIELDS.validate_json(await _body(request)))
            return _json(await run_in_threadpool(action.validate_python, order))
        except ValidationError as error:
            first_error = error.errors()[0]
            location = ".".join(map(str, first_error["loc"]))
            return _json(
                {"error": f"{location}: {words.fault(first_error)}", "hint": ""}, status=400
            )
        except EvalgateError as error:
            return _json(_error_json(error), status=409)


def serve(space: Workspace, listening: socket.socket, *, token: str, read_only: bool) -> None:
    """Serve until interrupted, behind a guard that asks for the token."""
    port = listening.getsockname()[1]
    pages = PageServer(space, read_only=read_only)
    routes = [
        Route("/", pages.page),
        Route("/api/state", pages.state),
        Route("/api/events", pages.events),
        Route("/api/{name}", pages.answer, methods=["POST"]),
    ]
    inner = Starlette(routes=routes)
    config = uvicorn.Config(
        Guard(inner, port=port, token=token, cookie=f"evalgate-{port}"),
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])


def listen(port: int) -> socket.socket:
    """A socket on the loopback interface; port 0: a free one. Raises ConfigError if the port is
    taken."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()  # before its address is told: until then, another could take the port
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"port {port} cannot be used: {error.strerror}", hint="Choose another --port."
        ) from error
    return listener


async def _body(request: Request) -> bytes:
    """The body of a request. Raises ConfigError if it is too long."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise ConfigError("that is too much at once")
    return bytes(body)


def _error_json(error: EvalgateError) -> JsonObject:
    lines = [error.text, *(problem.text for problem in error.problems[:20])]
    return {"error": "\n".join(lines), "hint": error.hint}


def _json(content: Json, *, status: int = 200) -> Response:
    # ASCII: an agent's half character does not make the response fail
    text = json.dumps(_finite(content))
    return Response(
        text, status_code=status, headers=_headers(NOTHING), media_type="application/json"
    )


def _finite(value: Any) -> Any:
    """The same value with numbers that JSON lacks as text."""
    return mapped_json(
        value,
        lambda item: str(item) if isinstance(item, float) and not math.isfinite(item) else item,
    )


def _headers(policy: str) -> dict[str, str]:
    return {**HEADERS, "content-security-policy": policy}
