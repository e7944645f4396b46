"""Access to a server on the loopback interface: only with the token of its start, and not from
pages of other origins.

It is an ASGI application around another one. A browser on this machine would send any page's
requests here, so the Origin must be ours, the Host must be a local name that foreign DNS cannot
assign, and the token must be present."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

HOST = "127.0.0.1"
"""The address that our servers bind."""
NAMES = (HOST, "localhost")
"""The hosts that a request may name, without the port."""
OWN_SITES = ("same-origin", "none")
"""The values of Sec-Fetch-Site for requests of our own page, and of a typed address."""

FOREIGN_TEXT = "this server answers its own pages on this machine, and nobody else\n"
"""The answer to another host, origin or site."""


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(24)


class Guard:
    """Passes requests from this machine with the token to `app`.

    `cookie`: the cookie of the token in a browser, which gets it by opening `/?token=...` once; ""
    if clients send it only as a bearer token."""

    def __init__(self, app: ASGIApp, *, port: int, token: str, cookie: str = "") -> None:
        """`port`: the server's."""
        self._app = app
        self._hosts = {f"{name}:{port}" for name in NAMES} | ({*NAMES} if port == 80 else set())
        """Values of Host that are accepted."""
        self._origins = {f"http://{host}" for host in self._hosts}
        """Values of Origin that are accepted."""
        self._token = token
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        from starlette.requests import Request  # noqa: PLC0415 - an extra, which servers have

        if scope["type"] == "http":
            answer = self._refusal(Request(scope)) or self._app
            await answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        """The refusal of a request; None if the application answers."""
        headers = request.headers
        hosts = headers.getlist("host")
        is_other = any(origin not in self._origins for origin in headers.getlist("origin"))
        if len(hosts) != 1 or hosts[0] not in self._hosts or is_other:
            return _refused(FOREIGN_TEXT)
        if self._brings_token(request):
            # no redirect: from a foreign page, such as a file, it would not carry a strict cookie
            response = _refused("", 200, {"refresh": "0; url=/", "referrer-policy": "no-referrer"})
            response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            return response
        tokens = [header.removeprefix("Bearer ") for header in headers.getlist("authorization")]
        if self._cookie:
            tokens.append(request.cookies.get(self._cookie, ""))
        if not any(map(self._is_token, tokens)):
            if self._cookie:
                return _refused(
                    "the token is missing: open the address that was printed at the start\n"
                )
            return _refused("the token is missing\n", 401, {"www-authenticate": "Bearer"})
        if any(site not in OWN_SITES for site in headers.getlist("sec-fetch-site")):
            return _refused(FOREIGN_TEXT)
        return None

    def _brings_token(self, request: Request) -> bool:
        """True for the printed address, to which any page can lead a browser: an editor's terminal
        is a page, too."""
        if not self._cookie or request.url.path != "/" or request.method != "GET":
            return False
        tokens = request.query_params.getlist("token")
        return len(tokens) == 1 and self._is_token(tokens[0])

    def _is_token(self, token: str) -> bool:
        """Takes as long for a wrong token, whatever its beginning."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode())


def _refused(text: str, status: int = 403, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in plain text that no cache keeps."""
    from starlette.responses import PlainTextResponse  # noqa: PLC0415 - as above

    return PlainTextResponse(text, status, {"cache-control": "no-store", **(headers or {})})
