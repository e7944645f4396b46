"""Who is let through to a server on the loopback interface."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping
from typing import Any

import pytest

from evalgate.system.loopback import Guard, new_token

TOKEN = "the-token-of-this-start"
HOST = {"host": "127.0.0.1:8123"}
BEARER = {**HOST, "authorization": f"Bearer {TOKEN}"}
COOKIE = {**HOST, "cookie": f"other=1; evalgate={TOKEN}"}


def asked(
    headers: Mapping[str, str] | list[tuple[str, str]],
    *,
    cookie: str,
    path: str = "/api/state",
    query: str = "",
) -> tuple[int, dict[str, str]]:
    """The status and headers of the answer; 200 is the application's own."""
    sent: list[MutableMapping[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {}

    listed = list(headers.items()) if isinstance(headers, Mapping) else headers
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in listed],
    }
    asyncio.run(Guard(app, port=8123, token=TOKEN, cookie=cookie)(scope, receive, send))
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


@pytest.mark.parametrize(
    ("headers", "by_cookie", "by_bearer"),
    [
        (BEARER, 200, 200),
        (COOKIE, 200, 401),
        ({**COOKIE, "host": "localhost:8123"}, 200, 401),
        # no token, another one, one that only begins so
        (HOST, 403, 401),
        ({**HOST, "authorization": "Bearer x"}, 403, 401),
        ({**HOST, "authorization": f"Bearer {TOKEN[:-1]}"}, 403, 401),
        ({**HOST, "cookie": "evalgate=\u00fc"}, 403, 401),
        # a name that somebody's DNS leads to this machine, another port, no name, two
        ({**BEARER, "host": "evil.example"}, 403, 403),
        ({**BEARER, "host": "evil.example:8123"}, 403, 403),
        ({**BEARER, "host": "127.0.0.1:8124"}, 403, 403),
        ({"authorization": f"Bearer {TOKEN}"}, 403, 403),
        ([*BEARER.items(), ("host", "evil.example")], 403, 403),
        # a page of another origin, of a file, of another port of this machine
        ({**BEARER, "origin": "https://evil.example"}, 403, 403),
        ({**BEARER, "origin": "null"}, 403, 403),
        ({**BEARER, "origin": "http://127.0.0.1:9000"}, 403, 403),
        ({**BEARER, "origin": "http://127.0.0.1:8123"}, 200, 200),
        ({**BEARER, "sec-fetch-site": "cross-site"}, 403, 403),
        ({**BEARER, "sec-fetch-site": "same-site"}, 403, 403),
        ({**BEARER, "sec-fetch-site": "same-origin"}, 200, 200),
    ],
)
def test_who_is_let_through(headers: Any, by_cookie: int, by_bearer: int) -> None:
    assert asked(headers, cookie="evalgate")[0] == by_cookie
    assert asked(headers, cookie="")[0] == by_bearer


def test_the_address_that_is_printed_becomes_a_cookie() -> None:
    status, headers = asked(
        {**HOST, "sec-fetch-site": "cross-site"},
        cookie="evalgate",
        path="/",
        query=f"token={TOKEN}",
    )
    # not a redirection: a browser that a file led here would come without the cookie
    assert (status, headers["refresh"]) == (200, "0; url=/")
    assert headers["set-cookie"] == f"evalgate={TOKEN}; HttpOnly; Path=/; SameSite=strict"
    # no other token, no other path, and not where there are no browsers
    assert asked(HOST, cookie="evalgate", path="/", query="token=x")[0] == 403
    assert asked(HOST, cookie="evalgate", path="/api/state", query=f"token={TOKEN}")[0] == 403
    assert asked(HOST, cookie="", path="/", query=f"token={TOKEN}")[0] == 401


def test_tokens_differ_and_are_long() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert len(new_token()) >= 32
