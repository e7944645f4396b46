"""One HTTP request and its answer, with limits of time and size and careful headers; the requested
wait of a server; and a Google Cloud token, by google-auth, fetched at its first use and kept until
it expires."""

from __future__ import annotations

import email.utils
import enum
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urljoin, urlsplit

from evalgate.values import Environ, frozen_dataclass

if TYPE_CHECKING:  # requests takes 0.1 s to import, and most runs make no request
    import requests

Headers: TypeAlias = Mapping[str, str]
"""Names, in lower case if they were received, and values."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
"""Statuses that name another address."""
MOST_REDIRECTS = 5
"""Of one request."""
CHUNK_BYTES = 64 * 1024
"""The most bytes of one read."""


class Fault(enum.StrEnum):
    """The reason why there is no answer."""

    TIMEOUT = "timeout"
    """Connected, but too slow."""
    UNREACHABLE = "unreachable"
    """Refused, reset, no such host, or a broken certificate."""
    TOO_LARGE = "too_large"
    """More than the limit, unpacked."""
    REDIRECTS = "redirects"
    """Too many, or one to another host where that is not allowed."""
    INVALID = "invalid"
    """Not an HTTP address, or a header that cannot be sent."""


class ExchangeFailed(Exception):  # noqa: N818 - the name of an outcome
    """There is no answer; `fault` is the reason."""

    def __init__(self, fault: Fault, message: str) -> None:
        """`message`: the reason in words."""
        super().__init__(message)
        self.fault = fault


@frozen_dataclass
class Answer:
    """A complete answer of any status; header names are in lower case."""

    status: int
    headers: Headers = field(default_factory=dict)
    body: bytes = b""
    """Unpacked."""

    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        try:
            return json.loads(self.body)
        except RecursionError:
            raise ValueError("nested too deeply") from None

    def excerpt(self, limit: int = 300) -> str:
        """The beginning of the body, as text on one line."""
        text = " ".join(self.body[: limit * 4].decode("utf-8", "replace").split())
        return text[:limit] + (" ..." if len(text) > limit else "")


def limit_response(most_bytes: int) -> Callable[[Any], None]:
    """A hook for clients of other libraries (`event_hooks` of httpx): it raises ExchangeFailed if a
    response, unpacked, is larger than `most_bytes`."""

    def limit_reading(response: Any) -> None:
        """Count the bytes of a response while it is read."""
        read_bytes = response.iter_bytes

        def limited_chunks(*arguments: Any, **options: Any) -> Iterator[bytes]:
            """The chunks of the response. Raises ExchangeFailed after the last allowed one."""
            size = 0
            for chunk in read_bytes(*arguments, **options):
                size += len(chunk)
                if size > most_bytes:
                    raise _too_large(most_bytes)
                yield chunk

        response.iter_bytes = limited_chunks  # all other methods read through it

    return limit_reading


def _too_large(most_bytes: int) -> ExchangeFailed:
    """The failure of an answer beyond the limit."""
    return ExchangeFailed(Fault.TOO_LARGE, f"the answer is larger than {most_bytes:,} bytes")


BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, Red Hat
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS, FreeBSD
)
"""Certificate bundles of systems; the first that exists is used."""


def system_certificates() -> str:
    """The system's certificate bundle, to which administrators add a proxy's certificates; "" if
    there is none."""
    return next((path for path in BUNDLES if os.path.isfile(path)), "")  # noqa: PTH113 - as text


class Exchange:
    """A connection that is kept open between requests; for one thread at a time.

    Proxies and certificates come from `environment` (HTTP_PROXY, HTTPS_PROXY, NO_PROXY,
    REQUESTS_CA_BUNDLE), certificates otherwise from the system; this process's own environment and
    ~/.netrc are not used. Redirects to another host get none of the headers."""

    def __init__(self, *, environment: Environ, headers: Headers, most_bytes: int) -> None:
        """Connects at the first request. `headers`: of every request; `most_bytes`: of an answer,
        unpacked."""
        self._environment = environment
        self._headers = dict(headers)
        self._most_bytes = most_bytes
        self._session: requests.Session | None = None
        """None before the first request."""

    def request(
        self,
        method: str,
        url: str,
        *,
        body: Any = None,
        timeout_s: float,
        headers: Headers | None = None,
        same_host: bool = False,
    ) -> Answer:
        """Send JSON (or nothing) and read the whole answer; `headers` are added. `same_host`: no
        redirect to another host is followed. Raises ExchangeFailed."""
        deadline = time.monotonic() + timeout_s
        first_origin = origin(url)
        all_headers = {**self._headers, **(headers or {})}
        for _ in range(MOST_REDIRECTS + 1):
            request_headers = all_headers if origin(url) == first_origin else {}
            answer = self.send(
                method,
                url,
                body=body,
                headers=request_headers,
                timeout_s=deadline - time.monotonic(),
            )
            target = answer.headers.get("location")
            if answer.status not in REDIRECTS or not target:
                return answer
            url = join(url, target, same_host=same_host)
            if answer.status == 303:
                method = "GET"
                body = None
        raise ExchangeFailed(
            Fault.REDIRECTS, f"more than {MOST_REDIRECTS} redirects, the last to {url}"
        )

    def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            self._session.close()

    def send(
        self,
        method: str,
        url: str,
        *,
        body: Any = None,
        timeout_s: float,
        headers: Headers | None = None,
    ) -> Answer:
        """The same for one request, whose answer may be a redirect; `headers` replace those of the
        exchange."""
        import requests  # noqa: PLC0415 - see above
        import urllib3  # noqa: PLC0415 - requests brings it

        if self._session is None:
            self._session = requests.Session()
            self._session.trust_env = False
            # Redirects are followed here; requests would read their bodies whole and parse their
            # target.
            self._session.get_redirect_target = lambda resp: None  # type: ignore[method-assign]  # noqa: ARG005
        if timeout_s <= 0:
            raise ExchangeFailed(Fault.TIMEOUT, "no time left for the request")
        deadline = time.monotonic() + timeout_s
        request_headers = {
            "accept": "application/json",
            **(self._headers if headers is None else headers),
        }
        payload = None
        if body is not None:
            payload = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
            request_headers.setdefault("content-type", "application/json")
        try:
            with self._session.request(
                method,
                url,
                data=payload,
                headers=request_headers,
                timeout=timeout_s,
                stream=True,
                allow_redirects=False,
                proxies=_proxies(url, self._environment),
                verify=self._environment.get("REQUESTS_CA_BUNDLE")
                or self._environment.get("SSL_CERT_FILE")
                or system_certificates()
                or True,
            ) as response:
                content = self._read(response, deadline)
                names = {name.lower(): header for name, header in response.headers.items()}
                return Answer(status=response.status_code, headers=names, body=content)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise _failure(error, url) from None

    def _read(self, response: requests.Response, deadline: float) -> bytes:
        """The whole body, unpacked. Raises ExchangeFailed if it is too large or too slow."""
        content = bytearray()
        # Not `iter_content`: that waits until a chunk is full, which a slow endpoint never fills.
        while chunk := response.raw.read1(CHUNK_BYTES, decode_content=True):
            content += chunk
            if len(content) > self._most_bytes:
                raise _too_large(self._most_bytes)
            if time.monotonic() > deadline:
                raise ExchangeFailed(Fault.TIMEOUT, "the request timed out")
        return bytes(content)


def _failure(error: Exception, url: str) -> ExchangeFailed:
    """The failure of a request that raised an error."""
    import requests  # noqa: PLC0415 - see above

    reason = _innermost_reason(error)
    if isinstance(error, requests.exceptions.InvalidHeader):
        return ExchangeFailed(Fault.INVALID, f"a header cannot be sent: {reason}")
    if isinstance(error, requests.RequestException) and isinstance(error, ValueError):
        return ExchangeFailed(Fault.INVALID, f"{url[:200]} is not an HTTP URL")
    is_slow = isinstance(error, requests.Timeout) or "timed out" in str(error).lower()
    if is_slow and not isinstance(error, requests.ConnectTimeout):
        return ExchangeFailed(Fault.TIMEOUT, "the request timed out")
    host = urlsplit(url).netloc.rpartition("@")[2]
    return ExchangeFailed(Fault.UNREACHABLE, f"no answer from {host}: {reason}")


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host in lower case and port. Raises ExchangeFailed if `url` is not an address."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        return parts.scheme, (parts.hostname or "").lower(), port
    except ValueError:
        raise ExchangeFailed(Fault.INVALID, f"{url[:200]} is not an HTTP URL") from None


def join(url: str, target: str, *, same_host: bool = True) -> str:
    """The address of `target`, relative to `url`. Raises ExchangeFailed if it is none, or on
    another host although it must be on the `same_host`."""
    try:
        address = urljoin(url, target)
    except ValueError:
        raise ExchangeFailed(Fault.INVALID, f"{target[:200]} is not an HTTP URL") from None
    if same_host and origin(address) != origin(url):
        raise ExchangeFailed(Fault.REDIRECTS, f"it leads to another host ({origin(address)[1]})")
    return address


def _proxies(url: str, environment: Environ) -> dict[str, str]:
    """The proxy for an address by the environment, by scheme; empty if it is reached directly."""
    import urllib.request as rules  # noqa: PLC0415 - as requests, which imports it

    by_lower_case = {name.lower(): setting for name, setting in environment.items()}
    address = urlsplit(url)
    exceptions = {"no": by_lower_case.get("no_proxy", "")}
    host = address.netloc.rpartition("@")[2]
    if rules.proxy_bypass_environment(host, exceptions):  # type: ignore[attr-defined]  # it is missing in typeshed
        return {}
    proxy = by_lower_case.get(f"{address.scheme}_proxy") or by_lower_case.get("all_proxy")
    return {address.scheme: proxy} if proxy else {}


def connection_problem(url: str, environment: Environ) -> str:
    """Why an address accepts no connection, without its user, path and query, which may be secret.
    "" if it does, if a proxy reaches it, or if its host has a placeholder. Nothing is sent."""
    try:
        _, host, port = origin(url)
    except ExchangeFailed:
        return "the address is not an HTTP URL"
    try:
        if not ("{" in host or _proxies(url, environment)):
            socket.create_connection((host, port or 0), timeout=5.0).close()
    except (OSError, ValueError) as error:
        return f"{host}:{port} accepts no connection: {getattr(error, 'strerror', None) or error}"
    return ""


def _innermost_reason(error: BaseException) -> str:
    """The innermost reason in a chain of wrapped errors, without object addresses."""
    cause: object = error
    while isinstance(cause, BaseException):
        error = cause
        cause = getattr(error, "reason", None) or next(
            (arg for arg in error.args if isinstance(arg, BaseException)), None
        )
    text = str(error)
    if text.startswith("<") and "object at 0x" in text:
        text = text.partition(">: ")[2] or text
    if "object at 0x" in text or text.startswith("HTTP"):
        text = text.partition("): ")[2] or text
    return " ".join(text.split())[:300] or type(error).__name__


def parse_retry_after(headers: Headers, *, current_moment: datetime) -> float | None:
    """Seconds to wait by `Retry-After` (RFC 9110: seconds or a date) or `retry-after-ms`; None
    without either.

    Header names in lower case. A date in the past is 0; nothing is more than LONGEST_WAIT_S."""
    milliseconds = parse_seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "")
    seconds = parse_seconds(text)
    if seconds is not None:
        return seconds
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(LONGEST_WAIT_S, max(0.0, (moment - current_moment).total_seconds()))


LONGEST_WAIT_S = 366 * 24 * 3600.0
"""What a longer wait counts as: clocks and dates can count with it."""


def parse_seconds(text: str) -> float | None:
    """A number of 0 or more, LONGEST_WAIT_S for a larger one; None if it is no such number."""
    try:
        number = float(text)
    except ValueError:
        return None
    return min(LONGEST_WAIT_S, number) if number >= 0 else None


_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
"""Of tokens: all services of Google Cloud."""


class NoToken(Exception):  # noqa: N818 - the name of an outcome
    """The reason why there is no token."""


class GoogleToken:
    """The token of the credentials in the environment, else of the machine's own; safe for many
    threads."""

    def __init__(self, environment: Environ) -> None:
        """Fetches nothing yet."""
        self._path = environment.get("GOOGLE_APPLICATION_CREDENTIALS", "")
        """A file with credentials; "" for the machine's own."""
        self._lock = threading.Lock()
        """Held while a token is fetched, so that only one thread fetches it."""
        self._credentials: Any = None
        """google-auth's; None before the first request."""

    def headers(self) -> Headers:
        """The headers of a request. Raises NoToken."""
        import google.auth  # noqa: PLC0415 - only if Google Cloud is used
        from google.auth.transport.requests import Request  # noqa: PLC0415 - as above

        with self._lock:
            try:
                if self._credentials is None:
                    load: Any = google.auth.default
                    if self._path:
                        load = partial(google.auth.load_credentials_from_file, self._path)
                    self._credentials, _ = load(scopes=[_SCOPE])
                if not self._credentials.valid:
                    self._credentials.refresh(Request())
                headers = {"authorization": f"Bearer {self._credentials.token}"}
            except Exception as error:  # noqa: BLE001 - google-auth and its transports raise unrelated errors
                problem = f"{type(error).__name__}: {error}"
            else:
                return headers
        # raised here, so that no foreign exception, with a token in it, is its cause
        raise NoToken(problem)
