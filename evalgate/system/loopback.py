"""Access to a server on the loopback interface: only with the token of its start, and not from
pages of other origins.

It is an ASGI application around another one. A browser on this machine would send any page's
requests here, so the Origin must be ours, the Host must be a local name that foreign DNS cannot
assign, and the token must be present."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qs

from evalgate.errors import ConfigError

HOST: Final = "127.0.0.1"
NAMES: Final = (HOST, "localhost")
OWN_SITES: Final = ("same-origin", "none")
"""The values of Sec-Fetch-Site for requests of our own page, and of a typed address."""

FOREIGN_TEXT: Final = "this server answers its own pages on this machine, and nobody else\n"

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(24)


_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{32}")


def kept_token(path: Path) -> str:
    """The token in a file, which is made if it is missing. Raises ConfigError if others than its
    owner may read it, or it has no token."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        beside = path.with_name(f".{secrets.token_hex(8)}")
        with os.fdopen(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(new_token())
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


class Guard:
    """Passes requests from this machine with the token to `app`.

    `cookie`: the cookie of the token in a browser, which gets it by opening `/?token=...` once; ""
    if clients send it only as a bearer token."""

    def __init__(self, app: App, *, port: int, token: str, cookie: str = "") -> None:
        self._app = app
        self._hosts = {f"{name}:{port}" for name in NAMES} | ({*NAMES} if port == 80 else set())
        self._origins = {f"http://{host}" for host in self._hosts}
        self._token = token
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "http":
            status, headers, text = self._refusal(scope)
            if status:
                headers = [
                    (b"content-type", b"text/plain; charset=utf-8"),
                    (b"cache-control", b"no-store"),
                    *headers,
                ]
                await send({"type": "http.response.start", "status": status, "headers": headers})
                await send({"type": "http.response.body", "body": text.encode()})
                return
        elif scope["type"] != "lifespan":
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, list[tuple[bytes, bytes]], str]:
        """The status, headers and text of a refusal; status 0 if the application answers."""
        headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        hosts = _values_of(headers, b"host")
        is_other = any(origin not in self._origins for origin in _values_of(headers, b"origin"))
        if len(hosts) != 1 or hosts[0] not in self._hosts or is_other:
            return 403, [], FOREIGN_TEXT
        if self._brings_token(scope):
            cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
            # no redirect: from a foreign page, such as a file, it would not carry a strict cookie
            return (
                200,
                [
                    (b"refresh", b"0; url=/"),
                    (b"set-cookie", cookie.encode()),
                    (b"referrer-policy", b"no-referrer"),
                ],
                "",
            )
        if not any(self._is_token(token) for token in self._tokens(headers)):
            if self._cookie:
                return (
                    403,
                    [],
                    "the token is missing: open the address that was printed at the start\n",
                )
            return 401, [(b"www-authenticate", b"Bearer")], "the token is missing\n"
        if any(site not in OWN_SITES for site in _values_of(headers, b"sec-fetch-site")):
            return 403, [], FOREIGN_TEXT
        return 0, [], ""

    def _brings_token(self, scope: Scope) -> bool:
        """True for the printed address, to which any page can lead a browser: an editor's terminal
        is a page, too."""
        if not self._cookie or scope["path"] != "/" or scope["method"] != "GET":
            return False
        tokens = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        return len(tokens) == 1 and self._is_token(tokens[0])

    def _tokens(self, headers: Iterable[tuple[bytes, bytes]]) -> Iterable[str]:
        for header in _values_of(headers, b"authorization"):
            yield header.removeprefix("Bearer ")
        for header in _values_of(headers, b"cookie") if self._cookie else ():
            try:
                cookie = SimpleCookie(header).get(self._cookie)
            except CookieError:
                cookie = None
            if cookie is not None:
                yield cookie.value

    def _is_token(self, token: str) -> bool:
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode())


def _values_of(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for header, value in headers if header.lower() == name]
