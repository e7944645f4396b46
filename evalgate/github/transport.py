"""One request to GitHub, sent again while that makes sense and there is time, without ever showing the token."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any, Final
from urllib.parse import urljoin, urlsplit

from evalgate import __version__
from evalgate.errors import ConfigError
from evalgate.github import failures, pacing
from evalgate.github.endpoints import Endpoint
from evalgate.github.failures import FailureKind, GitHubFailed
from evalgate.github.pacing import Patience, World
from evalgate.system import http
from evalgate.system.http import REDIRECTS, Answer, Exchange, ExchangeFailed, Fault

API_VERSION = "2022-11-28"
MOST_TRIES = 5
MOST_ANSWER_BYTES = 32 * 1024 * 1024  # a page of a hundred full comments is 26 MB at worst
_MOST_REDIRECTS = 3
_MOST_REMEMBERED = 64
_REPOSITORY = re.compile(r"(?!\.{1,2}/)[A-Za-z0-9._-]+/(?!\.{1,2}\Z)[A-Za-z0-9._-]+")
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
_PASSING: Final = frozenset({Fault.TIMEOUT, Fault.UNREACHABLE})

Check = Callable[[Answer], GitHubFailed | None]
"""What is wrong with an answer that has a good status; None where nothing is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Where the API is, for which repository, and as whom.

    `environment`: for proxies and certificates. `timeout_s`: of one request. `patience_s`: what may be spent waiting
    for limits and faults to pass, over all requests.
    """

    repository: str
    token: str = field(repr=False)
    api_url: str = "https://api.github.com"
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 20.0
    download_timeout_s: float = 300.0
    patience_s: float = 120.0


class Transport:
    """Requests with the token, to its own host only; remembers what it read by ETag."""

    def __init__(self, connection: Connection, world: World) -> None:
        if not _REPOSITORY.fullmatch(connection.repository):
            raise ConfigError(f"GITHUB_REPOSITORY is no repository: {connection.repository[:100]!r}")
        token = connection.token.strip()
        if not _TOKEN.fullmatch(token):  # whatever else would complain of it would show it
            raise ConfigError("the GitHub token is empty or has characters that no token has")
        self.api_url = connection.api_url.rstrip("/")
        self._world = world
        self._connection = connection
        self._patience = Patience(connection.patience_s, world)
        self._ends = math.inf
        self._etags: dict[str, tuple[str, Answer]] = {}
        self._hidden = token
        headers = {
            "authorization": f"Bearer {token}",
            "accept": "application/vnd.github+json",
            "x-github-api-version": API_VERSION,
            "user-agent": f"evalgate/{__version__}",
        }
        self._exchange = Exchange(environment=connection.environment, headers=headers, most_bytes=MOST_ANSWER_BYTES)

    def __repr__(self) -> str:
        return f"Transport({self.api_url!r})"

    def close(self) -> None:
        """Let go of the connection."""
        self._exchange.close()

    def end_within(self, seconds: float) -> None:
        """From now on all requests and waits together have so much time; another thread may say so."""
        self._ends = self._world.now() + seconds

    def answer(
        self,
        endpoint: Endpoint,
        url: str,
        *,
        body: Mapping[str, Any] | None = None,
        check: Check | None = None,
        follow: bool = True,
    ) -> Answer:
        """Send and wait for an answer below 400 that passes `check`. Raises GitHubFailed.

        A redirect is followed on the token's own host only; without `follow` it is the answer.
        """
        remembered = self._etags.get(url) if endpoint.method == "GET" else None
        headers = {"if-none-match": remembered[0]} if remembered else {}

        def once() -> Answer:
            address = url
            for _ in range(_MOST_REDIRECTS + 1):
                timeout_s = min(self._connection.timeout_s, self._left_s())
                answer = self._exchange.request_once(
                    endpoint.method, address, body=body, timeout_s=timeout_s, headers=headers
                )
                target = answer.headers.get("location", "")
                if not follow or answer.status not in REDIRECTS or not target:
                    return remembered[1] if remembered and answer.status == 304 else answer
                address = self.same_host(endpoint, address, target)  # a repository that was renamed
            raise failures.of_redirect(endpoint, host="round and round")

        answer = self._patiently(endpoint, once, check or _unchecked)
        etag = answer.headers.get("etag")
        if endpoint.method == "GET" and etag and follow:
            if len(self._etags) >= _MOST_REMEMBERED:
                self._etags.pop(next(iter(self._etags)))
            self._etags[url] = (etag, answer)
        return answer

    def download(self, endpoint: Endpoint, url: str, into: IO[bytes], *, most_bytes: int) -> None:
        """GET what is kept on another host, without showing that host the token; `into` is emptied for each try.

        Raises GitHubFailed, and OSError of `into`.
        """
        start = self.answer(endpoint, url, follow=False)
        target = start.headers.get("location", "")
        try:
            scheme, host, _ = http.origin(target)
        except ExchangeFailed:
            scheme, host = "", ""
        if start.status not in REDIRECTS or scheme not in ("http", "https") or not host:
            raise failures.of_shape(start, endpoint, "leads to no download")
        if scheme == "http" and self.api_url.startswith("https:"):
            raise failures.of_redirect(endpoint, host=f"unencrypted {host}")
        self._fetch_stored(endpoint, target, into, most_bytes=most_bytes)

    def _fetch_stored(self, endpoint: Endpoint, target: str, into: IO[bytes], *, most_bytes: int) -> None:
        storage = Exchange(environment=self._connection.environment, headers={}, most_bytes=most_bytes)

        def once() -> Answer:
            into.seek(0)
            into.truncate()
            timeout_s = min(self._connection.download_timeout_s, self._left_s())
            return storage.request_once("GET", target, timeout_s=timeout_s, headers={"accept": "*/*"}, into=into)

        try:
            self._patiently(endpoint, once, _finished)
        except GitHubFailed as failed:
            signature = urlsplit(target).query  # whoever has it may read the artifact
            message = failed.message.replace(signature, "***") if signature else failed.message
            kind = FailureKind.REFUSED if failed.kind in failures.NOT_PERMITTED else failed.kind
            hint = "This was not GitHub, but the storage it named; a proxy may refuse that host."
            raise GitHubFailed(kind, f"{message} (from storage)", status=failed.status, hint=hint) from None
        finally:
            storage.close()

    def same_host(self, endpoint: Endpoint, base: str, reference: str) -> str:
        """Where `reference`, found at `base`, leads, if the token may be shown there. Raises GitHubFailed."""
        try:
            url = urljoin(base, reference)
            here, there = http.origin(self.api_url), http.origin(url)
        except (ExchangeFailed, ValueError):
            raise failures.of_redirect(endpoint, host="an unreadable address") from None
        if here != there:
            raise failures.of_redirect(endpoint, host=there[1])
        return url

    def _patiently(self, endpoint: Endpoint, once: Callable[[], Answer], check: Check) -> Answer:
        """Try until there is an answer that is none of a fault. Raises GitHubFailed when tries or patience end."""
        tries = 0
        while True:
            tries += 1
            outcome, wait_s = self._try(endpoint, once, check, tries=tries)
            if isinstance(outcome, Answer):
                return outcome
            if wait_s is None or tries >= MOST_TRIES or wait_s > self._left_s() or not self._patience.wait(wait_s):
                raise self._redacted(outcome) from None

    def _try(
        self,
        endpoint: Endpoint,
        once: Callable[[], Answer],
        check: Check,
        *,
        tries: int,
    ) -> tuple[Answer | GitHubFailed, float | None]:
        """The answer, or the failure and how long to wait before another try (None: none makes sense)."""
        pause_s = pacing.backoff(tries - 1, chance=self._world.chance())
        try:
            answer = once()
        except ExchangeFailed as failed:
            again = (endpoint.repeatable or not failed.sent) and failed.fault in _PASSING
            return failures.of_exchange(failed, endpoint), pause_s if again else None
        if answer.status < 400:
            problem = check(answer)
            return (answer, None) if problem is None else (problem, pause_s if endpoint.repeatable else None)
        now = self._world.now()
        asked_s = pacing.limit_wait(answer, now=now)
        if asked_s is not None:
            until = datetime.fromtimestamp(now + asked_s, tz=UTC).strftime("%H:%M:%S UTC")
            wait_s = asked_s + self._world.chance()  # not all jobs at the same moment
            return failures.of_limit(answer, endpoint, wait_s=asked_s, until=until), wait_s
        passing = answer.status >= 500 and endpoint.repeatable
        return failures.of_answer(answer, endpoint), pause_s if passing else None

    def _left_s(self) -> float:
        return self._ends - self._world.now()

    def _redacted(self, failed: GitHubFailed) -> GitHubFailed:
        if self._hidden not in failed.message:
            return failed
        message = failed.message.replace(self._hidden, "***")
        return GitHubFailed(failed.kind, message, status=failed.status, hint=failed.hint)


def _unchecked(answer: Answer) -> None:  # noqa: ARG001 - every answer will do
    return None


def _finished(answer: Answer) -> GitHubFailed | None:
    if answer.status == 200:
        return None
    return GitHubFailed(FailureKind.MALFORMED, f"the storage answers {answer.status}", status=answer.status)
