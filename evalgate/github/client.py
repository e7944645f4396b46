"""The client of GitHub's REST API: one token for one host, patient within bounds, and silent about the token."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import IO, Any, TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel, TypeAdapter, ValidationError

from evalgate.github import failures
from evalgate.github.endpoints import Endpoint
from evalgate.github.failures import FailureKind, GitHubFailed
from evalgate.github.pacing import World
from evalgate.github.transport import Connection, Transport
from evalgate.system.http import Answer

Reply = TypeVar("Reply", bound=BaseModel)
Parsed = TypeVar("Parsed")

MOST_PAGES = 100
PAGE_SIZE = 100
_NEXT = re.compile(r'<([^<>]*)>\s*;[^<,]*\brel="?next\b')


def connection_of(environ: Mapping[str, str], *, token: str) -> Connection:
    """The connection that a runner's environment describes. Raises ConfigError."""
    return Connection(
        repository=environ.get("GITHUB_REPOSITORY", ""),
        token=token,
        api_url=environ.get("GITHUB_API_URL") or "https://api.github.com",
        environment=environ,
    )


class Client:
    """Calls of `endpoints`, each answered by a value or a GitHubFailed; for one thread at a time."""

    def __init__(self, connection: Connection, world: World | None = None) -> None:
        self.repository = connection.repository
        self.world = world or World()
        self.token_of_app = connection.token.strip().startswith("ghs_")
        self._transport = Transport(connection, self.world)

    def __repr__(self) -> str:
        return f"Client({self.repository!r} at {self._transport.api_url!r})"

    def close(self) -> None:
        """Let go of the connection."""
        self._transport.close()

    def end_within(self, seconds: float) -> None:
        """From now on all calls and waits together have so much time; another thread may say so."""
        self._transport.end_within(seconds)

    def fetch(
        self, endpoint: Endpoint, shape: type[Reply], *, query: Mapping[str, str] | None = None, **values: object
    ) -> Reply:
        """GET one thing. Raises GitHubFailed."""
        return self._call(endpoint, self._url(endpoint, values, query), _parser(shape))[0]

    def fetch_all(
        self,
        endpoint: Endpoint,
        shape: type[Reply],
        *,
        query: Mapping[str, str] | None = None,
        under: str = "",
        most: int | None = None,
        paged: bool = True,
        **values: object,
    ) -> list[Reply]:
        """GET a list, page by page as `Link` says, up to about `most` items; `under`: its key in the answer; `paged`:
        whether the call takes a page's size.

        Raises GitHubFailed.
        """
        parse = _list_parser(shape, under)
        url = self._url(endpoint, values, {**(query or {}), **({"per_page": str(PAGE_SIZE)} if paged else {})})
        found: list[Reply] = []
        for _ in range(MOST_PAGES):
            page, answer = self._call(endpoint, url, parse)
            found += page
            following = _NEXT.search(answer.headers.get("link", ""))
            if following is None or (most is not None and len(found) >= most):
                return found
            url = self._transport.same_host(endpoint, url, following[1])
        message = f"could not {endpoint.doing}: there are more than {MOST_PAGES} pages"
        raise GitHubFailed(FailureKind.TOO_LARGE, message)

    def send(
        self, endpoint: Endpoint, shape: type[Reply], *, body: Mapping[str, Any], **values: object
    ) -> tuple[Reply, int]:
        """POST or PATCH; the reply and its status. Raises GitHubFailed."""
        reply, answer = self._call(endpoint, self._url(endpoint, values), _parser(shape), body=body)
        return reply, answer.status

    def delete(self, endpoint: Endpoint, **values: object) -> bool:
        """DELETE; False where it was not there any more. Raises GitHubFailed."""
        try:
            self._call(endpoint, self._url(endpoint, values), bytes)
        except GitHubFailed as failed:
            if failed.status in (404, 410):
                return False
            raise
        return True

    def download(self, endpoint: Endpoint, into: IO[bytes], *, most_bytes: int, **values: object) -> None:
        """GET what is kept on another host, which never sees the token, into the emptied `into`.

        Raises GitHubFailed, and OSError of `into`.
        """
        self._transport.download(endpoint, self._url(endpoint, values), into, most_bytes=most_bytes)

    def _url(self, endpoint: Endpoint, values: Mapping[str, object], query: Mapping[str, str] | None = None) -> str:
        owner, _, repo = self.repository.partition("/")
        filled = {name: quote(str(value), safe="") for name, value in values.items()}
        path = endpoint.path.format(owner=owner, repo=repo, **filled)
        return f"{self._transport.api_url}{path}{f'?{urlencode(query)}' if query else ''}"

    def _call(
        self, endpoint: Endpoint, url: str, parse: Callable[[bytes], Parsed], *, body: Mapping[str, Any] | None = None
    ) -> tuple[Parsed, Answer]:
        """Send, and parse the answer; an answer that cannot be parsed counts as a fault, and may be asked again."""
        parsed: list[Parsed] = []

        def check(answer: Answer) -> GitHubFailed | None:
            try:
                parsed[:] = [parse(answer.body)]
            except (ValueError, RecursionError) as error:
                return failures.of_shape(answer, endpoint, _shape_problem(error))
            return None

        answer = self._transport.answer(endpoint, url, body=body, check=check)
        return parsed[0], answer


def _parser(shape: type[Reply]) -> Callable[[bytes], Reply]:
    return shape.model_validate_json


def _list_parser(shape: type[Reply], under: str) -> Callable[[bytes], list[Reply]]:
    adapter = TypeAdapter(list[shape])  # type: ignore[valid-type]  # a list of whatever shape was asked for

    def parse(body: bytes) -> list[Reply]:
        found = json.loads(body)
        if under:
            found = found.get(under) if isinstance(found, dict) else None
        return adapter.validate_python(found)

    return parse


def _shape_problem(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        return f"is not what the API promises: {f'{place}: ' if place else ''}{first['msg']}"
    return "is no JSON"
